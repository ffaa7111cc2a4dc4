//! `openclaw-a2a log`: prints matching records, newest first.

use a2a_journal::{MAX_PAGE, Query};
use anstyle::Style;

use super::record::{Event, Record};
use super::source::Source;
use super::{Out, is_for_programs};
use crate::cli::human::{short, style_of, timestamp};
use crate::cli::stdout::note;
use crate::cli::table::padded;
use crate::cli::{Answer, Format};

pub(super) fn run(
    source: &mut dyn Source,
    query: &Query,
    limit: u64,
    is_default: bool,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<Answer> {
    let mut shown = 0;
    if format == Format::Json {
        out.write_all(b"{\"records\":[")?;
    }
    let older = each(source, query, limit, |record| {
        if format == Format::Json {
            out.write_all(if shown == 0 { b"\n" } else { b",\n" })?;
            out.write_all(record.as_bytes())?;
        } else {
            write_line(&record, format, out)?;
        }
        shown += 1;
        Ok(())
    })?;
    if format == Format::Json {
        out.write_all(b"\n]}\n")?;
    } else if shown == 0 && !is_for_programs(format) {
        note("no records match");
    }
    out.flush()?;
    if is_default {
        tell_of_older(source, query, older, limit);
    }
    Ok(Answer::Yes)
}

/// Notes on stderr that the default limit left out older records.
fn tell_of_older(source: &mut dyn Source, query: &Query, older: Option<u64>, limit: u64) {
    let Some(before) = older else { return };
    // The requested records are printed already; a failure here is not reported.
    let next = source.page(&Query { limit: 1, before: Some(before), ..query.clone() });
    let Ok(next) = next else { return };
    let are = match (next.records.is_empty(), next.next) {
        (false, _) => "are",
        (true, Some(_)) => "may be",
        (true, None) => return,
    };
    note(&format!(
        "these are the newest {limit}; there {are} older ones: --limit 0 shows all, --limit N so many"
    ));
}

/// Calls `show` for up to `limit` records (0: all), page by page. Returns the cursor for further
/// records, if any.
pub(super) fn each(
    source: &mut dyn Source,
    query: &Query,
    limit: u64,
    mut show: impl FnMut(String) -> anyhow::Result<()>,
) -> anyhow::Result<Option<u64>> {
    let mut query = query.clone();
    let mut left = if limit == 0 { u64::MAX } else { limit };
    loop {
        query.limit = usize::try_from(left).unwrap_or(MAX_PAGE).min(MAX_PAGE);
        let page = source.page(&query)?;
        for record in page.records {
            show(record)?;
            left -= 1;
        }
        query.before = page.next;
        if query.before.is_none() || left == 0 {
            return Ok(query.before);
        }
    }
}

/// Prints a record or an event as one line.
pub(super) fn write_line(line: &str, format: Format, out: &mut Out) -> anyhow::Result<()> {
    if is_for_programs(format) {
        writeln!(out, "{line}")?;
    } else if let Ok(record) = serde_json::from_str::<Record>(line) {
        write_record(&record, out)?;
    } else if let Ok(event) = serde_json::from_str::<Event>(line) {
        write_event(&event, out)?;
    } else {
        writeln!(out, "a line that cannot be shown; --format jsonl has it as it is")?;
    }
    Ok(())
}

fn write_record(record: &Record, out: &mut Out) -> anyhow::Result<()> {
    let message = record.message();
    let style = style_of(&record.outcome);
    let who = format!("{} → {}", record.sender(&message), record.receiver(&message));
    write!(
        out,
        "{:>6}  {}  {style}{:<12}{style:#}  {}  {:<15}  {}",
        record.seq,
        timestamp(record.time),
        short(&record.outcome, 32),
        padded(&who, 20),
        record.kind(&message),
        record.gist(&message),
    )?;
    if let Some(progress) = record.progress() {
        let dim = Style::new().dimmed();
        write!(out, "  {dim}[{progress}]{dim:#}")?;
    }
    if let Some(why) = record.why() {
        write!(out, "  {style}— {why}{style:#}")?;
    }
    writeln!(out)?;
    Ok(())
}

fn write_event(event: &Event, out: &mut Out) -> anyhow::Result<()> {
    let style = style_of(&event.event);
    let word = short(&event.event, 32);
    writeln!(
        out,
        "{:>6}  {}  {style}{word:<12}{style:#}  {}",
        event.seq,
        timestamp(event.time),
        event.sentence()
    )?;
    Ok(())
}
