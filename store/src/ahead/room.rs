//! What stands in a room, and how it gets back into the day files.
//!
//! A room is written from its beginning, batch after batch, each with its place in the log and a
//! checksum. What does not fit, or is of an earlier filling of the room, ends it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use chrono::{Datelike, NaiveDate};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::batch::LogPos;
use crate::days::plain_file;
use crate::hash::{Head, check_seal, read_seal};
use crate::scan::ends_with;

const MAGIC: [u8; 4] = *b"A2A\x01";
/// Magic, length, generation, day, offset, checksum.
pub(super) const HEADER: usize = 4 + 4 + 8 + 4 + 8 + 8;
const SUMMED: usize = HEADER - 8;

/// A batch as it stands in a room, in a buffer that is used again.
pub(super) fn frame(out: &mut Vec<u8>, generation: u64, at: LogPos, bytes: &[u8]) {
    out.clear();
    out.extend_from_slice(&MAGIC);
    // A room is far smaller than 4 GiB, and nothing larger is put there.
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(&generation.to_be_bytes());
    out.extend_from_slice(&at.day.num_days_from_ce().to_be_bytes());
    out.extend_from_slice(&at.offset.to_be_bytes());
    let sum = sum(&out[..SUMMED], bytes);
    out.extend_from_slice(&sum.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn sum(header: &[u8], bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, xxh3_64(header))
}

#[derive(Debug, PartialEq)]
struct Frame<'a> {
    generation: u64,
    at: LogPos,
    bytes: &'a [u8],
}

/// Reads one from the front of `room`; returns what follows it.
fn read(room: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (header, rest) = room.split_at_checked(HEADER)?;
    let field = header.strip_prefix(&MAGIC)?;
    let (len, field) = field.split_first_chunk()?;
    let (generation, field) = field.split_first_chunk()?;
    let (day, field) = field.split_first_chunk()?;
    let (offset, field) = field.split_first_chunk()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
    if u64::from_be_bytes(field.try_into().ok()?) != sum(&header[..SUMMED], bytes) {
        return None;
    }
    let day = NaiveDate::from_num_days_from_ce_opt(i32::from_be_bytes(*day))?;
    let at = LogPos { day, offset: u64::from_be_bytes(*offset) };
    Some((Frame { generation: u64::from_be_bytes(*generation), at, bytes }, rest))
}

/// Everything of the newest filling of a room.
fn frames(mut room: &[u8]) -> Vec<Frame<'_>> {
    let mut found: Vec<Frame<'_>> = Vec::new();
    while let Some((frame, rest)) = read(room)
        && found.first().is_none_or(|first| first.generation == frame.generation)
    {
        found.push(frame);
        room = rest;
    }
    found
}

/// Puts into the day files of `dir` what only the rooms in `data` have; returns how many bytes.
/// When it returns, everything in the rooms is in the day files, durably.
pub(crate) fn replay(dir: &Path, data: &Path) -> io::Result<u64> {
    each(dir, data, true)
}

/// How many bytes only the rooms have. None while a server writes: the day file gets each batch
/// first, if not durably.
pub(crate) fn lacking(dir: &Path, data: &Path) -> io::Result<u64> {
    each(dir, data, false)
}

fn each(dir: &Path, data: &Path, write: bool) -> io::Result<u64> {
    let mut rooms = Vec::new();
    for path in super::rooms(data) {
        match fs::read(path) {
            Ok(room) => rooms.push(room),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let mut frames: Vec<Frame<'_>> = rooms.iter().flat_map(|room| frames(room)).collect();
    frames.sort_by_key(|frame| (frame.generation, frame.at));
    let mut missing = 0;
    let mut day: Option<(NaiveDate, File)> = None;
    for frame in &frames {
        if day.as_ref().is_none_or(|(day, _)| *day != frame.at.day) {
            if let Some((_, file)) = day.take().filter(|_| write) {
                file.sync_all()?;
            }
            let path = plain_file(dir, frame.at.day);
            match OpenOptions::new().read(true).write(write).open(path) {
                Ok(file) => day = Some((frame.at.day, file)),
                // Packed, which a day is only when it is whole, or removed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
        }
        if let Some((_, file)) = &day
            && is_missing(dir, file, frame)?
        {
            missing += frame.bytes.len() as u64;
            if write {
                file.write_all_at(frame.bytes, frame.at.offset)?;
            }
        }
    }
    if let Some((_, file)) = day.filter(|_| write) {
        file.sync_all()?;
    }
    Ok(missing)
}

/// Whether a batch is not where it belongs; `false` also when it belongs to another log.
fn is_missing(dir: &Path, file: &File, frame: &Frame<'_>) -> io::Result<bool> {
    let there = read_up_to(file, frame.at.offset, frame.bytes.len())?;
    if there == frame.bytes {
        return Ok(false);
    }
    let first = first_line(frame.bytes);
    let follows = |hash| frame.at.offset == 0 || ends_with(dir, Head { seq: 0, hash }, frame.at);
    let fits = read_seal(first).is_some_and(|seal| follows(seal.prev));
    // A power cut leaves zeros or rubbish where something is missing, never another good line.
    let other = first_line(&there);
    if !fits || (other != first && check_seal(other).is_some()) {
        tracing::error!(
            day = %frame.at.day, offset = frame.at.offset,
            "a batch that was written ahead does not follow what is in the log; it is left out"
        );
        return Ok(false);
    }
    Ok(true)
}

fn first_line(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(b'\n', bytes).unwrap_or(bytes.len())]
}

/// Reads so many bytes, or as many as there are.
fn read_up_to(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let there = file.metadata()?.len().saturating_sub(offset);
    let mut bytes = vec![0; len.min(usize::try_from(there).unwrap_or(usize::MAX))];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> LogPos {
        LogPos { day: NaiveDate::from_ymd_opt(2026, 2, 21).unwrap(), offset }
    }

    fn written(generation: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frame(&mut out, generation, at(offset), bytes);
        out
    }

    #[test]
    fn what_was_written_is_read_and_nothing_that_was_damaged() {
        let one = written(3, 70, b"a line\n");
        let (frame, rest) = read(&one).unwrap();
        assert_eq!(
            (frame, rest.len()),
            (Frame { generation: 3, at: at(70), bytes: b"a line\n" }, 0)
        );
        for place in 0..one.len() {
            let mut damaged = one.clone();
            damaged[place] ^= 1;
            assert_eq!(read(&damaged), None, "{place}");
            assert_eq!(read(&one[..place]), None, "{place}");
        }
    }

    #[test]
    fn a_room_ends_where_its_last_filling_does() {
        let mut room = [written(2, 0, b"old"), written(2, 3, b"older"), vec![0; 50]].concat();
        assert_eq!(frames(&room).len(), 2);
        let new = written(3, 8, b"new");
        room[..new.len()].copy_from_slice(&new);
        assert_eq!(frames(&room), [Frame { generation: 3, at: at(8), bytes: b"new" }]);
        assert!(frames(&[0; 100]).is_empty());
    }
}
