//! Journal in memory, for tests and for buses without persistence.
//!
//! It writes the same records with the same hashes, so that readers cannot distinguish it from the
//! journal on disk.

use std::collections::HashMap;
use std::sync::Arc;

use a2a_protocol::MessageId;
use chrono::{DateTime, Utc};
use parking_lot::{RwLock, RwLockReadGuard};
use serde_json::value::RawValue;

use crate::index::facets::time_and_outcome;
use crate::query::QueryPlan;
use crate::query::fact_events::FactSearch;
use crate::query::page_builder::{PageBuilder, PageLimits};
use crate::query::reader::{MAX_PAGE, PAGE_BYTES, SCAN_BYTES, raw};
use crate::record::batch::RecordKind;
use crate::record::encode::Encoder;
use crate::verify::{LinePlace, LineSource, Visit, verify};
use crate::{
    Commit, CommitError, FactEvents, Head, HistoryCursor, JournalReader, Liveness, MessageHistory,
    Page, Query, ReadError, Record, RemovedForm, StoredRecord, Verified, VerifyError,
};

/// A journal in memory.
#[derive(Default)]
pub struct MemoryJournal {
    encoder: Encoder,
    closed: bool,
    lines: Arc<RwLock<MemoryLog>>,
    liveness: Liveness,
}

struct MemoryLog {
    head: Head,
    /// Every record, in order.
    all: Vec<MemoryLine>,
    /// Indexes of the events of each message, in order.
    events: HashMap<u64, Vec<usize>>,
}

struct MemoryLine {
    seq: u64,
    is_record: bool,
    /// Whether it is an event of the bus.
    is_bus_event: bool,
    line: Box<RawValue>,
}

impl Default for MemoryLog {
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
    fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    fn commit(&mut self, batch: &[Record]) -> Result<(), CommitError> {
        if self.closed {
            return Err(CommitError::Closed);
        }
        if batch.iter().any(Record::is_removal_slot) {
            // Without retention, offers are dropped.
            let rest: Vec<Record> =
                batch.iter().filter(|line| !line.is_removal_slot()).cloned().collect();
            return self.commit(&rest);
        }
        let mut lines = self.lines.write();
        let head = self.encoder.encode(lines.head, batch)?;
        for entry in &self.encoder.entries {
            let line = raw(entry.of(&self.encoder.bytes).to_vec()).map_err(|error| {
                CommitError::Io { doing: "encoding a line", source: std::io::Error::other(error) }
            })?;
            let at = lines.all.len();
            if let RecordKind::EventOf(of) = entry.kind {
                lines.events.entry(of).or_default().push(at);
            }
            let is_record = entry.kind == RecordKind::Message;
            let is_bus_event = entry.kind == RecordKind::Event;
            lines.all.push(MemoryLine { seq: entry.seq, is_record, is_bus_event, line });
        }
        lines.head = head;
        Ok(())
    }

    fn close(&mut self) -> Result<(), CommitError> {
        self.closed = true;
        Ok(())
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::new(MemoryReader { lines: Arc::clone(&self.lines) })
    }
}

struct MemoryReader {
    lines: Arc<RwLock<MemoryLog>>,
}

impl MemoryReader {
    fn lines(&self) -> RwLockReadGuard<'_, MemoryLog> {
        self.lines.read()
    }
}

impl MemoryLog {
    /// Index of the first record with this number or a higher one.
    fn at(&self, seq: u64) -> usize {
        self.all.partition_point(|stored| stored.seq < seq)
    }

    /// Adds the events of the records to a page.
    fn with_events(&self, mut page: PageBuilder) -> Result<PageBuilder, ReadError> {
        let numbers: Vec<u64> = page.numbers().collect();
        for of in numbers {
            for event in self.events.get(&of).into_iter().flatten() {
                if let Some(event) = self.all.get(*event) {
                    page.add(of, event.seq, || Ok(event.line.get().as_bytes().to_vec()))?;
                }
            }
        }
        Ok(page)
    }
}

/// Limits of a page.
const PAGE: PageLimits = PageLimits { bytes: PAGE_BYTES, events: usize::MAX };

impl LineSource for MemoryLog {
    fn visit_lines(&self, visit: &mut Visit<'_>) -> Result<u64, VerifyError> {
        for (line, stored) in (1..).zip(&self.all) {
            if visit(LinePlace { file: None, line }, stored.line.get().as_bytes()).is_break() {
                break;
            }
        }
        Ok(0)
    }

    fn has_lost(&self, _: RemovedForm) -> bool {
        false
    }
}

impl JournalReader for MemoryReader {
    fn record(&self, seq: u64) -> Result<Option<Box<RawValue>>, ReadError> {
        let lines = self.lines();
        let found = lines.all.get(lines.at(seq)).filter(|found| found.seq == seq);
        Ok(found.filter(|found| found.is_record).map(|record| record.line.clone()))
    }

    fn get(&self, seq: u64) -> Result<Option<StoredRecord>, ReadError> {
        let Some(line) = self.record(seq)? else { return Ok(None) };
        let page = PageBuilder::new(vec![(seq, line)], PAGE);
        Ok(self.lines().with_events(page)?.finish().pop())
    }

    fn query(&self, query: &Query) -> Result<Page, ReadError> {
        let limit = query.limit.clamp(1, MAX_PAGE);
        let (plan, mut scratch) = (QueryPlan::of(query), Vec::new());
        let lines = self.lines();
        let end = lines.at(query.before.unwrap_or(u64::MAX));
        let (mut found, mut next) = (Vec::new(), None);
        let (mut scanned, mut size, mut below) = (0, 0, None);
        for stored in lines.all[..end].iter().rev().filter(|stored| stored.is_record) {
            if scanned >= SCAN_BYTES || size >= PAGE_BYTES {
                next = below;
                break;
            }
            let line = stored.line.get();
            scanned += line.len();
            if plan.matches(line.as_bytes(), &mut scratch) {
                if found.len() == limit {
                    next = found.last().map(|(seq, _)| *seq);
                    break;
                }
                size += line.len();
                found.push((stored.seq, stored.line.clone()));
            }
            below = Some(stored.seq);
        }
        let page = lines.with_events(PageBuilder::new(found, PAGE))?;
        let is_cut = page.is_cut();
        let records = page.finish();
        let last = records.last().map(|record| record.seq);
        Ok(Page { next: last.filter(|_| is_cut).or(next), records })
    }

    fn message_history(
        &self,
        id: &MessageId,
        from: HistoryCursor,
        limit: usize,
    ) -> Result<MessageHistory, ReadError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let (plan, mut scratch) = (QueryPlan::of_message(*id), Vec::new());
        let lines = self.lines();
        let records = lines.all[lines.at(from.record)..].iter().filter(|stored| stored.is_record);
        let mut wanted = records.filter(|s| plan.matches(s.line.get().as_bytes(), &mut scratch));
        let part: Vec<_> = wanted.by_ref().take(limit).map(|s| (s.seq, s.line.clone())).collect();
        let rest = wanted.next().map(|stored| HistoryCursor::at(stored.seq));
        let is_there = part.first().is_some_and(|(seq, _)| *seq == from.record);
        let page = PageBuilder::new(part, PageLimits { events: limit, ..PAGE })
            .resume_after(if is_there { from.after } else { 0 });
        let page = lines.with_events(page)?;
        let next = page.next_cursor().or(rest);
        Ok(MessageHistory { records: page.finish(), next })
    }

    fn lines(&self, seq: u64, limit: usize, bytes: usize) -> Result<Vec<Box<RawValue>>, ReadError> {
        let Some(first) = seq.checked_add(1) else { return Ok(Vec::new()) };
        let lines = self.lines();
        let mut size = 0;
        let above = lines.all[lines.at(first)..].iter().take_while(|stored| {
            let fits = size == 0 || size < bytes;
            size += stored.line.get().len();
            fits
        });
        Ok(above.take(limit.clamp(1, MAX_PAGE)).map(|stored| stored.line.clone()).collect())
    }

    fn last_before(&self, moment: DateTime<Utc>) -> Result<u64, ReadError> {
        let is_older = |stored: &&MemoryLine| {
            time_and_outcome(stored.line.get().as_bytes()).is_none_or(|(time, _)| time < moment)
        };
        let lines = self.lines();
        Ok(lines.all.iter().take_while(is_older).last().map_or(0, |stored| stored.seq))
    }

    fn fact_events(&self, key: &str, after: u64) -> Result<FactEvents, ReadError> {
        let Some(first) = after.checked_add(1) else { return Ok(FactEvents::default()) };
        let lines = self.lines();
        let mut search = FactSearch::of(key);
        for stored in lines.all[lines.at(first)..].iter().filter(|stored| stored.is_bus_event) {
            search.check(stored.line.get().as_bytes())?;
        }
        Ok(search.finish(u64::MAX))
    }

    fn verify(&self, known: &[Head]) -> Result<Verified, VerifyError> {
        verify(&*self.lines(), known)
    }

    fn head(&self) -> Head {
        self.lines().head
    }
}
