//! Text form of page tokens: the content and a checksum in hexadecimal.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

const SUM_BYTES: usize = 4;

/// The kind of list is part of the checksum, so that a token is valid for one kind only.
fn checksum(kind: u64, content: &[u8]) -> [u8; SUM_BYTES] {
    let [a, b, c, d, ..] = xxh3_64_with_seed(content, kind).to_be_bytes();
    [a, b, c, d]
}

pub(super) fn write(f: &mut fmt::Formatter<'_>, kind: u64, mut content: Vec<u8>) -> fmt::Result {
    let sum = checksum(kind, &content);
    content.extend(sum);
    content.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// The content; `None` when the text is no token of this kind.
pub(super) fn read(kind: u64, text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    let mut content: Vec<u8> = bytes.collect::<Option<_>>()?;
    let sum = content.split_off(content.len().checked_sub(SUM_BYTES)?);
    (sum == checksum(kind, &content)).then_some(content)
}
