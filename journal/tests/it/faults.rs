//! A failing disk: every step of a commit, and the state of the journal afterwards.

use std::io::ErrorKind;
use std::sync::Arc;

use a2a_journal::{Commit, CommitError, Journal, Options, Record};

use crate::faulty_disk::{Faults, FaultyDisk};
use crate::setup::*;

struct Rig {
    dir: tempfile::TempDir,
    disk: FaultyDisk,
    journal: Journal,
}

/// A journal on a disk that can fail, with message 1 committed.
fn rig() -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let options = Options { disk: Arc::new(disk.clone()), ..Options::new(dir.path()) };
    let (mut journal, _) = Journal::open(&options).unwrap();
    commit(&mut journal, &[message(1, &["tim"])]);
    Rig { dir, disk, journal }
}

impl Rig {
    /// Commits messages 2 and 3 on a failing disk; the journal must be unchanged.
    fn refused(&mut self, faults: Faults) -> CommitError {
        self.refused_at(faults, [message(2, &["tim"]), message(3, &["tim"])])
    }

    fn refused_at(&mut self, faults: Faults, batch: [Record; 2]) -> CommitError {
        let head = self.journal.reader().head();
        self.disk.fail(faults);
        let error = self.journal.commit(&batch).unwrap_err();
        assert_eq!(self.journal.reader().head(), head);
        assert_eq!(all(&self.journal.reader(), 10).len(), 1);
        self.disk.fail(Faults::default());
        error
    }

    /// The next commit may use the same numbers, and a restart recovers committed records only.
    fn continues(mut self) {
        commit(&mut self.journal, &[message(2, &["ann"])]);
        assert_eq!(checked_log(self.dir.path()).len(), 2);
        drop(self.journal);
        let (_, recovered) = open(self.dir.path());
        assert_eq!(pending(&recovered), ["1 tim 0", "2 ann 0"]);
        assert_eq!(recovered.report.torn_bytes, 0);
    }

    fn is_poisoned(&mut self) {
        for _ in 0..2 {
            let error = self.journal.commit(&[message(2, &["tim"])]).unwrap_err();
            assert!(matches!(error, CommitError::Poisoned), "{error}");
        }
        assert_eq!(self.journal.reader().head().seq, 1, "reads still work");
    }
}

#[test]
fn failed_write_is_undone_at_any_byte() {
    for written in [0, 1, 100, 400, 420, usize::MAX] {
        let mut rig = rig();
        let append = Some((written, ErrorKind::BrokenPipe));
        let error = rig.refused(Faults { append, ..Faults::default() });
        assert!(matches!(error, CommitError::Io { .. }), "{error}");
        rig.continues();
    }
}

#[test]
fn full_disk_is_reported_and_retried() {
    for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
        for written in [0, 300] {
            let mut rig = rig();
            let error = rig.refused(Faults { append: Some((written, kind)), ..Faults::default() });
            assert!(matches!(error, CommitError::DiskFull), "{error}");
            rig.continues();
        }
    }
}

#[test]
fn failed_sync_poisons() {
    let mut rig = rig();
    let error = rig.refused(Faults { sync: true, ..Faults::default() });
    assert!(matches!(error, CommitError::Io { .. }), "{error}");
    rig.is_poisoned();
    rig.journal.close().unwrap();
    let (_, recovered) = open(rig.dir.path());
    assert_eq!(pending(&recovered), ["1 tim 0"]);
}

#[test]
fn failed_undo_of_a_write_poisons() {
    for written in [0, 300, 500, usize::MAX] {
        let mut rig = rig();
        let append = Some((written, ErrorKind::StorageFull));
        let error = rig.refused(Faults { append, truncate: true, ..Faults::default() });
        assert!(matches!(error, CommitError::DiskFull), "{error}");
        rig.is_poisoned();
        rig.journal.close().unwrap();
        // Records behind the committed end may exist, but never half of one.
        let (_, recovered) = open(rig.dir.path());
        assert!(
            ["1 tim 0", "2 tim 0", "3 tim 0"]
                .starts_with(&pending(&recovered).iter().map(String::as_str).collect::<Vec<_>>())
        );
        assert!(!recovered.pending.is_empty());
        checked_log(rig.dir.path());
    }
}

#[test]
fn failed_sync_of_an_undo_poisons() {
    let mut rig = rig();
    let append = Some((300, ErrorKind::BrokenPipe));
    rig.refused(Faults { append, sync: true, ..Faults::default() });
    rig.is_poisoned();
}

/// Messages 2 and 3, a day later.
fn tomorrow() -> [Record; 2] {
    [2, 3].map(|seq| {
        let mut line = accepted(seq, &["tim"]);
        line.time = at(86_400_000);
        Record::Message(line)
    })
}

#[test]
fn failed_open_of_a_new_day_is_retried() {
    let mut rig = rig();
    let error = rig.refused_at(Faults { open: true, ..Faults::default() }, tomorrow());
    assert!(matches!(error, CommitError::Io { .. }), "{error}");
    rig.continues();
}

#[test]
fn failed_first_write_of_a_new_day_is_retried() {
    let mut rig = rig();
    let append = Some((70, ErrorKind::StorageFull));
    rig.refused_at(Faults { append, ..Faults::default() }, tomorrow());
    rig.continues();
}

#[test]
fn close_after_a_failed_new_day_is_clean() {
    let mut rig = rig();
    let append = Some((70, ErrorKind::StorageFull));
    rig.refused_at(Faults { append, ..Faults::default() }, tomorrow());
    rig.journal.close().unwrap();
    for _ in 0..2 {
        let (mut journal, recovered) = open(rig.dir.path());
        assert_eq!((pending(&recovered).len(), recovered.report.lines_replayed), (1, 0));
        journal.close().unwrap();
    }
}

#[test]
fn failed_folder_sync_of_a_new_day_poisons() {
    let mut rig = rig();
    rig.refused_at(Faults { sync_dir: true, ..Faults::default() }, tomorrow());
    rig.is_poisoned();
}
