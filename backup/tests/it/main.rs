//! Backups of a log after a crash.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

use std::fs;
use std::path::{Path, PathBuf};

use a2a_backup::{BackupError, BackupJob, create_backup};
use a2a_journal::{Journal, Options, Record, Recovered, Retention, verify_log};

use setup::*;

#[allow(dead_code)] // Shared with the tests of the journal, which use all of it.
#[path = "../../../journal/tests/it/setup.rs"]
mod setup;

/// Size of a page, and of a hole that a power cut leaves.
const PAGE: usize = 4096;

/// A running journal and the number of its next line.
struct Rig {
    dir: tempfile::TempDir,
    journal: Journal,
    next: u64,
}

fn options(dir: &Path, uses_wal: bool) -> Options {
    let retention = Retention { compress: false, ..Retention::default() };
    let wal_after = if uses_wal { 0 } else { u64::MAX };
    Options { retention, wal_after, wal_bytes: 64 << 10, ..Options::new(dir) }
}

impl Rig {
    fn new(uses_wal: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(&options(dir.path(), uses_wal)).unwrap();
        let mut rig = Self { dir, journal, next: 1 };
        rig.commit(3);
        let wal = rig.dir.path().join("data/a2a-wal-0.bin");
        while uses_wal && !fs::read(&wal).unwrap_or_default().starts_with(b"A2A\x01") {
            assert!(rig.next < 100_000, "the WAL is never used");
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
        commit(&mut self.journal, &batch);
        self.next += lines;
    }

    /// A copy of the state folder after a crash that changed the day file.
    fn crashed(&self, ruin: impl FnOnce(&mut Vec<u8>)) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(self.dir.path(), copy.path());
        let file = day_file(copy.path());
        let mut bytes = fs::read(&file).unwrap();
        ruin(&mut bytes);
        fs::write(file, bytes).unwrap();
        copy
    }
}

fn day_file(dir: &Path) -> PathBuf {
    log_files(dir).pop().unwrap()
}

fn reopen(dir: &Path) -> Recovered {
    let (mut journal, recovered) = Journal::open(&options(dir, true)).unwrap();
    a2a_journal::Commit::close(&mut journal).unwrap();
    recovered
}

fn backup(state_dir: &Path) -> Result<(), BackupError> {
    let parent = tempfile::tempdir().unwrap();
    let (also, older) = (&[], &mut |_| Ok(Vec::new()));
    let target = &parent.path().join("backup");
    create_backup(BackupJob { state_dir, target, now: at(0), also, older }).map(drop)
}

#[test]
fn backup_before_wal_replay_is_refused_and_succeeds_after_it() {
    let mut rig = Rig::new(true);
    rig.commit(9);
    backup(rig.dir.path()).unwrap();
    let crashed = rig.crashed(|bytes| bytes.truncate(bytes.len() - 300));
    let error = backup(crashed.path()).unwrap_err();
    assert!(matches!(error, BackupError::NotInLog { bytes } if bytes >= 300), "{error}");
    let recovered = reopen(crashed.path());
    let committed: Vec<String> = (1..rig.next).map(|seq| format!("{seq} tim 0")).collect();
    assert_eq!(pending(&recovered), committed);
    assert_eq!(checked_log(crashed.path()).len() as u64, rig.next - 1);
    backup(crashed.path()).unwrap();
}

#[test]
fn backup_after_torn_batch_was_truncated_succeeds() {
    for uses_wal in [false, true] {
        for hole in [PAGE, 3 * PAGE, 0] {
            let mut rig = Rig::new(uses_wal);
            let before_batch = rig.crashed(|_| {});
            let before = fs::read(day_file(before_batch.path())).unwrap().len();
            rig.commit_together(60);
            let mut bytes = fs::read(day_file(rig.dir.path())).unwrap();
            let batch = &mut bytes[before..];
            let line_end = batch.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            let hole = if hole == 0 { line_end } else { hole };
            batch[..hole].fill(0);
            fs::write(day_file(before_batch.path()), bytes).unwrap();
            let recovered = reopen(before_batch.path());
            assert!(recovered.report.torn_bytes > 0, "{:?}", recovered.report);
            verify_log(before_batch.path(), &[]).unwrap();
            backup(before_batch.path()).unwrap();
        }
    }
}
