//! Reading without a server: the log stays unchanged, and a server can start at any time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use a2a_journal::{
    Commit, JournalReader, OfflineJournal, OpenError, RecoveryReport, VerifyError, read_offline,
    verify_journal, verify_journal_in_turns,
};
use a2a_protocol::Event;

use crate::setup::*;

fn log_of(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir.join("a2a-log")).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect()
}

fn read(dir: &Path) -> (Arc<dyn JournalReader>, RecoveryReport) {
    let OfflineJournal { reader, report } = read_offline(dir).unwrap().unwrap();
    (reader, report)
}

/// A killed journal: one stored block, more records in the log alone, and a torn write.
fn killed() -> (tempfile::TempDir, a2a_journal::Head) {
    let mut bench = fresh();
    commit(&mut bench.journal, &(1..=20).map(|seq| message(seq, &["tim"])).collect::<Vec<_>>());
    bench.journal.close().unwrap();
    drop(bench.journal);
    let (mut journal, _) = open(bench.dir.path());
    commit(&mut journal, &[message(21, &["tim"]), event(22, Event::Acknowledged, 3, "tim")]);
    // A day has passed, so that the rest is in two segments.
    let mut line = accepted(23, &["ann"]);
    line.time = at(86_400_000);
    commit(&mut journal, &[a2a_journal::Record::Message(line)]);
    let head = journal.reader().head();
    let dir = tempfile::tempdir().unwrap();
    copy_dir(bench.dir.path(), dir.path());
    // As if the indexer had stored less.
    fs::remove_dir_all(dir.path().join("data/a2a-journal")).unwrap();
    drop(journal);
    let mut first = fresh();
    commit(&mut first.journal, &(1..=20).map(|seq| message(seq, &["tim"])).collect::<Vec<_>>());
    first.journal.close().unwrap();
    drop(first.journal);
    let index = first.dir.path().join("data/a2a-journal");
    copy_dir(&index, &dir.path().join("data/a2a-journal"));
    let newest = dir.path().join("a2a-log/2026-02-22.jsonl");
    let mut newest = fs::OpenOptions::new().append(true).open(newest).unwrap();
    newest.write_all(b"{\"seq\":24,\"ti").unwrap();
    (dir, head)
}

#[test]
fn reading_sees_everything_and_writes_nothing() {
    let (dir, head) = killed();
    let before = log_of(dir.path());
    for _ in 0..2 {
        let (reader, report) = read(dir.path());
        assert_eq!((report.lines_replayed, report.torn_bytes, report.torn_file), (3, 13, None));
        assert_eq!(reader.head(), head);
        let found = all(&reader, 7);
        assert_eq!(found.len(), 22);
        assert_eq!((found[0].0, found[1].0), (23, 21));
        assert_eq!(found[19], (3, vec!["acknowledged".to_owned()]));
        assert_eq!(reader.find(&id(23)).unwrap().len(), 1);
        assert_eq!(reader.after(20, 10).unwrap().len(), 3);
        let verified = reader.verify(&[head]).unwrap();
        assert_eq!((verified.records, verified.head), (22, head));
    }
    assert_eq!(verify_journal(dir.path(), &[head]).unwrap().head, head);
    assert!(log_of(dir.path()) == before, "not a byte");
    assert_eq!(read(dir.path()).1.lines_replayed, 3, "nothing was given to the index");
    // The server does repair it.
    let (_, recovered) = open(dir.path());
    assert_eq!((recovered.report.lines_indexed, recovered.report.torn_bytes), (3, 13));
}

#[test]
fn compressed_segments_that_the_index_lacks_are_read() {
    let (dir, head) = killed();
    let day = dir.path().join("a2a-log/2026-02-21.jsonl");
    let packed = zstd::encode_all(&fs::read(&day).unwrap()[..], 3).unwrap();
    fs::write(day.with_extension("jsonl.zst"), packed).unwrap();
    fs::remove_file(&day).unwrap();
    let before = log_of(dir.path());
    let (reader, _) = read(dir.path());
    assert_eq!(reader.head(), head);
    assert_eq!(all(&reader, 100).len(), 22);
    drop(reader);
    assert!(log_of(dir.path()) == before);
}

#[test]
fn without_a_fitting_index_nothing_is_opened_or_created() {
    let (dir, _) = killed();
    let index = dir.path().join("data/a2a-journal");
    let mut other = fresh();
    commit(&mut other.journal, &[message(1, &["eve"]), message(2, &["eve"])]);
    other.journal.close().unwrap();
    drop(other.journal);
    fs::remove_dir_all(&index).unwrap();
    copy_dir(&other.dir.path().join("data/a2a-journal"), &index);
    assert!(read_offline(dir.path()).unwrap().is_none(), "it is of another log");
    fs::remove_dir_all(&index).unwrap();
    assert!(read_offline(dir.path()).unwrap().is_none());
    assert!(!index.exists());
}

#[test]
fn readers_and_writers_exclude_each_other() {
    let bench = fresh();
    let error = read_offline(bench.dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    let error = verify_journal(bench.dir.path(), &[]).unwrap_err();
    assert!(matches!(error, VerifyError::InUse { .. }), "{error}");
}

#[test]
fn a_server_starts_while_the_index_is_verified() {
    let dir = tempfile::tempdir().unwrap();
    // Each close ends a block, and each block is one turn.
    for n in 0..5 {
        let (mut journal, _) = open(dir.path());
        commit(&mut journal, &(1..=9).map(|i| message(n * 9 + i, &["tim"])).collect::<Vec<_>>());
        journal.close().unwrap();
    }
    let turns = Cell::new(0);
    let verify = |meanwhile: &dyn Fn()| {
        turns.set(0);
        verify_journal_in_turns(dir.path(), &[], Duration::ZERO, &|| {
            turns.set(turns.get() + 1);
            meanwhile();
        })
    };
    let whole = verify(&|| {}).unwrap();
    assert_eq!((whole.records, turns.get() >= 5), (45, true), "{}", turns.get());

    // A server that starts, commits and stops in between is fine: the chain continues.
    let more = verify(&|| {
        if turns.get() == 2 {
            let (mut journal, recovered) = open(dir.path());
            commit(&mut journal, &[message(recovered.next_seq, &["tim"])]);
            journal.close().unwrap();
        }
    });
    assert_eq!(more.unwrap().records, 46);

    // A server that stays has the index locked, and must do the verification itself.
    let server = RefCell::new(None);
    let verdict = verify(&|| {
        if turns.get() == 3 {
            server.replace(Some(open(dir.path()).0));
        }
    });
    assert!(matches!(verdict, Err(VerifyError::InUse { .. })), "{verdict:?}");
    let server = server.into_inner().unwrap();
    assert_eq!(server.reader().verify(&[]).unwrap().records, 46);
}
