//! A failed writeback, a failed fsync and what the page cache shows afterwards.

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

const ROOM: u64 = 64 << 10;
const DAYS: Refused = Refused { days: true, fixed: false, truncate: false, all: false };
const NOTHING: Refused = Refused { days: false, ..DAYS };
const EVERYTHING: Refused = Refused { all: true, ..NOTHING };

/// A journal on a disk with a page cache, and what it gave receipts for.
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

    /// One that writes ahead.
    fn ahead() -> Self {
        let mut rig = Self::new(0);
        rig.reach_ahead();
        rig
    }

    fn reach_ahead(&mut self) {
        for _ in 0..100_000 {
            let room = fs::read(room(self.dir.path(), 0)).unwrap_or_default();
            if room.starts_with(b"A2A\x01") {
                return;
            }
            self.commit(1);
        }
        panic!("nothing is ever written ahead");
    }

    fn open(&mut self) -> Result<Recovered, OpenError> {
        let options = Options {
            retention: Retention { pack: false, ..Retention::default() },
            wal_after: self.wal_after,
            wal_bytes: ROOM,
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

    /// The process is gone, the page cache is not.
    fn kill(&mut self) {
        self.journal = None;
    }

    /// Opens it again; every promised line is there, and so are at most those of one batch that
    /// was refused.
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
        assert_eq!((report.batches_left_out, report.lost_messages), (0, 0));
    }

    /// What is on the disk and nowhere else.
    fn reboot(&mut self) {
        self.kill();
        self.disk.reboot(|| false);
    }
}

fn room(dir: &Path, number: u8) -> PathBuf {
    dir.join(format!("data/a2a-wal-{number}.bin"))
}

#[test]
fn lines_whose_writeback_failed_are_put_back_without_a_reboot() {
    for heals in [false, true] {
        let mut rig = Rig::ahead();
        if heals {
            rig.disk.heals();
        }
        rig.commit(40);
        rig.disk.lose_dirty(false);
        // Nothing has reported it yet, and nothing need: these rest on the ahead file.
        rig.commit(10);
        let file = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().ino();
        let report = rig.reopen().report;
        assert!(report.bytes_brought_back > 10_000, "{report:?}");
        let is_same = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().ino() == file;
        assert_eq!(is_same, heals, "in place where that helps, a new file otherwise");
        assert!(!room(rig.dir.path(), 0).exists() && !room(rig.dir.path(), 1).exists());
        rig.reboot();
        assert_eq!(rig.reopen().report.bytes_brought_back, 0);
    }
}

#[test]
fn nothing_is_written_where_nothing_is_missing() {
    let mut rig = Rig::ahead();
    rig.commit(40);
    let file = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().ino();
    assert_eq!(rig.reopen().report.bytes_brought_back, 0, "what was dirty is written back first");
    assert_eq!(fs::metadata(&log_files(rig.dir.path())[0]).unwrap().ino(), file);
    rig.reboot();
    rig.reopen();
}

#[test]
fn a_background_sync_that_fails_poisons_before_its_room_is_written_over() {
    let mut rig = Rig::ahead();
    rig.commit(40);
    rig.disk.refuse(DAYS);
    let mut error = None;
    // Both rooms hold fewer.
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

/// A failed writeback may be reported once; where the background sync got the report, a sync that
/// succeeds afterwards proves nothing.
#[test]
fn a_room_that_fails_after_a_writeback_did_poisons() {
    let mut rig = Rig::ahead();
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
fn a_clean_stop_after_a_failed_writeback_keeps_the_rooms() {
    let mut rig = Rig::ahead();
    rig.commit(40);
    rig.disk.lose_dirty(false);
    rig.journal.as_mut().unwrap().close().unwrap();
    assert!(room(rig.dir.path(), 0).exists());
    rig.reboot();
    assert!(rig.reopen().report.bytes_brought_back > 0);
}

#[test]
fn a_disk_that_still_refuses_at_the_start_is_named_and_nothing_is_removed() {
    for refused in [EVERYTHING, DAYS] {
        let mut rig = Rig::ahead();
        rig.commit(40);
        rig.disk.lose_dirty(false);
        rig.kill();
        rig.disk.refuse(refused);
        for _ in 0..2 {
            let error = rig.open().unwrap_err();
            let OpenError::Unsettled { path, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*path, log_files(rig.dir.path())[0]);
            assert!(error.to_string().contains("mend the disk or make room"), "{error}");
            assert!(room(rig.dir.path(), 0).exists());
        }
        rig.disk.refuse(NOTHING);
        rig.reopen();
        rig.reboot();
        rig.reopen();
    }
}

#[test]
fn a_batch_whose_fsync_failed_is_not_built_upon() {
    for truncate in [false, true] {
        let mut rig = Rig::new(u64::MAX);
        rig.commit(3);
        rig.disk.refuse(Refused { truncate, ..DAYS });
        // More than a page: what is lost is behind what was promised.
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
    /// So many commits of so many lines.
    Commit(u64, u64),
    LoseDays,
    LoseFixed,
    /// The disk refuses this until the next restart.
    Refuse(Refused),
    Kill,
    Close,
    Reboot(u64),
    /// A restart on a disk that refuses something, then one on a good disk.
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

fn run(steps: &[Step], heals: bool, is_ahead: bool) {
    let mut rig = Rig::new(if is_ahead { 0 } else { 30 });
    if heals {
        rig.disk.heals();
    }
    if is_ahead {
        rig.reach_ahead();
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
    fn whatever_the_disk_drops_no_receipt_is_lost(
        steps in proptest::collection::vec(step(), 1..16),
        heals in any::<bool>(),
        is_ahead in any::<bool>(),
    ) {
        run(&steps, heals, is_ahead);
    }
}
