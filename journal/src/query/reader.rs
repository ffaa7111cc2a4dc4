//! What can be asked of a journal, whichever kind it is.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use a2a_protocol::MessageId;
use chrono::{DateTime, NaiveDate, Utc};
use serde_json::value::RawValue;

use crate::{Head, HistoryCursor, MessageHistory, Query, Verified, VerifyError};

/// The most records one page holds.
pub const MAX_PAGE: usize = 1_000;

/// Bytes of lines one question may look at before it answers with what it has.
pub(crate) const SCAN_BYTES: usize = 64 << 20;
/// What one answer may hold of lines; one record with one event may be more.
pub(crate) const PAGE_BYTES: usize = 8 << 20;

/// A message's record with the events that followed.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    /// Number of the record.
    pub seq: u64,
    /// The record's line, byte for byte as in the log.
    pub line: Box<RawValue>,
    /// Its events' lines, oldest first.
    pub deliveries: Vec<Box<RawValue>>,
    /// How many events follow that one answer has no room for; [`JournalReader::message_history`] has them.
    pub more_deliveries: u64,
}

/// Some events that belong to no record, oldest first.
#[derive(Debug, Clone, Default)]
pub struct FactEvents {
    /// Their lines.
    pub lines: Vec<Box<RawValue>>,
    /// What to pass as `after` to look on; `None` when everything was looked at.
    pub next: Option<u64>,
}

/// Some records, newest first.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// What to pass as `before` for the next page; `None` when there is none.
    ///
    /// A page with a `next` may be short, or empty: a question that has to look at much
    /// answers in between, so that no reader waits long and none keeps a thread for long.
    pub next: Option<u64>,
}

/// The reading side of a journal. Sees a batch as soon as its commit has returned.
pub trait JournalReader: Send + Sync {
    /// The line of the message record with this number; `None` if there is no such record or
    /// the line with this number is an event.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn record(&self, seq: u64) -> Result<Option<Box<RawValue>>, ReadError>;

    /// The same with its events, as far as one answer holds them.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn get(&self, seq: u64) -> Result<Option<StoredRecord>, ReadError>;

    /// Up to `query.limit` (at most [`MAX_PAGE`]) message records that are wanted, newest
    /// first. One call looks at 64 MiB of lines at most and answers with 8 MiB of them, events
    /// included; see [`Page::next`] and [`StoredRecord::more_deliveries`].
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn query(&self, query: &Query) -> Result<Page, ReadError>;

    /// Up to `limit` message records below `before`, newest first.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn page(&self, before: Option<u64>, limit: usize) -> Result<Page, ReadError> {
        self.query(&Query { before, limit, ..Query::default() })
    }

    /// The records of this message, oldest first (the first attempt to send it and the
    /// repeats), from a place on: up to `limit` (at most [`MAX_PAGE`]) records, and as many
    /// events. One call looks at 64 MiB of lines at most and answers with 8 MiB of them.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn message_history(
        &self,
        id: &MessageId,
        from: HistoryCursor,
        limit: usize,
    ) -> Result<MessageHistory, ReadError>;

    /// The first part of a message's trail.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn find(&self, id: &MessageId) -> Result<Vec<StoredRecord>, ReadError> {
        Ok(self.message_history(id, HistoryCursor::default(), MAX_PAGE)?.records)
    }

    /// Up to `limit` (at most [`MAX_PAGE`]) lines above `seq`, records and events, oldest
    /// first; of no more than `bytes` together, but for the last. For following the log.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn lines(&self, seq: u64, limit: usize, bytes: usize) -> Result<Vec<Box<RawValue>>, ReadError>;

    /// The same, of 8 MiB.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn after(&self, seq: u64, limit: usize) -> Result<Vec<Box<RawValue>>, ReadError> {
        self.lines(seq, limit, PAGE_BYTES)
    }

    /// A line such that every record up to it is older than `moment`, whatever the clock did
    /// since. It is the last one or lies up to two blocks before it, or before what is not
    /// indexed yet.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn last_before(&self, moment: DateTime<Utc>) -> Result<u64, ReadError>;

    /// Events above `after` that belong to no record and note something under this key of
    /// `facts`. There is no index for it: one call looks at 64 MiB of lines at most.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn fact_events(&self, key: &str, after: u64) -> Result<FactEvents, ReadError>;

    /// Checks every hash and link of what the journal holds, and that `known` heads are in
    /// it. Takes a second for each gigabyte or so.
    ///
    /// # Errors
    /// The first thing that is wrong, or what cannot be read.
    fn verify(&self, known: &[Head]) -> Result<Verified, VerifyError>;

    /// Writes the days before `before` that only the index may still have beside the log, for a
    /// backup, and returns where they are. A journal without files has none.
    ///
    /// # Errors
    /// When what is stored cannot be read, or the disk refuses.
    fn rebuild_before(&self, before: NaiveDate) -> Result<Vec<PathBuf>, ReadError> {
        let _ = before;
        Ok(Vec::new())
    }

    /// The last committed line.
    fn head(&self) -> Head;

    /// How many committed lines the index does not hold yet; none where there is no index.
    fn unindexed(&self) -> u64 {
        0
    }

    /// Why the index takes no lines at the moment; `None` when it does, or where there is none.
    /// Messages are accepted all the same: the log has them, and the index gets them when it can be
    /// written again.
    fn index_fault(&self) -> Option<Arc<str>> {
        None
    }
}

/// Why the journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
    /// The index failed and is being opened again; ask later.
    #[error("the journal's index failed and is being opened again; try again later")]
    Reopening,
    /// The disk refused.
    #[error("the journal cannot be read")]
    Io(#[from] io::Error),
    /// A stored block does not hold what it should.
    #[error(
        "the journal's index is damaged at block {block}; if a2a-log has every day, stop the server, delete data/a2a-journal and start again to rebuild it from the log"
    )]
    Damaged {
        /// First line of the block.
        block: u64,
    },
}

impl From<sled::Error> for ReadError {
    fn from(error: sled::Error) -> Self {
        match error {
            sled::Error::Io(error) if crate::index::is_damage(&error) => Self::Damaged { block: 0 },
            sled::Error::Corruption { .. } => Self::Damaged { block: 0 },
            error => Self::Io(error.into()),
        }
    }
}

/// A line as raw JSON. Lines in the journal were checked when they were written or recovered.
pub(crate) fn raw(line: Vec<u8>) -> Result<Box<RawValue>, ReadError> {
    let text = String::from_utf8(line)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    RawValue::from_string(text).map_err(|error| ReadError::Io(error.into()))
}
