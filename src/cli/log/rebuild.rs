//! `openclaw-a2a log rebuild`: rebuilds missing day files from the index.
//!
//! It is the only verb that writes to the log, and needs the journal lock.

use a2a_journal::{OpenError, rebuild_log};
use anyhow::{Context, bail};
use serde_json::json;

use super::{Out, is_for_programs};
use crate::cli::server_locator::ServerLocator;
use crate::cli::stdout::sanitize;
use crate::cli::{Answer, Format};

pub(super) fn run(
    locator: &ServerLocator,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<Answer> {
    let state = locator.state.path();
    let index = state.join("data/a2a-journal");
    // Checked first, because opening would create an index.
    if !index.join("db").is_file() {
        bail!("there is no index in {} to build the log from", index.display());
    }
    let written = match rebuild_log(state) {
        Err(OpenError::Locked { path }) => bail!(
            "another process has {} open; stop the server first. Nothing was written",
            path.display()
        ),
        written => written.with_context(|| {
            format!("the log in {} could not be rebuilt", state.join("a2a-log").display())
        })?,
    };
    if is_for_programs(format) {
        let written: Vec<_> = written.iter().map(|path| path.display().to_string()).collect();
        writeln!(out, "{}", json!({ "written": written }))?;
    } else if written.is_empty() {
        writeln!(out, "no day of the log is missing")?;
    } else {
        for path in &written {
            writeln!(out, "wrote {}", sanitize(&path.display().to_string()))?;
        }
    }
    out.flush()?;
    Ok(Answer::Yes)
}
