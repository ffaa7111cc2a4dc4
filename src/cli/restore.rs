//! `openclaw-a2a restore`: restores a backup into an empty folder, or only checks it.

use std::io::Write;
use std::path::{Path, PathBuf};

use a2a_backup::{BackupError, Manifest, restore_backup, verify_backup};
use a2a_gateway::auth::tokens::{TokenFile, TokenFileError};
use anyhow::{Context, anyhow, bail};
use openclaw_a2a::config::StateDir;
use serde_json::json;

use super::backup::{described, summary};
use super::stdout::sanitize;
use super::{Answer, Format, Global};

/// Restore a backup into an empty state folder
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a restore /backups/a2a-2026-02-21 --state-dir /srv/a2a
  openclaw-a2a restore /backups/a2a-2026-02-21 --check

Every byte, the chain of the log and the task database are checked before anything is written. The folder must be
empty or not there; move another one away first. Then start the server on it as ever: it goes on as after a crash at
the moment of the backup.

Exit codes: 0 restored (or whole), 1 with --check: it is not whole, or of a newer version, 2 it could not be done.")]
pub(super) struct Args {
    /// Folder of the backup
    #[arg(value_name = "FROM")]
    from: PathBuf,

    /// Check the backup without writing anything
    #[arg(long)]
    check: bool,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let mut out = super::stdout::output(global.format);
    let is_text = global.format == Format::Text;
    if args.check {
        return judge(&args.from, is_text, &mut out);
    }
    let state = StateDir::find(global.state_dir.clone());
    let manifest = check(&args.from)
        .map_err(|problem| anyhow!(problem.text))
        .and_then(|checked| {
            restore_backup(&args.from, &checked, state.path())?;
            Ok(checked)
        })
        .context("nothing was restored")?;
    let folder = state.path().display().to_string();
    if is_text {
        writeln!(out, "restored {}", described(&manifest))?;
        writeln!(out, "into {}", sanitize(&folder))?;
        writeln!(out, "Next: openclaw-a2a serve --state-dir {}", sanitize(&folder))?;
        writeln!(out, "{AFTERWARDS}")?;
    } else {
        let mut answer = summary(&args.from, &manifest);
        answer["stateDir"] = folder.into();
        writeln!(out, "{answer}")?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}

const AFTERWARDS: &str = "\
The index is built from the log at the first start. What was accepted after the backup is not
there; what was acknowledged after it may be delivered again.";

/// Reports whether a backup is intact.
fn judge(from: &Path, is_text: bool, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let (answer, text) = match check(from) {
        Ok(manifest) if is_text => (Answer::Yes, format!("ok, {}", described(&manifest))),
        Ok(manifest) => {
            let mut answer = summary(from, &manifest);
            answer["ok"] = true.into();
            (Answer::Yes, answer.to_string())
        }
        Err(CheckFailure { text, is_verdict: false }) => bail!(text),
        Err(CheckFailure { text, .. }) if is_text => {
            (Answer::No, format!("not whole: {}", sanitize(&text)))
        }
        Err(CheckFailure { text, .. }) => {
            (Answer::No, json!({ "ok": false, "problem": text }).to_string())
        }
    };
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(answer)
}

/// Failure of a check.
struct CheckFailure {
    text: String,
    /// The backup was read and is not intact. Otherwise it could not be read.
    is_verdict: bool,
}

fn check(from: &Path) -> Result<Manifest, CheckFailure> {
    let manifest = verify_backup(from)?;
    // The backup crate has no knowledge of tokens.
    TokenFile::below(from).tokens()?;
    Ok(manifest)
}

impl From<BackupError> for CheckFailure {
    fn from(error: BackupError) -> Self {
        let is_verdict = error.is_verdict();
        Self { text: format!("{:#}", anyhow::Error::from(error)), is_verdict }
    }
}

impl From<TokenFileError> for CheckFailure {
    fn from(error: TokenFileError) -> Self {
        let is_verdict = !matches!(error, TokenFileError::Read { .. });
        Self { text: format!("{:#}", anyhow::Error::from(error)), is_verdict }
    }
}
