//! Distinguishes a torn batch that was never durable from damage to durable records.

use std::fs;
use std::path::{Path, PathBuf};

use a2a_journal::{
    Commit, Journal, Options, Record, Recovered, Retention, Tampering, VerifyError, read_offline,
    verify_log,
};

use crate::setup::*;

/// Bytes of a page, the smallest hole that a power cut leaves.
const PAGE: usize = 4096;

struct Rig {
    dir: tempfile::TempDir,
    journal: Journal,
    next: u64,
}

fn options(dir: &Path, has_wal: bool) -> Options {
    let retention = Retention { compress: false, ..Retention::default() };
    let wal_after = if has_wal { 0 } else { u64::MAX };
    Options { retention, wal_after, wal_bytes: 64 << 10, ..Options::new(dir) }
}

impl Rig {
    fn new(has_wal: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(&options(dir.path(), has_wal)).unwrap();
        let mut rig = Self { dir, journal, next: 1 };
        rig.commit(3);
        let wal = rig.dir.path().join("data/a2a-wal-0.bin");
        while has_wal && !fs::read(&wal).unwrap_or_default().starts_with(b"A2A\x01") {
            assert!(rig.next < 100_000, "nothing is ever written ahead");
            rig.commit(1);
        }
        rig
    }

    fn commit(&mut self, count: u64) {
        for _ in 0..count {
            self.commit_together(1);
        }
    }

    fn commit_together(&mut self, lines: u64) {
        let batch: Vec<Record> =
            (self.next..self.next + lines).map(|seq| message(seq, &["tim"])).collect();
        self.journal.commit(&batch).unwrap();
        self.next += lines;
    }

    fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(self.dir.path(), copy.path());
        copy
    }

    /// A copy of the folder as after a power cut during the next batch, which is in the segment but
    /// for the changes of `ruin`. Returns also the offset of that batch.
    fn torn(&mut self, lines: u64, ruin: impl Fn(&mut [u8])) -> (tempfile::TempDir, usize) {
        let copy = self.copy();
        let before = fs::read(segment(copy.path())).unwrap().len();
        self.commit_together(lines);
        let mut bytes = fs::read(segment(self.dir.path())).unwrap();
        ruin(&mut bytes[before..]);
        fs::write(segment(copy.path()), bytes).unwrap();
        (copy, before)
    }
}

fn segment(dir: &Path) -> PathBuf {
    log_files(dir).pop().unwrap()
}

fn reopen(dir: &Path) -> Recovered {
    let (mut journal, recovered) = Journal::open(&options(dir, false)).unwrap();
    let seq = recovered.next_seq;
    commit(&mut journal, &[message(seq, &["tim"])]);
    journal.close().unwrap();
    recovered
}

fn fault(dir: &Path) -> a2a_journal::Fault {
    match verify_log(dir, &[]) {
        Err(VerifyError::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn torn_batch_without_its_beginning_is_set_aside() {
    // Holes that end within records, and one that ends between two of them.
    let line_end = |batch: &[u8]| batch.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for has_wal in [false, true] {
        for hole in [PAGE, 3 * PAGE, 0] {
            let mut rig = Rig::new(has_wal);
            let promised = rig.next - 1;
            let (copy, before) = rig.torn(60, |batch| {
                let hole = if hole == 0 { line_end(batch) } else { hole };
                batch[..hole].fill(0);
            });
            let ruined = fs::read(segment(copy.path())).unwrap();
            fault(copy.path());
            let offline = read_offline(copy.path()).unwrap();
            let found = offline.map(|offline| offline.report).unwrap_or_default();
            // Only a start reads the WAL.
            assert!(has_wal || found.unreadable_lines == 0, "{found:?}");
            let recovered = reopen(copy.path());
            let report = &recovered.report;
            assert_eq!(recovered.next_seq, promised + 1, "{report:?}");
            assert_eq!(report.torn_bytes as usize, ruined.len() - before, "{report:?}");
            assert_eq!(
                (report.unreadable_lines, report.broken_links, report.lost_bytes),
                (0, 0, 0)
            );
            let kept = fs::read(report.torn_file.as_ref().unwrap()).unwrap();
            assert_eq!(kept, ruined[before..]);
            verify_log(copy.path(), &[]).unwrap();
        }
    }
}

#[test]
fn torn_batch_with_a_hole_keeps_the_records_before_it() {
    let mut rig = Rig::new(false);
    let promised = rig.next - 1;
    let (copy, _) = rig.torn(60, |batch| batch[2 * PAGE..3 * PAGE].fill(b'x'));
    let recovered = reopen(copy.path());
    assert!(recovered.next_seq > promised + 10, "{:?}", recovered.report);
    assert!(recovered.report.torn_bytes > 0);
    verify_log(copy.path(), &[]).unwrap();
}

#[test]
fn complete_batch_behind_the_watermark_counts() {
    let mut rig = Rig::new(false);
    let (copy, _) = rig.torn(60, |_| {});
    let recovered = reopen(copy.path());
    assert_eq!((recovered.next_seq, recovered.report.torn_bytes), (rig.next, 0));
    verify_log(copy.path(), &[]).unwrap();
}

#[test]
fn damage_before_the_watermark_is_reported_and_never_cut_off() {
    for has_wal in [false, true] {
        let mut rig = Rig::new(has_wal);
        rig.commit(5);
        let copy = rig.copy();
        let text = fs::read_to_string(segment(copy.path())).unwrap();
        // The first record is not in the WAL.
        let damaged = text.replacen("\"n\":1}", "\"n\":9}", 1);
        fs::write(segment(copy.path()), &damaged).unwrap();
        let report = reopen(copy.path()).report;
        assert_eq!((report.unreadable_lines, report.torn_bytes), (1, 0), "{report:?}");
        assert!(fs::read_to_string(segment(copy.path())).unwrap().starts_with(&damaged));
        let fault = fault(copy.path());
        assert_eq!((fault.line, fault.what), (1, Tampering::Changed));
    }
}

#[test]
fn damage_to_the_last_batch_is_reported() {
    let mut rig = Rig::new(false);
    rig.commit_together(4);
    let line = rig.next - 1;
    // In the middle of the last record, and in its seal, which identifies the log.
    for from_end in [200, 20] {
        for zeros in [false, true] {
            let copy = rig.copy();
            let mut bytes = fs::read(segment(copy.path())).unwrap();
            let place = bytes.len() - from_end;
            bytes[place] = if zeros { 0 } else { b'~' };
            fs::write(segment(copy.path()), &bytes).unwrap();
            for _ in 0..2 {
                let report = reopen(copy.path()).report;
                assert_eq!((report.unreadable_lines, report.torn_bytes), (1, 0), "{report:?}");
                assert!(fs::read(segment(copy.path())).unwrap().starts_with(&bytes));
                assert_eq!(fault(copy.path()).line, line);
                // Indexed records would not be read again.
                fs::remove_dir_all(copy.path().join("data/a2a-journal")).unwrap();
            }
        }
    }
}

#[test]
fn truncated_last_batch_is_reported() {
    let mut rig = Rig::new(false);
    rig.commit(2);
    // Within the last batch. Beyond it nothing proves that the watermark is of this log.
    for cut in [1, 300] {
        let copy = rig.copy();
        let bytes = fs::read(segment(copy.path())).unwrap();
        fs::write(segment(copy.path()), &bytes[..bytes.len() - cut]).unwrap();
        let report = reopen(copy.path()).report;
        assert!(report.lost_bytes as usize >= cut, "{report:?}");
        assert!(report.to_string().contains("were durable"), "{report}");
        verify_log(copy.path(), &[]).unwrap();
    }
}

/// A folder of an older version, or one whose watermark is missing.
#[test]
fn without_a_watermark_no_valid_record_is_cut_off() {
    let mut rig = Rig::new(false);
    let (copy, _) = rig.torn(60, |batch| batch[..PAGE].fill(0));
    fs::remove_file(copy.path().join("data/a2a-watermark.bin")).unwrap();
    let report = reopen(copy.path()).report;
    assert!(report.unreadable_lines > 0);
    assert_eq!(report.torn_bytes, 0);
    fault(copy.path());
}

#[test]
fn watermark_of_another_log_is_ignored() {
    let mut rig = Rig::new(false);
    let mut other = Rig::new(false);
    other.commit(2);
    let mut line = accepted(other.next, &["ann"]);
    line.by = Some(agent("eve"));
    other.journal.commit(&[Record::Message(line)]).unwrap();
    let (copy, _) = rig.torn(60, |batch| batch[..PAGE].fill(0));
    let name = "data/a2a-watermark.bin";
    for damage in [false, true] {
        let mut watermark = fs::read(other.dir.path().join(name)).unwrap();
        if damage {
            watermark.fill(b'x');
        }
        let copy = {
            let again = tempfile::tempdir().unwrap();
            copy_dir(copy.path(), again.path());
            again
        };
        fs::write(copy.path().join(name), watermark).unwrap();
        let report = reopen(copy.path()).report;
        assert!(report.unreadable_lines > 0, "{report:?}");
        assert_eq!(report.torn_bytes, 0, "{report:?}");
    }
}
