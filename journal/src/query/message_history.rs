//! Everything about one message, a part at a time.

use std::fmt;
use std::str::FromStr;

use serde_json::value::RawValue;

use crate::query::QueryPlan;
use crate::query::reader::{PAGE_BYTES, SCAN_BYTES, raw};
use crate::record::batch::{Entry, RecordKind};
use crate::{ReadError, StoredRecord};

/// Some records of one message, oldest first, with their events.
#[derive(Debug, Clone, Default)]
pub struct MessageHistory {
    /// The records. The first may be one that an earlier part began: then it has the events
    /// that follow those of that part.
    pub records: Vec<StoredRecord>,
    /// Where the rest begins; a part may be short, or empty, before there is none.
    pub next: Option<HistoryCursor>,
}

/// A place in the trail of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryCursor {
    /// Begins with this record, or the next one of the message.
    pub record: u64,
    /// Of that record, events with a higher number.
    pub after: u64,
}

impl HistoryCursor {
    /// The beginning of a record.
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

/// The text is no bookmark.
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

/// Records of one message in the making.
#[derive(Default)]
pub(crate) struct HistorySearch {
    from: u64,
    limit: usize,
    pub records: Vec<(u64, Box<RawValue>)>,
    bytes: usize,
    looked_at: usize,
    /// Where to look on; `None` when there is nothing left.
    pub next: Option<u64>,
    scratch: Vec<u8>,
}

impl HistorySearch {
    pub fn new(from: u64, limit: usize) -> Self {
        Self { from, limit, ..Self::default() }
    }

    /// Whether it goes on.
    pub fn take(
        &mut self,
        entries: &[Entry],
        bytes: &[u8],
        end: u64,
        plan: &QueryPlan,
    ) -> Result<bool, ReadError> {
        self.looked_at += bytes.len();
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
        if self.looked_at >= SCAN_BYTES {
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
    fn a_bookmark_survives_being_written() {
        for place in [HistoryCursor::default(), HistoryCursor { record: 7, after: u64::MAX }] {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        for bad in ["", "7", "7.", ".7", "7.x", "18446744073709551616.0"] {
            assert_eq!(bad.parse::<HistoryCursor>(), Err(BadHistoryCursor), "{bad}");
        }
    }
}
