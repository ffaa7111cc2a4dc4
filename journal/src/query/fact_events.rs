//! Events that belong to no record, found by what they note.
//!
//! They are few and stand anywhere, so every line is looked at, which costs about as much as
//! searching for a word. What a key means is for those to know who ask.

use std::collections::HashMap;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::query::reader::{MAX_PAGE, SCAN_BYTES, raw};
use crate::record::batch::{Entry, RecordKind};
use crate::{FactEvents, ReadError};

/// Notes in the making.
pub(crate) struct FactSearch {
    key: String,
    mark: Finder<'static>,
    lines: Vec<Box<RawValue>>,
    looked_at: usize,
    goes_on: bool,
}

#[derive(Deserialize)]
struct Facts<'a> {
    #[serde(borrow)]
    facts: HashMap<String, &'a RawValue>,
}

impl FactSearch {
    pub fn of(key: &str) -> Self {
        // A key is written as it is unless it holds what JSON escapes; of that nothing is sure
        // but its plain beginning.
        let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
        let plain = key.find(|c| !is_plain(c)).map_or(key, |end| &key[..end]);
        let mark = Finder::new(format!("\"{plain}").as_bytes()).into_owned();
        Self { key: key.to_owned(), mark, lines: Vec::new(), looked_at: 0, goes_on: true }
    }

    /// Looks at lines; whether it goes on.
    pub fn take<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a Entry>,
        bytes: &[u8],
    ) -> Result<bool, ReadError> {
        self.looked_at += bytes.len();
        for entry in entries.filter(|entry| entry.kind == RecordKind::Event) {
            self.look(entry.of(bytes))?;
        }
        self.goes_on = self.looked_at < SCAN_BYTES && self.lines.len() < MAX_PAGE;
        Ok(self.goes_on)
    }

    /// Looks at one event.
    pub fn look(&mut self, line: &[u8]) -> Result<(), ReadError> {
        if self.mark.find(line).is_some()
            && serde_json::from_slice::<Facts<'_>>(line)
                .is_ok_and(|line| line.facts.contains_key(&self.key))
        {
            self.lines.push(raw(line.to_vec())?);
        }
        Ok(())
    }

    /// What was found up to the line `last`.
    pub fn finish(self, last: u64) -> FactEvents {
        FactEvents { lines: self.lines, next: (!self.goes_on).then_some(last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_where_it_is_a_key_of_facts() {
        for (key, line, expected) in [
            ("a:1", r#"{"event":"x","facts":{"a:1":null}}"#, true),
            ("a:1", r#"{"event":"x","facts":{"a:1":{"b":2},"c":null}}"#, true),
            ("a:1", r#"{"event":"x","reason":"a:1","facts":{"a:12":null}}"#, false),
            ("a:1", r#"{"event":"x","facts":{"c":"a:1"}}"#, false),
            ("a:1", r#"{"event":"a:1"}"#, false),
            ("a\"b", r#"{"event":"x","facts":{"a\"b":null}}"#, true),
        ] {
            let mut noting = FactSearch::of(key);
            noting.look(line.as_bytes()).unwrap();
            assert_eq!(noting.finish(0).lines.len() == 1, expected, "{key} in {line}");
        }
    }
}
