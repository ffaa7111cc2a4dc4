//! Values longer than one sled chunk: every chunk counts, and a removal leaves none.

use std::path::Path;

use a2a_journal::{
    Commit, EventRecord, Journal, MessageRecord, ReadError, Received, Record, Retention,
};
use a2a_protocol::Event;

use crate::formats::to_format_2;
use crate::gaps::{in_sled, noise, open_sled};
use crate::retention::*;
use crate::setup::*;

const LINES: u64 = 900;
const LONGEST: usize = 4096;

/// Incompressible messages, so that every block has many chunks.
fn noisy(seqs: std::ops::RangeInclusive<u64>, day: u64) -> Vec<Record> {
    let noise = noise();
    seqs.map(|seq| {
        let at = (seq as usize * 307) % (noise.len() - 300);
        let body = format!(r#"{{"messageId":"{}","x":"{}"}}"#, id(seq), &noise[at..at + 300]);
        let received = Received::Json(body.into_bytes().into());
        Record::Message(MessageRecord { received, time: on(day), ..accepted(seq, &[]) })
    })
    .collect()
}

/// A closed journal with several blocks of such messages.
fn closed() -> tempfile::TempDir {
    let mut bench = fresh();
    commit(&mut bench.journal, &noisy(1..=LINES, 0));
    bench.journal.close().unwrap();
    drop(bench.journal);
    bench.dir
}

fn seqs(journal: &Journal) -> Vec<u64> {
    all(&journal.reader(), 1_000).into_iter().map(|(seq, _)| seq).rev().collect()
}

/// The keys of a tree, split into the number of the block and the rest.
fn keys(dir: &Path, tree: &str) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    in_sled(dir, tree, |tree| {
        found.extend(tree.iter().keys().map(|key| {
            let key = key.unwrap();
            (u64::from_be_bytes(key[..8].try_into().unwrap()), key[8..].to_vec())
        }));
    });
    found
}

#[test]
fn values_are_chunked_and_round_trip() {
    let dir = closed();
    for tree in ["blocks", "seen"] {
        let metas = keys(dir.path(), "metas").len();
        in_sled(dir.path(), tree, |tree| {
            assert!(tree.len() > 2 * metas, "the test needs values in pieces");
            assert!(tree.iter().values().all(|value| value.unwrap().len() <= LONGEST));
        });
    }
    let (journal, recovered) = open(dir.path());
    assert_eq!(recovered.report.lines_indexed, 0);
    assert!(recovered.seen.iter().map(|seen| seen.seq).eq(1..=LINES));
    assert!(recovered.seen.iter().all(|s| (s.message_id, s.fingerprint) == (id(s.seq), s.seq * 3)));
    assert!(seqs(&journal).into_iter().eq(1..=LINES));
    is_whole(dir.path(), &journal);
}

#[test]
fn block_without_a_chunk_is_damaged() {
    let dir = closed();
    let pieces = keys(dir.path(), "blocks").iter().filter(|(first, _)| *first == 1).count() as u16;
    for lost in [0, 1, pieces / 2, pieces - 1] {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(dir.path(), copy.path());
        in_sled(copy.path(), "blocks", |blocks| {
            let key = [&1_u64.to_be_bytes()[..], &lost.to_be_bytes()].concat();
            blocks.remove(key).unwrap().unwrap();
        });
        let (journal, recovered) = open(copy.path());
        assert_eq!(recovered.report.lines_indexed, 0, "opening does not read blocks");
        let error = journal.reader().page(Some(50), 10).err();
        assert!(matches!(error, Some(ReadError::Damaged { block: 1 })), "{lost}: {error:?}");
        assert_eq!(journal.reader().page(None, 10).unwrap().records.len(), 10, "another block");
        let verified = journal.reader().verify(&[]).unwrap_err().to_string();
        assert!(verified.contains("index is damaged"), "{lost}: {verified}");
    }
}

#[test]
fn block_without_all_dedup_entries_is_indexed_again() {
    let dir = closed();
    let listed = keys(dir.path(), "seen");
    let first = listed.last().unwrap().0;
    assert!(first > 1 && listed.iter().filter(|(block, _)| *block == 1).count() > 2);
    for (block, lost, indexed) in [(1, 0, LINES), (1, 1, LINES), (first, 0, LINES - first + 1)] {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(dir.path(), copy.path());
        in_sled(copy.path(), "seen", |seen| {
            let key = [&block.to_be_bytes()[..], &u16::to_be_bytes(lost)].concat();
            seen.remove(key).unwrap().unwrap();
        });
        for indexed in [indexed, 0] {
            let (journal, recovered) = open(copy.path());
            assert_eq!(recovered.report.lines_indexed, indexed, "{block} {lost}");
            assert!(recovered.seen.iter().map(|seen| seen.seq).eq(1..=LINES), "{block} {lost}");
            assert!(seqs(&journal).into_iter().eq(1..=LINES), "{block} {lost}");
        }
    }
}

#[test]
fn leftover_chunks_of_a_longer_block_are_removed() {
    let dir = closed();
    let last = keys(dir.path(), "metas").last().unwrap().0;
    let trees = ["blocks", "seen"].map(|tree| (tree, keys(dir.path(), tree)));
    // The last block was never completed and had more chunks; so did one behind it.
    in_sled(dir.path(), "metas", |metas| drop(metas.pop_max().unwrap().unwrap()));
    for tree in ["blocks", "seen"] {
        in_sled(dir.path(), tree, |tree| {
            for (block, piece) in (0..99_u16).map(|n| (last, n)).chain([(last + 1, 0)]) {
                let key = [&block.to_be_bytes()[..], &piece.to_be_bytes()].concat();
                tree.insert(key, &[7; LONGEST][..]).unwrap();
            }
        });
    }
    let (journal, recovered) = open(dir.path());
    assert_eq!(recovered.report.lines_indexed, LINES - last + 1);
    assert!(seqs(&journal).into_iter().eq(1..=LINES));
    drop(journal);
    let (journal, recovered) = open(dir.path());
    assert_eq!((recovered.report.lines_indexed, recovered.seen.len() as u64), (0, LINES));
    is_whole(dir.path(), &journal);
    drop(journal);
    for (tree, expected) in trees {
        assert_eq!(keys(dir.path(), tree), expected, "{tree}");
    }
}

/// A closed journal with three days of such messages.
fn three_days() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(&options(dir.path(), Retention::default())).unwrap();
    for day in 0..3 {
        let (first, last) = (day * LINES + 1, (day + 1) * LINES);
        let mut lines = noisy(first..=last - 1, day);
        // About a record of the first block of the day, so that the tree `events` has entries.
        let of = EventRecord::new(last, on(day), Event::Acknowledged);
        lines.push(Record::Event(EventRecord { of: Some(first), ..of }));
        commit(&mut journal, &lines);
    }
    journal.close().unwrap();
    drop(journal);
    dir
}

#[test]
fn removal_leaves_no_chunks() {
    for is_old in [false, true] {
        let dir = three_days();
        if is_old {
            to_format_2(dir.path());
        }
        let (mut journal, _) = Journal::open(&options(dir.path(), by_age(1))).unwrap();
        let retained = journal.retain(on(2)).unwrap();
        assert!(!retained.removed.is_empty());
        journal.close().unwrap();
        drop(journal);
        for tree in ["metas", "blocks", "seen", "events"] {
            let left = keys(dir.path(), tree);
            assert!(left.iter().all(|(block, _)| *block > LINES), "{tree}: {left:?}");
        }
    }
}

#[test]
fn interrupted_removal_is_finished_at_open() {
    let dir = three_days();
    in_sled(dir.path(), "control", |control| {
        control.insert("floor", &LINES.to_be_bytes()).unwrap();
    });
    for tree in ["blocks", "seen"] {
        in_sled(dir.path(), tree, |tree| drop(tree.pop_min().unwrap().unwrap()));
    }
    let (journal, recovered) = Journal::open(&options(dir.path(), Retention::default())).unwrap();
    assert_eq!((recovered.report.lines_indexed, &recovered.report.index_set_aside), (0, &None));
    let left = || (LINES + 1..=3 * LINES).filter(|seq| seq % LINES != 0);
    assert!(recovered.seen.iter().map(|seen| seen.seq).eq(left()));
    assert!(seqs(&journal).into_iter().eq(left()));
    drop(journal);
    let db = open_sled(dir.path());
    for tree in ["metas", "blocks", "seen"] {
        let (key, _) = db.open_tree(tree).unwrap().first().unwrap().unwrap();
        assert_eq!(key[..8], (LINES + 1).to_be_bytes(), "{tree}");
    }
}
