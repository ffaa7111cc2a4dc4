//! The committed lines that sled does not hold yet.
//!
//! It is both what readers see before the indexer has caught up and the queue the
//! indexer works from. The committing side only ever adds to it: when the indexer
//! falls behind and the bytes held grow past their limit, the oldest batches forget
//! their bytes and keep only where their lines lie in the log, to read them from there.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use chrono::NaiveDate;

use crate::ReadError;
use crate::index::Index;
use crate::index::terms::BatchTerms;
use crate::record::batch::{Batch, Entry};
use crate::record::chain::Head;
use crate::recovery::checkpoint::PendingCheckpoint;
use crate::segment::plain_path;

/// Bytes of batches held in memory before the oldest are forgotten.
pub(crate) const HELD_BYTES: usize = 32 << 20;

/// The index as readers find it.
enum IndexHandle {
    Open(Arc<Index>),
    /// It failed and is being reopened.
    Retired,
    /// The journal is closed: a reader left over keeps no lock on sled.
    Closed,
}

/// What the committing side, the indexer and readers share.
pub(crate) struct SharedJournal {
    pub state_dir: PathBuf,
    /// The folder of day files.
    pub dir: PathBuf,
    tail: Mutex<Tail>,
    pub wake: Condvar,
    /// Notified when a checkpoint is stored.
    pub settled: Condvar,
    /// The only lasting handle: sled's lock is free when this one and those of readers at work are
    /// gone.
    index: RwLock<IndexHandle>,
    /// Why the index takes no lines at the moment.
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
            held: 0,
            forgotten: 0,
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
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn index(&self) -> Result<Arc<Index>, ReadError> {
        match &*self.index.read().unwrap_or_else(PoisonError::into_inner) {
            IndexHandle::Open(index) => Ok(Arc::clone(index)),
            IndexHandle::Retired => Err(ReadError::Reopening),
            IndexHandle::Closed => Err(ReadError::Closed),
        }
    }

    /// Readers get this index from now on.
    pub fn publish_index(&self, index: Index) {
        self.set_index(IndexHandle::Open(Arc::new(index)));
    }

    /// Gives up an index that failed, for a new one to be opened.
    pub fn retire_index(&self) {
        self.set_index(IndexHandle::Retired);
    }

    pub fn close_index(&self) {
        self.set_index(IndexHandle::Closed);
    }

    fn set_index(&self, handle: IndexHandle) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *index, handle);
        drop(index);
        // Outside the lock: closing sled may take a while.
        drop(before);
    }

    /// Why the index takes no lines at the moment; `None` when it does.
    pub fn fault(&self) -> Option<Arc<str>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether there was a fault before.
    pub fn set_fault(&self, fault: Option<Arc<str>>) -> bool {
        let mut held = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, fault).is_some()
    }

    /// Adds a committed batch, and a checkpoint if one is due.
    pub fn push(
        &self,
        batch: Batch,
        bytes: &[u8],
        marks: BatchTerms,
        head: Head,
        checkpoint: Option<PendingCheckpoint>,
    ) {
        let (len, bytes) = (bytes.len(), Some(bytes.into()));
        let slot = Slot { batch: Arc::new(batch), len, bytes, marks: Arc::new(marks) };
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

/// How the indexer is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Store everything first.
    Finish,
    /// Leave the rest to recovery.
    Abandon,
}

/// The queue itself.
pub(crate) struct Tail {
    pub head: Head,
    pub slots: VecDeque<Slot>,
    /// The last line sled holds.
    pub indexed: u64,
    /// Lines after it.
    pub lines: usize,
    held: usize,
    /// How many slots at the front have forgotten their bytes.
    forgotten: usize,
    pub checkpoint: Option<PendingCheckpoint>,
    /// Number and day of the line whose checkpoint was stored last.
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
        self.held += slot.len;
        self.slots.push_back(slot);
        while self.held > held_limit
            && let Some(slot) = self.slots.get_mut(self.forgotten)
        {
            slot.forget();
            self.held -= slot.len;
            self.forgotten += 1;
        }
    }

    /// Notes that sled now holds `lines` more lines, up to `last`.
    pub fn indexed(&mut self, last: u64, lines: usize) {
        self.indexed = last;
        self.lines = self.lines.saturating_sub(lines);
        while let Some(slot) = self.slots.front()
            && slot.last() <= last
        {
            match &slot.bytes {
                Some(_) => self.held -= slot.len,
                None => self.forgotten -= 1,
            }
            self.slots.pop_front();
        }
    }
}

/// One batch; its bytes are in memory or only in the log.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub batch: Arc<Batch>,
    len: usize,
    bytes: Option<Arc<[u8]>>,
    /// Of its records, while there are bytes: what is read from the log is read wholly.
    pub marks: Arc<BatchTerms>,
}

impl Slot {
    /// `len` bytes of lines; without `bytes` they are read from the log when they are wanted.
    pub fn new(batch: Arc<Batch>, len: usize, bytes: Option<Arc<[u8]>>) -> Self {
        Self { batch, len, bytes, marks: Arc::default() }
    }

    /// Keeps only where the lines lie. BatchTerms are small beside the bytes, and go with them so that
    /// those of an indexer that has fallen behind do not grow without bound.
    fn forget(&mut self) {
        self.bytes = None;
        self.marks = Arc::default();
    }

    pub fn first(&self) -> u64 {
        self.batch.entries.first().map_or(u64::MAX, |entry| entry.seq)
    }

    pub fn last(&self) -> u64 {
        self.batch.entries.last().map_or(0, |entry| entry.seq)
    }

    /// All its bytes.
    pub fn bytes(&self, dir: &Path) -> io::Result<Arc<[u8]>> {
        match &self.bytes {
            Some(bytes) => Ok(Arc::clone(bytes)),
            None => Ok(self.read(dir, 0, self.len)?.into()),
        }
    }

    /// One of its lines, without the newline. Only that line is read: a reader must not
    /// bring back into memory all that was forgotten.
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
        let mut marks = BatchTerms::default();
        marks.add(&MessageRecord {
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
        Slot { marks: Arc::new(marks), ..Slot::new(batch, 8, Some(Arc::new([0; 8]))) }
    }

    #[test]
    fn marks_are_forgotten_with_the_bytes() {
        let mut tail = Tail {
            head: Head::START,
            slots: VecDeque::new(),
            indexed: 0,
            lines: 0,
            held: 0,
            forgotten: 0,
            checkpoint: None,
            stored: None,
            stop: None,
        };
        for seq in 1..=3 {
            tail.push(slot(seq), Head::START, 8);
        }
        let held = tail.slots.iter().map(|slot| (slot.bytes.is_some(), slot.marks.iter().count()));
        assert_eq!(held.collect::<Vec<_>>(), [(false, 0), (false, 0), (true, 1)]);
    }
}
