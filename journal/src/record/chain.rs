//! Hash chain of the records: computes, writes and checks the seal at the end of each line.
//!
//! Every line ends in `,"prev":"<64 hex>","hash":"<64 hex>"}`. The seal has a fixed length, so
//! that sealing and checking need no JSON parser and no content of a message can imitate it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

const PREV: &[u8] = b",\"prev\":\"";
const HASH: &[u8] = b"\",\"hash\":\"";
const END: &[u8] = b"\"}";
const HEX: usize = 64;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Bytes of the seal, from `,"prev"` to the closing brace.
const SEAL: usize = PREV.len() + HEX + HASH.len() + HEX + END.len();

/// A SHA-256 hash of a line, shown as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The `prev` of the first record.
    pub const ZERO: Self = Self([0; 32]);

    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn from_hex(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        let mut bad = text.len() != HEX;
        for (byte, pair) in bytes.iter_mut().zip(text.as_chunks::<2>().0) {
            let (high, low) = (VALUES[usize::from(pair[0])], VALUES[usize::from(pair[1])]);
            bad |= (high | low) > 15;
            *byte = high << 4 | low & 15;
        }
        (!bad).then_some(Self(bytes))
    }

    fn push_hex(&self, out: &mut Vec<u8>) {
        let mut text = [0; HEX];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        out.extend_from_slice(&text);
    }
}

/// The value of each hex digit, 255 for any other byte. Only lower case is valid: two spellings of
/// one hash would be two lines with one meaning. A table, since recovery decodes two hashes a line.
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut value = 0;
    while value < 16 {
        values[DIGITS[value as usize] as usize] = value;
        value += 1;
    }
    values
};

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(HEX);
        self.push_hex(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(text.as_bytes()).ok_or_else(|| de::Error::custom("64 hex digits expected"))
    }
}

/// The last committed record, to which the next one chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its sequence number; 0 for an empty log.
    pub seq: u64,
    /// Its hash; zeros for an empty log.
    pub hash: Hash,
}

impl Head {
    /// The head of an empty log.
    pub const START: Self = Self { seq: 0, hash: Hash::ZERO };
}

/// Appends `prev`, the hash and a newline to the line that starts at `start` of `out`.
pub(crate) fn seal(out: &mut Vec<u8>, start: usize, prev: Hash) -> Hash {
    out.extend_from_slice(PREV);
    prev.push_hex(out);
    out.push(b'"');
    let hash = Hash(Sha256::digest(&out[start..]).into());
    out.extend_from_slice(&HASH[1..]);
    hash.push_hex(out);
    out.extend_from_slice(END);
    out.push(b'\n');
    hash
}

/// The two hashes at the end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal {
    pub prev: Hash,
    pub hash: Hash,
}

/// Reads the seal of a line (without its newline) without checking the hash.
pub(crate) fn read_seal(line: &[u8]) -> Option<Seal> {
    let end = &line[line.len().checked_sub(SEAL)?..];
    let (prev, end) = end.strip_prefix(PREV)?.split_at(HEX);
    let (hash, end) = end.strip_prefix(HASH)?.split_at(HEX);
    (end == END).then_some(Seal { prev: Hash::from_hex(prev)?, hash: Hash::from_hex(hash)? })
}

/// A line without its seal.
pub(crate) fn unsealed(line: &[u8]) -> &[u8] {
    let end = if read_seal(line).is_some() { line.len() - SEAL } else { line.len() };
    &line[..end]
}

/// Reads the seal of a line, if the hash matches its bytes.
pub(crate) fn check_seal(line: &[u8]) -> Option<Seal> {
    let seal = read_seal(line)?;
    let covered = &line[..line.len() - (HASH.len() - 1) - HEX - END.len()];
    (Sha256::digest(covered)[..] == seal.hash.0).then_some(seal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_line_verifies_and_any_changed_byte_fails() {
        let mut line = br#"{"seq":1"#.to_vec();
        let prev = Hash([7; 32]);
        let hash = seal(&mut line, 0, prev);
        assert_eq!(line.pop(), Some(b'\n'));
        assert_eq!(check_seal(&line), Some(Seal { prev, hash }));
        for i in 0..line.len() {
            let mut changed = line.clone();
            changed[i] ^= 1;
            assert_eq!(check_seal(&changed), None, "byte {i}");
            assert_eq!(check_seal(&line[..i]), None, "cut at {i}");
        }
    }
}
