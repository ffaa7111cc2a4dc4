//! Reader of the journal on disk: searches the tail first, then the index.
//!
//! The order matters: a record is stored in the index before it leaves the tail, so that the opposite
//! order could miss it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_protocol::MessageId;
use chrono::{DateTime, NaiveDate, Utc};
use serde_json::value::RawValue;

use crate::index::Index;
use crate::index::block_reader::BlockReader;
use crate::index::tail::{SharedJournal, Slot};
use crate::query::QueryPlan;
use crate::query::fact_events::FactSearch;
use crate::query::message_history::HistorySearch;
use crate::query::page_builder::{PageBuilder, PageLimits};
use crate::query::reader::{MAX_PAGE, PAGE_BYTES, SCAN_BYTES, raw};
use crate::record::batch::{Entry, RecordKind};
use crate::retention::rebuild::rebuild_aside;
use crate::verify::source::{verify_open, with_recorded};
use crate::{
    FactEvents, Head, HistoryCursor, JournalReader, MessageHistory, Page, Query, ReadError,
    StoredRecord, Verified, VerifyError,
};

/// Reads the journal while it writes.
pub(crate) struct DiskReader {
    pub shared: Arc<SharedJournal>,
}

/// Snapshot of the tail, with the index.
struct View<'a> {
    tail: Vec<Slot>,
    index: Arc<Index>,
    dir: &'a Path,
}

impl DiskReader {
    fn view(&self) -> Result<View<'_>, ReadError> {
        let tail = self.shared.tail().slots.iter().cloned().collect();
        let index = self.shared.index()?;
        Ok(View { tail, index, dir: &self.shared.dir })
    }

    /// Runs a read on a snapshot. If a segment that the tail refers to was compressed meanwhile, the
    /// index has its records by now, and the second attempt finds them there.
    fn read<T>(&self, run: impl Fn(&View<'_>) -> Result<T, ReadError>) -> Result<T, ReadError> {
        match run(&self.view()?) {
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                run(&self.view()?)
            }
            result => result,
        }
    }
}

impl View<'_> {
    /// Number of the first record in the tail; all records below it are in the index.
    fn tail_start(&self) -> u64 {
        self.tail.first().map_or(u64::MAX, Slot::first)
    }

    fn line(&self, seq: u64) -> Result<Option<Box<RawValue>>, ReadError> {
        let is_it = |entry: &&Entry| entry.seq == seq && entry.kind == RecordKind::Message;
        if seq >= self.tail_start() {
            for slot in &self.tail {
                if let Some(entry) = slot.batch.entries.iter().find(is_it) {
                    return raw(slot.line(entry, self.dir)?).map(Some);
                }
            }
            return Ok(None);
        }
        let Some(meta) = self.index.block_of(seq) else { return Ok(None) };
        let block = self.index.block(meta.first)?;
        block.line(seq).filter(is_it).map(|entry| raw(entry.of(&block.bytes).to_vec())).transpose()
    }

    /// Finds up to `limit` matching records below `before`, newest first; fewer if they are large or
    /// rare.
    fn search(
        &self,
        plan: &QueryPlan,
        before: u64,
        limit: usize,
    ) -> Result<RecordSearch, ReadError> {
        let mut found = RecordSearch::new(limit, before);
        for slot in self.tail.iter().rev().filter(|slot| slot.first() < before) {
            if found.is_full() || found.is_over_budget() {
                return Ok(found);
            }
            found.take(&slot.batch.entries, &slot.bytes(self.dir)?, plan)?;
        }
        let mut reader = BlockReader::new()?;
        let mut below = before.min(self.tail_start());
        while !found.is_full()
            && let Some(meta) = self.index.block_below(below, |sum| plan.may_match(sum))
        {
            if found.is_over_budget() {
                return Ok(found);
            }
            below = meta.first;
            if plan.reads_everything() {
                self.index.read_block(meta.first, &mut reader)?;
                found.take(&reader.block.entries, &reader.block.bytes, plan)?;
            } else {
                let block = self.index.block(meta.first)?;
                found.take(&block.entries, &block.bytes, plan)?;
            }
            if !found.is_full() {
                found.below = found.below.min(below);
            }
        }
        found.is_all = !found.is_full();
        Ok(found)
    }

    /// Finds the records of a message from number `from` on, oldest first.
    fn records_of(
        &self,
        id: MessageId,
        from: u64,
        limit: usize,
    ) -> Result<HistorySearch, ReadError> {
        let plan = QueryPlan::of_message(id);
        let mut found = HistorySearch::new(from, limit);
        let (mut above, end) = (from.saturating_sub(1), self.tail_start());
        while let Some(meta) = self.index.block_above(above, |sum| plan.may_match(sum))
            && meta.first < end
        {
            above = meta.last.seq;
            let block = self.index.block(meta.first)?;
            if !found.take(&block.entries, &block.bytes, end, &plan)? {
                return Ok(found);
            }
        }
        for slot in self.tail.iter().filter(|slot| slot.last() >= from) {
            let bytes = slot.bytes(self.dir)?;
            if !found.take(&slot.batch.entries, &bytes, u64::MAX, &plan)? {
                break;
            }
        }
        Ok(found)
    }

    /// Returns up to `limit` records above `seq`, oldest first.
    fn lines_above(
        &self,
        seq: u64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Box<RawValue>>, ReadError> {
        let (mut lines, mut size, most) = (Vec::new(), 0, bytes);
        let mut take = |entry: &Entry, bytes: &[u8]| {
            let line = entry.of(bytes).to_vec();
            size += line.len();
            lines.push(raw(line)?);
            Ok::<_, ReadError>(lines.len() < limit && size < most)
        };
        let (mut above, end) = (seq, self.tail_start());
        while let Some(meta) = self.index.block_above(above, |_| true)
            && meta.first < end
        {
            let block = self.index.block(meta.first)?;
            for entry in block.entries.iter().filter(|e| e.seq > above && e.seq < end) {
                if !take(entry, &block.bytes)? {
                    return Ok(lines);
                }
            }
            above = meta.last.seq;
        }
        for slot in self.tail.iter().filter(|slot| slot.last() > seq) {
            let bytes = slot.bytes(self.dir)?;
            for entry in slot.batch.entries.iter().filter(|entry| entry.seq > seq) {
                if !take(entry, &bytes)? {
                    return Ok(lines);
                }
            }
        }
        Ok(lines)
    }

    /// Adds the events of the records to a page, oldest first.
    fn with_events(&self, mut page: PageBuilder) -> Result<PageBuilder, ReadError> {
        let homes: BTreeSet<u64> = page
            .numbers()
            .filter_map(|seq| self.index.block_of(seq))
            .map(|meta| meta.first)
            .collect();
        let mut blocks = BTreeSet::new();
        for home in homes {
            blocks.extend(self.index.blocks_with_events_of(home)?);
        }
        let end = self.tail_start();
        for first in blocks {
            let block = self.index.block(first)?;
            for entry in block.entries.iter().filter(|entry| entry.seq < end) {
                if let RecordKind::EventOf(of) = entry.kind {
                    page.add(of, entry.seq, || Ok(entry.of(&block.bytes).to_vec()))?;
                }
            }
        }
        for slot in &self.tail {
            for entry in &slot.batch.entries {
                if let RecordKind::EventOf(of) = entry.kind {
                    page.add(of, entry.seq, || Ok(slot.line(entry, self.dir)?))?;
                }
            }
        }
        Ok(page)
    }

    /// Finds the events of the bus about a fact.
    fn fact_events(&self, key: &str, after: u64) -> Result<FactEvents, ReadError> {
        let mut search = FactSearch::of(key);
        let mut reader = BlockReader::new()?;
        let (mut above, end) = (after, self.tail_start());
        while let Some(meta) = self.index.block_above(above, |_| true)
            && meta.first < end
        {
            self.index.read_block(meta.first, &mut reader)?;
            let entries = reader.block.entries.iter().filter(|e| e.seq > after && e.seq < end);
            above = meta.last.seq;
            if !search.take(entries, &reader.block.bytes)? {
                return Ok(search.finish(above.min(end.saturating_sub(1))));
            }
        }
        for slot in self.tail.iter().filter(|slot| slot.last() > after) {
            let bytes = slot.bytes(self.dir)?;
            if !search.take(slot.batch.entries.iter().filter(|e| e.seq > after), &bytes)? {
                return Ok(search.finish(slot.last()));
            }
        }
        Ok(search.finish(u64::MAX))
    }
}

/// The state of a search, newest record first.
struct RecordSearch {
    records: Vec<(u64, Box<RawValue>)>,
    limit: usize,
    bytes: usize,
    /// Every record from this number up to the start of the search was checked.
    below: u64,
    /// Bytes scanned.
    scanned: usize,
    /// Whether the search reached the first record.
    is_all: bool,
    scratch: Vec<u8>,
}

impl RecordSearch {
    fn new(limit: usize, below: u64) -> Self {
        let (records, scratch) = (Vec::new(), Vec::new());
        Self { records, limit, bytes: 0, below, scanned: 0, is_all: false, scratch }
    }

    /// Complete with one record more than the limit, which proves that there is a next page.
    fn is_full(&self) -> bool {
        self.records.len() > self.limit || self.bytes >= PAGE_BYTES
    }

    fn is_over_budget(&self) -> bool {
        self.scanned >= SCAN_BYTES
    }

    fn take(&mut self, entries: &[Entry], bytes: &[u8], plan: &QueryPlan) -> Result<(), ReadError> {
        self.scanned += bytes.len();
        for entry in entries.iter().rev().filter(|entry| entry.kind == RecordKind::Message) {
            if self.is_full() {
                break;
            }
            if entry.seq >= self.below {
                continue;
            }
            self.below = entry.seq;
            let line = entry.of(bytes);
            if plan.matches(line, &mut self.scratch) {
                self.bytes += line.len();
                self.records.push((entry.seq, raw(line.to_vec())?));
            }
        }
        Ok(())
    }

    /// The records of the page, and the position of the next one.
    fn finish(mut self) -> (Vec<(u64, Box<RawValue>)>, Option<u64>) {
        let mut next = (!self.is_all).then_some(self.below);
        if self.records.len() > self.limit {
            self.records.truncate(self.limit);
            next = self.records.last().map(|(seq, _)| *seq);
        }
        (self.records, next)
    }
}

/// Limits of a page.
const PAGE: PageLimits = PageLimits { bytes: PAGE_BYTES, events: usize::MAX };

impl JournalReader for DiskReader {
    fn record(&self, seq: u64) -> Result<Option<Box<RawValue>>, ReadError> {
        self.read(|view| view.line(seq))
    }

    fn get(&self, seq: u64) -> Result<Option<StoredRecord>, ReadError> {
        self.read(|view| {
            let Some(line) = view.line(seq)? else { return Ok(None) };
            Ok(view.with_events(PageBuilder::new(vec![(seq, line)], PAGE))?.finish().pop())
        })
    }

    fn query(&self, query: &Query) -> Result<Page, ReadError> {
        let limit = query.limit.clamp(1, MAX_PAGE);
        let plan = QueryPlan::of(query);
        self.read(|view| {
            let found = view.search(&plan, query.before.unwrap_or(u64::MAX), limit)?;
            let (records, next) = found.finish();
            let page = view.with_events(PageBuilder::new(records, PAGE))?;
            let is_cut = page.is_cut();
            let records = page.finish();
            let last = records.last().map(|record| record.seq);
            Ok(Page { next: last.filter(|_| is_cut).or(next), records })
        })
    }

    fn message_history(
        &self,
        id: &MessageId,
        from: HistoryCursor,
        limit: usize,
    ) -> Result<MessageHistory, ReadError> {
        let limit = limit.clamp(1, MAX_PAGE);
        self.read(|view| {
            let found = view.records_of(*id, from.record, limit)?;
            // Retention may have removed the record.
            let is_there = found.records.first().is_some_and(|(seq, _)| *seq == from.record);
            let page = PageBuilder::new(found.records, PageLimits { events: limit, ..PAGE })
                .resume_after(if is_there { from.after } else { 0 });
            let page = view.with_events(page)?;
            let next = page.next_cursor().or(found.next.map(HistoryCursor::at));
            Ok(MessageHistory { records: page.finish(), next })
        })
    }

    fn lines(&self, seq: u64, limit: usize, bytes: usize) -> Result<Vec<Box<RawValue>>, ReadError> {
        self.read(|view| view.lines_above(seq, limit.clamp(1, MAX_PAGE), bytes))
    }

    fn last_before(&self, moment: DateTime<Utc>) -> Result<u64, ReadError> {
        self.read(|view| Ok(view.index.older_up_to(moment.timestamp_millis())))
    }

    fn fact_events(&self, key: &str, after: u64) -> Result<FactEvents, ReadError> {
        self.read(|view| view.fact_events(key, after))
    }

    fn verify(&self, known: &[Head]) -> Result<Verified, VerifyError> {
        let known = with_recorded(&self.shared.state_dir, known)?;
        loop {
            let View { tail, index, .. } = self.view()?;
            let floor = index.floor().map_err(ReadError::from)?;
            let result = verify_open(&self.shared.state_dir, &index, &tail, &known);
            // Blocks removed during the verification are no fault; that happens once a day.
            if result.is_ok() || index.floor().map_err(ReadError::from)? == floor {
                return result;
            }
        }
    }

    fn rebuild_before(&self, before: NaiveDate) -> Result<Vec<PathBuf>, ReadError> {
        let index = self.shared.index()?;
        rebuild_aside(&index, &self.shared.state_dir, before)
    }

    fn head(&self) -> Head {
        self.shared.tail().head
    }

    fn unindexed(&self) -> u64 {
        self.shared.tail().lines as u64
    }

    fn index_fault(&self) -> Option<Arc<str>> {
        self.shared.fault()
    }
}
