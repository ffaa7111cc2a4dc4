//! Reading the metadata of all blocks when the index is opened.
//!
//! This is what opening a large journal takes its time for: 32 bytes for each message
//! that was accepted, and a few more for its block's filter.

use std::sync::PoisonError;
use std::thread::ScopedJoinHandle;

use super::block_reader::BlockReader;
use super::{Index, IndexError, chunks};
use crate::index::block::{BlockMeta, LINES, StoredMeta};
use crate::index::block_summary::{BlockSummary, SummaryBuilder};
use crate::record::batch::RecordKind;
use crate::{DedupEntry, ReadError};

/// Lines from which on metadata is read by several threads, and by how many.
const MUCH: u64 = 500_000;
const LOADERS: u64 = 2;
/// No more room is set aside than this, whatever the numbers of the lines say.
const MOST_ROOM: usize = 16_000_000;

/// The metadata of some blocks in a row.
#[derive(Default)]
struct MetaRange {
    /// Each with how many messages are listed up to its end.
    blocks: Vec<(StoredMeta, usize)>,
    seen: Vec<DedupEntry>,
}

impl MetaRange {
    /// There is room for `lines` messages from the start: a list that grows by doubling touches
    /// thrice the memory, and the kernel clearing it would be most of the time. What is too much
    /// is never touched.
    fn with_room(lines: u64) -> Self {
        let room = usize::try_from(lines).unwrap_or(usize::MAX).min(MOST_ROOM);
        Self { blocks: Vec::new(), seen: Vec::with_capacity(room) }
    }

    /// This part and those after it as one.
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
    /// Learns of all blocks, lists the messages they hold, and says whether there is a hole.
    pub(super) fn load(&self) -> Result<(Vec<DedupEntry>, bool), IndexError> {
        let floor = self.floor()?;
        let MetaRange { blocks, mut seen } = MetaRange::joined(self.read_parts(floor)?);
        let mut known: Vec<(BlockMeta, BlockSummary)> = Vec::with_capacity(blocks.len());
        let (mut listed, mut has_hole) = (0, false);
        for (stored, end) in blocks {
            let (meta, summary) = match stored {
                StoredMeta::Now(meta, summary, _) => (meta, Some(summary)),
                StoredMeta::Old(meta) => (meta, None),
                StoredMeta::Newer(found) => return Err(IndexError::Newer(found)),
                // What follows it is read from the log again.
                StoredMeta::Damaged => {
                    has_hole = true;
                    break;
                }
            };
            if meta.last.seq <= floor {
                // A removal that was cut short.
                self.remove_block(meta.first)?;
                continue;
            }
            let follows = match known.last() {
                Some((before, _)) => meta.before == before.last.seq,
                None => meta.before <= floor,
            };
            if !follows {
                has_hole = true;
                break;
            }
            let summary = match summary {
                Some(summary) => summary,
                None => self.sum_up(&meta, &seen[listed..end])?,
            };
            known.push((meta, summary));
            listed = end;
        }
        seen.truncate(listed);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok((seen, has_hole))
    }

    /// All metadata, in order; two threads share the work when there is much.
    fn read_parts(&self, floor: u64) -> Result<Vec<MetaRange>, IndexError> {
        let key = |item: Option<(sled::IVec, sled::IVec)>| {
            item.and_then(|(key, _)| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)))
        };
        let (first, last) = (key(self.metas.first()?), key(self.metas.last()?));
        let (Some(first), Some(last)) = (first, last) else { return Ok(Vec::new()) };
        // The last block begins there; it has no more lines than any other.
        let lines = last - first + LINES as u64;
        if last - first < MUCH {
            return Ok(vec![self.read_part(self.metas.iter(), lines, floor)?]);
        }
        let step = (last - first) / LOADERS + 1;
        std::thread::scope(|scope| {
            let start = |n: u64| first.saturating_add(n * step).to_be_bytes();
            let parts: Vec<ScopedJoinHandle<'_, _>> = (0..LOADERS)
                .map(|n| {
                    let range = self.metas.range(start(n)..start(n + 1));
                    // The others are joined to the first.
                    let room = if n == 0 { lines } else { step };
                    scope.spawn(move || self.read_part(range, room, floor))
                })
                .collect();
            let joined = parts.into_iter().map(ScopedJoinHandle::join);
            // On some damage sled panics instead of saying so.
            joined.map(|part| Ok(part.map_err(|_| IndexError::Damaged)??)).collect()
        })
    }

    /// Reads until the end or until something that cannot be read. Nothing is listed of blocks
    /// up to `floor`, whose removal was cut short: their pieces may be gone.
    fn read_part(
        &self,
        range: sled::Iter,
        lines: u64,
        floor: u64,
    ) -> Result<MetaRange, sled::Error> {
        let mut part = MetaRange::with_room(lines);
        let mut listed = Vec::new();
        for pair in range {
            // Let go at once, so that the next uses the same memory.
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

    /// Brings a block's metadata to the format of today.
    fn sum_up(&self, meta: &BlockMeta, seen: &[DedupEntry]) -> Result<BlockSummary, IndexError> {
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
