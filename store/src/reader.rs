//! Reading the journal on disk: first what sled does not hold yet, then sled.
//!
//! In that order, because a line is stored in sled before it leaves the tail: looked
//! for the other way round it could be missed in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::batch::{Entry, Kind};
use crate::index::Index;
use crate::read::{MAX_PAGE, raw};
use crate::tail::{Shared, Slot};
use crate::{Head, Page, Read, ReadError, StoredRecord};

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
}

impl View<'_> {
    /// The first line of the tail; everything below it is in sled.
    fn tail_start(&self) -> u64 {
        let first = self.tail.first().and_then(|slot| slot.batch.entries.first());
        first.map_or(u64::MAX, |entry| entry.seq)
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

    /// Up to `limit` records below `before`, newest first, fewer when they are large.
    fn records(&self, before: u64, limit: usize) -> Result<Found, ReadError> {
        let mut found = Found { records: Vec::new(), limit, bytes: 0 };
        let mut below = before;
        for slot in self.tail.iter().rev() {
            let line = |entry: &Entry| Ok(slot.line(entry, self.dir)?);
            found.take(&slot.batch.entries, line, &mut below)?;
        }
        below = below.min(self.tail_start());
        while !found.is_full()
            && let Some(meta) = self.index.block_below(below)
        {
            let block = self.index.block(meta.first)?;
            let line = |entry: &Entry| Ok(entry.of(&block.bytes).to_vec());
            found.take(&block.entries, line, &mut below)?;
            below = below.min(meta.first);
        }
        Ok(found)
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
        let deliveries = |seq| events.remove(&seq).unwrap_or_default().into_values().collect();
        let complete = |(seq, line), deliveries| StoredRecord { seq, line, deliveries };
        let lists: Vec<_> = records.iter().map(|(seq, _)| *seq).map(deliveries).collect();
        Ok(records.into_iter().zip(lists).map(|(record, list)| complete(record, list)).collect())
    }
}

/// A page in the making.
struct Found {
    records: Vec<(u64, Box<RawValue>)>,
    limit: usize,
    bytes: usize,
}

impl Found {
    /// What a page may hold of lines, give or take one.
    const BYTES: usize = 8 << 20;

    fn is_full(&self) -> bool {
        self.records.len() >= self.limit || self.bytes >= Self::BYTES
    }

    fn take(
        &mut self,
        entries: &[Entry],
        line: impl Fn(&Entry) -> Result<Vec<u8>, ReadError>,
        below: &mut u64,
    ) -> Result<(), ReadError> {
        for entry in entries.iter().rev() {
            if !self.is_full() && entry.seq < *below && entry.kind == Kind::Record {
                let line = raw(line(entry)?)?;
                self.bytes += line.get().len();
                self.records.push((entry.seq, line));
                *below = entry.seq;
            }
        }
        Ok(())
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
        let view = self.view()?;
        let Some(line) = view.line(seq)? else { return Ok(None) };
        Ok(view.with_events(vec![(seq, line)])?.pop())
    }

    fn page(&self, before: Option<u64>, limit: usize) -> Result<Page, ReadError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let view = self.view()?;
        // One more than asked for tells whether there is a next page; so does a page cut short.
        let found = view.records(before.unwrap_or(u64::MAX), limit + 1)?;
        let more = found.is_full();
        let mut records = found.records;
        records.truncate(limit);
        let next = records.last().map(|(seq, _)| *seq).filter(|_| more);
        Ok(Page { records: view.with_events(records)?, next })
    }

    fn head(&self) -> Head {
        self.shared.tail().head
    }
}
