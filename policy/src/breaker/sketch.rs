//! Sketch of a text: a few hashes, from which the similarity of two texts is estimated.
//!
//! A sketch holds the smallest hashes of the distinct words (bottom-k MinHash). Among the smallest
//! hashes of both texts together, the share that both have estimates the share of words that both
//! have. Words with digits all count as one, so that a counter, a time or an id is not a new word.

use xxhash_rust::xxh3::xxh3_64;

/// The number of hashes in a sketch; shorter texts are compared exactly.
const HASHES: usize = 16;
/// Texts whose similarity is at least this many percent are nearly equal.
const NEAR_PERCENT: usize = 70;
/// Bytes of a payload that are read.
const MAX_BYTES: usize = 4_096;

/// The sketch of the text in a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sketch {
    /// Sorted; the first `len` are used.
    hashes: [u32; HASHES],
    len: u8,
}

impl Sketch {
    /// The sketch of the texts in JSON: the words of all string values, without the keys.
    #[must_use]
    pub fn of_json(json: &[u8]) -> Self {
        let mut sketch = Self::default();
        let mut rest = &json[..json.len().min(MAX_BYTES)];
        while let Some(start) = rest.iter().position(|byte| *byte == b'"') {
            let text = &rest[start + 1..];
            let end = end_of_string(text);
            let after = text.get(end + 1..).unwrap_or_default();
            let is_key = after.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
            if !is_key {
                sketch.add_text(&text[..end]);
            }
            rest = after;
        }
        sketch
    }

    /// Whether both texts are equal or nearly equal.
    #[must_use]
    pub fn is_near(&self, other: &Self) -> bool {
        let (mut one, mut two) =
            (self.hashes().iter().peekable(), other.hashes().iter().peekable());
        let (mut all, mut common) = (0, 0);
        while all < HASHES {
            let smallest = match (one.peek(), two.peek()) {
                (Some(one), Some(two)) => **one.min(two),
                (Some(only), None) | (None, Some(only)) => **only,
                (None, None) => break,
            };
            let both = [one.next_if_eq(&&smallest), two.next_if_eq(&&smallest)];
            common += usize::from(both.iter().all(Option::is_some));
            all += 1;
        }
        common * 100 >= all * NEAR_PERCENT
    }

    fn hashes(&self) -> &[u32] {
        &self.hashes[..usize::from(self.len)]
    }

    fn add_text(&mut self, text: &[u8]) {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
        for word in text.split(|byte| !is_word(byte)).filter(|word| !word.is_empty()) {
            if word.iter().any(u8::is_ascii_digit) {
                self.add(0);
                continue;
            }
            let mut lower = [0; 32];
            let length = word.len().min(lower.len());
            lower[..length].copy_from_slice(&word[..length]);
            lower.make_ascii_lowercase();
            // The upper half of the hash, so that zero stays free.
            self.add((xxh3_64(&lower[..length]) >> 32) as u32 | 1);
        }
    }

    /// Adds a hash, if it is new and among the smallest.
    fn add(&mut self, hash: u32) {
        let Err(at) = self.hashes().binary_search(&hash) else { return };
        if at == HASHES {
            return;
        }
        let last = usize::from(self.len).min(HASHES - 1);
        self.hashes.copy_within(at..last, at + 1);
        self.hashes[at] = hash;
        self.len = self.len.saturating_add(1).min(HASHES as u8);
    }
}

/// The index of the closing quote, or the length.
fn end_of_string(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(text: &str) -> Sketch {
        Sketch::of_json(
            serde_json::json!({ "status": text, "list": [text] }).to_string().as_bytes(),
        )
    }

    #[test]
    fn counters_times_and_ids_are_not_new_words() {
        let said = sketch("Thanks for the report number 17, at 12:30 \"as agreed\"");
        for near in [
            "Thanks for the report number 18, at 12:31 \"as agreed\"",
            "thanks for the report: number 4711 at 9, as agreed",
            "Thanks again for the report number 17, at 12:30 \"as agreed\"",
        ] {
            assert!(said.is_near(&sketch(near)), "{near}");
        }
        for new in ["Thanks for the fish", "The parser fails on empty input", "17", ""] {
            assert!(!said.is_near(&sketch(new)), "{new}");
        }
        assert!(sketch("").is_near(&sketch("")) && sketch("1").is_near(&sketch("2")));
    }

    #[test]
    fn keys_do_not_count_and_long_texts_are_estimated() {
        let one = Sketch::of_json(br#"{"progress": "parser", "status": "done"}"#);
        let two = Sketch::of_json(br#"{"progress": "router", "status": "open"}"#);
        assert!(!one.is_near(&two));
        let words = |from: usize| {
            let letter = |n: usize| char::from(b'a' + n as u8);
            (from..from + 200)
                .map(|n| format!("w{}{}{} ", letter(n / 676), letter(n / 26 % 26), letter(n % 26)))
                .collect::<String>()
        };
        assert!(sketch(&words(0)).is_near(&sketch(&words(4))));
        assert!(!sketch(&words(0)).is_near(&sketch(&words(150))));
    }

    #[test]
    fn broken_json_is_read_without_panic() {
        for text in ["\"", "\"\\", "\"a\\\"b", "{\"a\":\"b", "\u{fffd}\"ü\""] {
            let _ = Sketch::of_json(text.as_bytes());
        }
    }
}
