//! `openclaw-a2a log verify` and `log head`: verifies the hash chain.
//!
//! Files and index both contain every line, so both are verified: the files here, the index by the
//! process that has it open.

use a2a_gateway::log::unproven;
use a2a_journal::{Head, Verified, VerifyError, verify_journal, verify_log};
use anstyle::{AnsiColor, Style};
use anyhow::Context;
use serde_json::{Value, json};

use super::source::Source;
use super::{Out, is_for_programs};
use crate::cli::server::Server;
use crate::cli::server_locator::{Located, ServerLocator};
use crate::cli::stdout::note;
use crate::cli::stdout::sanitize;
use crate::cli::{Answer, Format};

/// Result of a verification.
pub(in crate::cli) enum Checked {
    /// The chain is intact.
    Whole {
        /// Totals of the files.
        files: Verified,
        /// Whether the index was verified as well.
        index: bool,
    },
    /// The first fault found.
    Broken {
        /// Fault as JSON; `problem` is a sentence.
        details: Value,
        /// Location prefix, if the fault is not in the files.
        place: &'static str,
    },
}

pub(super) fn run(
    locator: &ServerLocator,
    known: &[Head],
    format: Format,
    out: &mut Out,
) -> anyhow::Result<Answer> {
    locator.require_log()?;
    match check(locator, &locator.locate_or_note()?, known)? {
        Checked::Whole { files, index } => {
            if !index {
                note(NOT_CHECKED);
            }
            good(&files, format, out)?;
            Ok(Answer::Yes)
        }
        Checked::Broken { details, place } => bad(&details, place, format, out),
    }
}

/// Verifies files and index, and that they contain the known heads.
pub(in crate::cli) fn check(
    locator: &ServerLocator,
    found: &Located,
    known: &[Head],
) -> anyhow::Result<Checked> {
    // The head of the index must be in the files, too.
    let mut heads = known.to_vec();
    // Without files of closed days only the index can prove an old head.
    let mut index_proves = false;
    if let Located::Server(server) = found {
        match ask(server, known)? {
            Ok(head) => {
                heads.extend(head);
                index_proves = true;
            }
            Err(details) => return Ok(Checked::Broken { details, place: INDEX }),
        }
    }
    let state = locator.state.path();
    let whole = match verify_log(state, &heads) {
        Ok(whole) => whole,
        Err(error) => return fault(error, ""),
    };
    let mut index = !matches!(found, Located::Unresponsive);
    if matches!(found, Located::NotRunning) && state.join("data/a2a-journal").is_dir() {
        match verify_journal(state, known) {
            Ok(index) => {
                index_proves = index.unproven(known).is_none();
                // One of them has lines that the other lacks; the files must have all.
                if index.head != whole.head
                    && let Err(error) = verify_log(state, &[index.head])
                {
                    return fault(error, "");
                }
            }
            // A server has started meanwhile and has the index now.
            Err(VerifyError::InUse { .. }) => match locator.running_server()? {
                Some(server) => match ask(&server, known)? {
                    Ok(_) => index_proves = true,
                    Err(details) => return Ok(Checked::Broken { details, place: INDEX }),
                },
                None => index = false,
            },
            Err(error) => return fault(error, INDEX),
        }
    }
    if let Some(head) = whole.unproven(known).filter(|_| !index_proves) {
        let problem = unproven(head, whole.from);
        let details = json!({ "ok": false, "seq": head.seq, "problem": problem });
        return Ok(Checked::Broken { details, place: "" });
    }
    Ok(Checked::Whole { files: whole, index })
}

const NOT_CHECKED: &str =
    "the index was not checked: only the process that has it open can do that";

/// Verifies the index through a server: its head, or the fault.
fn ask(server: &Server, known: &[Head]) -> anyhow::Result<Result<Option<Head>, Value>> {
    let verdict = server.verify(known)?;
    if !verdict.ok {
        let problem = verdict.problem.unwrap_or_else(|| "it is not whole".into());
        let (line, seq) = (verdict.line, verdict.seq);
        return Ok(Err(json!({ "ok": false, "line": line, "seq": seq, "problem": problem })));
    }
    let head = verdict.head.and_then(|head| head.parse::<Head>().ok());
    Ok(Ok(head.filter(|head| head.seq > 0)))
}

/// Location prefix of the index.
const INDEX: &str = "in the index (data/a2a-journal) ";

fn good(whole: &Verified, format: Format, out: &mut Out) -> anyhow::Result<()> {
    if is_for_programs(format) {
        let Verified { records, lines, from, unfinished, .. } = whole;
        let head = whole.head.to_string();
        let answer = json!({
            "ok": true, "records": records, "lines": lines, "from": from, "head": head,
            "unfinished": unfinished
        });
        writeln!(out, "{answer}")?;
    } else {
        let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
        writeln!(out, "{green}{whole}{green:#}")?;
        if whole.from > 1 {
            writeln!(
                out,
                "Lines before {} are no longer in the files; a record says why.",
                whole.from
            )?;
        }
    }
    out.flush()?;
    Ok(())
}

fn fault(error: VerifyError, place: &'static str) -> anyhow::Result<Checked> {
    let VerifyError::Fault(fault) = error else {
        return Err(error).context("the log could not be verified");
    };
    let file = fault.file.as_ref().map(|file| file.display().to_string());
    let details = json!({
        "ok": false, "file": file, "line": fault.line, "seq": fault.seq,
        "problem": fault.to_string()
    });
    Ok(Checked::Broken { details, place })
}

fn bad(details: &Value, place: &str, format: Format, out: &mut Out) -> anyhow::Result<Answer> {
    if is_for_programs(format) {
        writeln!(out, "{details}")?;
    } else {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        let problem = sanitize(details["problem"].as_str().unwrap_or_default());
        writeln!(out, "{red}not whole{red:#}: {place}{problem}")?;
    }
    out.flush()?;
    Ok(Answer::No)
}

/// Prints the number and hash of the last line.
pub(super) fn head(
    source: &mut dyn Source,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<Answer> {
    let head = source.head()?;
    if is_for_programs(format) {
        writeln!(out, "{}", json!({ "head": head.to_string(), "seq": head.seq }))?;
    } else {
        writeln!(out, "{head}")?;
    }
    out.flush()?;
    Ok(Answer::Yes)
}
