//! Bytes back to what recovery needs. A line is untrusted until its seal was checked,
//! and even then only what fits our own layout counts as a line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use a2a_protocol::{AgentId, Event, MessageId, Outcome, RecipientOutcome, Trace};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::batch::Kind;
use crate::{Removed, Seen};

/// Number and kind of a line, from its first bytes alone.
pub(crate) fn glance(line: &[u8]) -> Option<(u64, Kind)> {
    let (seq, rest) = number(line.strip_prefix(b"{\"seq\":")?)?;
    let rest = rest.strip_prefix(b",\"time\":\"")?.get(24..)?.strip_prefix(b"\",\"")?;
    if rest.starts_with(b"outcome\":\"") {
        return Some((seq, Kind::Record));
    }
    let rest = rest.strip_prefix(b"event\":\"")?;
    let rest = &rest[memchr::memchr(b'"', rest)? + 1..];
    match rest.strip_prefix(b",\"of\":") {
        Some(rest) => Some((seq, Kind::EventOf(number(rest)?.0))),
        None => Some((seq, Kind::Event)),
    }
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let value = text[..digits]
        .iter()
        .try_fold(0_u64, |n, digit| n.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    Some((value, &text[digits..]))
}

/// What recovery needs of a line; the message itself is passed over.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decoded<'a> {
    pub seq: u64,
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    #[serde(borrow)]
    pub outcome: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub event: Option<Cow<'a, str>>,
    pub of: Option<u64>,
    pub message_id: Option<MessageId>,
    pub by: Option<AgentId>,
    #[serde(borrow)]
    pub body_hash: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub recipients: Option<&'a RawValue>,
    pub agent_id: Option<AgentId>,
    pub attempt: Option<u32>,
    #[serde(borrow)]
    pub reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub facts: Option<&'a RawValue>,
    #[serde(borrow)]
    agents: Option<&'a RawValue>,
    #[serde(borrow)]
    removed: Option<&'a RawValue>,
}

impl Decoded<'_> {
    /// The outcome, if it is one this version knows.
    pub fn outcome(&self) -> Option<Outcome> {
        Outcome::from_word(self.outcome.as_deref()?)
    }

    /// The event, if it is one this version knows.
    pub fn event(&self) -> Option<Event> {
        Event::from_word(self.event.as_deref()?)
    }

    pub fn time(&self) -> Option<DateTime<Utc>> {
        Some(DateTime::parse_from_rfc3339(&self.time).ok()?.to_utc())
    }

    pub fn recipients(&self) -> Vec<RecipientOutcome> {
        self.recipients.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
    }

    /// What the line says must be known after a restart.
    pub fn facts(&self) -> BTreeMap<String, Option<&RawValue>> {
        self.facts.and_then(|facts| serde_json::from_str(facts.get()).ok()).unwrap_or_default()
    }

    /// The agents that the line says are known still.
    pub fn agents(&self) -> Vec<AgentId> {
        let list = self.agents.filter(|_| self.event() == Some(Event::Removed));
        list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
    }

    /// What the line says was removed, if this version can read it.
    pub fn removed(&self) -> Vec<Removed> {
        let list = self.removed.filter(|_| self.event() == Some(Event::Removed));
        list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
    }

    pub fn seen(&self) -> Option<Seen> {
        if !self.outcome()?.is_accepted() {
            return None;
        }
        Some(Seen {
            message_id: self.message_id?,
            fingerprint: u64::from_str_radix(self.body_hash.as_deref()?, 16).ok()?,
            seq: self.seq,
        })
    }
}

/// Reads a line, if it is JSON of our layout.
pub(crate) fn decode(line: &[u8]) -> Option<Decoded<'_>> {
    let (seq, kind) = glance(line)?;
    let decoded: Decoded<'_> = serde_json::from_slice(line).ok()?;
    // The layout and the JSON must say the same, or a repeated key could say two things.
    let is_record = kind == Kind::Record;
    (decoded.seq == seq && decoded.event.is_none() == is_record).then_some(decoded)
}

/// The message of a record, as it came, and the trace that somebody gave it.
pub(crate) fn message_of(line: &[u8]) -> Option<(&RawValue, Option<Trace>)> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        message: Option<&'a RawValue>,
        #[serde(borrow)]
        trace: Option<Cow<'a, str>>,
    }
    let body: Body<'_> = serde_json::from_slice(line).ok()?;
    Some((body.message?, body.trace.and_then(|trace| trace.parse().ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_tells_records_from_events() {
        let time = "2026-02-21T18:30:00.000Z";
        for (line, expected) in [
            (format!(r#"{{"seq":1,"time":"{time}","outcome":"x""#), Some((1, Kind::Record))),
            (
                format!(r#"{{"seq":2,"time":"{time}","event":"x","of":1,"#),
                Some((2, Kind::EventOf(1))),
            ),
            (
                format!(r#"{{"seq":3,"time":"{time}","event":"joined","agentId":"#),
                Some((3, Kind::Event)),
            ),
            (format!(r#"{{"seq":,"time":"{time}","outcome":"x""#), None),
            (format!(r#"{{"seq":99999999999999999999,"time":"{time}","outcome":"x""#), None),
            (format!(r#"{{"seq":4,"time":"{time}","other":"x""#), None),
            (r#"{"seq":5"#.to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(glance(line.as_bytes()), expected, "{line}");
        }
    }
}
