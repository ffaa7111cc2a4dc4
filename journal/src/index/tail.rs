//! Tail: the committed records that are not in the index yet.
//!
//! Readers take recent records from it, and it is the queue of the indexer. A commit never blocks on
//! it. When the indexer falls behind and the bytes exceed their limit, the oldest batches drop their
//! bytes and keep only the positions of their records, which are then read from the log.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::NaiveDate;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use crate::ReadError;
use crate::index::Index;
use crate::index::terms::BatchTerms;
use crate::record::batch::{Batch, Entry};
use crate::record::chain::Head;
use crate::recovery::checkpoint::PendingCheckpoint;
use crate::segment::plain_path;

/// Limit of the bytes in memory, from which on the oldest batches drop theirs.
pub(crate) const HELD_BYTES: usize = 32 << 20;

/// State of the index for readers.
enum IndexHandle {
    Open(Arc<Index>),
    /// Failed, and being reopened.
    Retired,
    /// The journal is closed. A remaining reader does not keep the lock of sled.
    Closed,
}

/// State shared by the commits, the indexer, the retention worker and readers.
pub(crate) struct SharedJournal {
    pub state_dir: PathBuf,
    /// The folder of segments.
    pub dir: PathBuf,
    tail: Mutex<Tail>,
    pub wake: Condvar,
    /// Notified when a checkpoint was stored.
    pub settled: Condvar,
    /// The only long-lived handle: the lock of sled is released once this one and those of running
    /// reads are dropped.
    index: RwLock<IndexHandle>,
    /// The error of a failed index; `None` while it works.
    fault: Mutex<Option<Arc<str>>>,
    held_limit: usize,
}

impl SharedJournal {
    pub fn new(
        state_dir: PathBuf,
        dir: PathBuf,
        head: Head,
        index: Index,
        held_limit: usize,
    ) -> Self {
        let tail = Tail {
            head,
            slots: VecDeque::new(),
            indexed: head.seq,
            lines: 0,
            bytes_in_memory: 0,
            without_bytes: 0,
            checkpoint: None,
            stored: None,
            stop: None,
        };
        let index = RwLock::new(IndexHandle::Open(Arc::new(index)));
        Self {
            state_dir,
            dir,
            tail: Mutex::new(tail),
            wake: Condvar::new(),
            settled: Condvar::new(),
            index,
            fault: Mutex::default(),
            held_limit,
        }
    }

    pub fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }

    pub fn index(&self) -> Result<Arc<Index>, ReadError> {
        match &*self.index.read() {
            IndexHandle::Open(index) => Ok(Arc::clone(index)),
            IndexHandle::Retired => Err(ReadError::Reopening),
            IndexHandle::Closed => Err(ReadError::Closed),
        }
    }

    /// Publishes a reopened index to readers.
    pub fn publish_index(&self, index: Index) {
        self.set_index(IndexHandle::Open(Arc::new(index)));
    }

    /// Drops a failed index, so that it can be opened again.
    pub fn retire_index(&self) {
        self.set_index(IndexHandle::Retired);
    }

    pub fn close_index(&self) {
        self.set_index(IndexHandle::Closed);
    }

    fn set_index(&self, handle: IndexHandle) {
        let mut index = self.index.write();
        let before = std::mem::replace(&mut *index, handle);
        drop(index);
        // Outside the lock: closing sled may take a while.
        drop(before);
    }

    /// The error of a failed index; `None` while it works.
    pub fn fault(&self) -> Option<Arc<str>> {
        self.fault.lock().clone()
    }

    /// Sets or clears the error; returns whether there was one before.
    pub fn set_fault(&self, fault: Option<Arc<str>>) -> bool {
        let mut held = self.fault.lock();
        std::mem::replace(&mut *held, fault).is_some()
    }

    /// Adds a committed batch, and a checkpoint if one is due.
    pub fn push(
        &self,
        batch: Batch,
        bytes: &[u8],
        terms: BatchTerms,
        head: Head,
        checkpoint: Option<PendingCheckpoint>,
    ) {
        let (len, bytes) = (bytes.len(), Some(bytes.into()));
        let slot = Slot { batch: Arc::new(batch), len, bytes, terms: Arc::new(terms) };
        let mut tail = self.tail();
        tail.push(slot, head, self.held_limit);
        if checkpoint.is_some() {
            tail.checkpoint = checkpoint;
        }
        if tail.has_work() {
            self.wake.notify_one();
        }
    }
}

/// How the indexer has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Store all records first.
    Finish,
    /// Leave the rest to recovery.
    Abandon,
}

/// The queue.
pub(crate) struct Tail {
    pub head: Head,
    pub slots: VecDeque<Slot>,
    /// Number of the last record in the index.
    pub indexed: u64,
    /// Number of records behind it.
    pub lines: usize,
    /// Bytes of the slots that have theirs in memory.
    bytes_in_memory: usize,
    /// Number of slots at the front that dropped their bytes.
    without_bytes: usize,
    pub checkpoint: Option<PendingCheckpoint>,
    /// Number and day of the record of the last stored checkpoint.
    pub stored: Option<(u64, NaiveDate)>,
    pub stop: Option<Stop>,
}

impl Tail {
    pub fn has_work(&self) -> bool {
        self.lines >= crate::index::block::LINES || self.checkpoint.is_some() || self.stop.is_some()
    }

    fn push(&mut self, slot: Slot, head: Head, held_limit: usize) {
        self.head = head;
        self.lines += slot.batch.entries.len();
        self.bytes_in_memory += slot.len;
        self.slots.push_back(slot);
        while self.bytes_in_memory > held_limit
            && let Some(slot) = self.slots.get_mut(self.without_bytes)
        {
            slot.drop_bytes();
            self.bytes_in_memory -= slot.len;
            self.without_bytes += 1;
        }
    }

    /// Removes `lines` records up to `last`, which are in the index now.
    pub fn remove_indexed(&mut self, last: u64, lines: usize) {
        self.indexed = last;
        self.lines = self.lines.saturating_sub(lines);
        while let Some(slot) = self.slots.front()
            && slot.last() <= last
        {
            match &slot.bytes {
                Some(_) => self.bytes_in_memory -= slot.len,
                None => self.without_bytes -= 1,
            }
            self.slots.pop_front();
        }
    }
}

/// One batch, with its bytes in memory or only in the log.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub batch: Arc<Batch>,
    len: usize,
    bytes: Option<Arc<[u8]>>,
    /// The terms of its messages, while it has bytes. Records from the log are parsed.
    pub terms: Arc<BatchTerms>,
}

impl Slot {
    /// A batch of `len` bytes; without `bytes` they are read from the log on demand.
    pub fn new(batch: Arc<Batch>, len: usize, bytes: Option<Arc<[u8]>>) -> Self {
        Self { batch, len, bytes, terms: Arc::default() }
    }

    /// Drops the bytes, and the terms, which are small but would grow without bound behind a slow
    /// indexer.
    fn drop_bytes(&mut self) {
        self.bytes = None;
        self.terms = Arc::default();
    }

    pub fn first(&self) -> u64 {
        self.batch.entries.first().map_or(u64::MAX, |entry| entry.seq)
    }

    pub fn last(&self) -> u64 {
        self.batch.entries.last().map_or(0, |entry| entry.seq)
    }

    /// The bytes of all records.
    pub fn bytes(&self, dir: &Path) -> io::Result<Arc<[u8]>> {
        match &self.bytes {
            Some(bytes) => Ok(Arc::clone(bytes)),
            None => Ok(self.read(dir, 0, self.len)?.into()),
        }
    }

    /// One record, without the newline. Only that record is read from the log: a reader must not
    /// load the whole batch into memory again.
    pub fn line(&self, entry: &Entry, dir: &Path) -> io::Result<Vec<u8>> {
        if let Some(bytes) = &self.bytes {
            return Ok(entry.of(bytes).to_vec());
        }
        self.read(dir, entry.start, entry.end.saturating_sub(entry.start + 1))
    }

    fn read(&self, dir: &Path, start: usize, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let file = File::open(plain_path(dir, self.batch.at.day))?;
        file.read_exact_at(&mut bytes, self.batch.at.offset + start as u64)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use a2a_protocol::{Kind, Outcome};

    use super::*;
    use crate::record::batch::LogPos;
    use crate::{MessageRecord, Received};

    fn slot(seq: u64) -> Slot {
        let message = Kind::Broadcast.example_message();
        let mut terms = BatchTerms::default();
        terms.add(&MessageRecord {
            seq,
            time: chrono::DateTime::UNIX_EPOCH,
            outcome: Outcome::Delivered,
            message_id: None,
            by: None,
            via: None,
            trace: None,
            received: Received::Json(Arc::default()),
            message: Some(Arc::new(message)),
            bytes: 0,
            took_us: 0,
            fingerprint: None,
            recipients: Arc::default(),
            reason: None,
            retry_after_ms: None,
            errors: Vec::new(),
            facts: Vec::new(),
        });
        let at = LogPos { day: NaiveDate::MIN, offset: 0 };
        let batch = Arc::new(Batch { at, entries: Vec::new(), seen: Vec::new() });
        Slot { terms: Arc::new(terms), ..Slot::new(batch, 8, Some(Arc::new([0; 8]))) }
    }

    #[test]
    fn marks_are_without_bytes_with_the_bytes() {
        let mut tail = Tail {
            head: Head::START,
            slots: VecDeque::new(),
            indexed: 0,
            lines: 0,
            bytes_in_memory: 0,
            without_bytes: 0,
            checkpoint: None,
            stored: None,
            stop: None,
        };
        for seq in 1..=3 {
            tail.push(slot(seq), Head::START, 8);
        }
        let held = tail.slots.iter().map(|slot| (slot.bytes.is_some(), slot.terms.iter().count()));
        assert_eq!(held.collect::<Vec<_>>(), [(false, 0), (false, 0), (true, 1)]);
    }
}
