//! A quick look at JSON that keeps the limits, as nearly all of it does.
//!
//! It walks over the bytes and builds nothing. Whatever it cannot judge at a glance (an escape, an
//! exponent, many keys, deep nesting) is left to the reader that can, in [`super`].

use crate::limits::{ARRAY_ITEMS, STRING_CHARS};

/// Containers inside each other that are judged at a glance.
const DEEP: usize = 12;
/// Keys of one object that are compared with each other.
const KEYS: usize = 16;
/// A number of so many characters is neither too large for a double nor worth a thought.
const NUMBER: usize = 32;

/// One container that is open.
#[derive(Clone, Copy)]
enum Inside {
    /// With the place of its first key among those that are remembered.
    Object(usize),
    /// With how many items it has so far.
    Array(usize),
}

/// Whether this text, which is JSON, certainly keeps every limit that holds for any value.
/// `false` says nothing.
pub(super) fn surely_fits(json: &str) -> bool {
    let bytes = json.as_bytes();
    let mut open = [Inside::Array(0); DEEP];
    let mut depth: usize = 0;
    let mut keys: Vec<&[u8]> = Vec::new();
    let mut key_follows = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'"' => {
                let rest = &bytes[at + 1..];
                let Some(len) = memchr::memchr2(b'"', b'\\', rest) else { return false };
                // The characters are at most as many as the bytes.
                if rest[len] == b'\\' || len > STRING_CHARS {
                    return false;
                }
                if std::mem::take(&mut key_follows) {
                    let Some(Inside::Object(first)) = depth.checked_sub(1).map(|last| open[last])
                    else {
                        return false;
                    };
                    let (siblings, key) = (&keys[first..], &rest[..len]);
                    if siblings.len() >= KEYS || siblings.contains(&key) {
                        return false;
                    }
                    keys.push(key);
                }
                len + 2
            }
            b'{' | b'[' => {
                if depth == DEEP {
                    return false;
                }
                key_follows = byte == b'{';
                open[depth] =
                    if key_follows { Inside::Object(keys.len()) } else { Inside::Array(1) };
                depth += 1;
                1
            }
            b'}' | b']' => {
                let Some(last) = depth.checked_sub(1) else { return false };
                if let Inside::Object(first) = open[last] {
                    keys.truncate(first);
                }
                key_follows = false;
                depth = last;
                1
            }
            b',' => {
                match depth.checked_sub(1).map(|last| &mut open[last]) {
                    Some(Inside::Object(_)) => key_follows = true,
                    Some(Inside::Array(items)) if *items < ARRAY_ITEMS => *items += 1,
                    _ => return false,
                }
                1
            }
            b'-' | b'0'..=b'9' => {
                let is_plain = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'.');
                let len = bytes[at..].iter().take_while(is_plain).count();
                let exponent = bytes.get(at + len).is_some_and(|byte| matches!(byte, b'e' | b'E'));
                if len > NUMBER || exponent {
                    return false;
                }
                len
            }
            // Colons, blanks, and the letters of the three words.
            _ => 1,
        };
    }
    depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_messages_look_like_is_judged_at_a_glance() {
        for json in [
            r#"{"a2a":{"messageId":"m1","parts":[{"text":"Grüße"}],"role":"ROLE_USER"},"whole":true}"#,
            r#" { "a" : [ 1 , -2.5 , null , false ] , "b" : { } , "c" : [ ] } "#,
            r#"{"a":{"k":1},"b":{"k":1},"k":[{"k":1},{"k":1}]}"#,
        ] {
            assert!(surely_fits(json), "{json}");
        }
    }

    #[test]
    fn what_breaks_a_limit_or_may_is_not() {
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(STRING_CHARS + 1));
        let many = format!(r#"{{"a":[0{}]}}"#, ",0".repeat(ARRAY_ITEMS));
        let deep = format!("{}{}", "[".repeat(DEEP + 1), "]".repeat(DEEP + 1));
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
            assert!(!surely_fits(json), "{}", &json[..json.len().min(60)]);
        }
    }
}
