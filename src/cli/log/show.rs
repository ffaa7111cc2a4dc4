//! `openclaw-a2a log show`: prints one message and every step of its delivery with its time.

use a2a_journal::{HistoryCursor, Query};
use a2a_protocol::MessageId;
use anstyle::Style;
use anyhow::bail;
use serde_json::Value;

use super::Out;
use super::record::{Record, RecordSet};
use super::record_assembler::RecordAssembler;
use super::source::Source;
use crate::cli::human::{short, span, style_of, timestamp};
use crate::cli::stdout::note;
use crate::cli::stdout::sanitize;
use crate::cli::{Answer, Format};

pub(super) fn run(
    source: &mut dyn Source,
    message: &str,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<Answer> {
    let records = find(source, message)?;
    if records.is_empty() {
        note(&format!("the log has no message {message}"));
        return Ok(Answer::No);
    }
    RecordSet { records, events: Vec::new() }
        .write(format, out, |records, _, out| write(records, out))
}

/// Finds records by message id or by sequence number.
fn find(source: &mut dyn Source, message: &str) -> anyhow::Result<Vec<String>> {
    if let Ok(id) = message.parse::<MessageId>() {
        return every_part(source, id, HistoryCursor::default(), |_| true);
    }
    let Ok(seq) = message.trim_start_matches('#').parse::<u64>() else {
        bail!(
            "{message:?} is neither a message's id nor the number of a record; `openclaw-a2a log` shows both (--format jsonl)"
        );
    };
    let query = Query { before: Some(seq.saturating_add(1)), limit: 1, ..Query::default() };
    let mut page = source.page(&query)?.records;
    let Some(record) = page.pop() else { return Ok(page) };
    let Ok(found) = serde_json::from_str::<Record>(&record) else { return Ok(page) };
    match found.message_id.map(|id| id.parse()) {
        _ if found.seq != seq => Ok(page),
        Some(Ok(id)) if found.more_deliveries > 0 => {
            every_part(source, id, HistoryCursor::at(seq), |number| number == seq)
        }
        _ => Ok(vec![record]),
    }
}

/// All records of a message from a cursor on, while `wanted`, each with all its events.
fn every_part(
    source: &mut dyn Source,
    id: MessageId,
    from: HistoryCursor,
    wanted: impl Fn(u64) -> bool,
) -> anyhow::Result<Vec<String>> {
    let (mut found, mut next): (Vec<RecordAssembler>, _) = (Vec::new(), Some(from));
    'all: while let Some(cursor) = next {
        let part = source.message(id, cursor)?;
        for record in &part.records {
            let record = RecordAssembler::parse(record)?;
            match found.last_mut() {
                _ if !wanted(record.seq) => break 'all,
                Some(last) if last.seq == record.seq => last.append(record),
                _ => found.push(record),
            }
        }
        next = part.next;
    }
    Ok(found.into_iter().map(RecordAssembler::finish).collect())
}

fn write(records: &[Record], out: &mut Out) -> anyhow::Result<()> {
    let bold = Style::new().bold();
    let Some(first) = records.first() else { return Ok(()) };
    let message = first.message();
    let text = |value: &Value| value.as_str().map_or("-".to_owned(), |text| short(text, 100));
    let id = first.message_id.as_deref().map_or("without an id".to_owned(), |id| short(id, 100));
    writeln!(out, "{bold}message {id}{bold:#}")?;
    for (name, value) in [
        ("type", first.kind(&message)),
        ("from", first.sender(&message)),
        ("to", first.receiver(&message)),
        ("priority", text(&message["priority"])),
        ("conversation", text(&message["correlationId"])),
        ("task", text(&message["payload"]["taskId"])),
        ("sent", text(&message["timestamp"])),
        ("size", first.size().unwrap_or_else(|| "-".to_owned())),
    ] {
        if value != "-" {
            writeln!(out, "  {name:<13} {value}")?;
        }
    }
    writeln!(out)?;
    for record in records {
        write_steps(record, first, out)?;
    }
    writeln!(out, "\n{bold}payload{bold:#}")?;
    let pretty = serde_json::to_string_pretty(&message["payload"])?;
    for line in pretty.lines() {
        writeln!(out, "  {}", sanitize(line))?;
    }
    Ok(())
}

fn write_steps(record: &Record, first: &Record, out: &mut Out) -> anyhow::Result<()> {
    let dim = Style::new().dimmed();
    let style = style_of(&record.outcome);
    let again = if record.seq == first.seq { "" } else { "sent again by " };
    let who = if again.is_empty() { String::new() } else { record.sender(&record.message()) };
    let after = if again.is_empty() {
        String::new()
    } else {
        format!("+{}", span(record.time - first.time))
    };
    let took = record.took().map(|took| format!(", decided in {took}")).unwrap_or_default();
    write!(
        out,
        "{}  {after:<12}  {again}{who}{}{style}{}{style:#}  {dim}record {}{took}{dim:#}",
        timestamp(record.time),
        if again.is_empty() { "" } else { ": " },
        short(&record.outcome, 32),
        record.seq
    )?;
    let outcomes: Vec<_> =
        record.recipient_outcomes().map(|(agent, outcome)| format!("{agent} {outcome}")).collect();
    if outcomes.len() > 1 {
        write!(out, "  {}", short(&outcomes.join(", "), 300))?;
    }
    let states = record.task_states();
    if !states.is_empty() {
        write!(out, "  task {}", states.join(", "))?;
    }
    if let Some(why) = record.why() {
        write!(out, "  — {why}")?;
    }
    writeln!(out)?;
    for event in &record.deliveries {
        let style = style_of(&event.event);
        let after = format!("+{}", record.until(event));
        writeln!(
            out,
            "{}  {after:<12}  {style}{}{style:#} {}  {dim}line {}{dim:#}",
            timestamp(event.time),
            short(&event.event, 32),
            event.sentence().replace(&format!(" (message {})", record.seq), ""),
            event.seq
        )?;
    }
    if let (Some(prev), Some(hash)) = (&record.prev, &record.hash) {
        writeln!(out, "  {dim}hash {}  after {}{dim:#}", short(hash, 64), short(prev, 64))?;
    }
    Ok(())
}
