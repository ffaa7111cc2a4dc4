//! Records and events of the log for display. All texts are of unknown origin and leave this module
//! sanitized, on one line.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Out;
use crate::cli::human::{gist, short, span};
use crate::cli::stdout::note;
use crate::cli::{Answer, Format};

/// Record of one submission.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) seq: u64,
    pub(super) time: DateTime<Utc>,
    pub(super) outcome: String,
    pub(super) message_id: Option<String>,
    by: Option<String>,
    via: Option<String>,
    message: Option<Box<RawValue>>,
    raw: Option<String>,
    /// `None` in records of older versions.
    bytes: Option<u64>,
    took_us: Option<u64>,
    #[serde(default)]
    pub(super) recipients: Vec<Recipient>,
    reason: Option<String>,
    #[serde(default)]
    errors: Vec<Violation>,
    #[serde(default)]
    facts: BTreeMap<String, Value>,
    pub(super) prev: Option<String>,
    pub(super) hash: Option<String>,
    #[serde(default)]
    pub(super) deliveries: Vec<Event>,
    /// Number of events that did not fit this page.
    #[serde(default)]
    pub(super) more_deliveries: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recipient {
    agent_id: String,
    outcome: String,
}

#[derive(Deserialize)]
struct Violation {
    path: Option<String>,
    message: Option<String>,
}

/// A later event of a message, or an event of the bus.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    pub(super) seq: u64,
    pub(super) time: DateTime<Utc>,
    pub(super) event: String,
    pub(super) of: Option<u64>,
    agent_id: Option<String>,
    attempt: Option<u32>,
    count: Option<u64>,
    reason: Option<String>,
    #[serde(default)]
    pub(super) facts: BTreeMap<String, Value>,
}

impl Record {
    /// The message; null when it cannot be parsed.
    pub(super) fn message(&self) -> Value {
        let message = self.message.as_ref();
        message.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    pub(super) fn is_accepted(&self) -> bool {
        matches!(self.outcome.as_str(), "delivered" | "queued")
    }

    /// Verified sender, with the claimed one if it differs.
    pub(super) fn sender(&self, message: &Value) -> String {
        let claimed = message["from"]["agentId"].as_str();
        let mut sender = match (self.by.as_deref(), claimed) {
            (Some(by), Some(claimed)) if by != claimed => {
                format!("{} as {}", short(by, 64), short(claimed, 64))
            }
            (by, claimed) => short(by.or(claimed).unwrap_or("?"), 64),
        };
        if let Some(via) = &self.via {
            sender = format!("{sender} ({})", short(via, 80));
        }
        sender
    }

    /// Recipients, or the addressee of a refused message.
    pub(super) fn receivers(&self, message: &Value) -> Vec<String> {
        if self.recipients.is_empty() {
            let to = message["to"]["agentId"].as_str();
            return to.map(|to| short(to, 64)).into_iter().collect();
        }
        self.recipients.iter().map(|recipient| short(&recipient.agent_id, 64)).collect()
    }

    /// `tim`, `tim, ann`, or `tim and 7 more`.
    pub(super) fn receiver(&self, message: &Value) -> String {
        match self.receivers(message).as_slice() {
            [] => message["payload"]["scope"].as_str().map_or("?".into(), |scope| short(scope, 64)),
            [one] => one.clone(),
            [one, two] => format!("{one}, {two}"),
            [one, more @ ..] => format!("{one} and {} more", more.len()),
        }
    }

    pub(super) fn kind(&self, message: &Value) -> String {
        let kind = message["type"].as_str();
        kind.map_or_else(
            || if self.raw.is_some() { "no JSON" } else { "?" }.into(),
            |k| short(k, 32),
        )
    }

    /// Short summary of the message.
    pub(super) fn gist(&self, message: &Value) -> String {
        match &self.raw {
            Some(raw) => short(raw, 100),
            None => gist(message),
        }
    }

    /// Reason of a refusal, with its violations.
    pub(super) fn why(&self) -> Option<String> {
        if self.is_accepted() || self.outcome == "duplicate" {
            return None;
        }
        let errors = self.errors.iter().map(|error| {
            let path = error.path.as_deref().unwrap_or_default();
            format!("{path} {}", error.message.as_deref().unwrap_or_default())
        });
        let errors = errors.take(5).collect::<Vec<_>>().join("; ");
        let why = if errors.is_empty() { self.reason.clone()? } else { errors };
        Some(short(&why, 300))
    }

    /// Progress of the deliveries.
    pub(super) fn progress(&self) -> Option<String> {
        let mut last: BTreeMap<&str, &Event> = BTreeMap::new();
        for event in &self.deliveries {
            if let Some(agent) = &event.agent_id {
                last.insert(agent, event);
            }
        }
        let done = last.values().filter(|event| event.event == "acknowledged").count();
        match (self.recipients.len(), self.deliveries.last()) {
            (_, None) => None,
            (0 | 1, Some(_)) if self.more_deliveries > 0 => {
                Some(format!("{} events", self.deliveries.len() as u64 + self.more_deliveries))
            }
            (all, Some(_)) if self.more_deliveries > 0 => {
                Some(format!("at least {done} of {all} acknowledged"))
            }
            (0 | 1, Some(event)) => {
                Some(format!("{} after {}", short(&event.event, 32), self.until(event)))
            }
            (all, Some(_)) => Some(format!("{done} of {all} acknowledged")),
        }
    }

    /// Size of the message.
    pub(super) fn size(&self) -> Option<String> {
        self.bytes.map(|bytes| if bytes == 1 { "1 byte".into() } else { format!("{bytes} bytes") })
    }

    /// Time that the bus took to decide.
    pub(super) fn took(&self) -> Option<String> {
        let us = self.took_us?;
        Some(match us {
            0..10_000 => format!("{us} µs"),
            _ => span(TimeDelta::milliseconds(i64::try_from(us / 1_000).unwrap_or(i64::MAX))),
        })
    }

    /// Time from the record to one of its events; zero if the clock was set back in between.
    pub(super) fn until(&self, event: &Event) -> String {
        span((event.time - self.time).max(TimeDelta::zero()))
    }

    /// Task states that the record set.
    pub(super) fn task_states(&self) -> Vec<String> {
        let tasks = self.facts.iter().filter(|(key, _)| key.starts_with("task:"));
        tasks.filter_map(|(_, task)| task["state"].as_str()).map(|state| short(state, 32)).collect()
    }

    /// Initial outcome per recipient.
    pub(super) fn recipient_outcomes(&self) -> impl Iterator<Item = (String, &str)> {
        self.recipients.iter().map(|r| (short(&r.agent_id, 64), r.outcome.as_str()))
    }
}

impl Event {
    /// Agent, attempt and reason in one line.
    pub(super) fn sentence(&self) -> String {
        let mut text = String::new();
        if let Some(agent) = &self.agent_id {
            text.push_str(&short(agent, 64));
        }
        for (name, number) in
            [("attempt", self.attempt.map(u64::from)), ("times", self.count), ("of", self.of)]
        {
            if let Some(number) = number {
                text.push_str(&match name {
                    "times" => format!(" {number} times"),
                    "of" => format!(" (message {number})"),
                    _ => format!(" attempt {number}"),
                });
            }
        }
        if let Some(reason) = &self.reason {
            text.push_str(&format!(": {}", short(reason, 300)));
        }
        text.trim_start().to_owned()
    }
}

/// Records with their events, and events without a record; each oldest first.
pub(super) struct RecordSet {
    pub(super) records: Vec<String>,
    pub(super) events: Vec<String>,
}

#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

impl RecordSet {
    /// Writes everything, as JSON or drawn by `draw`.
    pub(super) fn write(
        self,
        format: Format,
        out: &mut Out,
        draw: impl FnOnce(&[Record], &[Event], &mut Out) -> anyhow::Result<()>,
    ) -> anyhow::Result<Answer> {
        match format {
            Format::Json => {
                write!(out, "{{\"records\":[{}]", self.records.join(","))?;
                if !self.events.is_empty() {
                    write!(out, ",\"events\":[{}]", self.events.join(","))?;
                }
                writeln!(out, "}}")?;
            }
            Format::Jsonl => {
                let mut lines: Vec<_> = self.records.iter().chain(&self.events).collect();
                lines.sort_by_cached_key(|line| {
                    serde_json::from_str::<Numbered>(line).map_or(u64::MAX, |line| line.seq)
                });
                for line in lines {
                    writeln!(out, "{line}")?;
                }
            }
            Format::Text => draw(&read(&self.records), &read(&self.events), out)?,
        }
        out.flush()?;
        Ok(Answer::Yes)
    }
}

/// Parses lines, and notes how many could not be parsed.
fn read<T: DeserializeOwned>(lines: &[String]) -> Vec<T> {
    let read: Vec<T> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if read.len() < lines.len() {
        let missing = lines.len() - read.len();
        note(&format!("{missing} lines cannot be shown; --format jsonl has them as they are"));
    }
    read
}
