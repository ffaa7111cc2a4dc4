//! Positions of records: in the log, in a batch and in a block.

use chrono::NaiveDate;

use crate::DedupEntry;
use crate::record::decode::peek;

/// A position in the log: a segment and a byte offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPos {
    pub day: NaiveDate,
    pub offset: u64,
}

/// The kind of a record, as far as lookups need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Message,
    EventOf(u64),
    Event,
}

/// A record in a batch or block: its number, kind and byte range. `end` is past the newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub seq: u64,
    pub kind: RecordKind,
    pub start: usize,
    pub end: usize,
}

impl Entry {
    /// The bytes of the record without its newline.
    pub fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let line = bytes.get(self.start..self.end).unwrap_or_default();
        line.strip_suffix(b"\n").unwrap_or(line)
    }
}

/// Lists the records in `bytes`; other lines are skipped.
pub(crate) fn entries_into(bytes: &[u8], found: &mut Vec<Entry>) {
    found.clear();
    let mut start = 0;
    for newline in memchr::memchr_iter(b'\n', bytes) {
        if let Some((seq, kind)) = peek(&bytes[start..newline]) {
            found.push(Entry { seq, kind, start, end: newline + 1 });
        }
        start = newline + 1;
    }
}

/// A committed batch without its bytes.
#[derive(Debug)]
pub(crate) struct Batch {
    pub at: LogPos,
    pub entries: Vec<Entry>,
    pub seen: Vec<DedupEntry>,
}
