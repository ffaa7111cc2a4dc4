//! What stands in a room.
//!
//! A room is written from its beginning, batch after batch, each with its place in the log and a
//! checksum. What does not fit, or is of an earlier filling of the room, ends it.

use chrono::{Datelike, NaiveDate};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::batch::LogPos;

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

/// A batch and its place in the log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame<'a> {
    pub generation: u64,
    pub at: LogPos,
    pub bytes: &'a [u8],
}

impl Frame<'_> {
    /// Where it ends in the log.
    pub fn end(&self) -> LogPos {
        LogPos { offset: self.at.offset + self.bytes.len() as u64, ..self.at }
    }
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
pub(super) fn frames(mut room: &[u8]) -> Vec<Frame<'_>> {
    let mut found: Vec<Frame<'_>> = Vec::new();
    while let Some((frame, rest)) = read(room)
        && found.first().is_none_or(|first| first.generation == frame.generation)
    {
        found.push(frame);
        room = rest;
    }
    found
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
