//! Finds events of the bus by the key of a fact.
//!
//! Such events are rare and anywhere in the log, so that every line is scanned, at about the cost of
//! a text search. Keys are not interpreted.

use std::collections::HashMap;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::query::reader::{MAX_PAGE, SCAN_BYTES, raw};
use crate::record::batch::{Entry, RecordKind};
use crate::{FactEvents, ReadError};

/// The state of a search for events about one fact.
pub(crate) struct FactSearch {
    key: String,
    needle: Finder<'static>,
    lines: Vec<Box<RawValue>>,
    scanned: usize,
    has_budget: bool,
}

#[derive(Deserialize)]
struct Facts<'a> {
    #[serde(borrow)]
    facts: HashMap<String, &'a RawValue>,
}

impl FactSearch {
    pub fn of(key: &str) -> Self {
        // A key with characters that JSON escapes is certain only up to the first of them.
        let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
        let plain = key.find(|c| !is_plain(c)).map_or(key, |end| &key[..end]);
        let needle = Finder::new(format!("\"{plain}").as_bytes()).into_owned();
        Self { key: key.to_owned(), needle, lines: Vec::new(), scanned: 0, has_budget: true }
    }

    /// Checks records; returns whether to continue.
    pub fn take<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a Entry>,
        bytes: &[u8],
    ) -> Result<bool, ReadError> {
        self.scanned += bytes.len();
        for entry in entries.filter(|entry| entry.kind == RecordKind::Event) {
            self.check(entry.of(bytes))?;
        }
        self.has_budget = self.scanned < SCAN_BYTES && self.lines.len() < MAX_PAGE;
        Ok(self.has_budget)
    }

    /// Adds an event if it is about the fact.
    pub fn check(&mut self, line: &[u8]) -> Result<(), ReadError> {
        if self.needle.find(line).is_some()
            && serde_json::from_slice::<Facts<'_>>(line)
                .is_ok_and(|line| line.facts.contains_key(&self.key))
        {
            self.lines.push(raw(line.to_vec())?);
        }
        Ok(())
    }

    /// The events found up to the record `last`.
    pub fn finish(self, last: u64) -> FactEvents {
        FactEvents { lines: self.lines, next: (!self.has_budget).then_some(last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_matches_only_as_a_key_of_facts() {
        for (key, line, expected) in [
            ("a:1", r#"{"event":"x","facts":{"a:1":null}}"#, true),
            ("a:1", r#"{"event":"x","facts":{"a:1":{"b":2},"c":null}}"#, true),
            ("a:1", r#"{"event":"x","reason":"a:1","facts":{"a:12":null}}"#, false),
            ("a:1", r#"{"event":"x","facts":{"c":"a:1"}}"#, false),
            ("a:1", r#"{"event":"a:1"}"#, false),
            ("a\"b", r#"{"event":"x","facts":{"a\"b":null}}"#, true),
        ] {
            let mut search = FactSearch::of(key);
            search.check(line.as_bytes()).unwrap();
            assert_eq!(search.finish(0).lines.len() == 1, expected, "{key} in {line}");
        }
    }
}
