//! `openclaw-a2a log verify` and `log head`: that the log is what it was.
//!
//! The files and the index each hold every line, so both are checked: the files here, the
//! index by whoever has it open.

use a2a_store::{Head, Verified, VerifyError, verify_journal, verify_log};
use anstyle::{AnsiColor, Style};
use anyhow::Context;
use serde_json::{Value, json};

use super::source::{Found, Place, Source, note};
use super::{Out, is_for_programs};
use crate::cli::stdout::harmless;
use crate::cli::{Answer, Format};

pub(super) fn run(
    place: &Place,
    known: &[Head],
    format: Format,
    out: &mut Out,
) -> anyhow::Result<Answer> {
    place.must_exist()?;
    let found = place.find()?;
    let whole = match verify_log(place.state.path(), known) {
        Ok(whole) => whole,
        Err(error) => return fault(error, "", format, out),
    };
    if let Found::Server(server) = &found {
        let verdict = server.verify(known)?;
        if !verdict.ok {
            let problem = verdict.problem.unwrap_or_else(|| "it is not whole".into());
            let (line, seq) = (verdict.line, verdict.seq);
            let details = json!({ "ok": false, "line": line, "seq": seq, "problem": problem });
            return bad(&details, INDEX, format, out);
        }
    } else if matches!(found, Found::Silent) {
        note("the index was not checked: only the process that has it open can do that");
    } else if place.state.path().join("data/a2a-journal").is_dir()
        && let Err(error) = verify_journal(place.state.path(), known)
    {
        return fault(error, INDEX, format, out);
    }
    good(&whole, format, out)?;
    Ok(Answer::Yes)
}

/// Where the second copy lies.
const INDEX: &str = "the files are whole, but in the index (data/a2a-journal) ";

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
            writeln!(out, "Lines before {} were removed for their age.", whole.from)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn fault(error: VerifyError, place: &str, format: Format, out: &mut Out) -> anyhow::Result<Answer> {
    let VerifyError::Fault(fault) = error else {
        return Err(error).context("the log could not be verified");
    };
    let file = fault.file.as_ref().map(|file| file.display().to_string());
    let details = json!({
        "ok": false, "file": file, "line": fault.line, "seq": fault.seq,
        "problem": fault.to_string()
    });
    bad(&details, place, format, out)
}

fn bad(details: &Value, place: &str, format: Format, out: &mut Out) -> anyhow::Result<Answer> {
    if is_for_programs(format) {
        writeln!(out, "{details}")?;
    } else {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        let problem = harmless(details["problem"].as_str().unwrap_or_default());
        writeln!(out, "{red}not whole{red:#}: {place}{problem}")?;
    }
    out.flush()?;
    Ok(Answer::No)
}

/// Prints the last line's number and hash.
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
