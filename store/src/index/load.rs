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

type Pair = (sled::IVec, sled::IVec);

impl Index {
    /// Learns of all blocks, and lists the messages they hold.
    pub(super) fn load(&self) -> Result<Vec<Seen>, IndexError> {
        let metas = self.read_metas()?;
        let floor = self.floor()?;
        let mut known: Vec<(Meta, Summary)> = Vec::new();
        // At once: a list of a million that grows by doubling touches thrice the memory, and
        // the kernel clearing it would be most of the time. What is too much is never touched.
        let bytes: usize = metas.iter().flatten().map(|(_, value)| value.len()).sum();
        let mut seen = Vec::with_capacity(bytes / Seen::SIZE);
        for (key, value) in metas.into_iter().flatten() {
            let listed = seen.len();
            let (meta, summary) = match Meta::read(&key, &value, &mut seen) {
                Stored::Now(meta, summary) => (meta, Some(summary)),
                Stored::Old(meta) => (meta, None),
                Stored::Newer => return Err(IndexError::Newer),
                // A hole: what follows it is read from the log again.
                Stored::Damaged => break,
            };
            if meta.last.seq <= floor {
                // A removal that was cut short.
                seen.truncate(listed);
                self.forget(meta.first)?;
                continue;
            }
            let follows = match known.last() {
                Some((before, _)) => meta.before == before.last.seq,
                None => meta.before <= floor,
            };
            if !follows {
                seen.truncate(listed);
                break;
            }
            let summary = match summary {
                Some(summary) => summary,
                None => self.sum_up(&meta, &seen[listed..])?,
            };
            known.push((meta, summary));
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(seen)
    }

    /// All keys and values, in order. sled's own work is most of it, so two threads share it
    /// when there is much.
    fn read_metas(&self) -> Result<Vec<Vec<Pair>>, IndexError> {
        let key = |item: Option<Pair>| {
            item.and_then(|(key, _)| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)))
        };
        let (first, last) = (key(self.metas.first()?), key(self.metas.last()?));
        let (Some(first), Some(last)) = (first, last) else { return Ok(Vec::new()) };
        let read = |range: sled::Iter| range.collect::<Result<Vec<Pair>, _>>();
        if last - first < MUCH {
            return Ok(vec![read(self.metas.iter())?]);
        }
        let step = (last - first) / LOADERS + 1;
        std::thread::scope(|scope| {
            let start = |n: u64| first.saturating_add(n * step).to_be_bytes();
            let parts: Vec<ScopedJoinHandle<'_, _>> = (0..LOADERS)
                .map(|n| {
                    let range = self.metas.range(start(n)..start(n + 1));
                    scope.spawn(move || read(range))
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
