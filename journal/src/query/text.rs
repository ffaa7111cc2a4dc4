//! Text search in a record: every word of the query, in any case, anywhere.
//!
//! A message is stored verbatim, so that a letter may be escaped (`caf\u00e9`). Words of plain ASCII
//! are searched in the bytes. Only a word that may be escaped makes the search decode the escapes.

use memchr::memmem::Finder;

use crate::record::chain::unsealed;

/// Words that must all occur.
#[derive(Debug, Clone)]
pub(crate) struct TextQuery {
    plain: Vec<Finder<'static>>,
    /// Words that may be escaped, in lower case.
    hard: Vec<String>,
}

impl TextQuery {
    /// The words of a query; `None` if there are none.
    pub fn of(text: &str) -> Option<Self> {
        let mut words = Self { plain: Vec::new(), hard: Vec::new() };
        for word in text.split_whitespace() {
            if word.bytes().all(|byte| byte.is_ascii_graphic() && !br#""\/<>&'"#.contains(&byte)) {
                let word = word.to_ascii_lowercase();
                words.plain.push(Finder::new(word.as_bytes()).into_owned());
            } else {
                words.hard.push(word.to_lowercase());
            }
        }
        (!words.plain.is_empty() || !words.hard.is_empty()).then_some(words)
    }

    /// Whether all words occur in the record. Its hashes are excluded: `dead` or `cafe` would match in
    /// one of a few hundred.
    pub fn are_in(&self, line: &[u8], scratch: &mut Vec<u8>) -> bool {
        let line = unsealed(line);
        scratch.clear();
        scratch.extend_from_slice(line);
        scratch.make_ascii_lowercase();
        if !self.plain.iter().all(|word| word.find(scratch).is_some()) {
            return false;
        }
        if self.hard.is_empty() {
            return true;
        }
        let text = unescaped(&String::from_utf8_lossy(line)).to_lowercase();
        self.hard.iter().all(|word| text.contains(word))
    }
}

/// Decodes the escapes of JSON; invalid ones stay.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let (character, len) = match escape.as_bytes().first() {
            Some(b'n') => (Some('\n'), 1),
            Some(b't') => (Some('\t'), 1),
            Some(b'r') => (Some('\r'), 1),
            Some(b'b') => (Some('\u{8}'), 1),
            Some(b'f') => (Some('\u{c}'), 1),
            Some(b'u') => unicode(escape),
            Some(byte @ (b'"' | b'\\' | b'/')) => (Some(char::from(*byte)), 1),
            _ => (None, 0),
        };
        out.push(character.unwrap_or('\\'));
        rest = &escape[len..];
    }
    out.push_str(rest);
    out
}

/// The character of `uXXXX` or `uXXXX\uXXXX`, and the length of the escape.
fn unicode(escape: &str) -> (Option<char>, usize) {
    let unit = |at: usize| u16::from_str_radix(escape.get(at..at + 4)?, 16).ok();
    let Some(first) = unit(1) else { return (None, 0) };
    if let Some(character) = char::from_u32(first.into()) {
        return (Some(character), 5);
    }
    let second = if escape.get(5..7) == Some("\\u") { unit(7) } else { None };
    let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
    pair.map_or((None, 0), |character| (Some(character), 11))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(question: &str, line: &str) -> bool {
        TextQuery::of(question).is_none_or(|words| words.are_in(line.as_bytes(), &mut Vec::new()))
    }

    #[test]
    fn words_match_in_any_case_and_escaped() {
        let line = r#"{"a":"The Caf\u00C9 is open","b":"<b>GRÜN</b> \ud83d\ude00 C:\\dir \"x\""}"#;
        for question in
            ["", "  ", "café", "open CAFÉ the", "grün", "😀", "<B>grün</b>", r"c:\dir", "\"x\""]
        {
            assert!(found(question, line), "{question}");
        }
        for question in ["closed", "open closed", "cafè", "😁", r"c:\\dir"] {
            assert!(!found(question, line), "{question}");
        }
    }

    #[test]
    fn invalid_escapes_stay() {
        for text in [r"\", r"\x", r"\u12", r"\ud83d", r"\ud83d\u0041", r"\uzzzz"] {
            assert_eq!(unescaped(text).chars().next(), Some('\\'), "{text}");
        }
        assert_eq!(unescaped("a\\n\\t\\r\\b\\f\\/"), "a\n\t\r\u{8}\u{c}/");
    }

    #[test]
    fn hashes_do_not_match() {
        let mut line = br#"{"seq":1,"time":"x""#.to_vec();
        let hash = crate::record::chain::seal(&mut line, 0, crate::Hash::ZERO).to_string();
        line.pop();
        let line = String::from_utf8(line).unwrap();
        assert!(!found(&hash[..4], &line) && found("seq", &line));
    }
}
