//! Reading the journal on disk: first what sled does not hold yet, then sled.
//!
//! In that order, because a line is stored in sled before it leaves the tail: looked
//! for the other way round it could be missed in between.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use a2a_protocol::MessageId;
use serde_json::value::RawValue;

use crate::batch::{Entry, Kind};
use crate::evidence::{verify_open, with_noted};
use crate::index::{Index, Opener};
use crate::query::Plan;
use crate::read::{MAX_PAGE, PAGE_BYTES, SCAN_BYTES, raw};
use crate::tail::{Shared, Slot};
use crate::{Head, Page, Query, Read, ReadError, StoredRecord, Verified, VerifyError};

/// Reads while the journal writes.
pub(crate) struct Reader {
    pub shared: Arc<Shared>,
}

/// Events by record, then by their own number, so that one found twice counts once.
type Events = BTreeMap<u64, BTreeMap<u64, Box<RawValue>>>;

/// What both sides held at one moment.
struct View<'a> {
    tail: Vec<Slot>,
    index: Arc<Index>,
    dir: &'a Path,
}

impl Reader {
    fn view(&self) -> Result<View<'_>, ReadError> {
        let tail = self.shared.tail().slots.iter().cloned().collect();
        let index = self.shared.index().ok_or(ReadError::Closed)?;
        Ok(View { tail, index, dir: &self.shared.dir })
    }

    /// Asks what both sides hold now. If a day file that the tail pointed to was packed away
    /// meanwhile, sled has its lines by now, and the second look finds them there.
    fn ask<T>(&self, question: impl Fn(&View<'_>) -> Result<T, ReadError>) -> Result<T, ReadError> {
        match question(&self.view()?) {
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                question(&self.view()?)
            }
            answer => answer,
        }
    }
}

impl View<'_> {
    /// The first line of the tail; everything below it is in sled.
    fn tail_start(&self) -> u64 {
        self.tail.first().map_or(u64::MAX, Slot::first)
    }

    fn line(&self, seq: u64) -> Result<Option<Box<RawValue>>, ReadError> {
        let is_it = |entry: &&Entry| entry.seq == seq && entry.kind == Kind::Record;
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

    /// Up to `limit` records below `before` that are wanted, newest first, fewer when they
    /// are large or far between.
    fn search(&self, plan: &Plan, before: u64, limit: usize) -> Result<Found, ReadError> {
        let mut found = Found::new(limit, before);
        for slot in self.tail.iter().rev().filter(|slot| slot.first() < before) {
            if found.is_full() || found.is_tired() {
                return Ok(found);
            }
            found.take(&slot.batch.entries, &slot.bytes(self.dir)?, plan)?;
        }
        let mut opener = Opener::new()?;
        let mut below = before.min(self.tail_start());
        while !found.is_full()
            && let Some(meta) = self.index.block_below(below, |sum| plan.may_match(sum))
        {
            if found.is_tired() {
                return Ok(found);
            }
            below = meta.first;
            if plan.reads_everything() {
                self.index.read_block(meta.first, &mut opener)?;
                found.take(&opener.block.entries, &opener.block.bytes, plan)?;
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

    /// The records of a message, oldest first.
    fn records_of(&self, id: MessageId) -> Result<Vec<(u64, Box<RawValue>)>, ReadError> {
        let plan = Plan::of_message(id);
        let (mut records, mut seen, mut scratch) = (Vec::new(), 0, Vec::new());
        let mut gather = |entries: &[Entry], bytes: &[u8], end: u64| {
            seen += bytes.len();
            for entry in entries.iter().filter(|e| e.kind == Kind::Record && e.seq < end) {
                let line = entry.of(bytes);
                if records.len() < MAX_PAGE && plan.matches(line, &mut scratch) {
                    records.push((entry.seq, raw(line.to_vec())?));
                }
            }
            Ok::<_, ReadError>(records.len() < MAX_PAGE && seen < SCAN_BYTES)
        };
        let (mut above, end, mut goes_on) = (0, self.tail_start(), true);
        while goes_on
            && let Some(meta) = self.index.block_above(above, |sum| plan.may_match(sum))
            && meta.first < end
        {
            above = meta.last.seq;
            let block = self.index.block(meta.first)?;
            goes_on = gather(&block.entries, &block.bytes, end)?;
        }
        for slot in &self.tail {
            if goes_on {
                goes_on = gather(&slot.batch.entries, &slot.bytes(self.dir)?, u64::MAX)?;
            }
        }
        Ok(records)
    }

    /// Up to `limit` lines above `seq`, oldest first.
    fn lines_above(&self, seq: u64, limit: usize) -> Result<Vec<Box<RawValue>>, ReadError> {
        let (mut lines, mut size) = (Vec::new(), 0);
        let mut take = |entry: &Entry, bytes: &[u8]| {
            let line = entry.of(bytes).to_vec();
            size += line.len();
            lines.push(raw(line)?);
            Ok::<_, ReadError>(lines.len() < limit && size < PAGE_BYTES)
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

    /// The events of some records.
    fn events(&self, of: &BTreeSet<u64>) -> Result<Events, ReadError> {
        let mut events = Events::new();
        let homes: BTreeSet<u64> =
            of.iter().filter_map(|&seq| self.index.block_of(seq)).map(|meta| meta.first).collect();
        let mut blocks = BTreeSet::new();
        for home in homes {
            blocks.extend(self.index.blocks_with_events_of(home)?);
        }
        for first in blocks {
            let block = self.index.block(first)?;
            let line = |entry: &Entry| Ok(entry.of(&block.bytes).to_vec());
            take_events(&block.entries, line, of, &mut events)?;
        }
        for slot in &self.tail {
            let line = |entry: &Entry| Ok(slot.line(entry, self.dir)?);
            take_events(&slot.batch.entries, line, of, &mut events)?;
        }
        Ok(events)
    }

    fn with_events(
        &self,
        records: Vec<(u64, Box<RawValue>)>,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let mut events = self.events(&records.iter().map(|(seq, _)| *seq).collect())?;
        let complete = |(seq, line)| {
            let deliveries = events.remove(&seq).unwrap_or_default().into_values().collect();
            StoredRecord { seq, line, deliveries }
        };
        Ok(records.into_iter().map(complete).collect())
    }
}

/// A page in the making.
struct Found {
    records: Vec<(u64, Box<RawValue>)>,
    limit: usize,
    bytes: usize,
    /// Every record from here up to where the search began was looked at.
    below: u64,
    looked_at: usize,
    /// Whether there is nothing left to look at.
    is_all: bool,
    scratch: Vec<u8>,
}

impl Found {
    fn new(limit: usize, below: u64) -> Self {
        let (records, scratch) = (Vec::new(), Vec::new());
        Self { records, limit, bytes: 0, below, looked_at: 0, is_all: false, scratch }
    }

    /// One more than asked for tells whether there is a next page.
    fn is_full(&self) -> bool {
        self.records.len() > self.limit || self.bytes >= PAGE_BYTES
    }

    fn is_tired(&self) -> bool {
        self.looked_at >= SCAN_BYTES
    }

    fn take(&mut self, entries: &[Entry], bytes: &[u8], plan: &Plan) -> Result<(), ReadError> {
        self.looked_at += bytes.len();
        for entry in entries.iter().rev().filter(|entry| entry.kind == Kind::Record) {
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

    /// The records of the page, and where the next one begins.
    fn finish(mut self) -> (Vec<(u64, Box<RawValue>)>, Option<u64>) {
        let mut next = (!self.is_all).then_some(self.below);
        if self.records.len() > self.limit {
            self.records.truncate(self.limit);
            next = self.records.last().map(|(seq, _)| *seq);
        }
        (self.records, next)
    }
}

fn take_events(
    entries: &[Entry],
    line: impl Fn(&Entry) -> Result<Vec<u8>, ReadError>,
    of: &BTreeSet<u64>,
    events: &mut Events,
) -> Result<(), ReadError> {
    for entry in entries {
        if let Kind::EventOf(seq) = entry.kind
            && of.contains(&seq)
        {
            events.entry(seq).or_default().insert(entry.seq, raw(line(entry)?)?);
        }
    }
    Ok(())
}

impl Read for Reader {
    fn get(&self, seq: u64) -> Result<Option<StoredRecord>, ReadError> {
        self.ask(|view| {
            let Some(line) = view.line(seq)? else { return Ok(None) };
            Ok(view.with_events(vec![(seq, line)])?.pop())
        })
    }

    fn query(&self, query: &Query) -> Result<Page, ReadError> {
        let limit = query.limit.clamp(1, MAX_PAGE);
        let plan = Plan::of(query);
        self.ask(|view| {
            let found = view.search(&plan, query.before.unwrap_or(u64::MAX), limit)?;
            let (records, next) = found.finish();
            Ok(Page { records: view.with_events(records)?, next })
        })
    }

    fn find(&self, id: &MessageId) -> Result<Vec<StoredRecord>, ReadError> {
        self.ask(|view| view.with_events(view.records_of(*id)?))
    }

    fn after(&self, seq: u64, limit: usize) -> Result<Vec<Box<RawValue>>, ReadError> {
        self.ask(|view| view.lines_above(seq, limit.clamp(1, MAX_PAGE)))
    }

    fn verify(&self, known: &[Head]) -> Result<Verified, VerifyError> {
        let known = with_noted(&self.shared.state_dir, known)?;
        loop {
            let View { tail, index, .. } = self.view()?;
            let floor = index.floor().map_err(ReadError::from)?;
            let verdict = verify_open(&self.shared.state_dir, &index, &tail, &known);
            // Old blocks that were removed while we read are no fault; they go once a day.
            if verdict.is_ok() || index.floor().map_err(ReadError::from)? == floor {
                return verdict;
            }
        }
    }

    fn head(&self) -> Head {
        self.shared.tail().head
    }
}
