//! Fixtures: records to commit, and checks of the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_journal::{
    Commit, EventRecord, Journal, JournalReader, MessageRecord, Options, Page, Received, Record,
    Recovered, Retention,
};
use a2a_protocol::{AgentId, Event, MessageId, Outcome, RecipientOutcome};
use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

pub fn agent(name: &str) -> AgentId {
    name.parse().unwrap()
}

pub fn id(n: u64) -> MessageId {
    format!("0192a4c8-7e1a-7b3c-9d4e-{n:012x}").parse().unwrap()
}

/// 2026-02-21T18:30:00Z and `ms` milliseconds.
pub fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_771_698_600_000 + ms).unwrap()
}

pub fn body(n: u64) -> Vec<u8> {
    format!(r#"{{"messageId":"{}","n":{n}}}"#, id(n)).into_bytes()
}

/// Message `seq` from roman, accepted for these recipients.
pub fn accepted(seq: u64, to: &[&str]) -> MessageRecord {
    MessageRecord {
        seq,
        time: at(seq as i64),
        outcome: Outcome::Delivered,
        message_id: Some(id(seq)),
        by: Some(agent("roman")),
        received: Received::Json(body(seq).into()),
        message: None,
        bytes: body(seq).len() as u64,
        took_us: 40 + seq,
        fingerprint: Some(seq * 3),
        recipients: to
            .iter()
            .map(|name| RecipientOutcome { agent_id: agent(name), outcome: Outcome::Delivered })
            .collect(),
        reason: None,
        retry_after_ms: None,
        errors: Vec::new(),
        via: None,
        trace: None,
        facts: Vec::new(),
    }
}

pub fn message(seq: u64, to: &[&str]) -> Record {
    Record::Message(accepted(seq, to))
}

pub fn refused(seq: u64) -> Record {
    let mut line = accepted(seq, &[]);
    line.outcome = Outcome::RateLimited;
    line.reason = Some("slow down".to_owned());
    line.retry_after_ms = Some(250);
    Record::Message(line)
}

pub fn event(seq: u64, event: Event, of: u64, who: &str) -> Record {
    Record::Event(EventRecord {
        of: Some(of),
        message_id: Some(id(of)),
        agent_id: Some(agent(who)),
        attempt: matches!(event, Event::Delivered | Event::AttemptFailed).then_some(1),
        reason: matches!(event, Event::Expired | Event::DeadLetter).then(|| "why".to_owned()),
        ..EventRecord::new(seq, at(seq as i64), event)
    })
}

pub fn joined(seq: u64, who: &str) -> Record {
    Record::Event(EventRecord {
        agent_id: Some(agent(who)),
        ..EventRecord::new(seq, at(seq as i64), Event::Joined)
    })
}

/// A state folder with its journal open.
pub struct Bench {
    pub dir: tempfile::TempDir,
    pub journal: Journal,
    pub recovered: Recovered,
}

pub fn fresh() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let (journal, recovered) = open(dir.path());
    Bench { dir, journal, recovered }
}

impl Bench {
    /// A copy of the folder as if the process were killed now.
    pub fn killed(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(self.dir.path(), copy.path());
        copy
    }
}

/// Opens a journal that does not compress closed segments, so that tests can read them.
pub fn open(dir: &Path) -> (Journal, Recovered) {
    let retention = Retention { compress: false, ..Retention::default() };
    Journal::open(&Options { retention, ..Options::new(dir) }).unwrap()
}

/// Copies a folder. The file of sled may grow meanwhile, as it may before a crash.
pub fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            match fs::copy(entry.path(), to) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.unwrap()),
            }
        }
    }
}

/// The segments, oldest first.
pub fn log_files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir.join("a2a-log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "jsonl"))
        .collect();
    files.sort();
    files
}

/// All lines of the log, checked to be one unbroken chain of JSON objects.
pub fn checked_log(dir: &Path) -> Vec<serde_json::Value> {
    let mut prev = "0".repeat(64);
    let mut lines = Vec::new();
    for file in log_files(dir) {
        let text = fs::read_to_string(file).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let (covered, _) = line.rsplit_once(",\"hash\":").unwrap();
            let hash = hex(covered.as_bytes());
            assert_eq!(value["hash"], hash.as_str(), "{line}");
            assert_eq!(value["prev"], prev.as_str(), "{line}");
            prev = hash;
            lines.push(value);
        }
    }
    lines
}

pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every message record with the names of its events, newest first, read in pages of `limit`.
pub fn all(reader: &Arc<dyn JournalReader>, limit: usize) -> Vec<(u64, Vec<String>)> {
    let mut found = Vec::new();
    let mut before = None;
    loop {
        let Page { records, next } = reader.page(before, limit).unwrap();
        assert!(records.len() <= limit);
        for record in records {
            let line: serde_json::Value = serde_json::from_str(record.line.get()).unwrap();
            assert_eq!(line["seq"], record.seq);
            let events = record.deliveries.iter().map(|event| {
                let event: serde_json::Value = serde_json::from_str(event.get()).unwrap();
                assert_eq!(event["of"], record.seq);
                event["event"].as_str().unwrap().to_owned()
            });
            found.push((record.seq, events.collect()));
        }
        before = next;
        if next.is_none() {
            return found;
        }
    }
}

/// `seq agent attempts` for everything pending.
pub fn pending(recovered: &Recovered) -> Vec<String> {
    let mut list = Vec::new();
    for p in &recovered.pending {
        assert_eq!(p.message.as_ref(), body(p.seq), "the message as it came");
        assert_eq!((p.message_id, p.by.as_str(), p.time), (id(p.seq), "roman", at(p.seq as i64)));
        list.push(format!("{} {} {}", p.seq, p.agent_id, p.attempts));
    }
    list
}

/// `seq agent reason` for every dead letter.
pub fn dead(recovered: &Recovered) -> Vec<String> {
    recovered
        .dead_letters
        .iter()
        .map(|d| format!("{} {} {}", d.seq, d.agent_id, d.reason))
        .collect()
}

pub fn commit(journal: &mut dyn Commit, lines: &[Record]) {
    journal.commit(lines).unwrap();
}
