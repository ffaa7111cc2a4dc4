//! Reading the metadata of all blocks when the index is opened.
//!
//! This is what opening a large journal takes its time for: 32 bytes for each message
//! that was accepted, and a few more for its block's filter.

use std::sync::PoisonError;
use std::thread::ScopedJoinHandle;

use super::{Index, IndexError, Opener};
use crate::batch::Kind;
use crate::block::{Meta, Stored};
use crate::summary::{Gather, Summary};
use crate::{ReadError, Seen};

/// Lines from which on metadata is read by several threads, and by how many.
const MUCH: u64 = 500_000;
const LOADERS: u64 = 2;

impl Index {
    /// Learns of all blocks, and lists the messages they hold.
    pub(super) fn load(&self) -> Result<Vec<Seen>, IndexError> {
        let parts = self.read_metas()?;
        let floor = self.floor()?;
        let mut known: Vec<(Meta, Summary)> = Vec::new();
        let mut seen = Vec::new();
        // What was removed is missing at the front, what is to be read again at the end.
        let (mut gone, mut kept) = (0, 0);
        let mut has_hole = false;
        for part in parts {
            let mut from = 0;
            for (stored, count) in part.metas {
                let its_seen = from..from + count;
                from += count;
                let (meta, summary) = match stored {
                    Stored::Now(meta, summary) => (meta, Some(summary)),
                    Stored::Old(meta) => (meta, None),
                    Stored::Newer => return Err(IndexError::Newer),
                    Stored::Damaged => {
                        has_hole = true;
                        continue;
                    }
                };
                if meta.last.seq <= floor {
                    // A removal that was cut short.
                    self.forget(meta.first)?;
                    gone += count;
                    continue;
                }
                has_hole |= match known.last() {
                    Some((before, _)) => meta.before != before.last.seq,
                    None => meta.before > floor,
                };
                if has_hole {
                    continue;
                }
                let summary = match summary {
                    Some(summary) => summary,
                    None => self.sum_up(&meta, part.seen.get(its_seen).unwrap_or_default())?,
                };
                known.push((meta, summary));
                kept += count;
            }
            // The first is not copied.
            if seen.is_empty() {
                seen = part.seen;
            } else {
                seen.extend_from_slice(&part.seen);
            }
        }
        seen.drain(..gone);
        seen.truncate(kept);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(seen)
    }

    fn read_metas(&self) -> Result<Vec<Part>, IndexError> {
        let key = |item: Option<(sled::IVec, sled::IVec)>| {
            item.and_then(|(key, _)| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)))
        };
        let (first, last) = (key(self.metas.first()?), key(self.metas.last()?));
        let (Some(first), Some(last)) = (first, last) else { return Ok(Vec::new()) };
        if last - first < MUCH {
            return Ok(vec![Part::read(self.metas.iter())?]);
        }
        let step = (last - first) / LOADERS + 1;
        std::thread::scope(|scope| {
            let start = |n: u64| first.saturating_add(n * step).to_be_bytes();
            let parts: Vec<ScopedJoinHandle<'_, _>> = (0..LOADERS)
                .map(|n| {
                    let range = self.metas.range(start(n)..start(n + 1));
                    scope.spawn(move || Part::read(range))
                })
                .collect();
            let joined = parts.into_iter().map(ScopedJoinHandle::join);
            // On some damage sled panics instead of saying so.
            joined.map(|part| part.unwrap_or(Err(IndexError::Damaged))).collect()
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

/// Some of the metadata, and the messages it lists.
struct Part {
    /// Each with how many messages it lists.
    metas: Vec<(Stored, usize)>,
    seen: Vec<Seen>,
}

impl Part {
    fn read(range: sled::Iter) -> Result<Self, IndexError> {
        let mut part = Self { metas: Vec::new(), seen: Vec::new() };
        for item in range {
            let (key, value) = item?;
            let listed = part.seen.len();
            let stored = Meta::read(&key, &value, &mut part.seen);
            part.metas.push((stored, part.seen.len() - listed));
        }
        Ok(part)
    }
}
