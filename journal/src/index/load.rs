//! Loads the metadata of all blocks when the index is opened.
//!
//! It dominates the time to open a large journal: 32 bytes for each accepted message, and a few more
//! for the bloom filter of its block.

use std::thread::ScopedJoinHandle;

use super::block_reader::BlockReader;
use super::{Index, IndexError, chunks};
use crate::index::block::{BlockMeta, LINES, StoredMeta};
use crate::index::block_summary::{BlockSummary, SummaryBuilder};
use crate::record::batch::RecordKind;
use crate::{DedupEntry, ReadError};

/// Number of records from which on several threads load the metadata, and how many threads.
const PARALLEL_FROM: u64 = 500_000;
const LOADERS: u64 = 2;
/// Limit of the preallocated dedup entries, whatever the sequence numbers suggest.
const MAX_CAPACITY: usize = 16_000_000;

/// The metadata of consecutive blocks.
#[derive(Default)]
struct MetaRange {
    /// Each with the number of dedup entries up to its end.
    blocks: Vec<(StoredMeta, usize)>,
    seen: Vec<DedupEntry>,
}

impl MetaRange {
    /// Reserves capacity for `lines` entries. A vector that grows by doubling touches thrice the
    /// memory, and most of the time would go into the kernel zeroing it. Unused capacity is never
    /// touched.
    fn with_capacity(lines: u64) -> Self {
        let capacity = usize::try_from(lines).unwrap_or(usize::MAX).min(MAX_CAPACITY);
        Self { blocks: Vec::new(), seen: Vec::with_capacity(capacity) }
    }

    /// Concatenates consecutive ranges.
    fn joined(parts: Vec<Self>) -> Self {
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        for part in parts {
            let before = all.seen.len();
            all.seen.extend(part.seen);
            all.blocks.extend(part.blocks.into_iter().map(|(block, end)| (block, before + end)));
        }
        all
    }
}

impl Index {
    /// Loads the metadata and lists the accepted messages; returns also whether there is a hole.
    pub(super) fn load(&self) -> Result<(Vec<DedupEntry>, bool), IndexError> {
        let floor = self.floor()?;
        let MetaRange { blocks, mut seen } = MetaRange::joined(self.read_parts(floor)?);
        let mut metadata: Vec<(BlockMeta, BlockSummary)> = Vec::with_capacity(blocks.len());
        let (mut listed, mut has_hole) = (0, false);
        for (stored, end) in blocks {
            let (meta, summary) = match stored {
                StoredMeta::Now(meta, summary, _) => (meta, Some(summary)),
                StoredMeta::Old(meta) => (meta, None),
                StoredMeta::Newer(found) => return Err(IndexError::Newer(found)),
                // The records from here on are read from the log again.
                StoredMeta::Damaged => {
                    has_hole = true;
                    break;
                }
            };
            if meta.last.seq <= floor {
                // An interrupted removal.
                self.remove_block(meta.first)?;
                continue;
            }
            let follows = match metadata.last() {
                Some((before, _)) => meta.before == before.last.seq,
                None => meta.before <= floor,
            };
            if !follows {
                has_hole = true;
                break;
            }
            let summary = match summary {
                Some(summary) => summary,
                None => self.upgrade(&meta, &seen[listed..end])?,
            };
            metadata.push((meta, summary));
            listed = end;
        }
        seen.truncate(listed);
        *self.metadata.write() = metadata;
        Ok((seen, has_hole))
    }

    /// Reads all metadata in order, with two threads for a large index.
    fn read_parts(&self, floor: u64) -> Result<Vec<MetaRange>, IndexError> {
        let key = |item: Option<(sled::IVec, sled::IVec)>| {
            item.and_then(|(key, _)| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)))
        };
        let (first, last) = (key(self.metas.first()?), key(self.metas.last()?));
        let (Some(first), Some(last)) = (first, last) else { return Ok(Vec::new()) };
        // `last` is the first record of the last block, which is at most a full one.
        let lines = last - first + LINES as u64;
        if last - first < PARALLEL_FROM {
            return Ok(vec![self.read_part(self.metas.iter(), lines, floor)?]);
        }
        let step = (last - first) / LOADERS + 1;
        std::thread::scope(|scope| {
            let start = |n: u64| first.saturating_add(n * step).to_be_bytes();
            let parts: Vec<ScopedJoinHandle<'_, _>> = (0..LOADERS)
                .map(|n| {
                    let range = self.metas.range(start(n)..start(n + 1));
                    // The other ranges are appended to the first.
                    let capacity = if n == 0 { lines } else { step };
                    scope.spawn(move || self.read_part(range, capacity, floor))
                })
                .collect();
            let joined = parts.into_iter().map(ScopedJoinHandle::join);
            // On some damage sled panics instead of returning an error.
            joined.map(|part| Ok(part.map_err(|_| IndexError::Damaged)??)).collect()
        })
    }

    /// Reads a range up to its end or the first damage. Blocks up to `floor` are skipped: their
    /// removal was interrupted, and their chunks may be missing.
    fn read_part(
        &self,
        range: sled::Iter,
        lines: u64,
        floor: u64,
    ) -> Result<MetaRange, sled::Error> {
        let mut part = MetaRange::with_capacity(lines);
        let mut listed = Vec::new();
        for pair in range {
            // Dropped at once, so that the next pair reuses the memory.
            let (key, value) = pair?;
            let known = part.seen.len();
            let mut stored = BlockMeta::read(&key, &value, &mut part.seen);
            match &stored {
                StoredMeta::Now(meta, ..) | StoredMeta::Old(meta) if meta.last.seq <= floor => {
                    part.seen.truncate(known);
                }
                StoredMeta::Now(meta, _, count) if *count > 0 => {
                    listed.clear();
                    let bytes = count.saturating_mul(DedupEntry::SIZE);
                    chunks::read_up_to(&self.seen, meta.first, bytes, &mut listed)?;
                    let is_whole = listed.len() == bytes;
                    if !is_whole || DedupEntry::read_all(&listed, &mut part.seen).is_none() {
                        stored = StoredMeta::Damaged;
                    }
                }
                _ => {}
            }
            let ends = matches!(stored, StoredMeta::Newer(_) | StoredMeta::Damaged);
            part.blocks.push((stored, part.seen.len()));
            if ends {
                break;
            }
        }
        Ok(part)
    }

    /// Upgrades the metadata of a block to the current format.
    fn upgrade(&self, meta: &BlockMeta, seen: &[DedupEntry]) -> Result<BlockSummary, IndexError> {
        let mut reader = BlockReader::new()?;
        self.read_block(meta.first, &mut reader).map_err(|error| match error {
            ReadError::Io(error) => IndexError::Io(error),
            _ => IndexError::Damaged,
        })?;
        let BlockReader { block, stored, .. } = reader;
        let mut gather = SummaryBuilder::default();
        for entry in block.entries.iter().filter(|entry| entry.kind == RecordKind::Message) {
            gather.add(entry.of(&block.bytes));
        }
        let mut summary = gather.finish();
        summary.size = block.bytes.len() as u32;
        summary.stored = stored.len() as u32;
        self.write_meta(meta, &summary, seen)?;
        Ok(summary)
    }
}
