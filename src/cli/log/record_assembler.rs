//! Record assembler: joins a record whose events arrive in several pages.
//!
//! It works on text, so that programs get the bytes of the log unchanged.

use anyhow::Context;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Field with the number of events that are still missing.
const MORE: &str = ",\"moreDeliveries\":";

/// A record with the events received so far.
pub(super) struct RecordAssembler {
    pub(super) seq: u64,
    /// Text before and after the list of events.
    before: String,
    after: String,
    /// Lists of events, one per page, without brackets.
    parts: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialRecord<'a> {
    seq: u64,
    #[serde(borrow)]
    deliveries: &'a RawValue,
    #[serde(borrow)]
    more_deliveries: Option<&'a RawValue>,
}

impl RecordAssembler {
    /// Parses the first page of a record.
    pub(super) fn parse(record: &str) -> anyhow::Result<Self> {
        let partial: PartialRecord<'_> =
            serde_json::from_str(record).context("this is no record of a log")?;
        let (start, end) = span_of(partial.deliveries, record);
        let list = partial.deliveries.get();
        let inner = list.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
        let inner = inner.context("this is no record of a log")?;
        let mut before = record[..=start].to_owned();
        let mut after = record[end - 1..].to_owned();
        if let Some(more) = partial.more_deliveries {
            let (from, to) = span_of(more, record);
            let from = from.saturating_sub(MORE.len());
            anyhow::ensure!(record[from..].starts_with(MORE), "this is no record of a log");
            if from >= end {
                let skipped = end - 1;
                after.replace_range(from - skipped..to - skipped, "");
            } else {
                before.replace_range(from..to, "");
            }
        }
        let parts = Some(inner).filter(|inner| !inner.is_empty()).map(str::to_owned);
        Ok(Self { seq: partial.seq, before, after, parts: parts.into_iter().collect() })
    }

    /// Appends the events of a following page.
    pub(super) fn append(&mut self, rest: Self) {
        self.parts.extend(rest.parts);
    }

    /// The complete record.
    pub(super) fn finish(self) -> String {
        [self.before, self.parts.join(","), self.after].concat()
    }
}

/// Byte range of a piece in the text that contains it.
fn span_of(piece: &RawValue, text: &str) -> (usize, usize) {
    let start = piece.get().as_ptr() as usize - text.as_ptr() as usize;
    (start, start + piece.get().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembler_joins_pages_in_any_field_order() {
        for (first, second, whole) in [
            (
                r#"{"seq":1,"x":[],"deliveries":[{"a":[1]},{"b":2}],"moreDeliveries":1}"#,
                r#"{"seq":1,"x":[],"deliveries":[{"c":[]}]}"#,
                r#"{"seq":1,"x":[],"deliveries":[{"a":[1]},{"b":2},{"c":[]}]}"#,
            ),
            (
                r#"{"deliveries":[{"a":1}],"message":{},"moreDeliveries":12,"seq":1}"#,
                r#"{"deliveries":[],"message":{},"seq":1}"#,
                r#"{"deliveries":[{"a":1}],"message":{},"seq":1}"#,
            ),
            (
                r#"{"a":1,"moreDeliveries":12,"seq":1,"deliveries":[{"a":1}]}"#,
                r#"{"a":1,"seq":1,"deliveries":[{"b":1}]}"#,
                r#"{"a":1,"seq":1,"deliveries":[{"a":1},{"b":1}]}"#,
            ),
        ] {
            let mut joined = RecordAssembler::parse(first).unwrap();
            assert_eq!(joined.seq, 1);
            joined.append(RecordAssembler::parse(second).unwrap());
            assert_eq!(joined.finish(), whole);
        }
        assert_eq!(
            RecordAssembler::parse(r#"{"seq":1,"deliveries":[]}"#).unwrap().finish().len(),
            25
        );
        assert!(RecordAssembler::parse("{}").is_err());
    }
}
