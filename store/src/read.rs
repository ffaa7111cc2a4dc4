//! What can be asked of a journal, whichever kind it is.

use std::io;

use serde_json::value::RawValue;

use crate::Head;

/// The most records one page holds.
pub const MAX_PAGE: usize = 1_000;

/// A message's record with the events that followed.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    /// Number of the record.
    pub seq: u64,
    /// The record's line, byte for byte as in the log.
    pub line: Box<RawValue>,
    /// Its events' lines, oldest first.
    pub deliveries: Vec<Box<RawValue>>,
}

/// Some records, newest first.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// What to pass as `before` for the next page; `None` when there is none.
    pub next: Option<u64>,
}

/// The reading side of a journal. Sees a batch as soon as its commit has returned.
pub trait Read: Send + Sync {
    /// The message record with this number and its events; `None` if there is no such
    /// record or the line with this number is an event.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn get(&self, seq: u64) -> Result<Option<StoredRecord>, ReadError>;

    /// Up to `limit` (at most [`MAX_PAGE`]) message records below `before`, newest first.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    fn page(&self, before: Option<u64>, limit: usize) -> Result<Page, ReadError>;

    /// The last committed line.
    fn head(&self) -> Head;
}

/// Why the journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
    /// The disk refused.
    #[error("the journal cannot be read")]
    Io(#[from] io::Error),
    /// A stored block does not hold what it should.
    #[error(
        "the journal's index is damaged at block {block}; stop the server, delete data/a2a-journal and start again to rebuild it from the log"
    )]
    Damaged {
        /// First line of the block.
        block: u64,
    },
}

impl From<sled::Error> for ReadError {
    fn from(error: sled::Error) -> Self {
        Self::Io(error.into())
    }
}

/// A line as raw JSON. Lines in the journal were checked when they were written or recovered.
pub(crate) fn raw(line: Vec<u8>) -> Result<Box<RawValue>, ReadError> {
    let text = String::from_utf8(line)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    RawValue::from_string(text).map_err(|error| ReadError::Io(error.into()))
}
