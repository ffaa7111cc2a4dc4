//! Frame format of the WAL files: one batch with its position in the log and a checksum.
//!
//! A file is filled from its beginning, frame after frame. It ends at the first frame whose checksum
//! does not match, or which is of an older generation: an earlier filling of the same file.

use chrono::{Datelike, NaiveDate};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::record::batch::LogPos;

const MAGIC: [u8; 4] = *b"A2A\x01";
/// Magic, length, generation, day, offset, checksum.
pub(super) const HEADER: usize = 4 + 4 + 8 + 4 + 8 + 8;
const SUMMED: usize = HEADER - 8;

/// Encodes a frame into a reused buffer.
pub(super) fn encode(out: &mut Vec<u8>, generation: u64, at: LogPos, bytes: &[u8]) {
    out.clear();
    out.extend_from_slice(&MAGIC);
    // A WAL file is far smaller than 4 GiB, and a larger batch is never written to one.
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

/// A batch and its position in the log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame<'a> {
    pub generation: u64,
    pub at: LogPos,
    pub bytes: &'a [u8],
}

impl Frame<'_> {
    /// Where the batch ends in the log.
    pub fn end(&self) -> LogPos {
        LogPos { offset: self.at.offset + self.bytes.len() as u64, ..self.at }
    }
}

/// Decodes the first frame of `file`; returns it with the bytes that follow it.
fn decode(file: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (header, rest) = file.split_at_checked(HEADER)?;
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

/// The frames of the newest filling of a file.
pub(super) fn frames(mut file: &[u8]) -> Vec<Frame<'_>> {
    let mut found: Vec<Frame<'_>> = Vec::new();
    while let Some((frame, rest)) = decode(file)
        && found.first().is_none_or(|first| first.generation == frame.generation)
    {
        found.push(frame);
        file = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> LogPos {
        LogPos { day: NaiveDate::from_ymd_opt(2026, 2, 21).unwrap(), offset }
    }

    fn encoded(generation: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, generation, at(offset), bytes);
        out
    }

    #[test]
    fn intact_frame_decodes_and_any_damage_is_rejected() {
        let one = encoded(3, 70, b"a line\n");
        let (frame, rest) = decode(&one).unwrap();
        assert_eq!(
            (frame, rest.len()),
            (Frame { generation: 3, at: at(70), bytes: b"a line\n" }, 0)
        );
        for byte in 0..one.len() {
            let mut damaged = one.clone();
            damaged[byte] ^= 1;
            assert_eq!(decode(&damaged), None, "{byte}");
            assert_eq!(decode(&one[..byte]), None, "{byte}");
        }
    }

    #[test]
    fn frames_of_an_older_generation_are_ignored() {
        let mut file = [encoded(2, 0, b"old"), encoded(2, 3, b"older"), vec![0; 50]].concat();
        assert_eq!(frames(&file).len(), 2);
        let new = encoded(3, 8, b"new");
        file[..new.len()].copy_from_slice(&new);
        assert_eq!(frames(&file), [Frame { generation: 3, at: at(8), bytes: b"new" }]);
        assert!(frames(&[0; 100]).is_empty());
    }
}
