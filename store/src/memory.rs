//! A journal that forgets: for tests, and for buses that are thrown away.
//!
//! It writes the same lines with the same hashes, so whatever reads a journal cannot
//! tell the two apart.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use a2a_protocol::MessageId;
use serde_json::value::RawValue;

use crate::batch::Kind;
use crate::encode::Encoder;
use crate::query::Plan;
use crate::read::{MAX_PAGE, PAGE_BYTES, SCAN_BYTES, raw};
use crate::verify::{Place, See, Source, verify};
use crate::{
    Commit, CommitError, Head, Line, Page, Query, Read, ReadError, RemovedForm, StoredRecord,
    Verified, VerifyError,
};

/// A journal in memory.
#[derive(Default)]
pub struct MemoryJournal {
    encoder: Encoder,
    closed: bool,
    lines: Arc<RwLock<Lines>>,
}

struct Lines {
    head: Head,
    /// Every line in order.
    all: Vec<Stored>,
    /// Where a record's events lie, in order.
    events: HashMap<u64, Vec<usize>>,
}

struct Stored {
    seq: u64,
    is_record: bool,
    line: Box<RawValue>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { head: Head::START, all: Vec::new(), events: HashMap::new() }
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
        if batch.iter().any(Line::is_offer) {
            // Nothing is ever removed here.
            let rest: Vec<Line> = batch.iter().filter(|line| !line.is_offer()).cloned().collect();
            return self.commit(&rest);
        }
        let mut lines = self.lines.write().unwrap_or_else(PoisonError::into_inner);
        let head = self.encoder.encode(lines.head, batch)?;
        for entry in &self.encoder.entries {
            let line = raw(entry.of(&self.encoder.bytes).to_vec()).map_err(|error| {
                CommitError::Io { doing: "encoding a line", source: std::io::Error::other(error) }
            })?;
            let at = lines.all.len();
            if let Kind::EventOf(of) = entry.kind {
                lines.events.entry(of).or_default().push(at);
            }
            let is_record = entry.kind == Kind::Record;
            lines.all.push(Stored { seq: entry.seq, is_record, line });
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

impl MemoryReader {
    fn lines(&self) -> RwLockReadGuard<'_, Lines> {
        self.lines.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// Where the first line with this number or a higher one lies.
    fn at(&self, seq: u64) -> usize {
        self.all.partition_point(|stored| stored.seq < seq)
    }

    fn complete(&self, record: &Stored) -> StoredRecord {
        let events = self.events.get(&record.seq).map(Vec::as_slice).unwrap_or_default();
        let deliveries = events.iter().filter_map(|&at| Some(self.all.get(at)?.line.clone()));
        StoredRecord {
            seq: record.seq,
            line: record.line.clone(),
            deliveries: deliveries.collect(),
        }
    }
}

impl Source for Lines {
    fn each(&self, see: &mut See<'_>) -> Result<u64, VerifyError> {
        for (line, stored) in (1..).zip(&self.all) {
            if see(Place { file: None, line }, stored.line.get().as_bytes()).is_break() {
                break;
            }
        }
        Ok(0)
    }

    fn lost(&self, _: RemovedForm) -> bool {
        false
    }
}

impl Read for MemoryReader {
    fn get(&self, seq: u64) -> Result<Option<StoredRecord>, ReadError> {
        let lines = self.lines();
        let found = lines.all.get(lines.at(seq)).filter(|found| found.seq == seq);
        Ok(found.filter(|found| found.is_record).map(|record| lines.complete(record)))
    }

    fn query(&self, query: &Query) -> Result<Page, ReadError> {
        let limit = query.limit.clamp(1, MAX_PAGE);
        let (plan, mut scratch) = (Plan::of(query), Vec::new());
        let lines = self.lines();
        let end = lines.at(query.before.unwrap_or(u64::MAX));
        let (mut page, mut looked_at, mut size) = (Page::default(), 0, 0);
        let mut below = None;
        for stored in lines.all[..end].iter().rev().filter(|stored| stored.is_record) {
            if looked_at >= SCAN_BYTES || size >= PAGE_BYTES {
                page.next = below;
                break;
            }
            let line = stored.line.get();
            looked_at += line.len();
            if plan.matches(line.as_bytes(), &mut scratch) {
                if page.records.len() == limit {
                    page.next = page.records.last().map(|record| record.seq);
                    break;
                }
                size += line.len();
                page.records.push(lines.complete(stored));
            }
            below = Some(stored.seq);
        }
        Ok(page)
    }

    fn find(&self, id: &MessageId) -> Result<Vec<StoredRecord>, ReadError> {
        let (plan, mut scratch) = (Plan::of_message(*id), Vec::new());
        let lines = self.lines();
        let records = lines.all.iter().filter(|stored| stored.is_record);
        let wanted = records.filter(|s| plan.matches(s.line.get().as_bytes(), &mut scratch));
        Ok(wanted.take(MAX_PAGE).map(|record| lines.complete(record)).collect())
    }

    fn after(&self, seq: u64, limit: usize) -> Result<Vec<Box<RawValue>>, ReadError> {
        let lines = self.lines();
        let mut size = 0;
        let above = lines.all[lines.at(seq.saturating_add(1))..].iter().take_while(|stored| {
            let fits = size < PAGE_BYTES;
            size += stored.line.get().len();
            fits
        });
        Ok(above.take(limit.clamp(1, MAX_PAGE)).map(|stored| stored.line.clone()).collect())
    }

    fn verify(&self, known: &[Head]) -> Result<Verified, VerifyError> {
        verify(&*self.lines(), known)
    }

    fn head(&self) -> Head {
        self.lines().head
    }
}
