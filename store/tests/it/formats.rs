//! Indexes that other versions of the program wrote.

use std::path::Path;

use a2a_store::{Commit, Journal, Line, OpenError, Options, Query};

use crate::setup::*;

/// Changes the metadata of every block.
fn rewrite(dir: &Path, change: impl Fn(&[u8]) -> Vec<u8>) {
    let db = sled::open(dir.join("data/a2a-journal")).unwrap();
    let metas = db.open_tree("metas").unwrap();
    for item in &metas {
        let (key, value) = item.unwrap();
        metas.insert(key, change(&value)).unwrap();
    }
    db.flush().unwrap();
}

fn closed_journal() -> tempfile::TempDir {
    let mut bench = fresh();
    let lines: Vec<Line> = (1..=1_000)
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
fn metadata_without_a_summary_is_brought_up_to_date() {
    let dir = closed_journal();
    rewrite(dir.path(), |value| {
        let words = u32::from_be_bytes(value[101..105].try_into().unwrap()) as usize;
        [&value[1..69], &value[105 + words * 8..]].concat()
    });
    // Not even the log is needed for it.
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
fn metadata_of_a_newer_version_is_refused_and_left_alone() {
    let dir = closed_journal();
    rewrite(dir.path(), |value| [&[77], &value[1..]].concat());
    for _ in 0..2 {
        let error = Journal::open(&Options::new(dir.path())).err().unwrap();
        assert!(matches!(error, OpenError::Newer { .. }), "{error}");
        assert!(error.to_string().contains("newer version"), "{error}");
    }
    rewrite(dir.path(), |value| [&[2], &value[1..]].concat());
    assert_eq!(of_ann(&open(dir.path()).0).len(), 10);
}
