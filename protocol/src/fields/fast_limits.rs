//! Fast path of the limit check: one pass over the bytes of a JSON text, without allocating values.
//!
//! It accepts the common case only. A text with an escape, an exponent, many keys or deep nesting
//! is left to the full check in [`super::extensible`].

use crate::limits::{ARRAY_ITEMS, STRING_CHARS};

/// Maximum nesting that the fast path handles.
const MAX_DEPTH: usize = 12;
/// Maximum keys per object that the fast path compares.
const MAX_KEYS: usize = 16;
/// Maximum characters of a number: without an exponent such a number always fits a double.
const MAX_NUMBER_LEN: usize = 32;

/// A container whose end has not been reached.
#[derive(Clone, Copy)]
enum Container {
    /// An object, with the index of its first key in the list of keys.
    Object(usize),
    /// An array, with the number of items so far.
    Array(usize),
}

/// Whether `json`, a valid JSON text, certainly keeps every limit. `false` means undecided.
pub(super) fn surely_within_limits(json: &str) -> bool {
    let bytes = json.as_bytes();
    let mut open = [Container::Array(0); MAX_DEPTH];
    let mut depth: usize = 0;
    let mut keys: Vec<&[u8]> = Vec::new();
    let mut key_follows = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'"' => {
                let rest = &bytes[at + 1..];
                let Some(len) = memchr::memchr2(b'"', b'\\', rest) else { return false };
                // A string has at most as many code points as bytes.
                if rest[len] == b'\\' || len > STRING_CHARS {
                    return false;
                }
                if std::mem::take(&mut key_follows) {
                    let Some(Container::Object(first)) =
                        depth.checked_sub(1).map(|last| open[last])
                    else {
                        return false;
                    };
                    let (siblings, key) = (&keys[first..], &rest[..len]);
                    if siblings.len() >= MAX_KEYS || siblings.contains(&key) {
                        return false;
                    }
                    keys.push(key);
                }
                len + 2
            }
            b'{' | b'[' => {
                if depth == MAX_DEPTH {
                    return false;
                }
                key_follows = byte == b'{';
                open[depth] =
                    if key_follows { Container::Object(keys.len()) } else { Container::Array(1) };
                depth += 1;
                1
            }
            b'}' | b']' => {
                let Some(last) = depth.checked_sub(1) else { return false };
                if let Container::Object(first) = open[last] {
                    keys.truncate(first);
                }
                key_follows = false;
                depth = last;
                1
            }
            b',' => {
                match depth.checked_sub(1).map(|last| &mut open[last]) {
                    Some(Container::Object(_)) => key_follows = true,
                    Some(Container::Array(items)) if *items < ARRAY_ITEMS => *items += 1,
                    _ => return false,
                }
                1
            }
            b'-' | b'0'..=b'9' => {
                let is_plain = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'.');
                let len = bytes[at..].iter().take_while(is_plain).count();
                let exponent = bytes.get(at + len).is_some_and(|byte| matches!(byte, b'e' | b'E'));
                if len > MAX_NUMBER_LEN || exponent {
                    return false;
                }
                len
            }
            // Colons, white space, and the letters of `true`, `false` and `null`.
            _ => 1,
        };
    }
    depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_json_is_decided_by_the_fast_path() {
        for json in [
            r#"{"a2a":{"messageId":"m1","parts":[{"text":"Grüße"}],"role":"ROLE_USER"},"whole":true}"#,
            r#" { "a" : [ 1 , -2.5 , null , false ] , "b" : { } , "c" : [ ] } "#,
            r#"{"a":{"k":1},"b":{"k":1},"k":[{"k":1},{"k":1}]}"#,
        ] {
            assert!(surely_within_limits(json), "{json}");
        }
    }

    #[test]
    fn json_that_may_break_a_limit_is_left_undecided() {
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(STRING_CHARS + 1));
        let many = format!(r#"{{"a":[0{}]}}"#, ",0".repeat(ARRAY_ITEMS));
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        let digits = format!(r#"{{"a":{}}}"#, "9".repeat(400));
        for json in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":[{"b":1,"c":{},"b":2}]}"#,
            r#"{"a":"\u0000"}"#,
            r#"{"a":1e400}"#,
            r#"{"a":1E9}"#,
            &long,
            &many,
            &deep,
            &digits,
        ] {
            assert!(!surely_within_limits(json), "{}", &json[..json.len().min(60)]);
        }
    }
}
