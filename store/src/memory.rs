//! A journal that forgets: for tests, and for buses that are thrown away.
//!
//! It writes the same lines with the same hashes, so whatever reads a journal cannot
//! tell the two apart.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::value::RawValue;

use crate::batch::Kind;
use crate::encode::Encoder;
use crate::read::{MAX_PAGE, raw};
use crate::{Commit, CommitError, Head, Line, Page, Read, ReadError, StoredRecord};

/// A journal in memory.
#[derive(Default)]
pub struct MemoryJournal {
    encoder: Encoder,
    closed: bool,
    lines: Arc<RwLock<Lines>>,
}

struct Lines {
    head: Head,
    /// Records in order.
    records: Vec<(u64, Box<RawValue>)>,
    /// Events in order, by record.
    events: HashMap<u64, Vec<Box<RawValue>>>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { head: Head::START, records: Vec::new(), events: HashMap::new() }
    }
}

impl MemoryJournal {
    /// An empty journal.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Commit for MemoryJournal {
    fn commit(&mut self, batch: &[Line]) -> Result<(), CommitError> {
        if self.closed {
            return Err(CommitError::Closed);
        }
        let mut lines = self.lines.write().unwrap_or_else(PoisonError::into_inner);
        let head = self.encoder.encode(lines.head, batch)?;
        for entry in &self.encoder.entries {
            let line = raw(entry.of(&self.encoder.bytes).to_vec()).map_err(|error| {
                CommitError::Io { doing: "encoding a line", source: std::io::Error::other(error) }
            })?;
            match entry.kind {
                Kind::Record => lines.records.push((entry.seq, line)),
                Kind::EventOf(of) => lines.events.entry(of).or_default().push(line),
                Kind::Event => {}
            }
        }
        lines.head = head;
        Ok(())
    }

    fn close(&mut self) -> Result<(), CommitError> {
        self.closed = true;
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Read> {
        Arc::new(MemoryReader { lines: Arc::clone(&self.lines) })
    }
}

struct MemoryReader {
    lines: Arc<RwLock<Lines>>,
}

impl Lines {
    fn record(&self, at: usize) -> Option<StoredRecord> {
        let (seq, line) = self.records.get(at)?;
        let deliveries = self.events.get(seq).cloned().unwrap_or_default();
        Some(StoredRecord { seq: *seq, line: line.clone(), deliveries })
    }
}

impl Read for MemoryReader {
    fn get(&self, seq: u64) -> Result<Option<StoredRecord>, ReadError> {
        let lines = self.lines.read().unwrap_or_else(PoisonError::into_inner);
        let at = lines.records.binary_search_by_key(&seq, |(seq, _)| *seq);
        Ok(at.ok().and_then(|at| lines.record(at)))
    }

    fn page(&self, before: Option<u64>, limit: usize) -> Result<Page, ReadError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let lines = self.lines.read().unwrap_or_else(PoisonError::into_inner);
        let end = lines.records.partition_point(|(seq, _)| *seq < before.unwrap_or(u64::MAX));
        let start = end.saturating_sub(limit);
        let records: Vec<_> = (start..end).rev().filter_map(|at| lines.record(at)).collect();
        let next = records.last().map(|record| record.seq).filter(|_| start > 0);
        Ok(Page { records, next })
    }

    fn head(&self) -> Head {
        self.lines.read().unwrap_or_else(PoisonError::into_inner).head
    }
}
