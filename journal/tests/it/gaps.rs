//! Records missing in one form are taken from the other; records missing in both are reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use a2a_journal::{
    Commit, Journal, MessageRecord, OpenError, Options, ReadError, Record, Retention, rebuild_log,
};

use crate::formats::to_format_2;
use crate::retention::*;
use crate::setup::*;

const NO_FILES: Retention =
    Retention { max_age_days: None, max_bytes: None, compress: true, keep_jsonl: false };

/// Opens the sled of a closed journal, whose threads may need a moment to release the lock.
pub fn open_sled(dir: &Path) -> sled::Db {
    loop {
        match sled::open(dir.join("data/a2a-journal")) {
            Ok(db) => return db,
            Err(sled::Error::Io(error)) if error.to_string().contains("lock") => {
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Changes a tree of sled while the journal is closed.
pub fn in_sled(dir: &Path, tree: &str, change: impl FnOnce(&sled::Tree)) {
    let db = open_sled(dir);
    change(&db.open_tree(tree).unwrap());
    db.flush().unwrap();
}

fn lose_checkpoint(dir: &Path) {
    in_sled(dir, "control", |control| {
        control.remove("checkpoint").unwrap().unwrap();
    });
}

/// A closed journal with four days, of which only the last has a segment, and an open delivery on the
/// second.
fn without_files(retention: Retention) -> (tempfile::TempDir, u64) {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(&options(dir.path(), retention)).unwrap();
    let owed = LINES_A_DAY + 7;
    for n in 0..4 {
        let mut lines = day(n);
        if n == 1 {
            lines[6] = Record::Message(MessageRecord { time: on(1), ..accepted(owed, &["tim"]) });
        }
        commit(&mut journal, &lines);
    }
    journal.retain(on(3)).unwrap();
    journal.close().unwrap();
    drop(journal);
    assert_eq!(names(dir.path()), ["2026-02-24.jsonl"]);
    (dir, owed)
}

/// Replaces the index by that of another log.
fn exchange_index(dir: &Path) {
    let mut other = fresh();
    commit(&mut other.journal, &[message(1, &["tim"]), message(2, &["ann"])]);
    other.journal.close().unwrap();
    drop(other.journal);
    fs::remove_dir_all(dir.join("data/a2a-journal")).unwrap();
    copy_dir(&other.dir.path().join("data/a2a-journal"), &dir.join("data/a2a-journal"));
}

/// Every file below a folder, recursively.
fn everything(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let below = everything(&path).into_iter();
            all.extend(below.map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else {
            all.insert(name, fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn days_without_files_are_folded_from_the_index() {
    // Also with removed older records, of which the index has the removal event.
    for retention in [NO_FILES, Retention { max_age_days: Some(2), ..NO_FILES }] {
        let (dir, owed) = without_files(retention);
        lose_checkpoint(dir.path());
        let (journal, recovered) = Journal::open(&options(dir.path(), retention)).unwrap();
        check_known(&recovered, 4);
        let pending: Vec<u64> = recovered.pending.iter().map(|pending| pending.seq).collect();
        assert_eq!(pending, [owed]);
        assert_eq!(recovered.report.index_set_aside, None);
        drop(journal);
        // The next start has a checkpoint.
        let (_, again) = Journal::open(&options(dir.path(), retention)).unwrap();
        assert_eq!(again.report.lines_replayed, 0);
        check_known(&again, 4);
    }
}

#[test]
fn days_missing_in_both_forms_refuse_the_start_and_change_nothing() {
    type Loss = fn(&Path);
    let losses: [(&str, Loss); 4] = [
        ("the index is gone", |dir| fs::remove_dir_all(dir.join("data/a2a-journal")).unwrap()),
        ("the index is of another log", exchange_index),
        ("a block is damaged", |dir| {
            lose_checkpoint(dir);
            in_sled(dir, "blocks", |blocks| {
                let (key, _) = blocks.first().unwrap().unwrap();
                blocks.insert(key, b"\0\0\0\x05nonsense").unwrap();
            });
        }),
        ("a block is missing", |dir| {
            in_sled(dir, "metas", |metas| drop(metas.pop_min().unwrap().unwrap()));
        }),
    ];
    for (what, lose) in losses {
        let (dir, _) = without_files(NO_FILES);
        let whole = bench_copy(dir.path());
        lose(dir.path());
        for _ in 0..2 {
            let before = everything(&dir.path().join("a2a-log"));
            let error = Journal::open(&options(dir.path(), NO_FILES)).err().expect(what);
            let OpenError::Incomplete { before: line, .. } = &error else {
                panic!("{what}: {error:?}")
            };
            assert_eq!(*line, 3 * LINES_A_DAY + 1, "{what}");
            let text = error.to_string();
            assert!(text.contains("keep_jsonl") && text.contains("put back a copy"), "{text}");
            assert!(everything(&dir.path().join("a2a-log")) == before, "{what}");
            let data = fs::read_dir(dir.path().join("data")).unwrap();
            let aside = data.filter(|entry| {
                entry.as_ref().unwrap().file_name().to_string_lossy().contains("unfit")
            });
            assert_eq!(aside.count(), 0, "{what}: nothing is set aside");
        }
        // The advice of the error works: restoring the index, or the segments.
        fs::remove_dir_all(dir.path().join("data/a2a-journal")).unwrap();
        let files_back = bench_copy(dir.path());
        copy_dir(&whole.path().join("data/a2a-journal"), &dir.path().join("data/a2a-journal"));
        let (_, recovered) = Journal::open(&options(dir.path(), NO_FILES)).unwrap();
        check_known(&recovered, 4);
        rebuild_log(whole.path()).unwrap();
        copy_dir(&whole.path().join("a2a-log"), &files_back.path().join("a2a-log"));
        let (_, recovered) = Journal::open(&options(files_back.path(), NO_FILES)).unwrap();
        check_known(&recovered, 4);
        assert_eq!(recovered.pending.len(), 1, "{what}");
    }
}

#[test]
fn damaged_index_with_all_segments_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = filled(dir.path(), 4, by_age(2));
    journal.retain(on(3)).unwrap();
    journal.close().unwrap();
    drop(journal);
    exchange_index(dir.path());
    let (journal, recovered) = open(dir.path());
    assert!(recovered.report.index_set_aside.is_some());
    check_known(&recovered, 4);
    assert_eq!(records(&journal), of_days(1, 3));
}

#[test]
fn records_behind_a_hole_are_indexed_again_once() {
    let dir = tempfile::tempdir().unwrap();
    // Each close ends a block.
    for n in 0..4 {
        let (mut journal, _) = open(dir.path());
        commit(&mut journal, &(1..=10).map(|i| message(n * 10 + i, &["tim"])).collect::<Vec<_>>());
        journal.close().unwrap();
    }
    in_sled(dir.path(), "metas", |metas| {
        assert_eq!(metas.len(), 4);
        metas.remove(11_u64.to_be_bytes()).unwrap().unwrap();
    });
    let (mut journal, recovered) = open(dir.path());
    assert_eq!(recovered.report.lines_indexed, 30);
    assert_eq!(recovered.seen.len(), 40);
    commit(&mut journal, &[message(41, &["tim"])]);
    journal.close().unwrap();
    drop(journal);
    let (journal, recovered) = open(dir.path());
    let report = &recovered.report;
    assert_eq!((report.lines_indexed, report.lines_replayed), (0, 0), "once is enough");
    assert_eq!(recovered.seen.len(), 41);
    assert_eq!(all(&journal.reader(), 100).len(), 41);
    journal.reader().verify(&[]).unwrap();
    drop(journal);
    for tree in ["metas", "blocks"] {
        in_sled(dir.path(), tree, |tree| assert_eq!(tree.len(), 3));
    }
}

/// Incompressible text.
pub fn noise() -> String {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let deliveries = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        char::from(b'!' + (random % 90) as u8)
    });
    deliveries.filter(|c| !matches!(c, '"' | '\\')).take(200_000).collect()
}

#[test]
fn value_lost_by_sled_is_damage_and_not_a_disk_error() {
    let received = format!("{{\"x\":\"{}\"}}", noise()).into_bytes();
    let received = a2a_journal::Received::Json(received.into());
    let losses: [fn(&Path); 3] = [
        |blob| fs::remove_file(blob).unwrap(),
        |blob| fs::write(blob, b"").unwrap(),
        |blob| {
            let mut bytes = fs::read(blob).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(blob, bytes).unwrap();
        },
    ];
    let mut reported = 0;
    for (n, lose) in losses.into_iter().enumerate() {
        let mut bench = fresh();
        for seq in 1..=8 {
            let line = MessageRecord { received: received.clone(), ..accepted(seq, &[]) };
            commit(&mut bench.journal, &[Record::Message(line)]);
        }
        bench.journal.close().unwrap();
        drop(bench.journal);
        let dir = bench.dir.path();
        // Large values are separate files; an older version wrote some.
        to_format_2(dir);
        // sled writes a snapshot of its locations at the next open. Before that it would take a
        // missing file for an unfinished write.
        drop(open_sled(dir));
        let blobs: Vec<_> = fs::read_dir(dir.join("data/a2a-journal/blobs")).unwrap().collect();
        assert!(!blobs.is_empty(), "the test needs values that are files");
        blobs.into_iter().for_each(|blob| lose(&blob.unwrap().path()));
        let (journal, recovered) = open(dir);
        let report = &recovered.report;
        if report.index_set_aside.is_some() || report.lines_indexed > 0 {
            // Detected at open, and repaired.
            assert_eq!(all(&journal.reader(), 10).len(), 8, "{n}");
            continue;
        }
        reported += 1;
        let Err(error) = journal.reader().page(None, 10) else { panic!("{n}: it was read") };
        assert!(matches!(error, ReadError::Damaged { .. }), "{n}: {error:?}");
        assert!(error.to_string().contains("index is damaged"), "{n}: {error}");
        let verified = journal.reader().verify(&[]).unwrap_err();
        assert!(verified.to_string().contains("index is damaged"), "{n}: {verified}");
        drop(journal);
        // The advice of the error works: the log has every record.
        fs::remove_dir_all(dir.join("data/a2a-journal")).unwrap();
        let (journal, _) = Journal::open(&Options::new(dir)).unwrap();
        assert_eq!(all(&journal.reader(), 10).len(), 8, "{n}");
    }
    assert!(reported > 0, "not all of it is found while opening");
}
