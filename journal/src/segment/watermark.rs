//! Durable watermark: where the last durable batch ends in the log.
//!
//! A power cut may leave any pages of a batch that was being written, in any order: its last
//! records may be intact while its first are zeros. Such a batch was never durable and is cut off.
//! The same bytes before the end of the durable part are damage, which must be reported. Only a
//! durable watermark distinguishes the two.
//!
//! Each commit that syncs the segment writes its end to one of two slots. The slot is written at
//! once, which suffices if the process is killed, and synced before the next batch is written:
//! until then no bytes follow that end. While batches go to the WAL ([`crate::segment::wal`]), its
//! frames mark the end. The slot then states only that, since without the frames the end is unknown.
//!
//! A slot is valid for the log in which a record with its hash ends at its position. If a slot
//! cannot be written, the file is removed: an outdated watermark is worse than none.

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
/// Magic, count, whether the WAL is in use, end, end of the last record, its hash, checksum.
const BYTES: usize = 4 + 8 + 1 + 12 + 12 + 32 + 8;
/// Bytes of a slot. Each has a page of its own, so that writing one cannot tear the other.
const SLOT_BYTES: u64 = 4096;
const SLOTS: u64 = 2;

/// The end of the durable batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DurableEnd {
    /// Position before which no byte may be cut off.
    pub end: LogPos,
    /// End of the last valid record: equal to `end`, unless the bytes behind it are damaged.
    pub line: LogPos,
    /// The hash of that record.
    pub hash: Hash,
}

/// The content of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WatermarkSlot {
    count: u64,
    wal_in_use: bool,
    promised: DurableEnd,
}

impl WatermarkSlot {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.count.to_be_bytes());
        out.push(u8::from(self.wal_in_use));
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
        let (wal_in_use, field) = field.split_first()?;
        let (end, field) = field.split_first_chunk()?;
        let (line, hash) = field.split_first_chunk()?;
        let (end, line) = (read_pos(end)?, read_pos(line)?);
        let hash = Hash::from_bytes(hash.try_into().ok()?);
        let promised = DurableEnd { end, line, hash };
        Some(Self { count: u64::from_be_bytes(*count), wal_in_use: *wal_in_use != 0, promised })
    }
}

fn read_pos(bytes: &[u8; 12]) -> Option<LogPos> {
    let (day, offset) = bytes.split_first_chunk()?;
    let day = NaiveDate::from_num_days_from_ce_opt(i32::from_be_bytes(*day))?;
    Some(LogPos { day, offset: u64::from_be_bytes(offset.try_into().ok()?) })
}

/// Returns the end of the durable batches if it is known exactly. The WAL must have been replayed
/// into the log.
pub(crate) fn promised_end(dir: &Path, data: &Path) -> io::Result<Option<LogPos>> {
    let bytes = match fs::read(data.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let slots = bytes.chunks(usize::try_from(SLOT_BYTES).unwrap_or(BYTES));
    let found: Vec<WatermarkSlot> = slots.filter_map(WatermarkSlot::read).collect();
    let fits = |slot: &WatermarkSlot| {
        let DurableEnd { line, hash, .. } = slot.promised;
        ends_with(dir, Head { seq: 0, hash }, line)
    };
    // If the newest record is damaged, the older slot still proves that this is its log.
    let newest = found.iter().max_by_key(|slot| slot.count);
    let Some(newest) = newest.filter(|_| found.iter().any(fits)) else { return Ok(None) };
    let end = newest.promised.end;
    Ok(match wal::end(data)? {
        Some(ahead) => Some(end.max(ahead)),
        None => (!newest.wal_in_use).then_some(end),
    })
}

/// Writer of the watermark.
pub(crate) struct Watermark {
    data: PathBuf,
    disk: Arc<dyn Disk>,
    file: Option<Box<dyn FixedFile>>,
    last: Option<WatermarkSlot>,
    is_dirty: bool,
    /// Writing it failed, and the file was removed.
    is_off: bool,
}

impl Watermark {
    pub fn new(data: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { data, disk, file: None, last: None, is_dirty: false, is_off: false }
    }

    /// Initialises it for an opened log; `None` for an empty log. [`Watermark::sync`] makes it
    /// durable: until the next batch the older slot is as good, as recovery left nothing torn.
    pub fn begin(&mut self, promised: Option<DurableEnd>) -> io::Result<()> {
        let Some(promised) = promised else { return self.remove() };
        // Both slots: the other may belong to a log that no longer exists.
        self.write_end(promised, false)?;
        self.write_end(promised, false)
    }

    /// Writes an end to the next slot. [`Watermark::sync`] makes it durable.
    ///
    /// # Errors
    /// When neither writing nor removing the file was possible: it is wrong now.
    pub fn write_end(&mut self, promised: DurableEnd, wal_in_use: bool) -> io::Result<()> {
        if self.is_off {
            return Ok(());
        }
        let count = self.last.map_or(1, |last| last.count + 1);
        let slot = WatermarkSlot { count, wal_in_use, promised };
        match self.write(&slot) {
            Ok(()) => (self.last, self.is_dirty) = (Some(slot), true),
            Err(error) => self.disable(&error)?,
        }
        Ok(())
    }

    fn write(&mut self, slot: &WatermarkSlot) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let path = self.data.join(FILE);
                let is_there =
                    fs::metadata(&path).is_ok_and(|found| found.len() == SLOT_BYTES * SLOTS);
                let file = if is_there {
                    self.disk.open_over(&path)?
                } else {
                    let file = self.disk.open_fixed(&path, SLOT_BYTES * SLOTS)?;
                    self.disk.sync_dir(&self.data)?;
                    file
                };
                none.insert(file)
            }
        };
        file.write_at(&slot.encode(), slot.count % SLOTS * SLOT_BYTES)
    }

    /// States durably that from now on the frames of the WAL mark the end.
    pub fn hand_over_to_wal(&mut self) -> io::Result<()> {
        match self.last {
            Some(last) if !last.wal_in_use => {
                self.write_end(last.promised, true)?;
                self.sync()
            }
            _ => Ok(()),
        }
    }

    /// Makes the last slot durable. No batch may be written before that.
    ///
    /// # Errors
    /// As for [`Watermark::write_end`].
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
    fn slot_round_trips_and_any_damage_is_rejected() {
        let day = NaiveDate::from_ymd_opt(2026, 2, 21).unwrap();
        let at = |offset| LogPos { day, offset };
        let hash = Hash::from_bytes([7; 32]);
        let promised = DurableEnd { end: at(900), line: at(700), hash };
        for wal_in_use in [false, true] {
            let slot = WatermarkSlot { count: 3, wal_in_use, promised };
            let bytes = slot.encode();
            assert_eq!((bytes.len(), WatermarkSlot::read(&bytes)), (BYTES, Some(slot)));
            for byte in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[byte] ^= 1;
                assert_eq!(WatermarkSlot::read(&damaged), None, "{byte}");
                assert_eq!(WatermarkSlot::read(&bytes[..byte]), None, "{byte}");
            }
        }
        assert_eq!(WatermarkSlot::read(&[0; 4096]), None);
    }
}
