//! Indexes written by other versions of the program.

use std::path::Path;

use a2a_journal::{Commit, Journal, OpenError, Options, Query, Record};

use crate::gaps::open_sled;
use crate::setup::*;

/// Converts a closed index to format 2: each block is one value, under the number of its first
/// record, and its dedup entries are in the metadata.
pub fn to_format_2(dir: &Path) {
    let db = open_sled(dir);
    let [blocks, seen, metas] = ["blocks", "seen", "metas"].map(|name| db.open_tree(name).unwrap());
    let take = |tree: &sled::Tree, first: &[u8]| {
        let pieces: Vec<_> = tree.scan_prefix(first).map(Result::unwrap).collect();
        pieces.iter().for_each(|(key, _)| drop(tree.remove(key).unwrap()));
        pieces.into_iter().flat_map(|(_, piece)| piece.to_vec()).collect::<Vec<u8>>()
    };
    for item in &metas {
        let (first, value) = item.unwrap();
        let (listed, (value, count)) = (take(&seen, &first), value.split_last_chunk().unwrap());
        assert_eq!((value[0], listed.len()), (3, u32::from_be_bytes(*count) as usize * 32));
        metas.insert(&first, [&[2], &value[1..], &listed].concat()).unwrap();
        blocks.insert(&first, take(&blocks, &first)).unwrap();
    }
    drop(seen);
    assert!(db.drop_tree("seen").unwrap());
    db.flush().unwrap();
}

/// Changes the metadata of every block.
fn rewrite(dir: &Path, change: impl Fn(&[u8]) -> Vec<u8>) {
    let db = open_sled(dir);
    let metas = db.open_tree("metas").unwrap();
    for item in &metas {
        let (key, value) = item.unwrap();
        metas.insert(key, change(&value)).unwrap();
    }
    db.flush().unwrap();
}

fn closed_journal() -> tempfile::TempDir {
    let mut bench = fresh();
    let lines: Vec<Record> = (1..=1_000)
        .map(|seq| message(seq, if seq % 100 == 0 { &["ann"] } else { &["tim"] }))
        .collect();
    commit(&mut bench.journal, &lines);
    bench.journal.close().unwrap();
    drop(bench.journal);
    bench.dir
}

fn of_ann(journal: &Journal) -> Vec<u64> {
    let query = Query { agent: Some(agent("ann")), ..Query::default() };
    journal.reader().query(&query).unwrap().records.iter().map(|record| record.seq).collect()
}

#[test]
fn metadata_without_a_summary_is_upgraded() {
    let dir = closed_journal();
    to_format_2(dir.path());
    rewrite(dir.path(), |value| {
        let words = u32::from_be_bytes(value[101..105].try_into().unwrap()) as usize;
        [&value[1..69], &value[105 + words * 8..]].concat()
    });
    // The upgrade does not need the log.
    let expected: Vec<u64> = (1..=10).rev().map(|n| n * 100).collect();
    for _ in 0..2 {
        let (journal, recovered) = open(dir.path());
        assert_eq!(of_ann(&journal), expected);
        assert_eq!((recovered.report.lines_indexed, recovered.report.lines_replayed), (0, 0));
        assert_eq!(recovered.report.index_set_aside, None);
        assert_eq!(recovered.seen.len(), 1_000);
    }
}

#[test]
fn index_with_unchunked_values_opens_and_grows() {
    let dir = closed_journal();
    to_format_2(dir.path());
    let expected = |last: u64| (1..=last / 100).rev().map(|n| n * 100).collect::<Vec<_>>();
    for last in [1_000, 1_600, 1_600] {
        let (mut journal, recovered) = open(dir.path());
        let report = &recovered.report;
        assert_eq!((report.lines_indexed, &report.index_set_aside), (0, &None));
        assert!(recovered.seen.iter().map(|seen| seen.seq).eq(1..=last));
        assert_eq!(of_ann(&journal), expected(last));
        assert_eq!(all(&journal.reader(), 100).len() as u64, last);
        journal.reader().verify(&[]).unwrap();
        if last == 1_000 {
            let lines = (1_001..=1_600)
                .map(|seq| message(seq, if seq % 100 == 0 { &["ann"] } else { &["tim"] }));
            commit(&mut journal, &lines.collect::<Vec<_>>());
        }
        journal.close().unwrap();
    }
    let db = open_sled(dir.path());
    let lengths = |tree: &str| {
        let tree = db.open_tree(tree).unwrap();
        tree.iter().keys().map(|key| key.unwrap().len()).collect::<Vec<_>>()
    };
    // Existing values stay unchanged.
    assert!(lengths("blocks").starts_with(&[8, 8, 10]), "{:?}", lengths("blocks"));
    assert!(lengths("seen").iter().all(|len| *len == 10));
    drop(db);
    let file = log_files(dir.path()).remove(0);
    let whole = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    a2a_journal::rebuild_log(dir.path()).unwrap();
    assert!(std::fs::read(&file).unwrap() == whole);
}

#[test]
fn metadata_of_a_newer_version_is_refused_and_unchanged() {
    let dir = closed_journal();
    rewrite(dir.path(), |value| [&[77], &value[1..]].concat());
    for _ in 0..2 {
        let error = Journal::open(&Options::new(dir.path())).err().unwrap();
        assert!(matches!(error, OpenError::Newer { .. }), "{error}");
        assert!(error.to_string().contains("newer version"), "{error}");
    }
    rewrite(dir.path(), |value| [&[3], &value[1..]].concat());
    assert_eq!(of_ann(&open(dir.path()).0).len(), 10);
}

/// Records of a version without sizes and durations, which named the size of bytes that are not JSON
/// `rawBytes`.
const WITHOUT_SIZES: [&str; 3] = [
    r#"{"seq":1,"time":"2026-02-21T18:30:00.001Z","outcome":"delivered","messageId":"0192a4c8-7e1a-7b3c-9d4e-000000000001","by":"roman","bodyHash":"000000000000beef","message":{"a":   [1,  2]},"recipients":[{"agentId":"tim","outcome":"delivered"}]"#,
    r#"{"seq":2,"time":"2026-02-21T18:30:00.002Z","event":"attempt_failed","of":1,"messageId":"0192a4c8-7e1a-7b3c-9d4e-000000000001","agentId":"tim","attempt":1"#,
    r#"{"seq":3,"time":"2026-02-21T18:30:00.003Z","outcome":"invalid","raw":"not\njson","rawBytes":8,"recipients":[],"reason":"It is no JSON.""#,
];

#[test]
fn records_without_sizes_are_read_verified_and_rebuilt_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let mut prev = "0".repeat(64);
    let mut log = String::new();
    for line in WITHOUT_SIZES {
        let covered = format!("{line},\"prev\":\"{prev}\"");
        prev = hex(covered.as_bytes());
        log.push_str(&format!("{covered},\"hash\":\"{prev}\"}}\n"));
    }
    let file = dir.path().join("a2a-log/2026-02-21.jsonl");
    std::fs::create_dir_all(dir.path().join("a2a-log")).unwrap();
    std::fs::write(&file, &log).unwrap();

    let (mut journal, recovered) = open(dir.path());
    assert_eq!((recovered.pending.len(), recovered.pending[0].attempts), (1, 1));
    assert_eq!(recovered.seen[0].fingerprint, 0xbeef);
    assert_eq!(all(&journal.reader(), 9), [(3, vec![]), (1, vec!["attempt_failed".to_owned()])]);
    commit(&mut journal, &[message(4, &["tim"])]);
    journal.close().unwrap();
    drop(journal);

    let whole = std::fs::read(&file).unwrap();
    assert!(whole.starts_with(log.as_bytes()));
    let verified = a2a_journal::verify_log(dir.path(), &[]).unwrap();
    assert_eq!((verified.records, verified.lines), (3, 4));
    std::fs::remove_file(&file).unwrap();
    a2a_journal::rebuild_log(dir.path()).unwrap();
    assert!(std::fs::read(&file).unwrap() == whole);
}
