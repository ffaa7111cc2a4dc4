//! History of one message, in parts: its records and their events.

use std::fmt;
use std::str::FromStr;

use serde_json::value::RawValue;

use crate::query::QueryPlan;
use crate::query::reader::{PAGE_BYTES, SCAN_BYTES, raw};
use crate::record::batch::{Entry, RecordKind};
use crate::{ReadError, StoredRecord};

/// A part of the history of one message: records with their events, oldest first.
#[derive(Debug, Clone, Default)]
pub struct MessageHistory {
    /// The records. The first may continue the last one of the part before; it then has only the
    /// later events.
    pub records: Vec<StoredRecord>,
    /// Cursor for the next part; `None` at the end. A part before may be short or empty.
    pub next: Option<HistoryCursor>,
}

/// A position in the history of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryCursor {
    /// Start at this record, or the next one of the message.
    pub record: u64,
    /// Skip the events of that record up to this number.
    pub after: u64,
}

impl HistoryCursor {
    /// The start of a record.
    #[must_use]
    pub const fn at(record: u64) -> Self {
        Self { record, after: 0 }
    }
}

impl fmt::Display for HistoryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.record, self.after)
    }
}

/// A text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a place in a message's trail is two numbers with a point between them")]
pub struct BadHistoryCursor;

impl FromStr for HistoryCursor {
    type Err = BadHistoryCursor;

    fn from_str(text: &str) -> Result<Self, BadHistoryCursor> {
        let (record, after) = text.split_once('.').ok_or(BadHistoryCursor)?;
        let number = |text: &str| text.parse().map_err(|_| BadHistoryCursor);
        Ok(Self { record: number(record)?, after: number(after)? })
    }
}

/// The state of a search for the records of one message.
#[derive(Default)]
pub(crate) struct HistorySearch {
    from: u64,
    limit: usize,
    pub records: Vec<(u64, Box<RawValue>)>,
    bytes: usize,
    scanned: usize,
    /// Number where to continue; `None` at the end.
    pub next: Option<u64>,
    scratch: Vec<u8>,
}

impl HistorySearch {
    pub fn new(from: u64, limit: usize) -> Self {
        Self { from, limit, ..Self::default() }
    }

    /// Adds matching records; returns whether to continue.
    pub fn take(
        &mut self,
        entries: &[Entry],
        bytes: &[u8],
        end: u64,
        plan: &QueryPlan,
    ) -> Result<bool, ReadError> {
        self.scanned += bytes.len();
        let from = self.from;
        let is_record = |e: &&Entry| e.kind == RecordKind::Message && (from..end).contains(&e.seq);
        for entry in entries.iter().filter(is_record) {
            let line = entry.of(bytes);
            if !plan.matches(line, &mut self.scratch) {
                continue;
            }
            if self.records.len() == self.limit || self.bytes >= PAGE_BYTES {
                self.next = Some(entry.seq);
                return Ok(false);
            }
            self.bytes += line.len();
            self.records.push((entry.seq, raw(line.to_vec())?));
        }
        if self.scanned >= SCAN_BYTES {
            let last = entries.last().map_or(self.from, |entry| entry.seq);
            self.next = Some(last.saturating_add(1).min(end));
        }
        Ok(self.next.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_round_trips_as_text() {
        for cursor in [HistoryCursor::default(), HistoryCursor { record: 7, after: u64::MAX }] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for bad in ["", "7", "7.", ".7", "7.x", "18446744073709551616.0"] {
            assert_eq!(bad.parse::<HistoryCursor>(), Err(BadHistoryCursor), "{bad}");
        }
    }
}
