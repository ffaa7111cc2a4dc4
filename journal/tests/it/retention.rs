//! Old days are compressed, removed and recorded, with a stop at any step.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use a2a_journal::{
    Commit, Disk, EventRecord, Fact, Journal, LogFile, MessageRecord, Options, Query, RealDisk,
    Record, Recovered, RemovedForm, Retention, RetentionPlan, rebuild_log, verify_journal,
    verify_log,
};
use a2a_protocol::Event;
use chrono::{DateTime, Utc};

use crate::setup::*;

const DAY: i64 = 86_400_000;
pub const LINES_A_DAY: u64 = 40;

/// A time on a day, from 0.
pub fn on(day: u64) -> DateTime<Utc> {
    at(day as i64 * DAY)
}

/// Records of a day without open deliveries: each message has a fact, and one agent joins.
pub fn day(n: u64) -> Vec<Record> {
    (1..=LINES_A_DAY)
        .map(|i| {
            let seq = n * LINES_A_DAY + i;
            let key = format!("task:{}", if i == 2 { n } else { 999 });
            let facts = vec![Fact { key: key.into(), value: Some(format!("{n}").into()) }];
            if i == 1 {
                let agent_id = Some(agent(&format!("agent{n}")));
                return Record::Event(EventRecord {
                    agent_id,
                    ..EventRecord::new(seq, on(n), Event::Joined)
                });
            }
            Record::Message(MessageRecord { time: on(n), facts, ..accepted(seq, &[]) })
        })
        .collect()
}

pub fn options(dir: &Path, retention: Retention) -> Options {
    Options { retention, ..Options::new(dir) }
}

pub fn by_age(days: u32) -> Retention {
    Retention { max_age_days: Some(days), ..Retention::default() }
}

/// A journal with this many days.
pub fn filled(dir: &Path, days: u64, retention: Retention) -> Journal {
    let (mut journal, _) = Journal::open(&options(dir, retention)).unwrap();
    for n in 0..days {
        let lines = day(n);
        // A day has more than one batch.
        for batch in lines.chunks(15) {
            commit(&mut journal, batch);
        }
    }
    journal
}

/// Name and uncompressed content of the segments.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir.join("a2a-log")).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let bytes = fs::read(&path).unwrap();
            match name.ends_with(".zst") {
                true => (name, zstd::decode_all(&bytes[..]).unwrap()),
                false => (name, bytes),
            }
        })
        .collect()
}

pub fn names(dir: &Path) -> Vec<String> {
    files(dir).into_keys().collect()
}

pub fn records(journal: &Journal) -> Vec<u64> {
    all(&journal.reader(), 1_000).into_iter().map(|(seq, _)| seq).rev().collect()
}

/// Numbers of the records of the days from `first` to `last`.
pub fn of_days(first: u64, last: u64) -> Vec<u64> {
    (first..=last).flat_map(|n| (2..=LINES_A_DAY).map(move |i| n * LINES_A_DAY + i)).collect()
}

pub fn is_whole(dir: &Path, journal: &Journal) {
    let head = journal.reader().head();
    let log = verify_log(dir, &[head]).unwrap();
    let sled = journal.reader().verify(&[head]).unwrap();
    assert_eq!((log.head, sled.head), (head, head));
}

/// State that must be recovered, however old it is.
pub fn check_known(recovered: &Recovered, days: u64) {
    let facts: BTreeMap<&str, &str> =
        recovered.facts.iter().map(|(key, value)| (&**key, &**value)).collect();
    for n in 0..days {
        assert_eq!(facts.get(format!("task:{n}").as_str()), Some(&n.to_string().as_str()));
        assert!(recovered.agents.contains(&agent(&format!("agent{n}"))));
    }
    assert_eq!(facts["task:999"], (days - 1).to_string());
}

#[test]
fn closed_days_are_compressed_and_read_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = filled(dir.path(), 4, Retention::default());
    assert_eq!(journal.retain(on(3)).unwrap(), RetentionPlan::default());
    let packed: Vec<String> = (21..24).map(|n| format!("2026-02-{n}.jsonl.zst")).collect();
    assert_eq!(names(dir.path())[..3], packed);
    assert_eq!(names(dir.path())[3], "2026-02-24.jsonl");
    assert_eq!(records(&journal), of_days(0, 3));
    is_whole(dir.path(), &journal);
    drop(journal);
    for lose_sled in [false, true] {
        if lose_sled {
            fs::remove_dir_all(dir.path().join("data/a2a-journal")).unwrap();
        }
        let (journal, recovered) = open(dir.path());
        assert_eq!(records(&journal), of_days(0, 3));
        assert_eq!(recovered.seen.len(), of_days(0, 3).len());
        assert_eq!((recovered.report.unreadable_lines, recovered.report.broken_links), (0, 0));
        check_known(&recovered, 4);
        is_whole(dir.path(), &journal);
    }
}

#[test]
fn compressed_day_can_be_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path(), 2, Retention { compress: false, ..Retention::default() }));
    let newest = dir.path().join("a2a-log/2026-02-22.jsonl");
    let bytes = fs::read(&newest).unwrap();
    fs::write(newest.with_extension("jsonl.zst"), zstd::encode_all(&bytes[..], 3).unwrap())
        .unwrap();
    fs::remove_file(&newest).unwrap();
    let (mut journal, _) = open(dir.path());
    commit(&mut journal, &[message(200, &["tim"])]);
    assert!(fs::read(&newest).unwrap().starts_with(&bytes));
    is_whole(dir.path(), &journal);
}

#[test]
fn old_days_are_removed_and_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = filled(dir.path(), 5, by_age(2));
    let head = journal.reader().head();
    let RetentionPlan { removed, held_by } = journal.retain(on(4)).unwrap();
    assert_eq!((removed.len(), held_by), (1, None));
    assert_eq!((removed[0].what, removed[0].lines), (RemovedForm::Records, 2 * LINES_A_DAY));
    assert_eq!((removed[0].first, removed[0].last), (1, 2 * LINES_A_DAY));
    assert_eq!(removed[0].from_day.to_string(), "2026-02-21");
    assert_eq!(removed[0].to_day.to_string(), "2026-02-22");
    let output = journal.reader().after(head.seq, 10).unwrap();
    assert_eq!(output.len(), 1);
    let line: serde_json::Value = serde_json::from_str(output[0].get()).unwrap();
    assert_eq!(line["event"], "removed");
    assert_eq!((&line["count"], &line["removed"][0]["last"]), (&80.into(), &80.into()));
    assert_eq!(line["reason"], "records are kept for 2 days");

    assert_eq!(records(&journal), of_days(2, 4));
    assert_eq!(names(dir.path()).len(), 3);
    is_whole(dir.path(), &journal);
    assert_eq!(verify_log(dir.path(), &[]).unwrap().from, 81);
    assert!(journal.reader().find(&id(5)).unwrap().is_empty());
    assert!(journal.reader().get(5).unwrap().is_none());
    // A second run has nothing to do.
    assert_eq!(journal.retain(on(4)).unwrap(), RetentionPlan::default());
    journal.close().unwrap();
    drop(journal);
    assert_eq!(verify_journal(dir.path(), &[]).unwrap().from, 81);
    for lose_sled in [false, true] {
        if lose_sled {
            fs::remove_dir_all(dir.path().join("data/a2a-journal")).unwrap();
        }
        let (journal, recovered) = Journal::open(&options(dir.path(), by_age(2))).unwrap();
        assert_eq!(records(&journal), of_days(2, 4));
        assert_eq!(recovered.seen.len(), of_days(2, 4).len(), "an id goes with its record");
        assert_eq!(recovered.next_seq, head.seq + 2);
        check_known(&recovered, 5);
        is_whole(dir.path(), &journal);
    }
    // Removing one more day is detected.
    fs::remove_file(dir.path().join("a2a-log/2026-02-23.jsonl.zst")).unwrap();
    assert!(verify_log(dir.path(), &[]).is_err());
}

#[test]
fn size_is_limited_too_and_today_always_stays() {
    let dir = tempfile::tempdir().unwrap();
    let limit = |bytes| Retention { max_bytes: Some(bytes), ..Retention::default() };
    let mut journal = filled(dir.path(), 6, limit(u64::MAX));
    assert_eq!(journal.retain(on(5)).unwrap(), RetentionPlan::default());
    drop(journal);
    let mut left = 6;
    for bytes in [30_000, 20_000, 0] {
        let (mut journal, _) = Journal::open(&options(dir.path(), limit(bytes))).unwrap();
        journal.retain(on(5)).unwrap();
        let days = names(dir.path()).len();
        assert!(days <= left, "{days} days for {bytes} bytes");
        left = days;
        is_whole(dir.path(), &journal);
    }
    assert_eq!(left, 1);
}

#[test]
fn open_deliveries_are_never_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(&options(dir.path(), by_age(0))).unwrap();
    commit(&mut journal, &day(0));
    let mut lines = day(1);
    let owed = LINES_A_DAY + 7;
    lines[6] = Record::Message(MessageRecord { time: on(1), ..accepted(owed, &["tim"]) });
    commit(&mut journal, &lines);
    commit(&mut journal, &day(2));
    commit(&mut journal, &day(3));
    let plan = journal.retain(on(9)).unwrap();
    assert_eq!((plan.removed[0].last, plan.held_by), (LINES_A_DAY, Some(owed)));
    // A dead letter counts as open.
    let mut next = journal.reader().head().seq;
    let mut tell = |journal: &mut Journal, what| {
        next += 1;
        let Record::Event(line) = event(next, what, owed, "tim") else { panic!() };
        commit(journal, &[Record::Event(EventRecord { time: on(9), ..line })]);
    };
    tell(&mut journal, Event::DeadLetter);
    assert_eq!(journal.retain(on(9)).unwrap().held_by, Some(owed));
    let (_, recovered) = Journal::open(&Options::new(bench_copy(dir.path()).path())).unwrap();
    assert_eq!(dead(&recovered), [format!("{owed} tim why")]);
    tell(&mut journal, Event::Dropped);
    let plan = journal.retain(on(9)).unwrap();
    assert_eq!((plan.removed[0].last, plan.held_by), (4 * LINES_A_DAY, None));
    is_whole(dir.path(), &journal);
}

pub fn bench_copy(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_dir(dir, copy.path());
    copy
}

#[test]
fn offer_is_used_or_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = filled(dir.path(), 3, by_age(1));
    journal.close().unwrap();
    drop(journal);
    let (mut journal, _) = Journal::open(&options(dir.path(), by_age(1))).unwrap();
    let offer = |seq, day| Record::Event(EventRecord::new(seq, on(day), Event::Removed));
    let later = |seq, day| Record::Message(MessageRecord { time: on(day), ..accepted(seq, &[]) });
    commit(&mut journal, &[offer(200, 1)]);
    assert_eq!(journal.reader().head().seq, 3 * LINES_A_DAY, "too early");
    commit(&mut journal, &[later(201, 2), offer(202, 2), later(203, 2), offer(204, 2)]);
    let output = journal.reader().after(3 * LINES_A_DAY, 10).unwrap();
    let words: Vec<bool> =
        output.iter().map(|line| line.get().contains("\"removed\":[{")).collect();
    assert_eq!(words, [false, true, false]);
    journal.retain(on(2)).unwrap();
    assert_eq!(records(&journal)[0], LINES_A_DAY + 2);
    is_whole(dir.path(), &journal);
}

#[test]
fn opening_removes_what_is_too_old_by_now() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path(), 4, Retention::default()));
    let opened = Options { now: Some(on(4)), ..options(dir.path(), by_age(2)) };
    let (mut journal, recovered) = Journal::open(&opened).unwrap();
    assert_eq!(recovered.next_seq, 4 * LINES_A_DAY + 2);
    assert_eq!(recovered.seen.len(), of_days(2, 3).len());
    journal.retain(on(4)).unwrap();
    assert_eq!(records(&journal), of_days(2, 3));
    is_whole(dir.path(), &journal);
}

#[test]
fn without_segments_the_index_is_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let no_files = Retention { keep_jsonl: false, ..Retention::default() };
    // The worker removes them only when that is recorded.
    let mut journal = filled(dir.path(), 4, no_files);
    commit(&mut journal, &[message(170, &["tim"])]);
    let before = files(dir.path());
    let plan = journal.retain(on(3)).unwrap();
    assert_eq!((plan.removed.len(), plan.removed[0].what), (1, RemovedForm::Files));
    assert_eq!(names(dir.path()), ["2026-02-24.jsonl"]);
    assert_eq!(records(&journal), [of_days(0, 3), vec![170]].concat());
    assert_eq!(journal.reader().verify(&[]).unwrap().from, 1);
    assert_eq!(verify_log(dir.path(), &[]).unwrap().from, 3 * LINES_A_DAY + 1);
    let killed = bench_copy(dir.path());
    journal.close().unwrap();
    drop(journal);
    for dir in [killed.path(), dir.path()] {
        let (journal, recovered) = Journal::open(&options(dir, no_files)).unwrap();
        assert_eq!(recovered.report.index_set_aside, None);
        assert_eq!(recovered.pending.len(), 1);
        check_known(&recovered, 4);
        assert_eq!(records(&journal), [of_days(0, 3), vec![170]].concat());
        drop(journal);
        let written = rebuild_log(dir).unwrap();
        assert_eq!(written.len(), 3);
        let after = files(dir);
        for (name, bytes) in before.iter().take(3) {
            assert!(after.get(name) == Some(bytes), "{name} is the same byte for byte");
        }
        assert_eq!(verify_log(dir, &[]).unwrap().from, 1);
        assert!(rebuild_log(dir).unwrap().is_empty());
    }
}

#[test]
fn each_form_is_built_from_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = filled(dir.path(), 5, by_age(3));
    journal.retain(on(4)).unwrap();
    journal.close().unwrap();
    drop(journal);
    let before = files(dir.path());
    let verified = verify_log(dir.path(), &[]).unwrap();
    assert_eq!(verify_journal(dir.path(), &[]).unwrap(), verified);
    fs::remove_dir_all(dir.path().join("a2a-log")).unwrap();
    rebuild_log(dir.path()).unwrap();
    let unpacked = |name: &String| name.trim_end_matches(".zst").to_owned();
    let expected: BTreeMap<String, Vec<u8>> =
        before.iter().map(|(name, bytes)| (unpacked(name), bytes.clone())).collect();
    assert!(files(dir.path()) == expected);
    // Opening rebuilds them too, instead of beginning an empty log.
    fs::remove_dir_all(dir.path().join("a2a-log")).unwrap();
    let (journal, recovered) = open(dir.path());
    assert_eq!(
        (recovered.next_seq, &recovered.report.index_set_aside),
        (verified.head.seq + 1, &None)
    );
    drop(journal);
    assert_eq!(verify_log(dir.path(), &[verified.head]).unwrap().head, verified.head);
    fs::remove_dir_all(dir.path().join("data/a2a-journal")).unwrap();
    drop(open(dir.path()));
    assert_eq!(verify_journal(dir.path(), &[]).unwrap(), verified);
    // An index without an intact chain is not made into a log.
    let db = crate::gaps::open_sled(dir.path());
    let blocks = db.open_tree("blocks").unwrap();
    let (key, _) = blocks.first().unwrap().unwrap();
    blocks.insert(key, b"\0\0\0\x05nonsense").unwrap();
    db.flush().unwrap();
    drop((blocks, db));
    fs::remove_file(dir.path().join("a2a-log/2026-02-22.jsonl")).unwrap();
    assert!(rebuild_log(dir.path()).is_err());
}

/// Copies the state folder before every operation that changes a name.
#[derive(Clone)]
struct Snapshots {
    state_dir: PathBuf,
    taken: Arc<Mutex<Vec<tempfile::TempDir>>>,
}

impl Snapshots {
    fn take(&self) {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(&self.state_dir, copy.path());
        self.taken.lock().unwrap().push(copy);
    }
}

impl Disk for Snapshots {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let file = RealDisk.open(path);
        self.take();
        file
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.take();
        RealDisk.sync_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.take();
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.take();
        RealDisk.remove(path)
    }
}

/// After a stop at any step the journal opens, verifies, has all records or all but the recorded
/// removals, and reaches the same end.
fn survives_every_step(retention: Retention, kept: std::ops::RangeInclusive<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let taken: Arc<Mutex<Vec<tempfile::TempDir>>> = Arc::default();
    // Nothing is compressed or removed while it is filled.
    let mut journal = filled(dir.path(), 4, Retention { compress: false, ..Retention::default() });
    journal.close().unwrap();
    drop(journal);
    let disk = Snapshots { state_dir: dir.path().to_owned(), taken: Arc::clone(&taken) };
    let options = Options { disk: Arc::new(disk.clone()), ..options(dir.path(), retention) };
    let (mut journal, _) = Journal::open(&options).unwrap();
    journal.retain(on(3)).unwrap();
    disk.take();
    let expected = of_days(*kept.start(), *kept.end());
    assert_eq!(records(&journal), expected);
    drop(journal);
    let steps = std::mem::take(&mut *taken.lock().unwrap());
    assert!(steps.len() > 8, "{}", steps.len());
    for (n, step) in steps.iter().enumerate() {
        verify_log(step.path(), &[]).unwrap_or_else(|error| panic!("step {n}: {error}"));
        let lost_sled = bench_copy(step.path());
        if retention.keep_jsonl {
            fs::remove_dir_all(lost_sled.path().join("data/a2a-journal")).unwrap();
        }
        for dir in [step.path(), lost_sled.path()] {
            let options = Options { disk: Arc::new(RealDisk), ..options.clone() };
            let options = Options { state_dir: dir.to_owned(), ..options };
            let (mut journal, recovered) = Journal::open(&options).unwrap();
            let report = &recovered.report;
            assert_eq!((report.unreadable_lines, report.broken_links), (0, 0), "step {n}");
            assert_eq!(report.index_set_aside, None, "step {n}");
            check_known(&recovered, 4);
            journal.retain(on(3)).unwrap();
            assert_eq!(records(&journal), expected, "step {n}");
            is_whole(dir, &journal);
            let query = Query { agent: Some(agent("roman")), limit: 1_000, ..Query::default() };
            assert_eq!(journal.reader().query(&query).unwrap().records.len(), expected.len());
            assert!(names(dir).iter().all(|name| !name.ends_with(".new")));
        }
    }
}

#[test]
fn stop_at_any_step_of_compressing_loses_nothing() {
    survives_every_step(Retention::default(), 0..=3);
}

#[test]
fn stop_at_any_step_of_removing_is_resumed() {
    survives_every_step(by_age(1), 2..=3);
}

#[test]
fn stop_at_any_step_of_dropping_segments_loses_nothing() {
    survives_every_step(Retention { keep_jsonl: false, ..Retention::default() }, 0..=3);
}
