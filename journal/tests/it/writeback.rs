//! Failed writebacks, failed fsyncs, and what the page cache shows afterwards.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_journal::{
    Commit, CommitError, Journal, OpenError, Options, Recovered, Retention, verify_log,
};
use proptest::prelude::*;

use crate::page_cache_disk::{CachedDisk, Refused};
use crate::setup::*;

const WAL_BYTES: u64 = 64 << 10;
const DAYS: Refused = Refused { days: true, fixed: false, truncate: false, all: false };
const NOTHING: Refused = Refused { days: false, ..DAYS };
const EVERYTHING: Refused = Refused { all: true, ..NOTHING };

/// A journal on a disk with a page cache, and the number of committed records.
struct Rig {
    dir: tempfile::TempDir,
    disk: CachedDisk,
    wal_after: u64,
    journal: Option<Journal>,
    promised: u64,
}

impl Rig {
    fn new(wal_after: u64) -> Self {
        let (dir, disk) = (tempfile::tempdir().unwrap(), CachedDisk::default());
        let mut rig = Self { dir, disk, wal_after, journal: None, promised: 0 };
        rig.open().unwrap();
        rig
    }

    /// A journal with a WAL.
    fn with_wal() -> Self {
        let mut rig = Self::new(0);
        rig.commit_until_wal();
        rig
    }

    fn commit_until_wal(&mut self) {
        for _ in 0..100_000 {
            let file = fs::read(wal_file(self.dir.path(), 0)).unwrap_or_default();
            if file.starts_with(b"A2A\x01") {
                return;
            }
            self.commit(1);
        }
        panic!("nothing is ever written ahead");
    }

    fn open(&mut self) -> Result<Recovered, OpenError> {
        let options = Options {
            retention: Retention { compress: false, ..Retention::default() },
            wal_after: self.wal_after,
            wal_bytes: WAL_BYTES,
            disk: Arc::new(self.disk.clone()),
            ..Options::new(self.dir.path())
        };
        let (journal, recovered) = Journal::open(&options)?;
        self.journal = Some(journal);
        Ok(recovered)
    }

    fn try_commit(&mut self, lines: u64) -> Result<(), CommitError> {
        let from = self.promised + 1;
        let batch: Vec<_> = (from..from + lines).map(|seq| message(seq, &["tim"])).collect();
        self.journal.as_mut().unwrap().commit(&batch)?;
        self.promised += lines;
        Ok(())
    }

    fn commit(&mut self, count: u64) {
        for _ in 0..count {
            self.try_commit(1).unwrap();
        }
    }

    /// Kills the process; the page cache survives.
    fn kill(&mut self) {
        self.journal = None;
    }

    /// Reopens the journal and checks that every committed record is there, and beyond those at most
    /// the records of one refused batch.
    fn reopen(&mut self) -> Recovered {
        self.kill();
        let recovered = self.open().unwrap();
        self.check(&recovered);
        recovered
    }

    fn check(&mut self, recovered: &Recovered) {
        let found = pending(recovered);
        assert!(found.len() as u64 >= self.promised, "{} of {}", found.len(), self.promised);
        let expected: Vec<_> = (1..=found.len()).map(|seq| format!("{seq} tim 0")).collect();
        assert_eq!(found, expected);
        self.promised = found.len() as u64;
        assert_eq!(checked_log(self.dir.path()).len() as u64, self.promised);
        verify_log(self.dir.path(), &[]).unwrap();
        let report = &recovered.report;
        assert_eq!((report.unreadable_lines, report.broken_links, report.lost_bytes), (0, 0, 0));
        assert_eq!((report.wal_batches_unmatched, report.lost_messages), (0, 0));
    }

    /// Reboots: only what is on the disk survives.
    fn reboot(&mut self) {
        self.kill();
        self.disk.reboot(|| false);
    }
}

fn wal_file(dir: &Path, number: u8) -> PathBuf {
    dir.join(format!("data/a2a-wal-{number}.bin"))
}

#[test]
fn records_with_failed_writeback_are_replayed_without_a_reboot() {
    for heals in [false, true] {
        let mut rig = Rig::with_wal();
        if heals {
            rig.disk.heals();
        }
        rig.commit(40);
        rig.disk.lose_dirty(false);
        // No sync has reported it yet, and none need: these batches are durable in the WAL.
        rig.commit(10);
        let file = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().ino();
        let report = rig.reopen().report;
        assert!(report.wal_bytes_restored > 10_000, "{report:?}");
        let is_same = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().ino() == file;
        assert_eq!(is_same, heals, "in place where that helps, a new file otherwise");
        assert!(!wal_file(rig.dir.path(), 0).exists() && !wal_file(rig.dir.path(), 1).exists());
        rig.reboot();
        assert_eq!(rig.reopen().report.wal_bytes_restored, 0);
    }
}

#[test]
fn replay_without_missing_records_writes_nothing() {
    let mut rig = Rig::with_wal();
    rig.commit(40);
    let file = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().ino();
    assert_eq!(rig.reopen().report.wal_bytes_restored, 0, "what was dirty is written back first");
    assert_eq!(fs::metadata(&log_files(rig.dir.path())[0]).unwrap().ino(), file);
    rig.reboot();
    rig.reopen();
}

#[test]
fn failed_background_sync_poisons_before_its_wal_file_is_reused() {
    let mut rig = Rig::with_wal();
    rig.commit(40);
    rig.disk.refuse(DAYS);
    let mut error = None;
    // More commits than both WAL files have space for.
    for _ in 0..2_000 {
        error = rig.try_commit(1).err();
        if error.is_some() {
            break;
        }
    }
    assert!(matches!(error, Some(CommitError::Io { .. })), "{error:?}");
    assert!(matches!(rig.try_commit(1), Err(CommitError::Poisoned)));
    rig.disk.refuse(NOTHING);
    rig.reopen();
    rig.reboot();
    rig.reopen();
}

/// A failed writeback is reported once. If the background sync gets the report, a later successful
/// sync proves nothing.
#[test]
fn wal_write_failure_after_failed_writeback_poisons() {
    let mut rig = Rig::with_wal();
    rig.commit(40);
    rig.disk.lose_dirty(false);
    rig.disk.refuse(Refused { fixed: true, ..NOTHING });
    let error = rig.try_commit(1).unwrap_err();
    assert!(matches!(error, CommitError::Io { .. }), "{error}");
    rig.disk.refuse(NOTHING);
    rig.reopen();
    rig.reboot();
    rig.reopen();
}

#[test]
fn close_after_a_failed_writeback_keeps_the_wal() {
    let mut rig = Rig::with_wal();
    rig.commit(40);
    rig.disk.lose_dirty(false);
    rig.journal.as_mut().unwrap().close().unwrap();
    assert!(wal_file(rig.dir.path(), 0).exists());
    rig.reboot();
    assert!(rig.reopen().report.wal_bytes_restored > 0);
}

#[test]
fn failing_disk_at_open_is_named_and_nothing_is_removed() {
    for refused in [EVERYTHING, DAYS] {
        let mut rig = Rig::with_wal();
        rig.commit(40);
        rig.disk.lose_dirty(false);
        rig.kill();
        rig.disk.refuse(refused);
        for _ in 0..2 {
            let error = rig.open().unwrap_err();
            let OpenError::Unsettled { path, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*path, log_files(rig.dir.path())[0]);
            assert!(error.to_string().contains("mend the disk or make room"), "{error}");
            assert!(wal_file(rig.dir.path(), 0).exists());
        }
        rig.disk.refuse(NOTHING);
        rig.reopen();
        rig.reboot();
        rig.reopen();
    }
}

#[test]
fn batch_with_failed_fsync_is_not_extended() {
    for truncate in [false, true] {
        let mut rig = Rig::new(u64::MAX);
        rig.commit(3);
        rig.disk.refuse(Refused { truncate, ..DAYS });
        // More than a page: the lost bytes are behind the durable ones.
        assert!(rig.try_commit(40).is_err());
        rig.disk.refuse(NOTHING);
        let shown = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().len();
        let recovered = rig.reopen();
        assert_eq!(recovered.pending.len(), 3, "the cache shows {shown} bytes");
        rig.commit(5);
        rig.reboot();
        assert_eq!(rig.reopen().pending.len(), 8);
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Number of commits, and records of each.
    Commit(u64, u64),
    LoseDays,
    LoseFixed,
    /// Faults of the disk until the next restart.
    Refuse(Refused),
    Kill,
    Close,
    Reboot(u64),
    /// A restart on a faulty disk, then one on a good disk.
    FailedRestart(Refused),
}

fn refused() -> impl Strategy<Value = Refused> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    flags.prop_map(|(days, fixed, truncate, all)| Refused {
        days,
        fixed: fixed && !days,
        truncate,
        all: all && fixed,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..60_u64, 1..4_u64).prop_map(|(count, lines)| Step::Commit(count, lines)),
        2 => (1..4_u64, 40..200_u64).prop_map(|(count, lines)| Step::Commit(count, lines)),
        2 => Just(Step::LoseDays),
        1 => Just(Step::LoseFixed),
        2 => refused().prop_map(Step::Refuse),
        2 => Just(Step::Kill),
        1 => Just(Step::Close),
        3 => any::<u64>().prop_map(Step::Reboot),
        2 => refused().prop_map(Step::FailedRestart),
    ]
}

fn run(steps: &[Step], heals: bool, has_wal: bool) {
    let mut rig = Rig::new(if has_wal { 0 } else { 30 });
    if heals {
        rig.disk.heals();
    }
    if has_wal {
        rig.commit_until_wal();
    }
    for step in steps {
        match step {
            Step::Commit(count, lines) => {
                for _ in 0..*count {
                    if rig.try_commit(*lines).is_err() {
                        break;
                    }
                }
                continue;
            }
            Step::LoseDays => {
                rig.disk.lose_dirty(false);
                continue;
            }
            Step::LoseFixed => {
                rig.disk.lose_dirty(true);
                continue;
            }
            Step::Refuse(refused) => {
                rig.disk.refuse(*refused);
                continue;
            }
            Step::Kill => rig.kill(),
            Step::Close => drop(rig.journal.as_mut().unwrap().close()),
            Step::Reboot(seed) => {
                rig.kill();
                let mut bits = *seed;
                rig.disk.reboot(|| {
                    bits = bits.rotate_left(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    bits & 1 == 1
                });
            }
            Step::FailedRestart(refused) => {
                rig.kill();
                rig.disk.refuse(*refused);
                if let Ok(recovered) = rig.open() {
                    rig.check(&recovered);
                }
            }
        }
        rig.disk.refuse(NOTHING);
        rig.reopen();
    }
    rig.disk.refuse(NOTHING);
    rig.reboot();
    rig.reopen();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn dropped_pages_never_lose_a_receipt(
        steps in proptest::collection::vec(step(), 1..16),
        heals in any::<bool>(),
        has_wal in any::<bool>(),
    ) {
        run(&steps, heals, has_wal);
    }
}
