//! Descriptions of message parts, as one printable line.

use a2a_protocol::task::{Content, Part};
use serde_json::Value;

use crate::REFERENCE_EXTENSION;

/// Maximum number of parts described one by one.
const DESCRIBED: usize = 10;

pub(super) fn is_text(part: &Part) -> bool {
    matches!(part.content, Content::Text(_))
}

/// Reduces a text to one line without control characters, cut at `longest` characters.
pub(in crate::agents) fn one_line(text: &str, longest: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() {
            gap = count > 0;
            continue;
        }
        if c.is_control() || turns_direction(c) {
            continue;
        }
        if count + usize::from(gap) >= longest {
            line.push('…');
            break;
        }
        if std::mem::take(&mut gap) {
            line.push(' ');
            count += 1;
        }
        line.push(c);
        count += 1;
    }
    line
}

/// Whether a character changes the writing direction of the text after it.
fn turns_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Describes the parts as a list in a sentence; `None` when there are none.
pub(super) fn described(parts: &[Part]) -> Option<String> {
    if parts.is_empty() {
        return None;
    }
    let mut all: Vec<String> = parts.iter().take(DESCRIBED).map(describe).collect();
    if parts.len() > DESCRIBED {
        all.push(format!("{} more parts", parts.len() - DESCRIBED));
    }
    let last = all.pop()?;
    Some(if all.is_empty() { last } else { format!("{} and {last}", all.join(", ")) })
}

fn describe(part: &Part) -> String {
    let reference = part.metadata.as_ref().and_then(|all| all.get(REFERENCE_EXTENSION));
    if let Some(reference) = reference {
        let bytes = reference.get("bytes").and_then(Value::as_u64).unwrap_or(0);
        return format!("a part too large to travel along ({bytes} bytes)");
    }
    let named = match (&part.filename, &part.media_type) {
        (Some(name), Some(kind)) => format!(" {} ({})", one_line(name, 80), one_line(kind, 80)),
        (Some(name), None) => format!(" {}", one_line(name, 80)),
        (None, Some(kind)) => format!(" ({})", one_line(kind, 80)),
        (None, None) => String::new(),
    };
    match &part.content {
        Content::Text(text) if text.trim().is_empty() => "an empty text".to_owned(),
        Content::Text(_) => "a text".to_owned(),
        Content::Raw(base64) => {
            let padding = base64.bytes().rev().take(2).filter(|byte| *byte == b'=').count();
            let bytes = (base64.len() / 4 * 3).saturating_sub(padding);
            format!("a file{named} of {bytes} bytes")
        }
        Content::Url(url) => format!("a link{named} to {}", one_line(url, 200)),
        Content::Data(Value::Object(fields)) => {
            let count = fields.len();
            format!("data{named}: an object of {count} field{}", if count == 1 { "" } else { "s" })
        }
        Content::Data(Value::Array(items)) => {
            let count = items.len();
            format!("data{named}: a list of {count} item{}", if count == 1 { "" } else { "s" })
        }
        Content::Data(value) => format!("data{named}: {}", one_line(&value.to_string(), 80)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parts(value: Value) -> Vec<Part> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn one_line_cuts_and_removes_control_characters() {
        assert_eq!(one_line("  a \n\r\n b\u{1b}[31m\u{202e}c ", 20), "a b[31mc");
        assert_eq!(one_line(&"é".repeat(30), 5), "ééééé…");
        assert_eq!(one_line("ab cd", 3), "ab…");
        assert_eq!(one_line("ab c", 4), "ab c");
        assert_eq!(one_line("\u{0}\n", 5), "");
    }

    #[test]
    fn each_kind_of_part_is_described() {
        let all = parts(json!([
            {"raw": "dGNr", "filename": "a\n.txt", "mediaType": "text/plain"},
            {"raw": "dGM="},
            {"url": "https://example.com/a", "filename": "a"},
            {"data": {"a": 1}},
            {"data": [1, 2]},
            {"data": null},
            {"data": null, "metadata": {REFERENCE_EXTENSION: {"bytes": 70_000}}},
        ]));
        assert_eq!(
            described(&all).unwrap(),
            "a file a .txt (text/plain) of 3 bytes, a file of 2 bytes, \
             a link a to https://example.com/a, data: an object of 1 field, \
             data: a list of 2 items, data: null and \
             a part too large to travel along (70000 bytes)"
        );
        assert_eq!(described(&[]), None);
        let many = described(&vec![Part::text("x"); 12]).unwrap();
        assert!(many.ends_with("a text and 2 more parts"), "{many}");
    }
}
