//! Builds a page of records with their events, within limits of bytes and events.
//!
//! A message to thousands of recipients has thousands of events, so that they count too. When a page
//! exceeds the limits, its last records move to the next one. Excess events of a single record are
//! counted and available from [`crate::JournalReader::message_history`]. The builder never holds more
//! than one page.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::query::reader::raw;
use crate::{HistoryCursor, ReadError, StoredRecord};

/// Limits of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLimits {
    pub bytes: usize,
    pub events: usize,
}

/// Builder of a page.
#[derive(Debug)]
pub(crate) struct PageBuilder {
    records: Vec<StoredRecord>,
    /// Index of each record by its number.
    at: HashMap<u64, usize>,
    /// Bytes of each record with its events.
    sizes: Vec<usize>,
    limits: PageLimits,
    bytes: usize,
    events: usize,
    /// Events of the first record up to this number were on an earlier page.
    after: u64,
    /// Number of the first record that was moved to the next page.
    left: Option<u64>,
}

impl PageBuilder {
    pub fn new(records: Vec<(u64, Box<RawValue>)>, limits: PageLimits) -> Self {
        let stored =
            |(seq, line)| StoredRecord { seq, line, deliveries: Vec::new(), more_deliveries: 0 };
        let records: Vec<_> = records.into_iter().map(stored).collect();
        let at = records.iter().enumerate().map(|(at, record)| (record.seq, at)).collect();
        let sizes: Vec<_> = records.iter().map(|record| record.line.get().len()).collect();
        let bytes = sizes.iter().sum();
        let mut page = Self { records, at, sizes, limits, bytes, events: 0, after: 0, left: None };
        page.shrink();
        page
    }

    /// Skips the events of the first record up to `after`.
    pub fn resume_after(self, after: u64) -> Self {
        Self { after, ..self }
    }

    /// Numbers of the records in the page.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.records.iter().map(|record| record.seq)
    }

    /// Adds an event of one of the records. Events must be added in order.
    pub fn add(
        &mut self,
        of: u64,
        seq: u64,
        line: impl FnOnce() -> Result<Vec<u8>, ReadError>,
    ) -> Result<(), ReadError> {
        let Some(&at) = self.at.get(&of) else { return Ok(()) };
        if at == 0 && seq <= self.after {
            return Ok(());
        }
        let record = &mut self.records[at];
        if record.more_deliveries > 0 {
            record.more_deliveries += 1;
            return Ok(());
        }
        let line = line()?;
        self.sizes[at] += line.len();
        self.bytes += line.len();
        self.events += 1;
        record.deliveries.push(raw(line)?);
        self.shrink();
        Ok(())
    }

    /// Removes the excess. One record with one event always stays, so that a caller that follows the
    /// cursors terminates.
    fn shrink(&mut self) {
        while self.bytes > self.limits.bytes || self.events > self.limits.events {
            if self.records.len() > 1 {
                let Some(record) = self.records.pop() else { return };
                self.at.remove(&record.seq);
                self.bytes -= self.sizes.pop().unwrap_or(0);
                self.events -= record.deliveries.len();
                self.left = Some(record.seq);
                continue;
            }
            let Some(record) = self.records.last_mut() else { return };
            if record.deliveries.len() < 2 {
                return;
            }
            if let Some(event) = record.deliveries.pop() {
                self.bytes -= event.get().len();
                self.events -= 1;
                record.more_deliveries += 1;
            }
        }
    }

    /// Whether records were moved to the next page.
    pub fn is_cut(&self) -> bool {
        self.left.is_some()
    }

    /// Cursor for the rest of the history; `None` at the end.
    pub fn next_cursor(&self) -> Option<HistoryCursor> {
        let open = self.records.first().filter(|record| record.more_deliveries > 0);
        let number = |line: &RawValue| crate::record::decode::peek(line.get().as_bytes());
        let inside = open.and_then(|record| {
            let (after, _) = number(record.deliveries.last()?)?;
            Some(HistoryCursor { record: record.seq, after })
        });
        inside.or(self.left.map(HistoryCursor::at))
    }

    pub fn finish(self) -> Vec<StoredRecord> {
        self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> Vec<u8> {
        format!(r#"{{"seq":{seq}}}"#).into_bytes()
    }

    fn event(seq: u64) -> Vec<u8> {
        format!(r#"{{"seq":{seq},"time":"2026-02-21T18:30:00.000Z","event":"delivered","of":1}}"#)
            .into_bytes()
    }

    fn records(numbers: &[u64]) -> Vec<(u64, Box<RawValue>)> {
        numbers.iter().map(|seq| (*seq, raw(line(*seq)).unwrap())).collect()
    }

    #[test]
    fn excess_records_move_to_the_next_page() {
        let limits = PageLimits { bytes: usize::MAX, events: 3 };
        let mut page = PageBuilder::new(records(&[1, 2, 3]), limits);
        for (of, seq) in [(1, 4), (2, 5), (3, 6), (1, 7), (2, 8), (3, 9)] {
            page.add(of, seq, || Ok(event(seq))).unwrap();
        }
        assert_eq!(page.next_cursor(), Some(HistoryCursor::at(2)));
        let given = page.finish();
        assert_eq!((given.len(), given[0].deliveries.len()), (1, 2));
    }

    #[test]
    fn excess_events_of_one_record_are_counted_and_continued() {
        let limits = PageLimits { bytes: event(10).len() * 3, events: usize::MAX };
        let mut after = 0;
        let mut seen = Vec::new();
        loop {
            let mut page = PageBuilder::new(records(&[1]), limits).resume_after(after);
            for seq in 10..20 {
                page.add(1, seq, || Ok(event(seq))).unwrap();
            }
            let place = page.next_cursor();
            let given = page.finish().remove(0);
            assert!(given.deliveries.len() < 3);
            seen.extend(given.deliveries.iter().map(|event| event.get().to_owned()));
            assert_eq!(given.more_deliveries, 10 - seen.len() as u64);
            let Some(place) = place else { break };
            after = place.after;
        }
        let all: Vec<_> = (10..20).map(|seq| String::from_utf8(event(seq)).unwrap()).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn zero_limits_still_return_one_event() {
        let mut page = PageBuilder::new(records(&[1]), PageLimits { bytes: 0, events: 0 });
        page.add(1, 10, || Ok(event(10))).unwrap();
        page.add(1, 11, || Ok(event(11))).unwrap();
        assert_eq!(page.next_cursor(), Some(HistoryCursor { record: 1, after: 10 }));
    }
}
