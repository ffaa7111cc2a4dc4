//! A committed batch: where each of its lines lies, and where in the log it stands.

use chrono::NaiveDate;

use crate::Seen;
use crate::decode::glance;

/// A place in the log: a day file and a byte in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPos {
    pub day: NaiveDate,
    pub offset: u64,
}

/// What a line is, as far as finding it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Record,
    EventOf(u64),
    Event,
}

/// Where a line lies in its batch or block; `end` is past its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub seq: u64,
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

impl Entry {
    /// The line without its newline.
    pub fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let line = bytes.get(self.start..self.end).unwrap_or_default();
        line.strip_suffix(b"\n").unwrap_or(line)
    }
}

/// Lists the lines in `bytes`. What is no line of ours is passed over.
pub(crate) fn entries_into(bytes: &[u8], found: &mut Vec<Entry>) {
    found.clear();
    let mut start = 0;
    for newline in memchr::memchr_iter(b'\n', bytes) {
        if let Some((seq, kind)) = glance(&bytes[start..newline]) {
            found.push(Entry { seq, kind, start, end: newline + 1 });
        }
        start = newline + 1;
    }
}

/// A committed batch: everything about it but its bytes.
#[derive(Debug)]
pub(crate) struct Batch {
    pub at: LogPos,
    pub entries: Vec<Entry>,
    pub seen: Vec<Seen>,
}
