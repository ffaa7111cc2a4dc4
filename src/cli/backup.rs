//! `openclaw-a2a backup`: copies the state of a server, running or not.
//!
//! Files are copied from disk, so neither a server nor a token is needed. The exception are days
//! that only the index contains (`keep_jsonl = false`): the process that has the index open exports
//! them.

use std::io::Write;
use std::path::{Path, PathBuf};

use a2a_backup::{BackupJob, Cause, ExtraFile, Manifest, create_backup};
use a2a_gateway::auth::tokens::TokenFile;
use a2a_journal::{REBUILT, rebuild_before};
use anyhow::Context;
use chrono::{NaiveDate, SecondsFormat, Utc};
use openclaw_a2a::config::StateDir;
use serde::Deserialize;
use serde_json::{Value, json};

use super::server::Server;
use super::server_locator::ServerLocator;
use super::stdout::sanitize;
use super::{Answer, Format, Global};

/// Back up the state of a server into a folder, while the server runs
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a backup /backups/a2a-2026-02-21
  openclaw-a2a backup /backups/a2a-$(date +%F) --state-dir /srv/a2a
  openclaw-a2a restore /backups/a2a-2026-02-21 --check     is it whole?

The server keeps running; what it accepted before the command began is in the backup. The folder appears under its
name when it is whole and on the disk; what is cut off stays NAME.partial. It holds secrets: it is made for its
owner's eyes only. A token is needed only where [audit] keep_jsonl = false.

Exit codes: 0 the backup is there, 2 it is not, and nothing was left behind.")]
pub(super) struct Args {
    /// Folder of the backup; it must not exist
    #[arg(value_name = "DIR")]
    to: PathBuf,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let state = StateDir::find(global.state_dir.clone());
    let locator = ServerLocator::from_options(global)?;
    let config = global.config.clone().unwrap_or_else(|| state.config_file());
    let tokens = TokenFile::below(state.path());
    // Fail now on an invalid token file, not when the backup is restored.
    tokens.tokens()?;
    let also = [
        ExtraFile { from: config, name: "a2a.toml" },
        ExtraFile { from: tokens.path().to_owned(), name: "data/a2a-tokens.json" },
    ];
    let mut older = |before| older(&locator, state.path(), before).map_err(Cause::from);
    let job = BackupJob {
        state_dir: state.path(),
        target: &args.to,
        now: Utc::now(),
        also: &also,
        older: &mut older,
    };
    let manifest = create_backup(job).context("no backup was made")?;
    let mut out = super::stdout::output(global.format);
    if global.format == Format::Text {
        writeln!(out, "{}", described(&manifest))?;
        writeln!(out, "in {}", sanitize(&args.to.display().to_string()))?;
    } else {
        writeln!(out, "{}", summary(&args.to, &manifest))?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// Exports the days that only the index contains, through the server if one runs.
fn older(locator: &ServerLocator, state: &Path, before: NaiveDate) -> anyhow::Result<Vec<PathBuf>> {
    match locator.running_server()? {
        Some(server) => ask(&server, state, before),
        None => Ok(rebuild_before(state, before)?),
    }
}

#[derive(Deserialize)]
struct Rebuilt {
    files: Vec<String>,
}

fn ask(server: &Server, state: &Path, before: NaiveDate) -> anyhow::Result<Vec<PathBuf>> {
    let answer = server.call("/bus/log/rebuild", &json!({ "before": before }))?;
    let Rebuilt { files } =
        serde_json::from_str(answer.get()).context("the server's answer is none")?;
    Ok(files.iter().map(|name| state.join(REBUILT).join(name)).collect())
}

/// Describes a backup in one sentence.
pub(super) fn described(manifest: &Manifest) -> String {
    let Manifest { records, head, program, time, .. } = manifest;
    format!(
        "{records} records, head {head}, {} files of {:.1} MB, taken {} by openclaw-a2a {program}",
        manifest.files.len(),
        manifest.bytes() as f64 / 1e6,
        time.to_rfc3339_opts(SecondsFormat::Secs, true),
    )
}

/// Describes a backup as JSON.
pub(super) fn summary(path: &Path, manifest: &Manifest) -> Value {
    json!({
        "backup": path.display().to_string(),
        "program": manifest.program,
        "time": manifest.time,
        "formats": manifest.formats,
        "head": manifest.head.to_string(),
        "records": manifest.records,
        "lines": manifest.lines,
        "files": manifest.files.len(),
        "bytes": manifest.bytes(),
    })
}
