//! The committed lines that sled does not hold yet.
//!
//! It is both what readers see before the indexer has caught up and the queue the
//! indexer works from. The committing side only ever adds to it: when the indexer
//! falls behind and the bytes held grow past their limit, the oldest batches forget
//! their bytes and keep only their place in the log, from where they are read again.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use crate::batch::{Batch, LogPos};
use crate::checkpoint::Packed;
use crate::hash::Head;
use crate::index::Index;
use crate::log::day_file;

/// Bytes of batches held in memory before the oldest are forgotten.
pub(crate) const HELD_BYTES: usize = 32 << 20;

/// What the committing side, the indexer and readers share.
pub(crate) struct Shared {
    pub dir: PathBuf,
    tail: Mutex<Tail>,
    pub wake: Condvar,
    /// Empty once the journal is closed, so that a reader left over keeps no lock on sled.
    pub index: RwLock<Option<Arc<Index>>>,
    held_limit: usize,
}

impl Shared {
    pub fn new(dir: PathBuf, head: Head, index: Index, held_limit: usize) -> Self {
        let tail = Tail {
            head,
            slots: VecDeque::new(),
            indexed: head.seq,
            lines: 0,
            held: 0,
            forgotten: 0,
            checkpoint: None,
            stop: None,
        };
        let index = RwLock::new(Some(Arc::new(index)));
        Self { dir, tail: Mutex::new(tail), wake: Condvar::new(), index, held_limit }
    }

    pub fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn index(&self) -> Option<Arc<Index>> {
        self.index.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a committed batch, and a checkpoint if one is due.
    pub fn push(&self, batch: Batch, head: Head, checkpoint: Option<Packed>) {
        let mut tail = self.tail();
        tail.push(batch, head, self.held_limit);
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
    pub checkpoint: Option<Packed>,
    pub stop: Option<Stop>,
}

impl Tail {
    pub fn has_work(&self) -> bool {
        self.lines >= crate::block::LINES || self.checkpoint.is_some() || self.stop.is_some()
    }

    fn push(&mut self, batch: Batch, head: Head, held_limit: usize) {
        self.head = head;
        self.lines += batch.entries.len();
        self.held += batch.bytes.len();
        self.slots.push_back(Slot {
            last: head.seq,
            at: batch.at,
            len: batch.bytes.len(),
            batch: Some(Arc::new(batch)),
        });
        while self.held > held_limit
            && let Some(slot) = self.slots.get_mut(self.forgotten)
        {
            slot.batch = None;
            self.held -= slot.len;
            self.forgotten += 1;
        }
    }

    /// Notes that sled now holds `lines` more lines, up to `last`.
    pub fn indexed(&mut self, last: u64, lines: usize) {
        self.indexed = last;
        self.lines = self.lines.saturating_sub(lines);
        while let Some(slot) = self.slots.front()
            && slot.last <= last
        {
            match &slot.batch {
                Some(_) => self.held -= slot.len,
                None => self.forgotten -= 1,
            }
            self.slots.pop_front();
        }
    }
}

/// One batch, in memory or only by its place.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub last: u64,
    at: LogPos,
    len: usize,
    batch: Option<Arc<Batch>>,
}

impl Slot {
    /// The batch, from the log if its bytes were forgotten.
    pub fn load(&self, dir: &Path) -> io::Result<Arc<Batch>> {
        if let Some(batch) = &self.batch {
            return Ok(Arc::clone(batch));
        }
        let mut bytes = vec![0; self.len];
        File::open(day_file(dir, self.at.day))?.read_exact_at(&mut bytes, self.at.offset)?;
        Ok(Arc::new(Batch::parse(self.at, bytes)))
    }
}
