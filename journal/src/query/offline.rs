//! Reads a journal without a server, and leaves the log unchanged.
//!
//! Nothing is recovered: a torn end stays, and records that the index lacks are read from the
//! segments. sled cannot be opened read-only, so that its files may change, though not their content.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::formats::check_listed_formats;
use crate::index::tail::{HELD_BYTES, SharedJournal, Slot};
use crate::index::{Index, IndexError};
use crate::query::disk_reader::DiskReader;
use crate::record::batch::{Batch, Entry, LogPos};
use crate::record::chain::Head;
use crate::record::decode::peek;
use crate::recovery::scan::{ValidRecord, ends_with, scan};
use crate::segment::watermark::promised_end;
use crate::segment::{FOLDER, wal};
use crate::segment::{find_segment, list_segments};
use crate::{JournalReader, OpenError, ReadError, RecoveryReport};

/// Bytes of a slot of records that the index lacks.
const SLOT: usize = 1 << 20;
/// Limit of the bytes that the index may lack. Reading more takes so long that a server which starts
/// meanwhile would fail to get the lock.
const MOST_LACKING: u64 = 128 << 20;
/// Estimated compression ratio of a segment.
const UNPACKED: u64 = 6;

/// A journal open for reading. It is locked until the reader is dropped, and no server can start
/// meanwhile, so that it should be used briefly.
pub struct OfflineJournal {
    /// Its reader.
    pub reader: Arc<dyn JournalReader>,
    /// The number of records that the index lacks, and their faults.
    pub report: RecoveryReport,
}

/// Opens the journal of a state folder for reading. Creates nothing and does not write to the log.
///
/// Returns `None` without an index that fits the log; the segments can be read without one.
///
/// # Errors
/// When another process has it open, a newer version wrote it, or the disk fails.
pub fn read_offline(state_dir: &Path) -> Result<Option<OfflineJournal>, OpenError> {
    let (dir, path) = (state_dir.join(FOLDER), state_dir.join("data/a2a-journal"));
    if !fs::exists(path.join("db"))? || !dir.is_dir() {
        return Ok(None);
    }
    check_listed_formats(state_dir)?;
    let index = match Index::open(&path) {
        Ok((index, _)) => index,
        Err(IndexError::Damaged) => return Ok(None),
        Err(error) => return Err(error.at(&path)),
    };
    let start = index.last().map(|meta| (meta.last, meta.end));
    if start.is_some_and(|(head, end)| !ends_with(&dir, head, end)) {
        return Ok(None);
    }
    if lacking_bytes(&dir, start.map(|(_, end)| end))? > MOST_LACKING {
        return Ok(None);
    }
    let mut lacking = UnindexedLines { dir: &dir, slots: Vec::new(), current: None };
    // Batches that only the WAL has are not lost: the next start writes them back.
    let data = state_dir.join("data");
    let promised = if wal::end(&data)?.is_some() { None } else { promised_end(&dir, &data)? };
    let scanned = scan::<ReadError>(&dir, start, promised, |good| lacking.line(good))?;
    lacking.finish();
    let report = RecoveryReport {
        lines_replayed: scanned.lines,
        torn_bytes: scanned.torn.map_or(0, |torn| torn.len),
        unreadable_lines: scanned.unreadable,
        broken_links: scanned.broken_links,
        lost_bytes: scanned.lost,
        ..RecoveryReport::default()
    };
    let slots = lacking.slots;
    let head = scanned.head.map_or(Head::START, |(head, _)| head);
    let shared = SharedJournal::new(state_dir.to_owned(), dir, head, index, HELD_BYTES);
    shared.tail().slots.extend(slots);
    let reader = Arc::new(DiskReader { shared: Arc::new(shared) });
    Ok(Some(OfflineJournal { reader, report }))
}

/// Estimates the bytes behind the last indexed record.
fn lacking_bytes(dir: &Path, end: Option<LogPos>) -> io::Result<u64> {
    let mut bytes = 0;
    for file in list_segments(dir)? {
        let size = fs::metadata(&file.path)?.len() * if file.is_compressed { UNPACKED } else { 1 };
        bytes += match end {
            Some(end) if file.day < end.day => 0,
            Some(end) if file.day == end.day => size.saturating_sub(end.offset),
            _ => size,
        };
    }
    Ok(bytes)
}

/// Records that the index lacks, grouped into slots.
struct UnindexedLines<'a> {
    dir: &'a Path,
    slots: Vec<Slot>,
    current: Option<SlotBuilder>,
}

struct SlotBuilder {
    at: LogPos,
    entries: Vec<Entry>,
    /// The bytes of a compressed segment, which cannot be read from the middle.
    bytes: Option<Vec<u8>>,
    len: usize,
}

impl UnindexedLines<'_> {
    fn line(&mut self, good: &ValidRecord<'_>) -> Result<(), ReadError> {
        let Some((seq, kind)) = peek(good.bytes) else { return Ok(()) };
        let begin = good.end.offset - good.bytes.len() as u64;
        let continues = self.current.as_ref().is_some_and(|current| {
            let end = current.at.offset + current.len as u64;
            current.at.day == good.end.day && end == begin && current.len < SLOT
        });
        if !continues {
            self.finish();
        }
        let current = match &mut self.current {
            Some(current) => current,
            none => {
                let at = LogPos { day: good.end.day, offset: begin };
                let bytes = find_segment(self.dir, at.day)?.is_compressed.then(Vec::new);
                none.insert(SlotBuilder { at, entries: Vec::new(), bytes, len: 0 })
            }
        };
        let start = current.len;
        current.len += good.bytes.len();
        current.entries.push(Entry { seq, kind, start, end: current.len });
        if let Some(bytes) = &mut current.bytes {
            bytes.extend_from_slice(good.bytes);
        }
        Ok(())
    }

    fn finish(&mut self) {
        if let Some(SlotBuilder { at, entries, bytes, len }) = self.current.take() {
            let batch = Arc::new(Batch { at, entries, seen: Vec::new() });
            self.slots.push(Slot::new(batch, len, bytes.map(Into::into)));
        }
    }
}
