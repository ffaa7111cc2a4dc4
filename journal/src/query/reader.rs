//! Reader interface of both journals, and its results.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use a2a_protocol::MessageId;
use chrono::{DateTime, NaiveDate, Utc};
use serde_json::value::RawValue;

use crate::{Head, HistoryCursor, MessageHistory, Query, Verified, VerifyError};

/// Maximum number of records in a page.
pub const MAX_PAGE: usize = 1_000;

/// Bytes of records that one call scans before it returns what it has.
pub(crate) const SCAN_BYTES: usize = 64 << 20;
/// Bytes of records that one call returns. A single record with one event may exceed it.
pub(crate) const PAGE_BYTES: usize = 8 << 20;

/// A message record with its events.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    /// Sequence number of the record.
    pub seq: u64,
    /// The line of the record, byte for byte as in the log.
    pub line: Box<RawValue>,
    /// The lines of its events, oldest first.
    pub deliveries: Vec<Box<RawValue>>,
    /// Number of further events, beyond the size limit; [`JournalReader::message_history`] returns them.
    pub more_deliveries: u64,
}

/// Events of the bus about one fact, oldest first.
#[derive(Debug, Clone, Default)]
pub struct FactEvents {
    /// Their lines.
    pub lines: Vec<Box<RawValue>>,
    /// What to pass as `after` to continue; `None` at the end.
    pub next: Option<u64>,
}

/// A page of records, newest first.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// What to pass as `before` for the next page; `None` at the end.
    ///
    /// A page with a `next` may be short or empty: a long scan returns in between, so that no call
    /// blocks for long.
    pub next: Option<u64>,
}

/// Reads a journal. A batch is visible as soon as its commit has returned.
pub trait JournalReader: Send + Sync {
    /// Returns the line of a message record; `None` if there is no such record or it is an event.
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn record(&self, seq: u64) -> Result<Option<Box<RawValue>>, ReadError>;

    /// Returns a message record with its events, up to the size limit.
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn get(&self, seq: u64) -> Result<Option<StoredRecord>, ReadError>;

    /// Returns up to `query.limit` (at most [`MAX_PAGE`]) matching message records, newest first. One
    /// call scans at most 64 MiB and returns at most 8 MiB, events included; see [`Page::next`] and
    /// [`StoredRecord::more_deliveries`].
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn query(&self, query: &Query) -> Result<Page, ReadError>;

    /// Returns up to `limit` message records below `before`, newest first.
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn page(&self, before: Option<u64>, limit: usize) -> Result<Page, ReadError> {
        self.query(&Query { before, limit, ..Query::default() })
    }

    /// Returns the records of a message from a cursor on, oldest first: the first attempt to send it
    /// and its repeats, up to `limit` (at most [`MAX_PAGE`]) records and as many events. One call
    /// scans at most 64 MiB and returns at most 8 MiB.
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn message_history(
        &self,
        id: &MessageId,
        from: HistoryCursor,
        limit: usize,
    ) -> Result<MessageHistory, ReadError>;

    /// Returns the first part of the history of a message.
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn find(&self, id: &MessageId) -> Result<Vec<StoredRecord>, ReadError> {
        Ok(self.message_history(id, HistoryCursor::default(), MAX_PAGE)?.records)
    }

    /// Returns up to `limit` (at most [`MAX_PAGE`]) lines above `seq`, events included, oldest first.
    /// It stops after the line that reaches `bytes`. For following the log.
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn lines(&self, seq: u64, limit: usize, bytes: usize) -> Result<Vec<Box<RawValue>>, ReadError>;

    /// Like [`JournalReader::lines`], up to 8 MiB.
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn after(&self, seq: u64, limit: usize) -> Result<Vec<Box<RawValue>>, ReadError> {
        self.lines(seq, limit, PAGE_BYTES)
    }

    /// Returns a number such that every record up to it is older than `moment`, even if the clock was
    /// set back since. It is the last such record or up to two blocks before it, and in the index.
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn last_before(&self, moment: DateTime<Utc>) -> Result<u64, ReadError>;

    /// Returns the events of the bus above `after` that set or remove a fact. They are not indexed:
    /// one call scans at most 64 MiB.
    ///
    /// # Errors
    /// When stored data cannot be read.
    fn fact_events(&self, key: &str, after: u64) -> Result<FactEvents, ReadError>;

    /// Verifies every hash and link, and that the journal contains the `known` heads. Takes about a
    /// second for each gigabyte.
    ///
    /// # Errors
    /// The first fault, or data that cannot be read.
    fn verify(&self, known: &[Head]) -> Result<Verified, VerifyError>;

    /// Writes the segments of the days before `before` from the index, for a backup, and returns
    /// their paths. A journal in memory has none.
    ///
    /// # Errors
    /// When stored data cannot be read, or the disk fails.
    fn rebuild_before(&self, before: NaiveDate) -> Result<Vec<PathBuf>, ReadError> {
        let _ = before;
        Ok(Vec::new())
    }

    /// Returns the last committed record.
    fn head(&self) -> Head;

    /// Number of committed records that are not indexed yet; 0 without an index.
    fn unindexed(&self) -> u64 {
        0
    }

    /// The error of a failed index; `None` while it works, or without one. Commits are not affected:
    /// the index catches up from the log once it works again.
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
    /// The index failed and is being reopened; retry later.
    #[error("the journal's index failed and is being opened again; try again later")]
    Reopening,
    /// The disk failed.
    #[error("the journal cannot be read")]
    Io(#[from] io::Error),
    /// A stored block is damaged or incomplete.
    #[error(
        "the journal's index is damaged at block {block}; if a2a-log has every day, stop the server, delete data/a2a-journal and start again to rebuild it from the log"
    )]
    Damaged {
        /// First record of the block.
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

/// Converts a line to raw JSON. It was validated when it was written or recovered.
pub(crate) fn raw(line: Vec<u8>) -> Result<Box<RawValue>, ReadError> {
    let text = String::from_utf8(line)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    RawValue::from_string(text).map_err(|error| ReadError::Io(error.into()))
}
