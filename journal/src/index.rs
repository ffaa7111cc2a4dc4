//! sled: blocks of lines, their metadata, which blocks hold whose events, and the checkpoint.
//!
//! Nothing here is the truth. A block counts once its metadata is written, which
//! happens last, and until its metadata is removed, which happens last too; whatever else a
//! crash leaves behind is removed or overwritten when the log is read again.

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
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use chrono::NaiveDate;

use crate::index::block::{Block, BlockBuilder, BlockMeta};
use crate::index::block_summary::BlockSummary;
use crate::retention::Day;
use crate::{DedupEntry, ReadError, file_mode};
use block_reader::BlockReader;

/// sled's page cache. Reads are of whole blocks and rare, so it stays small.
const CACHE_BYTES: u64 = 16 << 20;
/// Opened blocks kept for the next reader: a page and its neighbour share most of them.
const OPENED: usize = 8;
/// sled frees its lock a moment after it was dropped, and so may a server that is stopping.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

const CHECKPOINT: &[u8] = b"checkpoint";
/// Number of the last line whose block was removed for its age.
const FLOOR: &[u8] = b"floor";
/// Written to see whether that is possible; never read.
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

impl From<sled::Error> for IndexError {
    fn from(error: sled::Error) -> Self {
        match error {
            // sled keeps large values in files of their own; one that is gone or short is damage,
            // and the log has everything.
            sled::Error::Io(error) if is_damage(&error) => Self::Damaged,
            sled::Error::Io(error) => Self::Io(error),
            _ => Self::Damaged,
        }
    }
}

/// Whether an error says that what was written is not there, and not that the disk refuses.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | UnexpectedEof | InvalidData)
}

/// The open index.
pub(crate) struct Index {
    db: sled::Db,
    /// The lines of each block, in chunks. Blocks of older versions lie there whole, under the
    /// number of their first line alone.
    blocks: sled::Tree,
    /// The accepted messages of each block, in chunks. Older versions had them in the metadata.
    seen: sled::Tree,
    metas: sled::Tree,
    events: sled::Tree,
    control: sled::Tree,
    /// Every block, oldest first. A summary takes about 2 bytes for each of its terms,
    /// so a million messages make some 6 MB.
    known: RwLock<Vec<(BlockMeta, BlockSummary)>>,
    opened: Mutex<VecDeque<(u64, Arc<Block>)>>,
    /// Whether blocks lie behind a hole: their lines are read from the log again.
    has_hole: bool,
}

impl Index {
    /// Opens the index and lists the messages its blocks hold.
    pub fn open(path: &Path) -> Result<(Self, Vec<DedupEntry>), IndexError> {
        let db = open_sled(path)?;
        let mut index = Self {
            blocks: db.open_tree("blocks")?,
            seen: db.open_tree("seen")?,
            metas: db.open_tree("metas")?,
            events: db.open_tree("events")?,
            control: db.open_tree("control")?,
            db,
            known: RwLock::default(),
            opened: Mutex::default(),
            has_hole: false,
        };
        let seen;
        (seen, index.has_hole) = index.load()?;
        Ok((index, seen))
    }

    /// Number of the last line that was removed for its age; 0 when none was.
    pub fn floor(&self) -> Result<u64, sled::Error> {
        let value = self.control.get(FLOOR)?;
        let floor =
            value.and_then(|value| Some(u64::from_be_bytes(value.as_ref().try_into().ok()?)));
        Ok(floor.unwrap_or(0))
    }

    /// Removes every block whose lines all have this number or a lower one.
    pub fn remove_up_to(&self, seq: u64) -> io::Result<()> {
        if seq > self.floor()? {
            // First, so that a crash in between leaves no hole but work to be finished.
            self.control.insert(FLOOR, &seq.to_be_bytes())?;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let end = known.partition_point(|(meta, _)| meta.last.seq <= seq);
        let gone: Vec<u64> = known.drain(..end).map(|(meta, _)| meta.first).collect();
        drop(known);
        for first in gone {
            self.remove_block(first)?;
        }
        Ok(())
    }

    /// What sled holds of each day.
    pub fn days(&self) -> BTreeMap<NaiveDate, Day> {
        let mut days = BTreeMap::new();
        for (meta, sum) in self.known.read().unwrap_or_else(PoisonError::into_inner).iter() {
            let day = days.entry(meta.end.day).or_insert(Day {
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

    /// Hands everything to the kernel.
    pub fn flush(&self) -> io::Result<()> {
        self.db.flush()?;
        Ok(())
    }

    /// Whether sled can be written: it accepts more than it has written, and without anything to
    /// write it would say yes.
    pub fn check_writable(&self) -> io::Result<()> {
        self.control.insert(WRITE_PROBE, &self.last_seq().to_be_bytes())?;
        self.flush()
    }

    /// Makes what sled holds durable: its own flush stops short of the disk.
    pub fn sync(&self, state_dir: &Path) -> io::Result<()> {
        self.db.flush()?;
        let folder = state_dir.join("data/a2a-journal");
        let blobs = folder.join("blobs");
        let mut paths = vec![folder.join("db")];
        if blobs.is_dir() {
            // Large values, each in a file that sled does not sync either.
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
        // The metadata last: what a crash interrupts is finished at the next start.
        for tree in [&self.events, &self.blocks, &self.seen, &self.metas] {
            chunks::remove(tree, first)?;
        }
        Ok(())
    }

    /// Removes what lies behind a hole. The log must have its lines: they are stored anew, in
    /// blocks that may begin elsewhere, and what is left of the old ones would be a hole again.
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

    /// The last indexed line and where it ends in the log.
    pub fn last(&self) -> Option<BlockMeta> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).last().map(|(meta, _)| *meta)
    }

    pub fn last_seq(&self) -> u64 {
        self.last().map_or(0, |meta| meta.last.seq)
    }

    /// Stores the gathered lines as one block.
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
            // A reader always looks into the record's own block.
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
            // Blocks are written in order, so what lies there a crash has left; it may have more
            // chunks than there will be now.
            chunks::remove_from(tree, meta.first)?;
        }
        // One by one: sled ends a batch by sending its log to its threads. They count with the metadata.
        for pair in pairs {
            self.events.insert(pair, &[])?;
        }
        chunks::write(&self.blocks, meta.first, &value)?;
        self.write_meta(&meta, &summary, &builder.seen)?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).push((meta, summary));
        Ok(())
    }

    /// Stores the messages of a block and then its metadata, which makes it count.
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

    /// The block in whose range a line lies.
    pub fn block_of(&self, seq: u64) -> Option<BlockMeta> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let at = known.partition_point(|(meta, _)| meta.first <= seq).checked_sub(1)?;
        known.get(at).map(|(meta, _)| *meta).filter(|meta| seq <= meta.last.seq)
    }

    /// The newest block that begins below `seq`, has records and may be wanted.
    pub fn block_below(
        &self,
        seq: u64,
        wanted: impl Fn(&BlockSummary) -> bool,
    ) -> Option<BlockMeta> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let end = known.partition_point(|(meta, _)| meta.first < seq);
        let found = known[..end].iter().rev().find(|(meta, sum)| meta.records > 0 && wanted(sum));
        found.map(|(meta, _)| *meta)
    }

    /// The oldest block with a line above `seq` that may be wanted.
    pub fn block_above(
        &self,
        seq: u64,
        wanted: impl Fn(&BlockSummary) -> bool,
    ) -> Option<BlockMeta> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let start = known.partition_point(|(meta, _)| meta.last.seq <= seq);
        known[start..].iter().find(|(_, sum)| wanted(sum)).map(|(meta, _)| *meta)
    }

    /// A line such that every record up to it is older than this moment. Summaries know no
    /// times of events: those just before the first record are in the block with the record
    /// before it, or behind that.
    pub fn older_up_to(&self, ms: i64) -> u64 {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let has_records = |(meta, _): &(BlockMeta, BlockSummary)| meta.records > 0;
        let is_later =
            |entry: &(BlockMeta, BlockSummary)| has_records(entry) && entry.1.times.1 >= ms;
        let first = known.iter().position(is_later).unwrap_or(known.len());
        let before = known[..first].iter().rposition(has_records).unwrap_or(0);
        known.get(before).map_or(0, |(meta, _)| meta.first.saturating_sub(1))
    }

    /// Opens a block and keeps it for the next reader.
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
        let mut reader = BlockReader::new()?;
        self.read_block(first, &mut reader)?;
        let block = Arc::new(reader.block);
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.truncate(OPENED - 1);
        opened.push_front((first, Arc::clone(&block)));
        Ok(block)
    }

    /// Opens a block into the memory of the one before; for those who read many.
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
        // One that was removed for its age since the reader learned of it has no lines, though
        // some of its chunks may still be there.
        if first <= self.floor()? { Ok(()) } else { Err(ReadError::Damaged { block: first }) }
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

fn open_sled(path: &Path) -> Result<sled::Db, IndexError> {
    let config = sled::Config::new()
        .path(path)
        .cache_capacity(CACHE_BYTES)
        .mode(sled::Mode::HighThroughput)
        // Flushed where the journal says so; losing the newest blocks costs nothing.
        .flush_every_ms(None);
    // sled makes its files as the process makes files: the folder keeps others out.
    file_mode::create_dir_all(path)?;
    let mut refused = IndexError::Locked;
    for _ in 0..LOCK_TRIES {
        // sled reports a lock only as text, so its file is tried first.
        if is_locked(path)? {
            refused = IndexError::Locked;
        } else {
            // On some damage sled panics instead of saying so.
            let opened = catch_unwind(AssertUnwindSafe(|| config.open()));
            match opened.map_err(|_| IndexError::Damaged)? {
                Ok(db) => return Ok(db),
                // Perhaps somebody else was quicker, or just looked whether it is locked.
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
