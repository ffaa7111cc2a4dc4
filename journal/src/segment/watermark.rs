//! Durable watermark: where the last promised batch ends in the log.
//!
//! A power cut leaves any pages of a batch that was being written, in any order: its last lines
//! may be whole while its first are zeros. Such a batch was never promised and is cut off. The
//! same bytes in front of the end of what was promised are damage, which must be reported. Only
//! a note that is on the disk distinguishes the two.
//!
//! Each commit that syncs the day file notes its end in one of two slots. The note is written
//! at once, which is enough should the process be killed, and synced before the next batch is
//! written to the log: until then there is nothing behind that end to be mistaken. While
//! batches are written ahead ([`crate::segment::wal`]) their frames say where each ends; the note then
//! says only that, since without the frames the end is not known.
//!
//! A note counts for the log in which a line with its hash ends where it says. When a note
//! cannot be written the file is removed, as an old note is worse than none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{Datelike, NaiveDate};
use xxhash_rust::xxh3::xxh3_64;

use crate::record::batch::LogPos;
use crate::record::chain::{Hash, Head};
use crate::recovery::scan::ends_with;
use crate::segment::wal;
use crate::{Disk, FixedFile};

const FILE: &str = "a2a-watermark.bin";
const MAGIC: [u8; 4] = *b"A2AW";
/// Magic, count, whether batches are written ahead, end, line before it, its hash, checksum.
const BYTES: usize = 4 + 8 + 1 + 12 + 12 + 32 + 8;
/// Each slot has a page of its own, so that writing one cannot tear the other.
const SLOT: u64 = 4096;
const SLOTS: u64 = 2;

/// Where what was promised ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promised {
    /// No byte before it may be cut off.
    pub end: LogPos,
    /// Where the last good line ends: at `end`, unless what follows it is damaged.
    pub line: LogPos,
    /// The hash of that line.
    pub hash: Hash,
}

/// A note as it is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Note {
    count: u64,
    is_ahead: bool,
    promised: Promised,
}

impl Note {
    fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.count.to_be_bytes());
        out.push(u8::from(self.is_ahead));
        for at in [self.promised.end, self.promised.line] {
            out.extend_from_slice(&at.day.num_days_from_ce().to_be_bytes());
            out.extend_from_slice(&at.offset.to_be_bytes());
        }
        out.extend_from_slice(self.promised.hash.as_bytes());
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_be_bytes());
        out
    }

    fn read(slot: &[u8]) -> Option<Self> {
        let (body, sum) = slot.get(..BYTES)?.split_last_chunk()?;
        if u64::from_be_bytes(*sum) != xxh3_64(body) {
            return None;
        }
        let field = body.strip_prefix(&MAGIC)?;
        let (count, field) = field.split_first_chunk()?;
        let (is_ahead, field) = field.split_first()?;
        let (end, field) = field.split_first_chunk()?;
        let (line, hash) = field.split_first_chunk()?;
        let (end, line) = (place(end)?, place(line)?);
        let hash = Hash::from_bytes(hash.try_into().ok()?);
        let promised = Promised { end, line, hash };
        Some(Self { count: u64::from_be_bytes(*count), is_ahead: *is_ahead != 0, promised })
    }
}

fn place(bytes: &[u8; 12]) -> Option<LogPos> {
    let (day, offset) = bytes.split_first_chunk()?;
    let day = NaiveDate::from_num_days_from_ce_opt(i32::from_be_bytes(*day))?;
    Some(LogPos { day, offset: u64::from_be_bytes(offset.try_into().ok()?) })
}

/// Where what was promised ends, if that is known exactly. The frames of the ahead files must
/// be in the log already.
pub(crate) fn promised_end(dir: &Path, data: &Path) -> io::Result<Option<LogPos>> {
    let bytes = match fs::read(data.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let slots = bytes.chunks(usize::try_from(SLOT).unwrap_or(BYTES));
    let notes: Vec<Note> = slots.filter_map(Note::read).collect();
    let fits = |note: &Note| {
        let Promised { line, hash, .. } = note.promised;
        ends_with(dir, Head { seq: 0, hash }, line)
    };
    // Where the newest line is damaged, the one before it shows that the log is this one.
    let newest = notes.iter().max_by_key(|note| note.count);
    let Some(newest) = newest.filter(|_| notes.iter().any(fits)) else { return Ok(None) };
    let end = newest.promised.end;
    Ok(match wal::end(data)? {
        Some(ahead) => Some(end.max(ahead)),
        None => (!newest.is_ahead).then_some(end),
    })
}

/// Notes the end as the log grows.
pub(crate) struct Watermark {
    data: PathBuf,
    disk: Arc<dyn Disk>,
    file: Option<Box<dyn FixedFile>>,
    last: Option<Note>,
    is_dirty: bool,
    /// It could not be written once, and is gone.
    is_off: bool,
}

impl Watermark {
    pub fn new(data: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { data, disk, file: None, last: None, is_dirty: false, is_off: false }
    }

    /// Begins with an opened log; `None` when that has no line. [`Watermark::sync`] makes it
    /// durable: until the next batch the older note is as good, as recovery left nothing torn.
    pub fn begin(&mut self, promised: Option<Promised>) -> io::Result<()> {
        let Some(promised) = promised else { return self.remove() };
        // Both slots: what the other says may be of a log that has gone since.
        self.note(promised, false)?;
        self.note(promised, false)
    }

    /// Notes an end. [`Watermark::sync`] makes it durable.
    ///
    /// # Errors
    /// When neither that nor removing the note was possible: what it says is wrong now.
    pub fn note(&mut self, promised: Promised, is_ahead: bool) -> io::Result<()> {
        if self.is_off {
            return Ok(());
        }
        let count = self.last.map_or(1, |last| last.count + 1);
        let note = Note { count, is_ahead, promised };
        match self.write(&note) {
            Ok(()) => (self.last, self.is_dirty) = (Some(note), true),
            Err(error) => self.disable(&error)?,
        }
        Ok(())
    }

    fn write(&mut self, note: &Note) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let path = self.data.join(FILE);
                let is_there = fs::metadata(&path).is_ok_and(|found| found.len() == SLOT * SLOTS);
                let file = if is_there {
                    self.disk.open_over(&path)?
                } else {
                    let file = self.disk.open_fixed(&path, SLOT * SLOTS)?;
                    self.disk.sync_dir(&self.data)?;
                    file
                };
                none.insert(file)
            }
        };
        file.write_at(&note.pack(), note.count % SLOTS * SLOT)
    }

    /// Says, durably, that from now on frames of the ahead files have the end.
    pub fn hand_over_to_wal(&mut self) -> io::Result<()> {
        match self.last {
            Some(last) if !last.is_ahead => {
                self.note(last.promised, true)?;
                self.sync()
            }
            _ => Ok(()),
        }
    }

    /// Makes the last note durable. Nothing may be written behind the end before.
    ///
    /// # Errors
    /// As [`Watermark::note`].
    pub fn sync(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| self.is_dirty) else { return Ok(()) };
        match file.sync() {
            Ok(()) => self.is_dirty = false,
            Err(error) => self.disable(&error)?,
        }
        Ok(())
    }

    fn disable(&mut self, error: &io::Error) -> io::Result<()> {
        tracing::warn!(
            %error,
            "the end of the log cannot be noted; a write that a power cut tears may be reported as damage"
        );
        self.remove()?;
        self.is_off = true;
        Ok(())
    }

    fn remove(&mut self) -> io::Result<()> {
        (self.file, self.last, self.is_dirty) = (None, None, false);
        let path = self.data.join(FILE);
        if fs::exists(&path)? {
            self.disk.remove(&path)?;
            self.disk.sync_dir(&self.data)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_nothing_damaged_does() {
        let day = NaiveDate::from_ymd_opt(2026, 2, 21).unwrap();
        let at = |offset| LogPos { day, offset };
        let hash = Hash::from_bytes([7; 32]);
        let promised = Promised { end: at(900), line: at(700), hash };
        for is_ahead in [false, true] {
            let note = Note { count: 3, is_ahead, promised };
            let bytes = note.pack();
            assert_eq!((bytes.len(), Note::read(&bytes)), (BYTES, Some(note)));
            for place in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1;
                assert_eq!(Note::read(&damaged), None, "{place}");
                assert_eq!(Note::read(&bytes[..place]), None, "{place}");
            }
        }
        assert_eq!(Note::read(&[0; 4096]), None);
    }
}
