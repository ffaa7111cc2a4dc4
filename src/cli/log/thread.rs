//! `openclaw-a2a log thread`: draws one conversation as a sequence diagram, one lane per
//! participant.

use a2a_actors::circuit_fact;
use a2a_journal::Query;
use a2a_policy::CircuitKey;
use a2a_protocol::CorrelationId;
use anstyle::Style;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::Out;
use super::list::each;
use super::record::{Event, Record, RecordSet};
use super::source::Source;
use crate::cli::human::{short, span, style_of, timestamp};
use crate::cli::stdout::note;
use crate::cli::{Answer, Format};

/// Maximum lanes; further participants are named in the text.
const MOST_LANES: usize = 6;
/// Width of a lane in columns; fits the longest kind and an arrow.
const WIDTH: usize = 20;
/// Maximum messages drawn, the newest ones.
const MOST_MESSAGES: u64 = 10_000;
/// Minimum silence that is marked.
const GAP: TimeDelta = TimeDelta::minutes(1);

pub(super) fn run(
    source: &mut dyn Source,
    correlation: CorrelationId,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<Answer> {
    let query = Query { correlation: Some(correlation), ..Query::default() };
    let mut found = Vec::new();
    each(source, &query, MOST_MESSAGES, |record| {
        found.push(record);
        Ok(())
    })?;
    found.reverse();
    let Some(first) = found.first() else {
        note(&format!("the log has no conversation {correlation}"));
        return Ok(Answer::No);
    };
    let first = serde_json::from_str::<Record>(first).map_or(0, |first| first.seq);
    let key = CircuitKey::Correlation(correlation);
    let events = circuit_events(source, &key, first)?;
    let circuit = circuit_fact(&key);
    RecordSet { records: found, events }.write(format, out, |records, events, out| {
        draw(correlation, records, &stops(events, &circuit), out)
    })
}

/// Events of the conversation's circuit.
fn circuit_events(
    source: &mut dyn Source,
    key: &CircuitKey,
    after: u64,
) -> anyhow::Result<Vec<String>> {
    let (mut events, mut next) = (Vec::new(), Some(after));
    while let Some(after) = next {
        let page = source.circuit(key, after)?;
        events.extend(page.records);
        next = page.next;
    }
    // An event of a retention run repeats older facts.
    let is_removal = |line: &String| {
        serde_json::from_str::<Event>(line).is_ok_and(|event| event.event == "removed")
    };
    events.retain(|line| !is_removal(line));
    Ok(events)
}

/// A change of the conversation's circuit.
struct Stop<'a> {
    event: &'a Event,
    word: &'static str,
}

fn stops<'a>(events: &'a [Event], circuit: &str) -> Vec<Stop<'a>> {
    let word = |event: &Event| match (event.event.as_str(), event.facts.get(circuit)) {
        ("tripped", Some(Value::Null)) => "lapsed",
        ("tripped", _) => "tripped",
        _ => "closed",
    };
    events.iter().map(|event| Stop { event, word: word(event) }).collect()
}

impl Stop<'_> {
    fn write(
        &self,
        lanes: usize,
        before: (u64, DateTime<Utc>),
        out: &mut Out,
    ) -> anyhow::Result<()> {
        let event = self.event;
        write_time((event.seq, event.time), before, lanes, out)?;
        let mut row: Vec<char> = idle(lanes).chars().collect();
        row.resize(lanes * WIDTH, ' ');
        row[middle(0)..=middle(lanes.saturating_sub(1))].fill('═');
        let label: Vec<char> = format!(" {} ", self.word).chars().collect();
        let start = (row.len().saturating_sub(label.len())) / 2;
        if let Some(space) = row.get_mut(start..start + label.len()) {
            space.copy_from_slice(&label);
        }
        let row: String = row.into_iter().collect();
        let style = style_of(if self.word == "tripped" { "tripped" } else { "closed" });
        // A circuit that lapsed is noted in the event that tripped another one.
        let why = if self.word == "lapsed" { String::new() } else { event.sentence() };
        writeln!(out, "{style}{row}{style:#}  {}", why.trim_start_matches(": "))?;
        Ok(())
    }
}

/// A message between lanes.
struct Step<'a> {
    record: &'a Record,
    message: Value,
    /// Verified sender.
    from: String,
    to: Vec<String>,
}

fn draw(
    correlation: CorrelationId,
    records: &[Record],
    stops: &[Stop<'_>],
    out: &mut Out,
) -> anyhow::Result<()> {
    let steps: Vec<_> = records.iter().map(Step::of).collect();
    let mut names: Vec<&str> = Vec::new();
    for name in steps.iter().flat_map(|step| std::iter::once(&step.from).chain(&step.to)) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return Ok(()) };
    let refused = records.iter().filter(|record| !record.is_accepted()).count();
    let bold = Style::new().bold();
    writeln!(out, "{bold}conversation {correlation}{bold:#}")?;
    writeln!(
        out,
        "{} participants, {} messages, {refused} of them not accepted; {} from {}",
        names.len(),
        records.len(),
        span(last.time - first.time),
        timestamp(first.time)
    )?;
    let lanes = &names[..names.len().min(MOST_LANES)];
    let heads: String =
        lanes.iter().map(|name| format!("{:^WIDTH$}", short(name, WIDTH - 3))).collect();
    writeln!(out, "\n{:24}{bold}{}{bold:#}", "", heads.trim_end())?;
    let mut before = (first.seq, first.time);
    let mut stops = stops.iter().peekable();
    for step in &steps {
        while let Some(stop) = stops.next_if(|stop| stop.event.seq < step.record.seq) {
            stop.write(lanes.len(), before, out)?;
            before = (stop.event.seq, stop.event.time);
        }
        step.write(lanes, before, out)?;
        before = (step.record.seq, step.record.time);
    }
    for stop in stops {
        stop.write(lanes.len(), before, out)?;
        before = (stop.event.seq, stop.event.time);
    }
    Ok(())
}

/// Time of a row, and the time since the previous one.
fn write_time(
    (seq, time): (u64, DateTime<Utc>),
    (before, earlier): (u64, DateTime<Utc>),
    lanes: usize,
    out: &mut Out,
) -> anyhow::Result<()> {
    let since = time - earlier;
    if time.date_naive() != earlier.date_naive() {
        writeln!(out, "{:24}{}", time.format("%Y-%m-%d"), idle(lanes))?;
    }
    if since >= GAP {
        writeln!(out, "{:>22}  {}", format!("⋮ {}", span(since)), idle(lanes))?;
    }
    let after =
        if since < GAP && seq != before { format!("+{}", span(since)) } else { String::new() };
    write!(out, "{}  {after:>8}  ", time.format("%H:%M:%S%.3f"))?;
    Ok(())
}

impl<'a> Step<'a> {
    fn of(record: &'a Record) -> Self {
        let message = record.message();
        let from = record.sender(&message);
        let to = record.receivers(&message);
        Self { record, message, from, to }
    }

    fn write(
        &self,
        lanes: &[&str],
        before: (u64, DateTime<Utc>),
        out: &mut Out,
    ) -> anyhow::Result<()> {
        let record = self.record;
        write_time((record.seq, record.time), before, lanes.len(), out)?;
        let style = style_of(&record.outcome);
        let row = self.row(lanes);
        writeln!(out, "{style}{row}{style:#}  {}", self.text(lanes))?;
        Ok(())
    }

    /// Summary and outcome.
    fn text(&self, lanes: &[&str]) -> String {
        let record = self.record;
        let mut text = record.gist(&self.message);
        let missing = |name: &String| !lanes.contains(&name.as_str());
        if missing(&self.from) || self.to.iter().any(missing) || self.to.is_empty() {
            text = format!("{} → {}: {text}", self.from, record.receiver(&self.message));
        }
        text.push_str(&format!("  · {}", short(&record.outcome, 32)));
        if let Some(progress) = record.progress() {
            text.push_str(&format!(", {progress}"));
        }
        let states = record.task_states();
        if !states.is_empty() {
            text.push_str(&format!(" · task {}", states.join(", ")));
        }
        if let Some(why) = record.why() {
            text.push_str(&format!(" — {why}"));
        }
        text
    }

    /// Lanes with an arrow from the sender to every recipient.
    fn row(&self, lanes: &[&str]) -> String {
        let mut row: Vec<char> = idle(lanes.len()).chars().collect();
        row.resize(lanes.len() * WIDTH, ' ');
        let lane = |name: &str| lanes.iter().position(|lane| *lane == name).map(middle);
        let targets: Vec<usize> = self.to.iter().filter_map(|name| lane(name)).collect();
        let Some(source) = lane(&self.from) else { return row.into_iter().collect() };
        let left = targets.iter().copied().chain([source]).min().unwrap_or(source);
        let right = targets.iter().copied().chain([source]).max().unwrap_or(source);
        let stroke = if self.record.is_accepted() { '─' } else { '╌' };
        row[left..=right].fill(stroke);
        let label: Vec<char> = self.record.kind(&self.message).chars().collect();
        // The label goes beside the sender, towards the recipients.
        let space = if right > source {
            source..right.min(source + WIDTH)
        } else {
            left.max(source.saturating_sub(WIDTH))..source
        };
        if let Some(spare) = (space.len()).checked_sub(label.len() + 1) {
            let start = space.start + 1 + spare / 2;
            row[start..start + label.len()].copy_from_slice(&label);
        }
        row[source] = '●';
        for target in targets.into_iter().filter(|target| *target != source) {
            row[target] = match (self.record.is_accepted(), target > source) {
                (false, _) => '✗',
                (true, true) => '▶',
                (true, false) => '◀',
            };
        }
        row.into_iter().collect()
    }
}

/// Column of a lane.
fn middle(lane: usize) -> usize {
    lane * WIDTH + WIDTH / 2
}

/// Lanes without an arrow.
fn idle(lanes: usize) -> String {
    let one: String = format!("{:^1$}", "│", WIDTH + usize::from(WIDTH.is_multiple_of(2)));
    let lane: String = one.chars().take(WIDTH).collect();
    lane.repeat(lanes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(seq: u64, time: &str, from: &str, to: &str, outcome: &str) -> Record {
        let line = serde_json::json!({
            "seq": seq, "time": time, "outcome": outcome, "by": from, "reason": "no",
            "message": {
                "type": "status_update", "from": {"agentId": from}, "to": {"agentId": to},
                "payload": {"status": "in_progress", "progress": "x"}
            }
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn thread_draws_arrows_gaps_days_and_extra_participants() {
        let mut records = vec![
            record(1, "2026-02-21T23:40:00.000Z", "roman", "tim", "queued"),
            record(2, "2026-02-21T23:40:02.150Z", "tim", "roman", "forbidden"),
            record(3, "2026-02-21T23:54:05.000Z", "ann", "roman", "delivered"),
            record(4, "2026-02-22T00:00:00.000Z", "tim", "tim", "delivered"),
        ];
        for n in 5..12 {
            records.push(record(
                n,
                "2026-02-22T00:00:01.000Z",
                "roman",
                &format!("a{n}"),
                "queued",
            ));
        }
        let id = "0192a4c8-7e1a-7b3c-9d4e-000000000001".parse().unwrap();
        let mut out = Vec::new();
        let events: Vec<Event> = [
            json!({"seq": 2, "time": "2026-02-21T23:40:03.000Z", "event": "tripped", "reason": "loop: x", "facts": {"circuit:k": {"a": 1}}}),
            json!({"seq": 20, "time": "2026-02-22T00:00:02.000Z", "event": "closed", "reason": "k: progress", "facts": {"circuit:k": null}}),
            json!({"seq": 21, "time": "2026-02-22T00:00:03.000Z", "event": "tripped", "reason": "other", "facts": {"circuit:k": null, "circuit:o": {}}}),
        ]
        .into_iter()
        .map(|event| serde_json::from_value(event).unwrap())
        .collect();
        draw(id, &records, &stops(&events, "circuit:k"), &mut out).unwrap();
        let drawn = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        for part in [
            "10 participants, 11 messages, 1 of them not accepted; 20 min 1 s from 2026-02-21 23:40",
            "●───status_update───▶",
            "+2.1 s",
            "✗╌╌╌status_update╌╌╌●",
            "⋮ 14 min 2 s",
            "◀───────────────────────status_update───●",
            "2026-02-22",
            "roman → a11: in_progress: x",
            "forbidden — no",
            "═ tripped ═",
            "loop: x",
            "═ closed ═",
            "═ lapsed ═",
        ] {
            assert!(drawn.contains(part), "{part:?} in\n{drawn}");
        }
    }
}
