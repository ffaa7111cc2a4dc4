//! Decodes the fields of a record that recovery needs.
//!
//! A line is untrusted until its seal was checked. Even then it counts as a record only if it has
//! the layout that [`super::encode`] writes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use a2a_protocol::{AgentId, Event, MessageId, Outcome, RecipientOutcome, Trace};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::record::batch::RecordKind;
use crate::{DedupEntry, Removed};

/// Number and kind of a record, from its first bytes alone.
pub(crate) fn peek(line: &[u8]) -> Option<(u64, RecordKind)> {
    let (seq, rest) = number(line.strip_prefix(b"{\"seq\":")?)?;
    let rest = rest.strip_prefix(b",\"time\":\"")?.get(24..)?.strip_prefix(b"\",\"")?;
    if rest.starts_with(b"outcome\":\"") {
        return Some((seq, RecordKind::Message));
    }
    let rest = rest.strip_prefix(b"event\":\"")?;
    let rest = &rest[memchr::memchr(b'"', rest)? + 1..];
    match rest.strip_prefix(b",\"of\":") {
        Some(rest) => Some((seq, RecordKind::EventOf(number(rest)?.0))),
        None => Some((seq, RecordKind::Event)),
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

/// The fields that recovery needs; the message is skipped.
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
    /// The outcome; `None` if this version does not define it.
    pub fn outcome(&self) -> Option<Outcome> {
        Outcome::from_name(self.outcome.as_deref()?)
    }

    /// The event; `None` if this version does not define it.
    pub fn event(&self) -> Option<Event> {
        Event::from_name(self.event.as_deref()?)
    }

    pub fn time(&self) -> Option<DateTime<Utc>> {
        Some(DateTime::parse_from_rfc3339(&self.time).ok()?.to_utc())
    }

    pub fn recipients(&self) -> Vec<RecipientOutcome> {
        self.recipients.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
    }

    /// The facts of the record; a value of `None` removes the key.
    pub fn facts(&self) -> BTreeMap<String, Option<&RawValue>> {
        self.facts.and_then(|facts| serde_json::from_str(facts.get()).ok()).unwrap_or_default()
    }

    /// The agents that a record of removals preserves.
    pub fn agents(&self) -> Vec<AgentId> {
        let list = self.agents.filter(|_| self.event() == Some(Event::Removed));
        list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
    }

    /// The removed ranges; empty if this version cannot read them.
    pub fn removed(&self) -> Vec<Removed> {
        let list = self.removed.filter(|_| self.event() == Some(Event::Removed));
        list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
    }

    /// The id of an accepted message; `None` for any other record.
    /// The id of an accepted message; `None` for any other record.
    pub fn seen(&self) -> Option<DedupEntry> {
        if !self.outcome()?.is_accepted() {
            return None;
        }
        Some(DedupEntry {
            message_id: self.message_id?,
            fingerprint: u64::from_str_radix(self.body_hash.as_deref()?, 16).ok()?,
            seq: self.seq,
        })
    }
}

/// Decodes a line, if it is JSON with the layout of a record.
pub(crate) fn decode(line: &[u8]) -> Option<Decoded<'_>> {
    let (seq, kind) = peek(line)?;
    let decoded: Decoded<'_> = serde_json::from_slice(line).ok()?;
    // The prefix and the parsed JSON must agree, or a repeated key could have two values.
    let is_record = kind == RecordKind::Message;
    (decoded.seq == seq && decoded.event.is_none() == is_record).then_some(decoded)
}

/// The message of a record, verbatim, and its own trace if it has one.
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
    fn peek_distinguishes_messages_from_events() {
        let time = "2026-02-21T18:30:00.000Z";
        for (line, expected) in [
            (format!(r#"{{"seq":1,"time":"{time}","outcome":"x""#), Some((1, RecordKind::Message))),
            (
                format!(r#"{{"seq":2,"time":"{time}","event":"x","of":1,"#),
                Some((2, RecordKind::EventOf(1))),
            ),
            (
                format!(r#"{{"seq":3,"time":"{time}","event":"joined","agentId":"#),
                Some((3, RecordKind::Event)),
            ),
            (format!(r#"{{"seq":,"time":"{time}","outcome":"x""#), None),
            (format!(r#"{{"seq":99999999999999999999,"time":"{time}","outcome":"x""#), None),
            (format!(r#"{{"seq":4,"time":"{time}","other":"x""#), None),
            (r#"{"seq":5"#.to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(peek(line.as_bytes()), expected, "{line}");
        }
    }
}
