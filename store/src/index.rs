//! sled: blocks of lines, their metadata, which blocks hold whose events, and the checkpoint.
//!
//! Nothing here is the truth. A block counts once its metadata is written, which
//! happens last; whatever else a crash leaves behind is overwritten when the log is
//! read again.

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::batch::entries;
use crate::block::{Block, Builder, Meta};
use crate::{ReadError, Seen};

/// sled's page cache. Reads are of whole blocks and rare, so it stays small.
const CACHE_BYTES: u64 = 64 << 20;
/// Opened blocks kept for the next reader: a page and its neighbour share most of them.
const OPENED: usize = 8;
/// No block is larger when opened; a damaged length must not exhaust memory.
const MAX_BLOCK: usize = 1 << 30;
/// sled frees its lock a moment after it was dropped, and so may a server that is stopping.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

const CHECKPOINT: &[u8] = b"checkpoint";

/// Why the index cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    #[error("locked")]
    Locked,
    #[error("damaged")]
    Damaged,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<sled::Error> for IndexError {
    fn from(error: sled::Error) -> Self {
        match error {
            sled::Error::Io(error) => Self::Io(error),
            _ => Self::Damaged,
        }
    }
}

/// The open index.
pub(crate) struct Index {
    db: sled::Db,
    blocks: sled::Tree,
    metas: sled::Tree,
    events: sled::Tree,
    control: sled::Tree,
    /// Every block, oldest first: 8 bytes a line would be too many, 1/512 of it is nothing.
    known: RwLock<Vec<Meta>>,
    opened: Mutex<VecDeque<(u64, Arc<Block>)>>,
}

impl Index {
    /// Opens the index and lists the messages its blocks hold.
    pub fn open(path: &Path) -> Result<(Self, Vec<Seen>), IndexError> {
        wait_for_lock(path)?;
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(CACHE_BYTES)
            .mode(sled::Mode::HighThroughput)
            // Flushed where the journal says so; losing the newest blocks costs nothing.
            .flush_every_ms(None);
        // On some damage sled panics instead of saying so.
        let db =
            catch_unwind(AssertUnwindSafe(|| config.open())).map_err(|_| IndexError::Damaged)??;
        let index = Self {
            blocks: db.open_tree("blocks")?,
            metas: db.open_tree("metas")?,
            events: db.open_tree("events")?,
            control: db.open_tree("control")?,
            db,
            known: RwLock::default(),
            opened: Mutex::default(),
        };
        let seen = index.load()?;
        Ok((index, seen))
    }

    fn load(&self) -> Result<Vec<Seen>, IndexError> {
        let mut known: Vec<Meta> = Vec::new();
        let mut seen = Vec::new();
        for item in &self.metas {
            let (key, value) = item?;
            let listed = seen.len();
            let before = known.last().map_or(0, |meta| meta.last.seq);
            match Meta::read(&key, &value, &mut seen) {
                Some(meta) if meta.before == before => known.push(meta),
                // A hole: what follows it is read from the log again.
                _ => {
                    seen.truncate(listed);
                    break;
                }
            }
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(seen)
    }

    /// The last indexed line and where it ends in the log.
    pub fn last(&self) -> Option<Meta> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).last().copied()
    }

    pub fn last_seq(&self) -> u64 {
        self.last().map_or(0, |meta| meta.last.seq)
    }

    /// Stores the gathered lines as one block.
    pub fn write(
        &self,
        builder: &Builder,
        compressor: &mut zstd::bulk::Compressor<'static>,
    ) -> Result<(), io::Error> {
        let Some(meta) = builder.meta(self.last_seq()) else { return Ok(()) };
        let key = meta.first.to_be_bytes();
        let mut pairs = sled::Batch::default();
        let mut previous = None;
        for &of in &builder.of {
            let block = self.block_of(of).map(|block| block.first);
            // A reader always looks into the record's own block.
            if block != previous
                && let Some(block) = block
            {
                pairs.insert([block.to_be_bytes(), key].concat(), &[]);
            }
            previous = block;
        }
        let mut value =
            Vec::with_capacity(zstd::zstd_safe::compress_bound(builder.bytes.len()) + 4);
        value.extend_from_slice(&(builder.bytes.len() as u32).to_be_bytes());
        value.extend_from_slice(&compressor.compress(&builder.bytes)?);
        self.events.apply_batch(pairs)?;
        self.blocks.insert(key, value)?;
        self.metas.insert(key, meta.write(&builder.seen))?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).push(meta);
        Ok(())
    }

    /// The block in whose range a line lies.
    pub fn block_of(&self, seq: u64) -> Option<Meta> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let at = known.partition_point(|meta| meta.first <= seq).checked_sub(1)?;
        known.get(at).filter(|meta| seq <= meta.last.seq).copied()
    }

    /// The newest block with records that begins below `seq`.
    pub fn block_below(&self, seq: u64) -> Option<Meta> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let end = known.partition_point(|meta| meta.first < seq);
        known[..end].iter().rev().find(|meta| meta.records > 0).copied()
    }

    /// Opens a block.
    pub fn block(&self, first: u64) -> Result<Arc<Block>, ReadError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = opened.iter().position(|(key, _)| *key == first)
            && let Some(hit) = opened.remove(at)
        {
            let block = Arc::clone(&hit.1);
            opened.push_front(hit);
            return Ok(block);
        }
        drop(opened);
        let damaged = ReadError::Damaged { block: first };
        let Some(value) = self.blocks.get(first.to_be_bytes())? else { return Err(damaged) };
        let Some((len, packed)) = value.split_first_chunk() else { return Err(damaged) };
        let len = u32::from_be_bytes(*len) as usize;
        if len > MAX_BLOCK {
            return Err(damaged);
        }
        let Ok(bytes) = zstd::bulk::decompress(packed, len) else { return Err(damaged) };
        let block = Arc::new(Block { entries: entries(&bytes), bytes });
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.truncate(OPENED - 1);
        opened.push_front((first, Arc::clone(&block)));
        Ok(block)
    }

    /// The blocks that may hold events of records in the block that begins at `first`.
    pub fn blocks_with_events_of(&self, first: u64) -> Result<Vec<u64>, ReadError> {
        let mut found = vec![first];
        for key in self.events.scan_prefix(first.to_be_bytes()).keys() {
            let key = key?;
            let block = key.get(8..16).and_then(|key| key.try_into().ok());
            let block = u64::from_be_bytes(block.ok_or(ReadError::Damaged { block: first })?);
            // A pair a crash left behind may name a block that never came to be.
            found.extend(self.block_of(block).filter(|meta| meta.first == block).map(|_| block));
        }
        found.dedup();
        Ok(found)
    }

    pub fn checkpoint(&self) -> Result<Option<sled::IVec>, sled::Error> {
        self.control.get(CHECKPOINT)
    }

    /// Stores a checkpoint and hands everything to the kernel.
    pub fn set_checkpoint(&self, value: Vec<u8>) -> Result<(), io::Error> {
        self.control.insert(CHECKPOINT, value)?;
        self.db.flush()?;
        Ok(())
    }
}

/// sled reports a lock only as text, so its file is tried first.
fn wait_for_lock(path: &Path) -> Result<(), IndexError> {
    let file = match File::open(path.join("db")) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file.unlock()?),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    Err(IndexError::Locked)
}
