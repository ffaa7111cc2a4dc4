//! Writes cut at every byte, damage in the middle, files of other programs.

use std::fs;

use a2a_journal::Commit;
use a2a_protocol::Event;

use crate::setup::*;

#[test]
fn a_write_cut_at_any_byte_leaves_whole_lines() {
    let mut bench = fresh();
    commit(&mut bench.journal, &[message(1, &["tim"]), event(2, Event::Delivered, 1, "tim")]);
    let file = log_files(bench.dir.path()).remove(0);
    let before = fs::read(&file).unwrap().len();
    commit(&mut bench.journal, &[event(3, Event::Acknowledged, 1, "tim"), message(4, &["ann"])]);
    let whole = fs::read(&file).unwrap();
    let third = before + whole[before..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in before..=whole.len() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a2a-log");
        fs::create_dir(&log).unwrap();
        fs::write(log.join(file.file_name().unwrap()), &whole[..cut]).unwrap();
        let (mut journal, recovered) = open(dir.path());
        let (last, expected): (u64, &[&str]) = match cut {
            cut if cut == whole.len() => (4, &["4 ann 0"]),
            cut if cut >= third => (3, &[]),
            _ => (2, &["1 tim 1"]),
        };
        assert_eq!(
            (recovered.next_seq, pending(&recovered)),
            (last + 1, expected.iter().map(|s| s.to_string()).collect()),
            "cut at {cut}"
        );
        let kept = match last {
            2 => before,
            3 => third,
            _ => whole.len(),
        };
        assert_eq!(recovered.report.torn_bytes, (cut - kept) as u64);
        assert_eq!(recovered.report.unreadable_lines + recovered.report.broken_links, 0);
        match recovered.report.torn_file {
            Some(torn) => assert_eq!(fs::read(torn).unwrap(), &whole[kept..cut]),
            None => assert_eq!(kept, cut),
        }
        // The chain continues where it was cut.
        commit(&mut journal, &[message(last + 1, &["tim"])]);
        assert_eq!(checked_log(dir.path()).len() as u64, last + 1);
    }
}

#[test]
fn a_last_line_whose_hash_does_not_fit_is_torn_too() {
    let mut bench = fresh();
    commit(&mut bench.journal, &[message(1, &["tim"]), message(2, &["tim"])]);
    let copy = bench.killed();
    let file = log_files(copy.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let len = bytes.len();
    bytes[len - 400..len - 200].fill(0);
    fs::write(&file, &bytes).unwrap();
    // With a watermark behind it, it would be damage.
    fs::remove_file(copy.path().join("data/a2a-watermark.bin")).unwrap();
    let (_, recovered) = open(copy.path());
    assert_eq!(recovered.next_seq, 2);
    assert_eq!(checked_log(copy.path()).len(), 1);
    assert!(recovered.report.to_string().contains("unfinished write"), "{}", recovered.report);
}

#[test]
fn damage_in_the_middle_is_kept_and_counted() {
    let mut bench = fresh();
    for seq in 1..=4 {
        commit(&mut bench.journal, &[message(seq, &["tim"])]);
    }
    let copy = bench.killed();
    let file = log_files(copy.path()).remove(0);
    let damaged = fs::read_to_string(&file).unwrap().replace("\"n\":2", "\"n\":7");
    fs::write(&file, &damaged).unwrap();
    let (mut journal, recovered) = open(copy.path());
    assert_eq!(pending(&recovered), ["1 tim 0", "3 tim 0", "4 tim 0"]);
    let report = &recovered.report;
    assert_eq!((report.unreadable_lines, report.broken_links, report.torn_bytes), (1, 0, 0));
    assert_eq!(fs::read_to_string(&file).unwrap(), damaged, "nothing is destroyed");
    commit(&mut journal, &[message(5, &["tim"])]);
    assert_eq!(all(&journal.reader(), 10).len(), 4);
}

#[test]
fn a_line_taken_out_breaks_the_chain() {
    let mut bench = fresh();
    for seq in 1..=4 {
        commit(&mut bench.journal, &[message(seq, &["tim"])]);
    }
    let copy = bench.killed();
    let file = log_files(copy.path()).remove(0);
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("\"n\":2")).collect();
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    let (_, recovered) = open(copy.path());
    assert_eq!(recovered.pending.len(), 3);
    assert_eq!((recovered.report.unreadable_lines, recovered.report.broken_links), (0, 1));
    assert!(recovered.report.to_string().contains("1 break"), "{}", recovered.report);
}

#[test]
fn a_line_repeated_counts_once() {
    let mut bench = fresh();
    commit(&mut bench.journal, &[message(1, &["tim"]), message(2, &["tim"])]);
    let copy = bench.killed();
    let file = log_files(copy.path()).remove(0);
    let text = fs::read_to_string(&file).unwrap();
    let first = text.split_inclusive('\n').next().unwrap();
    fs::write(&file, format!("{first}{text}")).unwrap();
    let (_, recovered) = open(copy.path());
    assert_eq!((recovered.pending.len(), recovered.report.unreadable_lines), (2, 1));
}

#[test]
fn other_and_empty_files_stay_unchanged() {
    let mut bench = fresh();
    commit(&mut bench.journal, &[message(1, &["tim"])]);
    let copy = bench.killed();
    let log = copy.path().join("a2a-log");
    let strange = ["notes.txt", "2026-2-1.jsonl", "2026-13-01.jsonl", "2026-02-20.jsonl.bak"];
    for name in strange {
        fs::write(log.join(name), "not ours").unwrap();
    }
    fs::write(log.join("2026-02-22.jsonl"), "").unwrap();
    let (mut journal, recovered) = open(copy.path());
    assert_eq!(pending(&recovered), ["1 tim 0"]);
    assert_eq!(recovered.report.unreadable_lines, 0);
    commit(&mut journal, &[message(2, &["tim"])]);
    for name in strange {
        assert_eq!(fs::read_to_string(log.join(name)).unwrap(), "not ours");
    }
    let newest = fs::read_to_string(log.join("2026-02-22.jsonl")).unwrap();
    assert_eq!(newest.lines().count(), 1, "never back to an older file");
}

#[test]
fn removed_old_segment_is_tolerated() {
    let mut bench = fresh();
    commit(&mut bench.journal, &[message(1, &["tim"])]);
    let mut line = accepted(2, &["tim"]);
    line.time = at(86_400_000);
    commit(&mut bench.journal, &[a2a_journal::Record::Message(line)]);
    bench.journal.close().unwrap();
    fs::remove_file(&log_files(bench.dir.path())[0]).unwrap();
    // The index still has it. Without the index only the rest exists, which is no damage.
    let (journal, recovered) = open(bench.dir.path());
    assert_eq!((recovered.pending.len(), all(&journal.reader(), 9).len()), (2, 2));
    drop(journal);
    fs::remove_dir_all(bench.dir.path().join("data/a2a-journal")).unwrap();
    let (_, recovered) = open(bench.dir.path());
    assert_eq!((recovered.pending.len(), recovered.next_seq), (1, 3));
    assert_eq!(recovered.report.broken_links, 0);
}
