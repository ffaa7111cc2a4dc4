//! Reading the metadata of all blocks when the index is opened.
//!
//! This is what opening a large journal takes its time for: 32 bytes for each message
//! that was accepted, and a few more for its block's filter.

use std::sync::PoisonError;
use std::thread::ScopedJoinHandle;

use super::{Index, IndexError, Opener};
use crate::batch::Kind;
use crate::block::{LINES, Meta, Stored};
use crate::summary::{Gather, Summary};
use crate::{ReadError, Seen};

/// Lines from which on metadata is read by several threads, and by how many.
const MUCH: u64 = 500_000;
const LOADERS: u64 = 2;
/// No more room is set aside than this, whatever the numbers of the lines say.
const MOST_ROOM: usize = 16_000_000;

/// The metadata of some blocks in a row.
#[derive(Default)]
struct Part {
    /// Each with how many messages are listed up to its end.
    blocks: Vec<(Stored, usize)>,
    seen: Vec<Seen>,
}

impl Part {
    /// Reads until the end or until something that cannot be read. There is room for `lines`
    /// messages from the start: a list that grows by doubling touches thrice the memory, and the
    /// kernel clearing it would be most of the time. What is too much is never touched.
    fn read(range: sled::Iter, lines: u64) -> Result<Self, sled::Error> {
        let room = usize::try_from(lines).unwrap_or(usize::MAX).min(MOST_ROOM);
        let mut part = Self { blocks: Vec::new(), seen: Vec::with_capacity(room) };
        for pair in range {
            // Let go at once, so that the next uses the same memory.
            let (key, value) = pair?;
            let stored = Meta::read(&key, &value, &mut part.seen);
            let ends = matches!(stored, Stored::Newer(_) | Stored::Damaged);
            part.blocks.push((stored, part.seen.len()));
            if ends {
                break;
            }
        }
        Ok(part)
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
    pub(super) fn load(&self) -> Result<(Vec<Seen>, bool), IndexError> {
        let Part { blocks, mut seen } = Part::joined(self.read_parts()?);
        let floor = self.floor()?;
        let mut known: Vec<(Meta, Summary)> = Vec::with_capacity(blocks.len());
        // What is listed of blocks that were removed, and of those that count.
        let (mut removed, mut listed, mut has_hole) = (0, 0, false);
        for (stored, end) in blocks {
            let (meta, summary) = match stored {
                Stored::Now(meta, summary) => (meta, Some(summary)),
                Stored::Old(meta) => (meta, None),
                Stored::Newer(found) => return Err(IndexError::Newer(found)),
                // What follows it is read from the log again.
                Stored::Damaged => {
                    has_hole = true;
                    break;
                }
            };
            if meta.last.seq <= floor {
                // A removal that was cut short.
                self.forget(meta.first)?;
                (removed, listed) = (end, end);
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
        seen.drain(..removed);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok((seen, has_hole))
    }

    /// All metadata, in order; two threads share the work when there is much.
    fn read_parts(&self) -> Result<Vec<Part>, IndexError> {
        let key = |item: Option<(sled::IVec, sled::IVec)>| {
            item.and_then(|(key, _)| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)))
        };
        let (first, last) = (key(self.metas.first()?), key(self.metas.last()?));
        let (Some(first), Some(last)) = (first, last) else { return Ok(Vec::new()) };
        // The last block begins there; it has no more lines than any other.
        let lines = last - first + LINES as u64;
        if last - first < MUCH {
            return Ok(vec![Part::read(self.metas.iter(), lines)?]);
        }
        let step = (last - first) / LOADERS + 1;
        std::thread::scope(|scope| {
            let start = |n: u64| first.saturating_add(n * step).to_be_bytes();
            let parts: Vec<ScopedJoinHandle<'_, _>> = (0..LOADERS)
                .map(|n| {
                    let range = self.metas.range(start(n)..start(n + 1));
                    // The others are joined to the first.
                    let room = if n == 0 { lines } else { step };
                    scope.spawn(move || Part::read(range, room))
                })
                .collect();
            let joined = parts.into_iter().map(ScopedJoinHandle::join);
            // On some damage sled panics instead of saying so.
            joined.map(|part| Ok(part.map_err(|_| IndexError::Damaged)??)).collect()
        })
    }

    /// Brings a block's metadata to the format of today.
    fn sum_up(&self, meta: &Meta, seen: &[Seen]) -> Result<Summary, IndexError> {
        let mut opener = Opener::new()?;
        self.read_block(meta.first, &mut opener).map_err(|error| match error {
            ReadError::Io(error) => IndexError::Io(error),
            _ => IndexError::Damaged,
        })?;
        let block = opener.block;
        let mut gather = Gather::default();
        for entry in block.entries.iter().filter(|entry| entry.kind == Kind::Record) {
            gather.add(entry.of(&block.bytes));
        }
        let mut summary = gather.finish();
        summary.size = block.bytes.len() as u32;
        let value = self.blocks.get(meta.first.to_be_bytes())?;
        summary.stored = value.map_or(0, |value| value.len() as u32);
        self.metas.insert(meta.first.to_be_bytes(), meta.write(&summary, seen))?;
        Ok(summary)
    }
}
