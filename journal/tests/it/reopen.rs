//! State after a restart: after a clean stop, after a kill, with the index missing or unfit.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use a2a_journal::{Commit, DedupEntry, Journal, MessageRecord, OpenError, Options, Record};
use a2a_protocol::{Event, Trace};

use crate::setup::*;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 a=\"b\"";

/// A message with a trace of its own.
fn traced(seq: u64, to: &str) -> Record {
    let trace = Some(Arc::new(TRACE.parse().unwrap()));
    Record::Message(MessageRecord { trace, ..accepted(seq, &[to]) })
}

/// Records of every kind.
fn history() -> Vec<Record> {
    vec![
        joined(1, "tim"),
        joined(2, "ann"),
        message(3, &["tim", "ann"]),
        event(4, Event::Delivered, 3, "tim"),
        event(5, Event::Acknowledged, 3, "tim"),
        traced(6, "tim"),
        event(7, Event::AttemptFailed, 6, "tim"),
        event(8, Event::DeadLetter, 6, "tim"),
        refused(9),
        traced(10, "ann"),
        event(11, Event::Expired, 10, "ann"),
        event(12, Event::Returned, 10, "ann"),
    ]
}

fn check_history(recovered: &a2a_journal::Recovered) {
    assert_eq!(recovered.next_seq, 13);
    assert_eq!(pending(recovered), ["3 ann 0", "10 ann 0"]);
    assert_eq!(dead(recovered), ["6 tim why"]);
    let trace = |trace: &Option<Arc<Trace>>| trace.as_ref().map(ToString::to_string);
    let pending: Vec<_> = recovered.pending.iter().map(|pending| trace(&pending.trace)).collect();
    assert_eq!(pending, [None, Some(TRACE.to_owned())]);
    assert_eq!(trace(&recovered.dead_letters[0].trace).as_deref(), Some(TRACE));
    assert_eq!(recovered.agents, [agent("ann"), agent("tim")]);
    let seen = [3, 6, 10].map(|seq| DedupEntry { message_id: id(seq), fingerprint: seq * 3, seq });
    assert_eq!(recovered.seen, seen);
}

fn sled(dir: &Path) -> std::path::PathBuf {
    dir.join("data/a2a-journal")
}

#[test]
fn a_new_folder_starts_at_one() {
    let bench = fresh();
    assert_eq!(bench.recovered.next_seq, 1);
    assert_eq!(bench.recovered.report.to_string(), "read 0 lines of the log");
}

#[test]
fn clean_stop_leaves_nothing_to_replay() {
    let mut bench = fresh();
    for line in history() {
        commit(&mut bench.journal, &[line]);
    }
    bench.journal.close().unwrap();
    let (journal, recovered) = open(bench.dir.path());
    check_history(&recovered);
    assert_eq!((recovered.report.lines_replayed, recovered.report.lines_indexed), (0, 0));
    assert_eq!(all(&journal.reader(), 2).len(), 4);
}

#[test]
fn after_a_kill_sled_is_healed_from_the_log() {
    let mut bench = fresh();
    commit(&mut bench.journal, &history());
    let copy = bench.killed();
    let (journal, recovered) = open(copy.path());
    check_history(&recovered);
    assert_eq!((recovered.report.lines_replayed, recovered.report.lines_indexed), (12, 12));
    assert_eq!(all(&journal.reader(), 10), all(&bench.journal.reader(), 10));
    assert_eq!(journal.reader().head(), bench.journal.reader().head());
    drop(journal);
    let (_, recovered) = open(copy.path());
    check_history(&recovered);
    assert_eq!(recovered.report.lines_replayed, 0, "recovery leaves a checkpoint");
}

#[test]
fn a_drop_without_close_loses_nothing() {
    let mut bench = fresh();
    commit(&mut bench.journal, &history());
    drop(bench.journal);
    let (_, recovered) = open(bench.dir.path());
    check_history(&recovered);
}

#[test]
fn a_kill_between_checkpoints_reads_only_what_came_after() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { checkpoint_lines: 100, ..Options::new(dir.path()) };
    let (mut journal, _) = Journal::open(&options).unwrap();
    for batch in 0..40 {
        let lines: Vec<Record> = (1..=50).map(|n| message(batch * 50 + n, &["tim"])).collect();
        commit(&mut journal, &lines);
    }
    journal.close().unwrap();
    let (mut journal, _) = Journal::open(&options).unwrap();
    commit(&mut journal, &[message(2_001, &["tim"])]);
    let copy = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), copy.path());
    let (_, recovered) = open(copy.path());
    assert_eq!(recovered.report.lines_replayed, 1);
    assert_eq!(recovered.pending.len(), 2_001);
    assert_eq!(recovered.seen.len(), 2_001);
}

#[test]
fn a_deleted_sled_is_rebuilt() {
    let mut bench = fresh();
    commit(&mut bench.journal, &history());
    bench.journal.close().unwrap();
    fs::remove_dir_all(sled(bench.dir.path())).unwrap();
    let (journal, recovered) = open(bench.dir.path());
    check_history(&recovered);
    assert_eq!(recovered.report.lines_indexed, 12);
    assert_eq!(all(&journal.reader(), 10).len(), 4);
}

#[test]
fn older_index_is_brought_up_to_date() {
    let mut bench = fresh();
    let lines = history();
    commit(&mut bench.journal, &lines[..5]);
    bench.journal.close().unwrap();
    let old = tempfile::tempdir().unwrap();
    copy_dir(&sled(bench.dir.path()), old.path());
    let (mut journal, _) = open(bench.dir.path());
    commit(&mut journal, &lines[5..]);
    journal.close().unwrap();
    fs::remove_dir_all(sled(bench.dir.path())).unwrap();
    copy_dir(old.path(), &sled(bench.dir.path()));
    let (_, recovered) = open(bench.dir.path());
    check_history(&recovered);
    assert_eq!((recovered.report.lines_replayed, recovered.report.lines_indexed), (7, 7));
}

#[test]
fn index_of_another_log_is_set_aside() {
    let mut bench = fresh();
    commit(&mut bench.journal, &history());
    bench.journal.close().unwrap();
    let mut other = fresh();
    commit(&mut other.journal, &[message(1, &["eve"]), message(40, &["eve"])]);
    other.journal.close().unwrap();
    fs::remove_dir_all(sled(bench.dir.path())).unwrap();
    copy_dir(&sled(other.dir.path()), &sled(bench.dir.path()));
    let (_, recovered) = open(bench.dir.path());
    check_history(&recovered);
    assert!(recovered.report.index_set_aside.unwrap().exists());
}

#[test]
fn a_damaged_sled_costs_nothing_but_time() {
    let damages: [fn(&mut Vec<u8>); 5] = [
        |db| db.fill(0xa5),
        |db| db.fill(0),
        |db| db.truncate(db.len() / 2),
        |db| db.clear(),
        |db| {
            let middle = db.len() / 2;
            db[..middle].iter_mut().step_by(97).for_each(|byte| *byte ^= 0x10);
        },
    ];
    for (i, damage) in damages.iter().enumerate() {
        let mut bench = fresh();
        commit(&mut bench.journal, &history());
        bench.journal.close().unwrap();
        let path = sled(bench.dir.path()).join("db");
        let mut db = fs::read(&path).unwrap();
        damage(&mut db);
        fs::write(&path, db).unwrap();
        let (journal, recovered) = open(bench.dir.path());
        check_history(&recovered);
        assert_eq!(all(&journal.reader(), 10).len(), 4, "damage {i}");
    }
}

#[test]
fn second_opener_is_refused_with_advice() {
    let bench = fresh();
    let error = Journal::open(&Options::new(bench.dir.path())).err().unwrap();
    assert!(matches!(error, OpenError::Locked { .. }));
    assert!(error.to_string().contains("stop the other server"), "{error}");
}

#[test]
fn remaining_reader_does_not_keep_the_journal_locked() {
    let mut bench = fresh();
    commit(&mut bench.journal, &history());
    let reader = bench.journal.reader();
    bench.journal.close().unwrap();
    let (_journal, recovered) = open(bench.dir.path());
    check_history(&recovered);
    assert!(reader.page(None, 1).is_err());
}

#[test]
fn copies_of_one_message_share_its_bytes() {
    let mut bench = fresh();
    commit(&mut bench.journal, &[message(1, &["tim", "ann", "bob"])]);
    let (_, recovered) = open(bench.killed().path());
    let first = &recovered.pending[0].message;
    assert_eq!(recovered.pending.len(), 3);
    assert!(recovered.pending.iter().all(|p| std::sync::Arc::ptr_eq(&p.message, first)));
}

#[test]
fn lines_dropped_from_memory_are_read_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { tail_bytes: 0, ..Options::new(dir.path()) };
    let (mut journal, _) = Journal::open(&options).unwrap();
    for line in history() {
        commit(&mut journal, &[line]);
    }
    let found = all(&journal.reader(), 3);
    assert_eq!(found.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [10, 9, 6, 3]);
    assert_eq!(found[0].1, ["expired", "returned"]);
    journal.close().unwrap();
    let (_, recovered) = open(dir.path());
    check_history(&recovered);
    assert_eq!(recovered.report.lines_indexed, 0);
}
