//! Reading a journal that no server has open: the log is left exactly as it is.
//!
//! Nothing is recovered: a torn end stays where it is, and lines that the index lacks are read
//! from the day files beside it. sled knows no way to be opened for reading only, so its own
//! files may change; what they hold does not.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::formats::{check_noted, newer_index};
use crate::index::tail::{HELD_BYTES, SharedJournal, Slot};
use crate::index::{Index, IndexError};
use crate::query::disk_reader::DiskReader;
use crate::record::batch::{Batch, Entry, LogPos};
use crate::record::chain::Head;
use crate::record::decode::peek;
use crate::recovery::scan::{GoodLine, ends_with, scan};
use crate::segment::watermark::promised_end;
use crate::segment::{FOLDER, wal};
use crate::segment::{find_segment, list_segments};
use crate::{JournalReader, OpenError, ReadError, RecoveryReport};

/// Bytes of lines that are read at a time where the index lacks them.
const SLOT: usize = 1 << 20;
/// An index that lacks more bytes of lines than this is of no help: reading them takes so long
/// that a server which starts meanwhile would give up.
const MOST_LACKING: u64 = 128 << 20;
/// How many times its size a packed day has, about.
const UNPACKED: u64 = 6;

/// A journal that is open for reading. It is held until the reader is dropped; no server can
/// start meanwhile, so that should be soon.
pub struct OfflineJournal {
    /// Answers questions.
    pub reader: Arc<dyn JournalReader>,
    /// How many lines the index lacks, and what is wrong with those.
    pub report: RecoveryReport,
}

/// Opens the journal of a state folder for reading. Nothing is created, and the log is not
/// written to.
///
/// `None` when there is no index that fits the log; the day files can be read without one.
///
/// # Errors
/// When another process has it open, a newer version wrote it, or the disk refuses.
pub fn read_offline(state_dir: &Path) -> Result<Option<OfflineJournal>, OpenError> {
    let (dir, path) = (state_dir.join(FOLDER), state_dir.join("data/a2a-journal"));
    if !fs::exists(path.join("db"))? || !dir.is_dir() {
        return Ok(None);
    }
    check_noted(state_dir)?;
    let index = match Index::open(&path) {
        Ok((index, _)) => index,
        Err(IndexError::Damaged) => return Ok(None),
        Err(IndexError::Locked) => return Err(OpenError::Locked { path }),
        Err(IndexError::Newer(found)) => return Err(newer_index(&path, found).into()),
        Err(IndexError::Io(error)) => return Err(error.into()),
    };
    let start = index.last().map(|meta| (meta.last, meta.end));
    if start.is_some_and(|(head, end)| !ends_with(&dir, head, end)) {
        return Ok(None);
    }
    if lacking_bytes(&dir, start.map(|(_, end)| end))? > MOST_LACKING {
        return Ok(None);
    }
    let mut lacking = UnindexedLines { dir: &dir, slots: Vec::new(), current: None };
    // What only the ahead files have is not lost: the next start puts it back.
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

/// How much lies behind the last line that the index holds, about.
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

/// Lines that the index lacks, by where they lie.
struct UnindexedLines<'a> {
    dir: &'a Path,
    slots: Vec<Slot>,
    current: Option<SlotBuilder>,
}

struct SlotBuilder {
    at: LogPos,
    entries: Vec<Entry>,
    /// Those of a packed day, which cannot be read from the middle.
    bytes: Option<Vec<u8>>,
    len: usize,
}

impl UnindexedLines<'_> {
    fn line(&mut self, good: &GoodLine<'_>) -> Result<(), ReadError> {
        let Some((seq, kind)) = peek(good.bytes) else { return Ok(()) };
        let begin = good.end.offset - good.bytes.len() as u64;
        let goes_on = self.current.as_ref().is_some_and(|current| {
            let end = current.at.offset + current.len as u64;
            current.at.day == good.end.day && end == begin && current.len < SLOT
        });
        if !goes_on {
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
