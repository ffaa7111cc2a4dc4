//! Blocks of up to 512 records, compressed as one, and the metadata of each.
//!
//! The metadata summarises the messages of a block, so that a search reads only blocks that may
//! contain a match.

use std::collections::BTreeSet;

use chrono::{Datelike, NaiveDate};

use crate::DedupEntry;
use crate::index::block_summary::{BlockSummary, SummaryBuilder};
use crate::index::terms::RecordTerms;
use crate::record::batch::{Entry, LogPos, RecordKind};
use crate::record::chain::{Hash, Head, read_seal};

/// Records in a full block.
pub(crate) const LINES: usize = 512;
/// A block is also full at this many bytes, so that large messages do not make huge values.
const BYTES: usize = 256 << 10;
/// Version, the first byte of metadata. The unversioned format begins with a zero.
pub(crate) const FORMAT: u8 = 3;
/// The version before: blocks were not chunked, and dedup entries were in the metadata.
const WHOLE: u8 = 2;

/// Gathers the records of one block.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    pub bytes: Vec<u8>,
    pub seen: Vec<DedupEntry>,
    /// Numbers of the messages of the events in this block.
    pub of: BTreeSet<u64>,
    /// Whether messages are summarised. `false` only in benchmarks.
    has_summaries: bool,
    summary: SummaryBuilder,
    first: u64,
    last: u64,
    lines: u32,
    records: u32,
    end: Option<LogPos>,
}

impl BlockBuilder {
    pub fn new(has_summaries: bool) -> Self {
        Self { has_summaries, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    pub fn is_full(&self) -> bool {
        self.lines as usize >= LINES || self.bytes.len() >= BYTES
    }

    pub fn lines(&self) -> usize {
        self.lines as usize
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.seen.clear();
        self.of.clear();
        self.summary.clear();
        self.lines = 0;
        self.records = 0;
        self.end = None;
    }

    /// Whether a record of this day may be added. A day is removed as a whole, so that no block spans
    /// two.
    pub fn takes(&self, day: NaiveDate) -> bool {
        self.end.is_none_or(|end| end.day == day)
    }

    /// Adds a record (with its newline) that ends at `end` in the log.
    pub fn push(
        &mut self,
        line: &[u8],
        seq: u64,
        kind: RecordKind,
        seen: Option<DedupEntry>,
        end: LogPos,
    ) {
        self.push_with_terms(line, seq, kind, seen, end, None);
    }

    /// Like [`BlockBuilder::push`]; a message with given terms is not parsed for them.
    pub fn push_with_terms(
        &mut self,
        line: &[u8],
        seq: u64,
        kind: RecordKind,
        seen: Option<DedupEntry>,
        end: LogPos,
        terms: Option<(&RecordTerms, &[u64])>,
    ) {
        if self.is_empty() {
            self.first = seq;
        }
        self.bytes.extend_from_slice(line);
        self.seen.extend(seen);
        match kind {
            RecordKind::Message => {
                self.records += 1;
                match terms {
                    _ if !self.has_summaries => {}
                    Some((record, terms)) => self.summary.add_with_terms(record, terms),
                    None => self.summary.add(line),
                }
            }
            RecordKind::EventOf(of) => drop(self.of.insert(of)),
            RecordKind::Event => {}
        }
        self.last = seq;
        self.lines += 1;
        self.end = Some(end);
    }

    /// The summary of the gathered messages.
    pub fn summary(&mut self) -> BlockSummary {
        if self.has_summaries { self.summary.finish() } else { BlockSummary::all() }
    }

    /// The metadata of the gathered records; `None` if there are none.
    pub fn meta(&self, before: u64) -> Option<BlockMeta> {
        let line = self.bytes.strip_suffix(b"\n")?;
        let hash = read_seal(line)?.hash;
        let (first, lines, records) = (self.first, self.lines, self.records);
        let end = self.end?;
        Some(BlockMeta { first, before, last: Head { seq: self.last, hash }, lines, records, end })
    }
}

/// Metadata of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockMeta {
    /// Number of its first record.
    pub first: u64,
    /// Number of the last record of the block before: a missing block is thus detected.
    pub before: u64,
    /// Its last record.
    pub last: Head,
    /// Number of records, events included.
    pub lines: u32,
    /// Number of message records.
    pub records: u32,
    /// End of its last record in the log.
    pub end: LogPos,
}

/// Metadata as stored in sled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StoredMeta {
    /// The current format, with the number of dedup entries stored beside it.
    Now(BlockMeta, BlockSummary, usize),
    /// The unversioned format without a summary, which is then built from the block.
    Old(BlockMeta),
    /// A version that a later program writes.
    Newer(u8),
    Damaged,
}

impl BlockMeta {
    /// Encodes the metadata, with `listed` dedup entries stored beside it.
    pub fn write(&self, summary: &BlockSummary, listed: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096);
        out.push(FORMAT);
        out.extend_from_slice(&self.before.to_be_bytes());
        out.extend_from_slice(&self.last.seq.to_be_bytes());
        out.extend_from_slice(self.last.hash.as_bytes());
        out.extend_from_slice(&self.lines.to_be_bytes());
        out.extend_from_slice(&self.records.to_be_bytes());
        out.extend_from_slice(&self.end.day.num_days_from_ce().to_be_bytes());
        out.extend_from_slice(&self.end.offset.to_be_bytes());
        summary.push(&mut out);
        out.extend_from_slice(&(listed as u32).to_be_bytes());
        out
    }

    /// Decodes metadata; dedup entries inside it, as in older formats, are added to `seen`.
    pub fn read(key: &[u8], value: &[u8], seen: &mut Vec<DedupEntry>) -> StoredMeta {
        let read = match value.split_first() {
            Some((0, _)) => Self::read_fields(key, value).and_then(|(meta, listed)| {
                DedupEntry::read_all(listed, seen)?;
                Some(StoredMeta::Old(meta))
            }),
            Some((format @ (&WHOLE | &FORMAT), rest)) => {
                Self::read_with_summary(key, rest, |rest| match *format {
                    WHOLE => DedupEntry::read_all(rest, seen).map(|()| 0),
                    _ => Some(u32::from_be_bytes(rest.try_into().ok()?) as usize),
                })
            }
            Some((newer, _)) if *newer > FORMAT => Some(StoredMeta::Newer(*newer)),
            _ => None,
        };
        read.unwrap_or(StoredMeta::Damaged)
    }

    /// Decodes metadata with a summary; `listed` decodes the rest and returns the number of dedup
    /// entries stored beside it.
    fn read_with_summary(
        key: &[u8],
        rest: &[u8],
        listed: impl FnOnce(&[u8]) -> Option<usize>,
    ) -> Option<StoredMeta> {
        let (meta, rest) = Self::read_fields(key, rest)?;
        let (summary, rest) = BlockSummary::read(rest)?;
        Some(StoredMeta::Now(meta, summary, listed(rest)?))
    }

    fn read_fields<'a>(key: &[u8], mut rest: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let meta = Self {
            first: u64::from_be_bytes(key.try_into().ok()?),
            before: u64::from_be_bytes(take(&mut rest)?),
            last: Head {
                seq: u64::from_be_bytes(take(&mut rest)?),
                hash: Hash::from_bytes(take(&mut rest)?),
            },
            lines: u32::from_be_bytes(take(&mut rest)?),
            records: u32::from_be_bytes(take(&mut rest)?),
            end: LogPos {
                day: NaiveDate::from_num_days_from_ce_opt(i32::from_be_bytes(take(&mut rest)?))?,
                offset: u64::from_be_bytes(take(&mut rest)?),
            },
        };
        Some((meta, rest))
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

/// A decompressed block: its records and their positions.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub bytes: Vec<u8>,
    pub entries: Vec<Entry>,
}

impl Block {
    pub fn line(&self, seq: u64) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        self.entries.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_round_trips_and_truncated_metadata_is_damaged() {
        let seen = DedupEntry {
            message_id: "0192a4c8-7e1a-7b3c-9d4e-000000000001".parse().unwrap(),
            fingerprint: 7,
            seq: 512,
        };
        let meta = BlockMeta {
            first: 512,
            before: 511,
            last: Head { seq: 600, hash: Hash::from_bytes([3; 32]) },
            lines: 80,
            records: 40,
            end: LogPos { day: NaiveDate::from_ymd_opt(2026, 2, 21).unwrap(), offset: 9_000 },
        };
        let key = 512_u64.to_be_bytes();
        let mut gather = SummaryBuilder::default();
        gather.add(br#"{"seq":512,"time":"2026-02-21T18:30:00.007Z","outcome":"queued","by":"x"}"#);
        let summary = gather.finish();
        let value = meta.write(&summary, 70);
        let mut found = Vec::new();
        let read = BlockMeta::read(&key, &value, &mut found);
        assert_eq!((read, &found[..]), (StoredMeta::Now(meta, summary.clone(), 70), &[][..]));
        for cut in 1..value.len() {
            let value = &value[..value.len() - cut];
            assert_eq!(BlockMeta::read(&key, value, &mut Vec::new()), StoredMeta::Damaged, "{cut}");
        }
        assert_eq!(BlockMeta::read(&key, &[], &mut Vec::new()), StoredMeta::Damaged);
        assert_eq!(
            BlockMeta::read(&key, &[FORMAT + 1, 1], &mut Vec::new()),
            StoredMeta::Newer(FORMAT + 1)
        );

        // The older formats: with dedup entries inside, and without version and summary.
        let mut listed = Vec::new();
        seen.push(&mut listed);
        let whole = [&[WHOLE], &value[1..value.len() - 4], &listed].concat();
        let old = [&value[1..69], &listed].concat();
        for (value, expected) in
            [(whole, StoredMeta::Now(meta, summary, 0)), (old, StoredMeta::Old(meta))]
        {
            let mut found = Vec::new();
            assert_eq!(BlockMeta::read(&key, &value, &mut found), expected);
            assert_eq!(found, [seen]);
            for cut in 1..DedupEntry::SIZE {
                let mut found = Vec::new();
                let value = &value[..value.len() - cut];
                assert_eq!(BlockMeta::read(&key, value, &mut found), StoredMeta::Damaged, "{cut}");
                assert_eq!(found, []);
            }
        }
    }
}
