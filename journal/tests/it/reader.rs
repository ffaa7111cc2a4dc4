//! Histories of large messages, a clock that was set back, and positions beyond the end.

use a2a_journal::{
    Commit, EventRecord, Fact, HistoryCursor, JournalReader, MAX_PAGE, MemoryJournal,
    MessageRecord, Record, StoredRecord,
};
use a2a_protocol::Event;
use serde_json::Value;

use crate::setup::*;

/// Runs a test on both journals and closes them: sled may deadlock when it is dropped during much
/// work.
fn on_each(test: impl Fn(&mut dyn Commit)) {
    let mut bench = fresh();
    for journal in [&mut bench.journal as &mut dyn Commit, &mut MemoryJournal::new()] {
        test(journal);
        journal.close().unwrap();
    }
}

/// An acknowledgement with a long reason.
fn long_event(seq: u64, of: u64, bytes: usize) -> Record {
    let Record::Event(line) = event(seq, Event::Acknowledged, of, "tim") else { unreachable!() };
    Record::Event(EventRecord { reason: Some("y".repeat(bytes)), ..line })
}

fn size(record: &StoredRecord) -> usize {
    let events = record.deliveries.iter().map(|event| event.get().len());
    record.line.get().len() + events.sum::<usize>()
}

/// Every part of the history of a message: its records, and the numbers of their events.
fn parts(reader: &dyn JournalReader, n: u64, limit: usize) -> Vec<Vec<(u64, Vec<u64>)>> {
    let (mut parts, mut next) = (Vec::new(), Some(HistoryCursor::default()));
    while let Some(place) = next {
        let trail = reader.message_history(&id(n), place, limit).unwrap();
        let number = |line: &str| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64();
        let events = |record: &StoredRecord| {
            record.deliveries.iter().map(|event| number(event.get()).unwrap()).collect()
        };
        assert!(trail.records.len() <= limit);
        parts.push(trail.records.iter().map(|record| (record.seq, events(record))).collect());
        assert!(parts.len() < 10_000, "no end");
        next = trail.next;
    }
    parts
}

#[test]
fn a_message_to_many_comes_in_parts_and_nothing_is_lost() {
    on_each(|journal| {
        let mut again = accepted(3_000, &[]);
        again.message_id = Some(id(1));
        commit(journal, &[message(1, &["tim"]), message(2, &["ann"])]);
        let events: Vec<_> = (3..3_000).map(|n| event(n, Event::Acknowledged, 1, "tim")).collect();
        events.chunks(700).for_each(|events| commit(journal, events));
        commit(journal, &[Record::Message(again)]);
        commit(journal, &[event(3_001, Event::Acknowledged, 3_000, "tim")]);
        commit(journal, &[event(3_002, Event::Acknowledged, 1, "tim")]);
        let reader = journal.reader();
        for limit in [7, 999, MAX_PAGE] {
            let parts = parts(reader.as_ref(), 1, limit);
            assert!(parts.iter().flatten().all(|(_, events)| events.len() <= limit));
            let of = |seq: u64| parts.iter().flatten().filter(move |(record, _)| *record == seq);
            let all: Vec<u64> = of(1).flat_map(|(_, events)| events.clone()).collect();
            assert!(all.iter().copied().eq((3..3_000).chain([3_002])), "{limit}");
            assert_eq!(of(3_000).map(|(_, events)| events).collect::<Vec<_>>(), [&[3_001]]);
        }
        let first = reader.message_history(&id(1), HistoryCursor::default(), 10).unwrap();
        assert_eq!(first.records[0].more_deliveries, 2_998 - 10);
        assert_eq!(reader.get(1).unwrap().unwrap().deliveries.len(), 2_998, "these are small");
        assert_eq!(reader.record(1).unwrap().unwrap().get(), first.records[0].line.get());
        assert!(reader.record(3).unwrap().is_none(), "an event is no record");
    });
}

#[test]
fn repeats_of_a_message_come_in_parts_too() {
    on_each(|journal| {
        let again = |seq| {
            Record::Message(MessageRecord { message_id: Some(id(7)), ..accepted(seq, &["tim"]) })
        };
        let lines: Vec<_> = (1..=2_500).map(again).collect();
        lines.chunks(600).for_each(|lines| commit(journal, lines));
        let parts = parts(journal.reader().as_ref(), 7, MAX_PAGE);
        let seqs = parts.iter().flatten().map(|(seq, _)| *seq);
        assert!(seqs.eq(1..=2_500) && parts.len() == 3);
    });
}

#[test]
fn events_count_against_the_page_limits() {
    const MOST: usize = 8 << 20;
    on_each(|journal| {
        // Three messages, the middle one with more events than a page.
        commit(journal, &[message(1, &["tim"]), message(2, &["tim"]), message(3, &["tim"])]);
        let mut seq = 3;
        for (of, count) in [(1, 300), (2, 1_500), (3, 600)] {
            let events: Vec<_> = (0..count).map(|n| long_event(seq + 1 + n, of, 8_000)).collect();
            events.chunks(100).for_each(|events| commit(journal, events));
            seq += count;
        }
        let reader = journal.reader();
        let (mut before, mut seen) = (None, Vec::new());
        loop {
            let page = reader.page(before, 10).unwrap();
            assert!(page.records.iter().map(size).sum::<usize>() <= MOST);
            let given = |record: &StoredRecord| {
                (record.seq, record.deliveries.len() as u64, record.more_deliveries)
            };
            seen.extend(page.records.iter().map(given));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        let [(3, 600, 0), (2, some, more), (1, 300, 0)] = seen[..] else { panic!("{seen:?}") };
        assert!(some > 900 && some + more == 1_500, "{seen:?}");
        let one = reader.get(2).unwrap().unwrap();
        assert_eq!((one.deliveries.len() as u64, one.more_deliveries), (some, more));
        let parts = parts(reader.as_ref(), 2, MAX_PAGE);
        assert_eq!(parts.iter().flatten().map(|(_, events)| events.len()).sum::<usize>(), 1_500);
    });
}

#[test]
fn no_record_since_a_time_is_missed_after_the_clock_was_set_back() {
    on_each(|journal| {
        // An hour forward, two back, and on; a record each second.
        let time = |seq: u64| {
            at(1_000 * (seq as i64 + if (3_000..4_000).contains(&seq) { 3_600 } else { 0 }))
        };
        let line = |seq: u64| {
            if seq.is_multiple_of(5) {
                Record::Event(EventRecord::new(seq, time(seq), Event::Joined))
            } else {
                Record::Message(MessageRecord { time: time(seq), ..accepted(seq, &[]) })
            }
        };
        let lines: Vec<_> = (1..9_000).map(line).collect();
        lines.chunks(450).for_each(|lines| commit(journal, lines));
        let reader = journal.reader();
        for moment in MOMENTS.map(|second| at(1_000 * second)) {
            let place = reader.last_before(moment).unwrap();
            let missed =
                (1..=place).filter(|seq| !seq.is_multiple_of(5) && time(*seq) >= moment).count();
            assert_eq!(missed, 0, "{moment}: {place}");
        }
    });
}

#[test]
fn time_is_found_without_reading_everything_before_it() {
    let mut bench = fresh();
    let time = |seq: u64| at(1_000 * seq as i64);
    let line = |seq| Record::Message(MessageRecord { time: time(seq), ..accepted(seq, &[]) });
    let lines: Vec<_> = (1..9_000).map(line).collect();
    commit(&mut bench.journal, &lines);
    bench.journal.close().unwrap();
    let (journal, _) = open(bench.dir.path());
    for moment in MOMENTS {
        let place = i64::try_from(journal.reader().last_before(time(moment as u64)).unwrap());
        let last = moment.min(9_000);
        let way = last - place.unwrap();
        assert!((0..1_200).contains(&way), "{moment}: {way} lines before");
    }
}

/// Number of seconds.
const MOMENTS: [i64; 8] = [0, 1, 2_000, 3_500, 5_000, 6_700, 8_998, 20_000];

#[test]
fn fact_events_are_found_by_key_anywhere() {
    on_each(|journal| {
        let note = |seq: u64, key: &str, value: Option<&str>| {
            let facts = vec![Fact { key: key.into(), value: value.map(Into::into) }];
            Record::Event(EventRecord {
                facts,
                ..EventRecord::new(seq, at(seq as i64), Event::Tripped)
            })
        };
        let mut seq = 0;
        for round in 0..3 {
            commit(
                journal,
                &[note(seq + 1, "circuit:a", Some("{}")), note(seq + 2, "circuit:b", None)],
            );
            let many: Vec<_> = (seq + 3..seq + 900).map(|seq| message(seq, &["tim"])).collect();
            commit(journal, &many);
            seq += 1_000 * (round + 1);
        }
        let reader = journal.reader();
        let find = |key: &str, after| {
            let notes = reader.fact_events(key, after).unwrap();
            assert_eq!(notes.next, None);
            notes.lines.len()
        };
        assert_eq!((find("circuit:a", 0), find("circuit:b", 0), find("circuit:", 0)), (3, 3, 0));
        assert_eq!((find("circuit:a", 1), find("circuit:b", 1), find("circuit:a", seq)), (2, 3, 0));
    });
}

#[test]
fn positions_beyond_the_end_are_empty() {
    on_each(|journal| {
        commit(journal, &[message(1, &["tim"]), event(2, Event::Acknowledged, 1, "tim")]);
        let reader = journal.reader();
        let end = HistoryCursor { record: u64::MAX, after: u64::MAX };
        for seq in [3, u64::MAX - 1, u64::MAX] {
            assert!(reader.record(seq).unwrap().is_none() && reader.get(seq).unwrap().is_none());
            assert!(reader.after(seq, 10).unwrap().is_empty());
            assert!(reader.fact_events("k", seq).unwrap().lines.is_empty());
            assert_eq!(reader.page(Some(seq), 10).unwrap().records.len(), 1);
        }
        assert!(reader.message_history(&id(1), end, usize::MAX).unwrap().records.is_empty());
        let behind = HistoryCursor { record: 1, after: u64::MAX };
        let trail = reader.message_history(&id(1), behind, 1).unwrap();
        assert!(trail.records[0].deliveries.is_empty() && trail.next.is_none());
    });
}

#[test]
fn few_bytes_are_read_when_few_are_asked_for() {
    on_each(|journal| {
        let lines: Vec<_> = (1..600).map(|seq| message(seq, &["tim"])).collect();
        commit(journal, &lines);
        let reader = journal.reader();
        let one = reader.lines(0, 10, 1).unwrap();
        assert_eq!(one.len(), 1, "the first always");
        let size = one[0].get().len();
        assert_eq!(reader.lines(0, 100, size * 9 + 1).unwrap().len(), 10);
        assert_eq!(reader.lines(0, 3, usize::MAX).unwrap().len(), 3);
    });
}
