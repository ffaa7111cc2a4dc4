//! Recovery time after a crash, with a million messages in the journal.

use std::sync::Arc;
use std::time::Instant;

use a2a_journal::{Commit, EventRecord, Journal, MessageRecord, Options, Received, Record};
use a2a_protocol::{Event, Outcome, RecipientOutcome};

use crate::sample;

/// Messages written; the time is scaled to a million.
const MESSAGES: usize = 200_000;
const BATCH: usize = 512;

pub fn seconds_per_million() -> f64 {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    write(folder.path());
    let start = Instant::now();
    let (journal, recovered) =
        Journal::open(&Options::new(folder.path())).unwrap_or_else(|error| panic!("{error}"));
    let elapsed = start.elapsed();
    assert_eq!(recovered.seen.len(), MESSAGES);
    assert_eq!(recovered.pending.len(), MESSAGES.div_ceil(10));
    drop(journal);
    elapsed.as_secs_f64() * 1_000_000.0 / MESSAGES as f64
}

/// Writes a journal without closing it: nine of ten messages acknowledged, the others pending.
fn write(folder: &std::path::Path) {
    let (mut journal, recovered) =
        Journal::open(&Options::new(folder)).unwrap_or_else(|error| panic!("{error}"));
    let (roman, tim) = (sample::agent("roman"), sample::agent("tim"));
    let mut seq = recovered.next_seq;
    let mut lines = Vec::new();
    for i in 0..MESSAGES {
        let message = sample::message(&roman, &tim);
        let time = chrono::Utc::now();
        lines.push(Record::Message(MessageRecord {
            seq,
            time,
            outcome: Outcome::Delivered,
            message_id: Some(message.message_id),
            by: Some(roman.clone()),
            received: Received::Json(Arc::from(message.to_json())),
            message: Some(Arc::new(message.clone())),
            bytes: message.to_json().len() as u64,
            took_us: 85,
            fingerprint: Some(i as u64),
            recipients: Arc::new([RecipientOutcome {
                agent_id: tim.clone(),
                outcome: Outcome::Delivered,
            }]),
            reason: None,
            retry_after_ms: None,
            errors: Vec::new(),
            via: None,
            trace: None,
            facts: Vec::new(),
        }));
        seq += 1;
        if i % 10 != 0 {
            lines.push(Record::Event(EventRecord {
                of: Some(seq - 1),
                message_id: Some(message.message_id),
                agent_id: Some(tim.clone()),
                ..EventRecord::new(seq, time, Event::Acknowledged)
            }));
            seq += 1;
        }
        if lines.len() >= BATCH || i + 1 == MESSAGES {
            journal.commit(&lines).unwrap_or_else(|error| panic!("{error}"));
            lines.clear();
        }
    }
    drop(journal); // as a crash would: no checkpoint, no close
}
