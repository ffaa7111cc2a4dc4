//! Encodes batches of records, in one pass into one reused buffer.
//!
//! This is the hot path, so no intermediate values are built. Only strings from outside go through
//! serde_json, which escapes bytes that could end a string or a line. A message is copied verbatim
//! but for its line breaks, which valid JSON has only between tokens.

use std::io::Write;

use a2a_protocol::{MessageId, in_milliseconds};
use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use crate::index::terms::BatchTerms;
use crate::record::batch::{Entry, RecordKind};
use crate::record::chain::{Hash, Head, seal};
use crate::record::excerpt::{EXCERPT_BYTES, excerpt_of};
use crate::{DedupEntry, EventRecord, Fact, MessageRecord, Received, Record};

/// Bytes kept of content that is not JSON.
const RAW_KEPT: usize = 4096;

/// The number of a record is not above the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfOrder {
    pub seq: u64,
    pub last: u64,
}

/// Encodes batches into reused buffers.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    pub bytes: Vec<u8>,
    pub entries: Vec<Entry>,
    pub seen: Vec<DedupEntry>,
    pub terms: BatchTerms,
}

impl Encoder {
    /// Replaces the content of the buffers by `lines`, chained to `head`; returns the new head.
    pub fn encode(&mut self, mut head: Head, lines: &[Record]) -> Result<Head, OutOfOrder> {
        self.bytes.clear();
        self.entries.clear();
        self.seen.clear();
        self.terms.clear();
        for line in lines {
            let seq = line.seq();
            if seq <= head.seq {
                return Err(OutOfOrder { seq, last: head.seq });
            }
            let start = self.bytes.len();
            let kind = match line {
                Record::Message(line) => {
                    push_message(&mut self.bytes, line);
                    self.seen.extend(seen(line));
                    self.terms.add(line);
                    RecordKind::Message
                }
                Record::Event(line) => {
                    push_event(&mut self.bytes, line);
                    line.of.map_or(RecordKind::Event, RecordKind::EventOf)
                }
            };
            head = Head { seq, hash: seal(&mut self.bytes, start, head.hash) };
            self.entries.push(Entry { seq, kind, start, end: self.bytes.len() });
        }
        Ok(head)
    }
}

fn seen(line: &MessageRecord) -> Option<DedupEntry> {
    line.outcome.is_accepted().then_some(DedupEntry {
        message_id: line.message_id?,
        fingerprint: line.fingerprint?,
        seq: line.seq,
    })
}

fn push_message(out: &mut Vec<u8>, line: &MessageRecord) {
    push_start(out, line.seq, line.time);
    push_plain(out, "outcome", line.outcome.as_str());
    push_message_id(out, line.message_id);
    if let Some(by) = &line.by {
        push_plain(out, "by", by.as_str());
    }
    if let Some(via) = &line.via {
        push_json(out, "via", via.as_ref());
    }
    if let Some(fingerprint) = line.fingerprint {
        // Writing to a Vec cannot fail.
        let _ = write!(out, ",\"bodyHash\":\"{fingerprint:016x}\"");
    }
    if let Some(trace) = &line.trace {
        push_json(out, "trace", &trace.to_string());
    }
    push_number(out, "bytes", line.bytes);
    push_number(out, "tookUs", line.took_us);
    match &line.received {
        Received::Json(bytes) => {
            out.extend_from_slice(b",\"message\":");
            push_on_one_line(out, bytes);
        }
        Received::Raw(bytes) => {
            let kept = &bytes[..bytes.len().min(RAW_KEPT)];
            push_json(out, "raw", &String::from_utf8_lossy(kept));
        }
        Received::JsonExcerpt(bytes) => {
            match excerpt_of(bytes) {
                Some(head) => {
                    out.extend_from_slice(b",\"message\":");
                    push_on_one_line(out, &head);
                }
                None => push_raw_excerpt(out, bytes),
            }
            push_digest(out, line, bytes);
        }
        Received::RawExcerpt(bytes) => {
            push_raw_excerpt(out, bytes);
            push_digest(out, line, bytes);
        }
    }
    out.extend_from_slice(b",\"recipients\":[");
    for (i, recipient) in line.recipients.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"{" } else { b",{" });
        out.extend_from_slice(b"\"agentId\":\"");
        out.extend_from_slice(recipient.agent_id.as_str().as_bytes());
        out.extend_from_slice(b"\",\"outcome\":\"");
        out.extend_from_slice(recipient.outcome.as_str().as_bytes());
        out.extend_from_slice(b"\"}");
    }
    out.push(b']');
    if let Some(reason) = &line.reason {
        push_json(out, "reason", reason);
    }
    if let Some(retry_after_ms) = line.retry_after_ms {
        push_number(out, "retryAfterMs", retry_after_ms);
    }
    if !line.errors.is_empty() {
        push_json(out, "errors", &line.errors);
    }
    push_facts(out, &line.facts);
}

fn push_raw_excerpt(out: &mut Vec<u8>, bytes: &[u8]) {
    push_json(out, "raw", &String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT_BYTES)]));
}

/// Hash of a message that is kept in part, to compare it with a copy elsewhere. Omitted if the
/// message was not received completely.
fn push_digest(out: &mut Vec<u8>, line: &MessageRecord, bytes: &[u8]) {
    if line.bytes == bytes.len() as u64 {
        push_plain(out, "sha256", &Hash::of(bytes).to_string());
    }
}

fn push_facts(out: &mut Vec<u8>, facts: &[Fact]) {
    for (i, fact) in facts.iter().enumerate() {
        if i == 0 {
            push_key(out, "facts");
            out.push(b'{');
        } else {
            out.push(b',');
        }
        push_fact_key(out, &fact.key);
        out.push(b':');
        push_on_one_line(out, fact.value.as_deref().unwrap_or("null").as_bytes());
    }
    if !facts.is_empty() {
        out.push(b'}');
    }
}

fn push_event(out: &mut Vec<u8>, line: &EventRecord) {
    push_start(out, line.seq, line.time);
    push_plain(out, "event", line.event.as_str());
    if let Some(of) = line.of {
        push_number(out, "of", of);
    }
    push_message_id(out, line.message_id);
    if let Some(agent_id) = &line.agent_id {
        push_plain(out, "agentId", agent_id.as_str());
    }
    if let Some(attempt) = line.attempt {
        push_number(out, "attempt", attempt.into());
    }
    if let Some(count) = line.count {
        push_number(out, "count", count);
    }
    if let Some(reason) = &line.reason {
        push_json(out, "reason", reason);
    }
    push_facts(out, &line.facts);
    if !line.agents.is_empty() {
        push_json(out, "agents", &line.agents);
    }
    if !line.removed.is_empty() {
        push_json(out, "removed", &line.removed);
    }
}

/// Writes a key; only the rare one with special characters is escaped.
fn push_fact_key(out: &mut Vec<u8>, key: &str) {
    if key.bytes().all(|b| b.is_ascii_alphanumeric() || b":-_.*".contains(&b)) {
        out.push(b'"');
        out.extend_from_slice(key.as_bytes());
        out.push(b'"');
    } else {
        // A string always serialises.
        let _ = serde_json::to_writer(out, key);
    }
}

/// `{"seq":1,"time":"…"`: the prefix that [`crate::record::decode::peek`] relies on.
fn push_start(out: &mut Vec<u8>, seq: u64, time: DateTime<Utc>) {
    out.extend_from_slice(b"{\"seq\":");
    push_decimal(out, seq);
    out.extend_from_slice(b",\"time\":\"");
    push_time(out, time);
    out.push(b'"');
}

/// A key and a string that needs no escaping: a value of a closed set, or an agent id, whose type
/// excludes quotes and backslashes.
fn push_plain(out: &mut Vec<u8>, key: &str, value: &str) {
    push_key(out, key);
    out.push(b'"');
    out.extend_from_slice(value.as_bytes());
    out.push(b'"');
}

fn push_message_id(out: &mut Vec<u8>, id: Option<MessageId>) {
    if let Some(id) = id {
        push_plain(out, "messageId", id.as_uuid().hyphenated().encode_lower(&mut [0; 36]));
    }
}

fn push_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, key: &str, value: &T) {
    push_key(out, key);
    let start = out.len();
    // Strings and violations always serialise. Should that ever fail, the line must still be JSON.
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

fn push_number(out: &mut Vec<u8>, key: &str, number: u64) {
    push_key(out, key);
    push_decimal(out, number);
}

fn push_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

fn push_on_one_line(out: &mut Vec<u8>, json: &[u8]) {
    debug_assert!(
        serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok(),
        "Received::Json holds one JSON text"
    );
    let start = out.len();
    out.extend_from_slice(json);
    if memchr::memchr2(b'\n', b'\r', json).is_some() {
        for byte in &mut out[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

/// Clamps to the four-digit years of RFC 3339; a clock beyond them is wrong anyway.
fn with_four_digits(time: DateTime<Utc>) -> DateTime<Utc> {
    time.clamp(
        DateTime::UNIX_EPOCH,
        DateTime::from_timestamp_millis(253_402_300_799_999).unwrap_or(time),
    )
}

/// The day of the segment for a record of this time.
pub(crate) fn day_of(time: DateTime<Utc>) -> NaiveDate {
    with_four_digits(time).date_naive()
}

/// The time as it is written, in milliseconds since 1970.
pub(crate) fn written_ms(time: DateTime<Utc>) -> i64 {
    let time = with_four_digits(time);
    time.timestamp() * 1_000 + i64::from(time.timestamp_subsec_millis().min(999))
}

fn push_time(out: &mut Vec<u8>, time: DateTime<Utc>) {
    out.extend(in_milliseconds(with_four_digits(time)).into_iter().flatten());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_milliseconds() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_771_698_600_007, "2026-02-21T18:30:00.007Z"),
            (-1, "1970-01-01T00:00:00.000Z"),
            (i64::MAX / 1_000_000, "2262-04-11T23:47:16.854Z"),
            (253_402_300_800_000, "9999-12-31T23:59:59.999Z"),
        ] {
            let mut out = Vec::new();
            push_time(&mut out, DateTime::from_timestamp_millis(ms).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), text, "{ms}");
        }
    }

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 7, 10, 1_234_567, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
