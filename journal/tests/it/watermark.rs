//! What a power cut left of an unpromised batch is not taken for damage, nor damage for that.

use std::fs;
use std::path::{Path, PathBuf};

use a2a_journal::{
    Commit, Journal, Options, Record, Recovered, Retention, Tampering, VerifyError, read_offline,
    verify_log,
};

use crate::setup::*;

/// A page, and a hole that a power cut leaves.
const PAGE: usize = 4096;

struct Rig {
    dir: tempfile::TempDir,
    journal: Journal,
    next: u64,
}

fn options(dir: &Path, is_ahead: bool) -> Options {
    let retention = Retention { pack: false, ..Retention::default() };
    let wal_after = if is_ahead { 0 } else { u64::MAX };
    Options { retention, wal_after, wal_bytes: 64 << 10, ..Options::new(dir) }
}

impl Rig {
    fn new(is_ahead: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(&options(dir.path(), is_ahead)).unwrap();
        let mut rig = Self { dir, journal, next: 1 };
        rig.commit(3);
        let room = rig.dir.path().join("data/a2a-wal-0.bin");
        while is_ahead && !fs::read(&room).unwrap_or_default().starts_with(b"A2A\x01") {
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

    /// The folder as the machine finds it that went down while the next batch was being written:
    /// all of that is in the day file but for what `ruin` does to it. Returns where it begins.
    fn torn(&mut self, lines: u64, ruin: impl Fn(&mut [u8])) -> (tempfile::TempDir, usize) {
        let copy = self.copy();
        let before = fs::read(the_file(copy.path())).unwrap().len();
        self.commit_together(lines);
        let mut bytes = fs::read(the_file(self.dir.path())).unwrap();
        ruin(&mut bytes[before..]);
        fs::write(the_file(copy.path()), bytes).unwrap();
        (copy, before)
    }
}

fn the_file(dir: &Path) -> PathBuf {
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
fn a_batch_that_lost_its_beginning_is_set_aside() {
    // Holes that end within lines, and one that ends between two of them.
    let line_end = |batch: &[u8]| batch.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for is_ahead in [false, true] {
        for hole in [PAGE, 3 * PAGE, 0] {
            let mut rig = Rig::new(is_ahead);
            let promised = rig.next - 1;
            let (copy, before) = rig.torn(60, |batch| {
                let hole = if hole == 0 { line_end(batch) } else { hole };
                batch[..hole].fill(0);
            });
            let ruined = fs::read(the_file(copy.path())).unwrap();
            fault(copy.path());
            let offline = read_offline(copy.path()).unwrap();
            let found = offline.map(|offline| offline.report).unwrap_or_default();
            // What the ahead files say is looked at by a start only.
            assert!(is_ahead || found.unreadable_lines == 0, "{found:?}");
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
fn a_batch_with_a_hole_keeps_what_is_in_front_of_it() {
    let mut rig = Rig::new(false);
    let promised = rig.next - 1;
    let (copy, _) = rig.torn(60, |batch| batch[2 * PAGE..3 * PAGE].fill(b'x'));
    let recovered = reopen(copy.path());
    assert!(recovered.next_seq > promised + 10, "{:?}", recovered.report);
    assert!(recovered.report.torn_bytes > 0);
    verify_log(copy.path(), &[]).unwrap();
}

#[test]
fn a_whole_batch_that_was_not_noted_yet_counts() {
    let mut rig = Rig::new(false);
    let (copy, _) = rig.torn(60, |_| {});
    let recovered = reopen(copy.path());
    assert_eq!((recovered.next_seq, recovered.report.torn_bytes), (rig.next, 0));
    verify_log(copy.path(), &[]).unwrap();
}

#[test]
fn damage_to_what_was_promised_is_reported_and_never_cut_off() {
    for is_ahead in [false, true] {
        let mut rig = Rig::new(is_ahead);
        rig.commit(5);
        let copy = rig.copy();
        let text = fs::read_to_string(the_file(copy.path())).unwrap();
        // The first is in no room.
        let damaged = text.replacen("\"n\":1}", "\"n\":9}", 1);
        fs::write(the_file(copy.path()), &damaged).unwrap();
        let report = reopen(copy.path()).report;
        assert_eq!((report.unreadable_lines, report.torn_bytes), (1, 0), "{report:?}");
        assert!(fs::read_to_string(the_file(copy.path())).unwrap().starts_with(&damaged));
        let fault = fault(copy.path());
        assert_eq!((fault.line, fault.what), (1, Tampering::Changed));
    }
}

#[test]
fn damage_to_the_last_batch_is_reported_too() {
    let mut rig = Rig::new(false);
    rig.commit_together(4);
    let line = rig.next - 1;
    // In the middle of the last line, and in its seal, by which the log is known.
    for from_end in [200, 20] {
        for zeros in [false, true] {
            let copy = rig.copy();
            let mut bytes = fs::read(the_file(copy.path())).unwrap();
            let place = bytes.len() - from_end;
            bytes[place] = if zeros { 0 } else { b'~' };
            fs::write(the_file(copy.path()), &bytes).unwrap();
            for _ in 0..2 {
                let report = reopen(copy.path()).report;
                assert_eq!((report.unreadable_lines, report.torn_bytes), (1, 0), "{report:?}");
                assert!(fs::read(the_file(copy.path())).unwrap().starts_with(&bytes));
                assert_eq!(fault(copy.path()).line, line);
                // What was indexed before stays so.
                fs::remove_dir_all(copy.path().join("data/a2a-journal")).unwrap();
            }
        }
    }
}

#[test]
fn a_last_batch_that_was_cut_short_is_noticed() {
    let mut rig = Rig::new(false);
    rig.commit(2);
    // Within the last of them; where more is gone, nothing shows that the note is of this log.
    for cut in [1, 300] {
        let copy = rig.copy();
        let bytes = fs::read(the_file(copy.path())).unwrap();
        fs::write(the_file(copy.path()), &bytes[..bytes.len() - cut]).unwrap();
        let report = reopen(copy.path()).report;
        assert!(report.lost_bytes as usize >= cut, "{report:?}");
        assert!(report.to_string().contains("were durable"), "{report}");
        verify_log(copy.path(), &[]).unwrap();
    }
}

/// A folder of an older version, or one whose note is gone.
#[test]
fn without_a_note_nothing_good_is_cut_off() {
    let mut rig = Rig::new(false);
    let (copy, _) = rig.torn(60, |batch| batch[..PAGE].fill(0));
    fs::remove_file(copy.path().join("data/a2a-watermark.bin")).unwrap();
    let report = reopen(copy.path()).report;
    assert!(report.unreadable_lines > 0);
    assert_eq!(report.torn_bytes, 0);
    fault(copy.path());
}

#[test]
fn a_note_of_another_log_counts_for_nothing() {
    let mut rig = Rig::new(false);
    let mut other = Rig::new(false);
    other.commit(2);
    let mut line = accepted(other.next, &["ann"]);
    line.by = Some(agent("eve"));
    other.journal.commit(&[Record::Message(line)]).unwrap();
    let (copy, _) = rig.torn(60, |batch| batch[..PAGE].fill(0));
    let name = "data/a2a-watermark.bin";
    for damage in [false, true] {
        let mut note = fs::read(other.dir.path().join(name)).unwrap();
        if damage {
            note.fill(b'x');
        }
        let copy = {
            let again = tempfile::tempdir().unwrap();
            copy_dir(copy.path(), again.path());
            again
        };
        fs::write(copy.path().join(name), note).unwrap();
        let report = reopen(copy.path()).report;
        assert!(report.unreadable_lines > 0, "{report:?}");
        assert_eq!(report.torn_bytes, 0, "{report:?}");
    }
}
