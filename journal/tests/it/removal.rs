//! What a removal must preserve, however much that is.

use std::fs;
use std::path::Path;

use a2a_journal::{
    Commit, EventRecord, Fact, Head, Journal, MessageRecord, Options, Record, Recovered,
    verify_journal, verify_log,
};
use a2a_protocol::{Event, Outcome};

use crate::retention::*;
use crate::setup::*;

/// Number of agents and facts: too many for one removal record in these tests.
const NOTED: u64 = 60;
const LINE: usize = 400;

fn small_lines(dir: &Path, days: u32) -> Options {
    Options { removal_line_bytes: LINE, ..options(dir, by_age(days)) }
}

/// A journal with many facts on its first day, and two more days.
fn with_facts(dir: &Path) -> Journal {
    let (mut journal, _) = Journal::open(&small_lines(dir, 1)).unwrap();
    let mut lines = Vec::new();
    for n in 0..NOTED {
        let facts = vec![fact(&format!("kept:{n}"), n)];
        let agent_id = Some(agent(&format!("old{n}")));
        let event =
            EventRecord { agent_id, facts, ..EventRecord::new(n + 1, on(0), Event::Joined) };
        lines.push(Record::Event(event));
    }
    commit(&mut journal, &lines);
    for (seq, day) in [(101, 1), (102, 2)] {
        commit(&mut journal, &[later(seq, day)]);
    }
    journal
}

fn fact(key: &str, value: u64) -> Fact {
    Fact { key: key.into(), value: Some(value.to_string().into()) }
}

fn later(seq: u64, day: u64) -> Record {
    Record::Message(MessageRecord { time: on(day), ..accepted(seq, &[]) })
}

fn offer(seq: u64, day: u64) -> Record {
    Record::Event(EventRecord::new(seq, on(day), Event::Removed))
}

fn check_recovers_all(recovered: &Recovered) {
    for n in 0..NOTED {
        let key = format!("kept:{n}");
        let value = recovered.facts.iter().find(|(known, _)| **known == *key);
        assert_eq!(value.map(|(_, value)| &**value), Some(n.to_string().as_str()), "{key}");
        assert!(recovered.agents.contains(&agent(&format!("old{n}"))), "old{n}");
    }
}

/// For each removal event after a number: whether it removes something.
fn removal_events(journal: &Journal, after: u64) -> Vec<bool> {
    let lines = journal.reader().after(after, 1_000).unwrap();
    let lines = lines.iter().map(|line| line.get()).filter(|line| line.contains("\"removed\""));
    lines
        .map(|line| {
            assert!(line.len() < 3 * LINE, "{line}");
            line.contains("\"removed\":[{")
        })
        .collect()
}

fn lose_sled(dir: &Path) {
    fs::remove_dir_all(dir.join("data/a2a-journal")).unwrap();
}

#[test]
fn removal_too_large_for_one_record_is_split() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = with_facts(dir.path());
    let removed = journal.retain(on(2)).unwrap().removed;
    assert_eq!(removed[0].last, NOTED);
    let output = removal_events(&journal, 102);
    assert!(output.len() > 5, "{}", output.len());
    assert_eq!(output.iter().position(|removes| *removes), Some(output.len() - 1), "last of all");
    assert_eq!(names(dir.path()), ["2026-02-22.jsonl.zst", "2026-02-23.jsonl"]);
    is_whole(dir.path(), &journal);
    journal.close().unwrap();
    drop(journal);
    let verified = verify_log(dir.path(), &[]).unwrap();
    assert_eq!((verified.from, verified.records), (101, 2));
    assert_eq!(verify_journal(dir.path(), &[]).unwrap(), verified);
    for _ in 0..2 {
        let (journal, recovered) = Journal::open(&small_lines(dir.path(), 1)).unwrap();
        check_recovers_all(&recovered);
        is_whole(dir.path(), &journal);
        drop(journal);
        lose_sled(dir.path());
    }
}

#[test]
fn stop_between_the_removal_records_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = with_facts(dir.path());
    journal.close().unwrap();
    drop(journal);
    // As it is when the records are written and nothing is removed yet.
    let before = bench_copy(dir.path());
    let (mut journal, _) = Journal::open(&small_lines(dir.path(), 1)).unwrap();
    journal.retain(on(2)).unwrap();
    drop(journal);
    let newest = "a2a-log/2026-02-23.jsonl";
    let start = fs::read(before.path().join(newest)).unwrap().len();
    let written = fs::read(dir.path().join(newest)).unwrap();
    let ends = memchr::memchr_iter(b'\n', &written).map(|at| at + 1).filter(|at| *at >= start);
    let cuts: Vec<usize> = ends.flat_map(|end| [end, end + 30]).collect();
    assert!(cuts.len() > 10);
    for cut in cuts.into_iter().filter(|cut| *cut < written.len()) {
        for loses_sled in [false, true] {
            let stopped = bench_copy(before.path());
            fs::write(stopped.path().join(newest), &written[..cut]).unwrap();
            if loses_sled {
                lose_sled(stopped.path());
            }
            let (mut journal, recovered) = Journal::open(&small_lines(stopped.path(), 1)).unwrap();
            check_recovers_all(&recovered);
            assert_eq!(verify_log(stopped.path(), &[]).unwrap().from, 1, "{cut}: nothing went");
            journal.retain(on(2)).unwrap();
            assert_eq!(verify_log(stopped.path(), &[]).unwrap().from, 101, "{cut}");
            drop(journal);
            lose_sled(stopped.path());
            check_recovers_all(&Journal::open(&small_lines(stopped.path(), 1)).unwrap().1);
        }
    }
}

#[test]
fn offer_uses_the_numbers_before_it_and_continues_at_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = with_facts(dir.path());
    journal.close().unwrap();
    drop(journal);
    let (mut journal, _) = Journal::open(&small_lines(dir.path(), 1)).unwrap();
    // No spare number, then three.
    commit(&mut journal, &[later(103, 2), offer(104, 2), later(105, 2)]);
    assert_eq!(removal_events(&journal, 102), [false]);
    commit(&mut journal, &[offer(109, 2), later(110, 2)]);
    assert_eq!(removal_events(&journal, 105), [false; 4]);
    assert_eq!(verify_log(dir.path(), &[]).unwrap().from, 1, "nothing goes before all is said");
    commit(&mut journal, &[offer(200, 2)]);
    let rest = removal_events(&journal, 110);
    assert!(rest.len() < 90 && rest.last() == Some(&true), "{rest:?}");
    assert_eq!(journal.reader().head().seq, 200);
    journal.retain(on(2)).unwrap();
    assert_eq!(verify_log(dir.path(), &[]).unwrap().from, 101);
    drop(journal);
    lose_sled(dir.path());
    check_recovers_all(&Journal::open(&small_lines(dir.path(), 1)).unwrap().1);
}

#[test]
fn fact_set_in_the_same_batch_is_not_overwritten() {
    for lines in [LINE, 1 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = with_facts(dir.path());
        journal.close().unwrap();
        drop(journal);
        let options = Options { removal_line_bytes: lines, ..small_lines(dir.path(), 1) };
        let (mut journal, _) = Journal::open(&options).unwrap();
        let says = |seq, facts| {
            Record::Message(MessageRecord { time: on(2), facts, ..accepted(seq, &[]) })
        };
        let forgets = Fact { key: "kept:2".into(), value: None };
        commit(
            &mut journal,
            &[
                says(103, vec![fact("kept:1", 1_001), forgets]),
                offer(199, 2),
                says(200, vec![fact("kept:3", 1_003)]),
            ],
        );
        journal.close().unwrap();
        drop(journal);
        for _ in 0..2 {
            let (_, recovered) = Journal::open(&options).unwrap();
            let of = |key: &str| {
                let found = recovered.facts.iter().find(|(known, _)| **known == *key);
                found.map(|(_, value)| value.to_string())
            };
            assert_eq!(of("kept:1").as_deref(), Some("1001"), "said before the removal");
            assert_eq!(of("kept:2"), None, "forgotten before the removal");
            assert_eq!(of("kept:3").as_deref(), Some("1003"), "said after it");
            assert_eq!(of("kept:4").as_deref(), Some("4"), "repeated by it");
            lose_sled(dir.path());
        }
    }
}

#[test]
fn a_repeat_outlives_the_record_it_repeats() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(&options(dir.path(), by_age(1))).unwrap();
    commit(&mut journal, &[Record::Message(MessageRecord { time: on(0), ..accepted(1, &[]) })]);
    let again = |seq, day, outcome| {
        let first = accepted(1, &[]);
        Record::Message(MessageRecord { seq, time: on(day), outcome, ..first })
    };
    commit(&mut journal, &[again(2, 1, Outcome::Duplicate)]);
    commit(&mut journal, &[again(3, 2, Outcome::Duplicate)]);
    let numbers = |journal: &Journal| -> Vec<u64> {
        journal.reader().find(&id(1)).unwrap().iter().map(|record| record.seq).collect()
    };
    assert_eq!(numbers(&journal), [1, 2, 3]);
    journal.retain(on(2)).unwrap();
    assert_eq!(numbers(&journal), [2, 3]);
    assert!(journal.reader().get(1).unwrap().is_none());
    journal.close().unwrap();
    drop(journal);
    let (mut journal, recovered) = Journal::open(&options(dir.path(), by_age(1))).unwrap();
    assert!(recovered.seen.is_empty(), "a repeat was never accepted itself");
    let next = recovered.next_seq;
    commit(&mut journal, &[again(next, 2, Outcome::Delivered)]);
    assert_eq!(numbers(&journal), [2, 3, next]);
    drop(journal);
    for _ in 0..2 {
        let (journal, recovered) = Journal::open(&options(dir.path(), by_age(1))).unwrap();
        let seen: Vec<u64> = recovered.seen.iter().map(|seen| seen.seq).collect();
        assert_eq!(seen, [next], "accepted anew, under its new number");
        assert_eq!(numbers(&journal), [2, 3, next]);
        drop(journal);
        lose_sled(dir.path());
    }
}

#[test]
fn known_head_below_a_removal_is_neither_missing_nor_swapped() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = filled(dir.path(), 1, by_age(1));
    let old = journal.reader().head();
    let mut lines = day(1);
    lines.extend(day(2));
    for batch in lines.chunks(15) {
        commit(&mut journal, batch);
    }
    let kept = journal.reader().head();
    journal.retain(on(2)).unwrap();
    let from = LINES_A_DAY + 1;
    let wrong = Head { hash: old.hash, ..kept };
    let check = |known: &[Head]| {
        let (log, open) = (verify_log(dir.path(), known), journal.reader().verify(known));
        assert_eq!(log.is_ok(), open.is_ok(), "{known:?}");
        log.ok().map(|verified| verified.from)
    };
    // The first remaining record follows the last removed one. Earlier heads cannot be proven, which
    // `from` shows to the caller.
    for known in [old, Head { seq: 3, ..old }, Head { seq: 1, hash: kept.hash }] {
        assert!(known.seq < from);
        assert_eq!(check(&[known]), Some(from), "{known}");
        assert_eq!(check(&[known, kept]), Some(from), "{known}");
        assert_eq!(check(&[known, wrong]), None, "{known}");
    }
}
