//! Index of the journal: a projection of the log in sled, for lookups and searches.
//!
//! # Constraints
//! - The log is the source of truth. The index may be deleted, and the next start rebuilds it. Only
//!   with `keep_jsonl = false` does it hold the last copy of closed days.
//! - Commits never wait for the index. Records wait in the [`tail`] until its thread stores them.
//! - sled costs about the same for each key, whatever the size of the value. So records are stored in
//!   compressed [`block`]s of up to 512, split into [`chunks`] that keep the cache of sled small.
//!
//! # On-disk layout
//! ```text
//! data/a2a-journal/   sled, with these trees
//!   blocks    first record, chunk  ─▶ compressed records of the block
//!   seen      first record, chunk  ─▶ dedup entries of the block's accepted messages
//!   metas     first record         ─▶ BlockMeta and BlockSummary (times, kinds, outcomes, bloom filter)
//!   events    block of a message, block with its events ─▶ (empty)
//!   control   checkpoint, floor (last removed record), proof (write probe)
//! ```
//!
//! # Writing
//! The [`indexer`] thread takes full blocks from the tail. A block is valid once its metadata is
//! written, which happens last. Other data that a crash leaves is overwritten or removed later. After
//! a write error sled accepts nothing more: [`reopen`] opens it again and fills it from the log.
//!
//! # Reading
//! All metadata is in memory. A search skips blocks whose summary excludes a match; [`facets`] and
//! [`terms`] are the two sources of a summary, the encoded record and the parsed message.
//!
//! # Deleting
//! [`Index::remove_up_to`] writes the floor first and removes the metadata of a block last, so that an
//! interrupted removal is finished at the next start.

pub(crate) mod block;
pub(crate) mod block_reader;
pub(crate) mod block_summary;
pub(crate) mod bloom;
mod chunks;
pub(crate) mod facets;
pub(crate) mod indexer;
mod load;
pub(crate) mod reopen;
pub(crate) mod tail;
pub(crate) mod terms;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, TryLockError};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::NaiveDate;
use parking_lot::{Mutex, RwLock};

use crate::formats::newer_index;
use crate::index::block::{Block, BlockBuilder, BlockMeta};
use crate::index::block_summary::BlockSummary;
use crate::retention::DaySummary;
use crate::{DedupEntry, OpenError, ReadError, file_mode};
use block_reader::BlockReader;

/// Page cache of sled. Reads are rare and of whole blocks, so that it stays small.
const CACHE_BYTES: u64 = 16 << 20;
/// Decompressed blocks in the cache: a page and the next one share most of them.
const OPENED: usize = 8;
/// sled releases its lock shortly after the drop; so does a server that is stopping.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

const CHECKPOINT: &[u8] = b"checkpoint";
/// Key of the number of the last removed record.
const FLOOR: &[u8] = b"floor";
/// Key that is written to test whether sled accepts writes; never read.
const WRITE_PROBE: &[u8] = b"proof";

/// Why the index cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    #[error("locked")]
    Locked,
    #[error("damaged")]
    Damaged,
    #[error("written by a newer version")]
    Newer(u8),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl IndexError {
    /// The error of opening the journal with the index at `path`. Damage is [`ReadError::Damaged`].
    pub fn at(self, path: &Path) -> OpenError {
        match self {
            Self::Locked => OpenError::Locked { path: path.to_owned() },
            Self::Damaged => ReadError::Damaged { block: 0 }.into(),
            Self::Newer(found) => newer_index(path, found).into(),
            Self::Io(source) => source.into(),
        }
    }
}

impl From<sled::Error> for IndexError {
    fn from(error: sled::Error) -> Self {
        match error {
            // sled keeps large values in separate files. One that is missing or short is damage,
            // and the log has the records.
            sled::Error::Io(error) if is_damage(&error) => Self::Damaged,
            sled::Error::Io(error) => Self::Io(error),
            _ => Self::Damaged,
        }
    }
}

/// Whether an error means that stored data is missing, rather than that the disk fails.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | UnexpectedEof | InvalidData)
}

/// The open index.
pub(crate) struct Index {
    db: sled::Db,
    /// The records of each block, in chunks. Older versions stored a block as one value, under the
    /// number of its first record.
    blocks: sled::Tree,
    /// The dedup entries of each block, in chunks. Older versions stored them in the metadata.
    seen: sled::Tree,
    metas: sled::Tree,
    events: sled::Tree,
    control: sled::Tree,
    /// Every block, oldest first. A summary takes about 2 bytes for each term, so that a million
    /// messages need about 6 MB.
    metadata: RwLock<Vec<(BlockMeta, BlockSummary)>>,
    opened: Mutex<VecDeque<(u64, Arc<Block>)>>,
    /// Whether there are blocks behind a missing one. Their records are read from the log again.
    has_hole: bool,
}

impl Index {
    /// Opens the index and lists the accepted messages of its blocks.
    pub fn open(path: &Path) -> Result<(Self, Vec<DedupEntry>), IndexError> {
        let db = open_sled(path)?;
        let mut index = Self {
            blocks: db.open_tree("blocks")?,
            seen: db.open_tree("seen")?,
            metas: db.open_tree("metas")?,
            events: db.open_tree("events")?,
            control: db.open_tree("control")?,
            db,
            metadata: RwLock::default(),
            opened: Mutex::default(),
            has_hole: false,
        };
        let seen;
        (seen, index.has_hole) = index.load()?;
        Ok((index, seen))
    }

    /// Number of the last removed record; 0 if none was removed.
    pub fn floor(&self) -> Result<u64, sled::Error> {
        let value = self.control.get(FLOOR)?;
        let floor =
            value.and_then(|value| Some(u64::from_be_bytes(value.as_ref().try_into().ok()?)));
        Ok(floor.unwrap_or(0))
    }

    /// Removes every block whose records are all up to `seq`.
    pub fn remove_up_to(&self, seq: u64) -> io::Result<()> {
        if seq > self.floor()? {
            // First, so that after a crash the missing blocks are no hole but an unfinished removal.
            self.control.insert(FLOOR, &seq.to_be_bytes())?;
        }
        let mut metadata = self.metadata.write();
        let end = metadata.partition_point(|(meta, _)| meta.last.seq <= seq);
        let removed: Vec<u64> = metadata.drain(..end).map(|(meta, _)| meta.first).collect();
        drop(metadata);
        for first in removed {
            self.remove_block(first)?;
        }
        Ok(())
    }

    /// What the index holds of each day.
    pub fn days(&self) -> BTreeMap<NaiveDate, DaySummary> {
        let mut days = BTreeMap::new();
        for (meta, sum) in self.metadata.read().iter() {
            let day = days.entry(meta.end.day).or_insert(DaySummary {
                first: meta.first,
                last: meta.last,
                lines: 0,
                stored: 0,
                straddles: u64::from(sum.size) > meta.end.offset,
                file: None,
            });
            day.last = meta.last;
            day.lines += u64::from(meta.lines);
            day.stored += u64::from(sum.stored);
        }
        days
    }

    /// Writes everything to the kernel, without a sync.
    pub fn flush(&self) -> io::Result<()> {
        self.db.flush()?;
        Ok(())
    }

    /// Tests whether sled can write. It buffers writes, so that only a flush with something to write
    /// detects a failure.
    pub fn check_writable(&self) -> io::Result<()> {
        self.control.insert(WRITE_PROBE, &self.last_seq().to_be_bytes())?;
        self.flush()
    }

    /// Makes the content of sled durable: its own flush does not sync the files.
    pub fn sync(&self, state_dir: &Path) -> io::Result<()> {
        self.db.flush()?;
        let folder = state_dir.join("data/a2a-journal");
        let blobs = folder.join("blobs");
        let mut paths = vec![folder.join("db")];
        if blobs.is_dir() {
            // Large values, each in a file that sled does not sync.
            for blob in std::fs::read_dir(&blobs)? {
                paths.push(blob?.path());
            }
        }
        for path in paths.into_iter().chain([blobs, folder]) {
            match File::open(path).and_then(|file| file.sync_all()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn remove_block(&self, first: u64) -> Result<(), sled::Error> {
        // The metadata last: an interrupted removal is finished at the next start.
        for tree in [&self.events, &self.blocks, &self.seen, &self.metas] {
            chunks::remove(tree, first)?;
        }
        Ok(())
    }

    /// Removes the blocks behind a hole. Their records are indexed again from the log, in blocks that
    /// may begin elsewhere, and leftovers of the old blocks would make another hole.
    pub fn remove_stale_blocks(&self) -> io::Result<()> {
        if !self.has_hole {
            return Ok(());
        }
        let start = self.last().map_or(0, |meta| meta.first + 1);
        for tree in [&self.metas, &self.blocks, &self.seen, &self.events] {
            chunks::remove_from(tree, start)?;
        }
        Ok(())
    }

    /// The metadata of the newest block.
    pub fn last(&self) -> Option<BlockMeta> {
        self.metadata.read().last().map(|(meta, _)| *meta)
    }

    pub fn last_seq(&self) -> u64 {
        self.last().map_or(0, |meta| meta.last.seq)
    }

    /// Stores the gathered records as one block.
    pub fn write(
        &self,
        builder: &mut BlockBuilder,
        compressor: &mut zstd::bulk::Compressor<'static>,
    ) -> Result<(), io::Error> {
        let Some(meta) = builder.meta(self.last_seq()) else { return Ok(()) };
        let key = meta.first.to_be_bytes();
        let mut pairs = Vec::new();
        let mut previous = None;
        for &of in &builder.of {
            let block = self.block_of(of).map(|block| block.first);
            // A reader always searches the block of the message itself.
            if block != previous
                && let Some(block) = block
            {
                pairs.push([block.to_be_bytes(), key].concat());
            }
            previous = block;
        }
        let mut value =
            Vec::with_capacity(zstd::zstd_safe::compress_bound(builder.bytes.len()) + 4);
        value.extend_from_slice(&(builder.bytes.len() as u32).to_be_bytes());
        value.extend_from_slice(&compressor.compress(&builder.bytes)?);
        let mut summary = builder.summary();
        (summary.size, summary.stored) = (builder.bytes.len() as u32, value.len() as u32);
        for tree in [&self.blocks, &self.seen] {
            // Blocks are written in order, so that data at this key is left from a crash. It may have
            // more chunks than the new block.
            chunks::remove_from(tree, meta.first)?;
        }
        // One by one: a batch of sled ends by waking its threads. The pairs are valid only with the
        // metadata anyway.
        for pair in pairs {
            self.events.insert(pair, &[])?;
        }
        chunks::write(&self.blocks, meta.first, &value)?;
        self.write_meta(&meta, &summary, &builder.seen)?;
        self.metadata.write().push((meta, summary));
        Ok(())
    }

    /// Stores the dedup entries of a block and then its metadata, which makes the block valid.
    fn write_meta(
        &self,
        meta: &BlockMeta,
        summary: &BlockSummary,
        seen: &[DedupEntry],
    ) -> io::Result<()> {
        let mut listed = Vec::with_capacity(seen.len() * DedupEntry::SIZE);
        seen.iter().for_each(|seen| seen.push(&mut listed));
        chunks::write(&self.seen, meta.first, &listed)?;
        self.metas.insert(meta.first.to_be_bytes(), meta.write(summary, seen.len()))?;
        Ok(())
    }

    /// The block whose range includes a record.
    pub fn block_of(&self, seq: u64) -> Option<BlockMeta> {
        let metadata = self.metadata.read();
        let at = metadata.partition_point(|(meta, _)| meta.first <= seq).checked_sub(1)?;
        metadata.get(at).map(|(meta, _)| *meta).filter(|meta| seq <= meta.last.seq)
    }

    /// The newest block with messages that begins below `seq` and is `wanted`.
    pub fn block_below(
        &self,
        seq: u64,
        wanted: impl Fn(&BlockSummary) -> bool,
    ) -> Option<BlockMeta> {
        let metadata = self.metadata.read();
        let end = metadata.partition_point(|(meta, _)| meta.first < seq);
        let found =
            metadata[..end].iter().rev().find(|(meta, sum)| meta.records > 0 && wanted(sum));
        found.map(|(meta, _)| *meta)
    }

    /// The oldest block with a record above `seq` that is `wanted`.
    pub fn block_above(
        &self,
        seq: u64,
        wanted: impl Fn(&BlockSummary) -> bool,
    ) -> Option<BlockMeta> {
        let metadata = self.metadata.read();
        let start = metadata.partition_point(|(meta, _)| meta.last.seq <= seq);
        metadata[start..].iter().find(|(_, sum)| wanted(sum)).map(|(meta, _)| *meta)
    }

    /// A number such that every message record up to it is older than this time (milliseconds since
    /// 1970). Summaries do not cover the times of events: those before the first later message are in
    /// the block of the message before, or behind it.
    pub fn older_up_to(&self, ms: i64) -> u64 {
        let metadata = self.metadata.read();
        let has_records = |(meta, _): &(BlockMeta, BlockSummary)| meta.records > 0;
        let is_later =
            |entry: &(BlockMeta, BlockSummary)| has_records(entry) && entry.1.times.1 >= ms;
        let first = metadata.iter().position(is_later).unwrap_or(metadata.len());
        let before = metadata[..first].iter().rposition(has_records).unwrap_or(0);
        metadata.get(before).map_or(0, |(meta, _)| meta.first.saturating_sub(1))
    }

    /// Reads a block through the cache.
    pub fn block(&self, first: u64) -> Result<Arc<Block>, ReadError> {
        let mut opened = self.opened.lock();
        if let Some(at) = opened.iter().position(|(key, _)| *key == first)
            && let Some(hit) = opened.remove(at)
        {
            let block = Arc::clone(&hit.1);
            opened.push_front(hit);
            return Ok(block);
        }
        drop(opened);
        let mut reader = BlockReader::new()?;
        self.read_block(first, &mut reader)?;
        let block = Arc::new(reader.block);
        let mut opened = self.opened.lock();
        opened.truncate(OPENED - 1);
        opened.push_front((first, Arc::clone(&block)));
        Ok(block)
    }

    /// Reads a block into the buffers of `reader`, for callers that read many.
    pub fn read_block(&self, first: u64, reader: &mut BlockReader) -> Result<(), ReadError> {
        reader.stored.clear();
        chunks::read(&self.blocks, first, &mut reader.stored)?;
        if reader.stored.is_empty()
            && let Some(whole) = self.blocks.get(first.to_be_bytes())?
        {
            reader.stored.extend_from_slice(&whole);
        }
        if reader.open().is_some() {
            return Ok(());
        }
        // A block removed since its metadata was read counts as empty, although some of its chunks
        // may still exist.
        if first <= self.floor()? { Ok(()) } else { Err(ReadError::Damaged { block: first }) }
    }

    /// The blocks that may contain events of messages in the block that begins at `first`.
    pub fn blocks_with_events_of(&self, first: u64) -> Result<Vec<u64>, ReadError> {
        let mut found = vec![first];
        for key in self.events.scan_prefix(first.to_be_bytes()).keys() {
            let key = key?;
            let block = key.get(8..16).and_then(|key| key.try_into().ok());
            let block = u64::from_be_bytes(block.ok_or(ReadError::Damaged { block: first })?);
            // A pair left by a crash may name a block that was never completed.
            found.extend(self.block_of(block).filter(|meta| meta.first == block).map(|_| block));
        }
        found.dedup();
        Ok(found)
    }

    pub fn checkpoint(&self) -> Result<Option<sled::IVec>, sled::Error> {
        self.control.get(CHECKPOINT)
    }

    /// Stores a checkpoint and writes everything to the kernel.
    pub fn set_checkpoint(&self, value: Vec<u8>) -> Result<(), io::Error> {
        self.control.insert(CHECKPOINT, value)?;
        self.db.flush()?;
        Ok(())
    }
}

fn open_sled(path: &Path) -> Result<sled::Db, IndexError> {
    let config = sled::Config::new()
        .path(path)
        .cache_capacity(CACHE_BYTES)
        .mode(sled::Mode::HighThroughput)
        // The journal flushes explicitly; lost blocks are restored from the log.
        .flush_every_ms(None);
    // sled creates files with the default mode: the mode of the folder keeps other users out.
    file_mode::create_dir_all(path)?;
    let mut refused = IndexError::Locked;
    for _ in 0..LOCK_TRIES {
        // sled reports a lock only as text, so the lock of its file is tested first.
        if is_locked(path)? {
            refused = IndexError::Locked;
        } else {
            // On some damage sled panics instead of returning an error.
            let opened = catch_unwind(AssertUnwindSafe(|| config.open()));
            match opened.map_err(|_| IndexError::Damaged)? {
                Ok(db) => return Ok(db),
                // Another process may have locked it since, or is testing the lock.
                Err(sled::Error::Io(error)) if error.kind() == io::ErrorKind::Other => {
                    refused = IndexError::Io(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(refused)
}

fn is_locked(path: &Path) -> io::Result<bool> {
    let file = match File::open(path.join("db")) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
