//! An answer in the making: records with as many of their events as it may hold.
//!
//! A message to thousands has thousands of events, so they count like everything else. When an
//! answer gets too large, its last records are left to the next one; what a single record has
//! too many of is counted, and asked for with [`crate::JournalReader::message_history`]. Never more than one
//! answer is held meanwhile.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::query::reader::raw;
use crate::{HistoryCursor, ReadError, StoredRecord};

/// What an answer may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLimits {
    pub bytes: usize,
    pub events: usize,
}

/// Records in the order they are given out; see above.
#[derive(Debug)]
pub(crate) struct PageBuilder {
    records: Vec<StoredRecord>,
    /// Where each record stands.
    at: HashMap<u64, usize>,
    /// Bytes of each record with its events.
    sizes: Vec<usize>,
    room: PageLimits,
    bytes: usize,
    events: usize,
    /// Events of the first record up to this one were given out before.
    after: u64,
    /// The first record that is left to the next answer.
    left: Option<u64>,
}

impl PageBuilder {
    pub fn new(records: Vec<(u64, Box<RawValue>)>, room: PageLimits) -> Self {
        let stored =
            |(seq, line)| StoredRecord { seq, line, deliveries: Vec::new(), more_deliveries: 0 };
        let records: Vec<_> = records.into_iter().map(stored).collect();
        let at = records.iter().enumerate().map(|(at, record)| (record.seq, at)).collect();
        let sizes: Vec<_> = records.iter().map(|record| record.line.get().len()).collect();
        let bytes = sizes.iter().sum();
        let mut answer = Self { records, at, sizes, room, bytes, events: 0, after: 0, left: None };
        answer.shrink();
        answer
    }

    /// Passes over events of the first record that were given out before.
    pub fn resume_after(self, after: u64) -> Self {
        Self { after, ..self }
    }

    /// The records it has.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.records.iter().map(|record| record.seq)
    }

    /// Adds an event of one of its records. Events must come in their order.
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

    /// Leaves out what is too much. One record with one event always stays, so that whoever
    /// asks on comes to an end.
    fn shrink(&mut self) {
        while self.bytes > self.room.bytes || self.events > self.room.events {
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

    /// Whether records are left to the next answer.
    pub fn is_cut(&self) -> bool {
        self.left.is_some()
    }

    /// Where a message's trail goes on behind this answer.
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
    fn the_last_records_are_left_to_the_next_answer() {
        let room = PageLimits { bytes: usize::MAX, events: 3 };
        let mut answer = PageBuilder::new(records(&[1, 2, 3]), room);
        for (of, seq) in [(1, 4), (2, 5), (3, 6), (1, 7), (2, 8), (3, 9)] {
            answer.add(of, seq, || Ok(event(seq))).unwrap();
        }
        assert_eq!(answer.next_cursor(), Some(HistoryCursor::at(2)));
        let given = answer.finish();
        assert_eq!((given.len(), given[0].deliveries.len()), (1, 2));
    }

    #[test]
    fn what_one_record_has_too_much_of_is_counted_and_goes_on() {
        let room = PageLimits { bytes: event(10).len() * 3, events: usize::MAX };
        let mut after = 0;
        let mut seen = Vec::new();
        loop {
            let mut answer = PageBuilder::new(records(&[1]), room).resume_after(after);
            for seq in 10..20 {
                answer.add(1, seq, || Ok(event(seq))).unwrap();
            }
            let place = answer.next_cursor();
            let given = answer.finish().remove(0);
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
    fn the_smallest_room_still_holds_one_event() {
        let mut answer = PageBuilder::new(records(&[1]), PageLimits { bytes: 0, events: 0 });
        answer.add(1, 10, || Ok(event(10))).unwrap();
        answer.add(1, 11, || Ok(event(11))).unwrap();
        assert_eq!(answer.next_cursor(), Some(HistoryCursor { record: 1, after: 10 }));
    }
}
