//! `openclaw-a2a log thread`: one conversation as a sequence, a lane for each participant.

use a2a_protocol::CorrelationId;
use a2a_store::Query;
use anstyle::Style;
use chrono::TimeDelta;
use serde_json::Value;

use super::list::each;
use super::record::{Record, moment, short, span, style_of};
use super::source::{Source, note};
use super::{Out, is_for_programs};
use crate::cli::{Answer, Format};

/// More lanes than this fit no terminal; further participants are named instead.
const MOST_LANES: usize = 6;
/// Between two lanes; the longest kind and an arrow fit in.
const WIDTH: usize = 20;
/// A conversation that is longer is shown from its newest messages.
const MOST_MESSAGES: u64 = 10_000;
/// Silence that is pointed out.
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
    if found.is_empty() {
        note(&format!("the log has no conversation {correlation}"));
        return Ok(Answer::No);
    }
    match format {
        Format::Json => writeln!(out, "{{\"records\":[{}]}}", found.join(","))?,
        _ if is_for_programs(format) => {
            for record in &found {
                writeln!(out, "{record}")?;
            }
        }
        _ => {
            let records: Vec<Record> =
                found.iter().filter_map(|record| serde_json::from_str(record).ok()).collect();
            draw(correlation, &records, out)?;
        }
    }
    out.flush()?;
    Ok(Answer::Yes)
}

/// A message between lanes.
struct Step<'a> {
    record: &'a Record,
    message: Value,
    /// Who is known to have sent it.
    from: String,
    to: Vec<String>,
}

fn draw(correlation: CorrelationId, records: &[Record], out: &mut Out) -> anyhow::Result<()> {
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
        moment(first.time)
    )?;
    let lanes = &names[..names.len().min(MOST_LANES)];
    let heads: String =
        lanes.iter().map(|name| format!("{:^WIDTH$}", short(name, WIDTH - 3))).collect();
    writeln!(out, "\n{:24}{bold}{}{bold:#}", "", heads.trim_end())?;
    let mut before = first;
    for step in &steps {
        step.write(lanes, before, out)?;
        before = step.record;
    }
    Ok(())
}

impl<'a> Step<'a> {
    fn of(record: &'a Record) -> Self {
        let message = record.message();
        let from = record.sender(&message);
        let to = record.receivers(&message);
        Self { record, message, from, to }
    }

    fn write(&self, lanes: &[&str], before: &Record, out: &mut Out) -> anyhow::Result<()> {
        let record = self.record;
        let since = record.time - before.time;
        if record.time.date_naive() != before.time.date_naive() {
            writeln!(out, "{:24}{}", record.time.format("%Y-%m-%d"), idle(lanes.len()))?;
        }
        if since >= GAP {
            writeln!(out, "{:>22}  {}", format!("⋮ {}", span(since)), idle(lanes.len()))?;
        }
        let time = record.time.format("%H:%M:%S%.3f");
        let after = if since < GAP && record.seq != before.seq {
            format!("+{}", span(since))
        } else {
            String::new()
        };
        let style = style_of(&record.outcome);
        let row = self.row(lanes);
        write!(out, "{time}  {after:>8}  {style}{row}{style:#}  {}", self.text(lanes))?;
        writeln!(out)?;
        Ok(())
    }

    /// What it says and what became of it.
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

    /// The lanes, with an arrow from the sender to everyone who gets it.
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
        // Beside the sender, on the side where there is room.
        let space = if right > source {
            source..right.min(source + WIDTH)
        } else {
            left.max(source.saturating_sub(WIDTH))..source
        };
        if let Some(room) = (space.len()).checked_sub(label.len() + 1) {
            let start = space.start + 1 + room / 2;
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

/// Where a lane is.
fn middle(lane: usize) -> usize {
    lane * WIDTH + WIDTH / 2
}

/// The lanes when nothing happens.
fn idle(lanes: usize) -> String {
    let one: String = format!("{:^1$}", "│", WIDTH + usize::from(WIDTH.is_multiple_of(2)));
    let lane: String = one.chars().take(WIDTH).collect();
    lane.repeat(lanes)
}

#[cfg(test)]
mod tests {
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
    fn arrows_gaps_days_and_more_participants_than_lanes() {
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
        draw(id, &records, &mut out).unwrap();
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
        ] {
            assert!(drawn.contains(part), "{part:?} in\n{drawn}");
        }
    }
}
