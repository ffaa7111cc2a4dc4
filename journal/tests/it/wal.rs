//! Batches in the WAL survive a machine that goes down at any moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_journal::{
    Commit, CommitError, Journal, OpenError, Options, RealDisk, Record, Recovered, Retention,
};

use crate::faulty_disk::{Faults, FaultyDisk};
use crate::setup::*;

const WAL_BYTES: u64 = 64 << 10;
/// Magic of each frame.
const MAGIC: &[u8] = b"A2A\x01";

fn options(dir: &Path) -> Options {
    let retention = Retention { compress: false, ..Retention::default() };
    Options { retention, wal_after: 0, wal_bytes: WAL_BYTES, ..Options::new(dir) }
}

fn wal_file(dir: &Path, number: u8) -> PathBuf {
    dir.join(format!("data/a2a-wal-{number}.bin"))
}

/// Counts the frames in a WAL file.
fn frames(file: &Path) -> usize {
    let bytes = fs::read(file).unwrap_or_default();
    bytes.windows(MAGIC.len()).filter(|window| *window == MAGIC).count()
}

struct Rig {
    dir: tempfile::TempDir,
    disk: FaultyDisk,
    journal: Journal,
    next: u64,
}

impl Rig {
    /// A journal with a WAL: commits until the WAL files are created and used.
    fn new() -> Self {
        Self::with(options)
    }

    fn with(options: impl Fn(&Path) -> Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::default();
        let options = Options { disk: Arc::new(disk.clone()), ..options(dir.path()) };
        let (journal, _) = Journal::open(&options).unwrap();
        let mut rig = Self { dir, disk, journal, next: 1 };
        while frames(&wal_file(rig.dir.path(), 0)) == 0 {
            rig.commit(1);
            assert!(rig.next < 100_000, "nothing is ever written ahead");
        }
        rig
    }

    /// Commits messages, each in a batch of its own.
    fn commit(&mut self, count: u64) {
        for seq in self.next..self.next + count {
            commit(&mut self.journal, &[message(seq, &["tim"])]);
        }
        self.next += count;
    }

    /// A copy of the folder as after a power cut. `ruin` changes the segment, whose newest batches
    /// are durable only in the WAL.
    fn after_power_cut(&self, ruin: impl FnOnce(&mut Vec<u8>)) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(self.dir.path(), copy.path());
        let [file] = log_files(copy.path()).try_into().unwrap();
        let mut bytes = fs::read(&file).unwrap();
        ruin(&mut bytes);
        fs::write(file, bytes).unwrap();
        copy
    }
}

fn reopen(dir: &Path) -> Recovered {
    let (mut journal, recovered) = Journal::open(&options(dir)).unwrap();
    journal.close().unwrap();
    recovered
}

/// Checks that every committed record is there once, in an unbroken chain.
fn has_all(dir: &Path, last: u64) -> Recovered {
    let recovered = reopen(dir);
    let promised: Vec<String> = (1..=last).map(|seq| format!("{seq} tim 0")).collect();
    assert_eq!(pending(&recovered), promised);
    assert_eq!(checked_log(dir).len() as u64, last);
    assert!(
        !wal_file(dir, 0).exists() && !wal_file(dir, 1).exists(),
        "the WAL is removed after the replay"
    );
    recovered
}

#[test]
fn bytes_lost_by_the_segment_are_replayed() {
    let mut rig = Rig::new();
    rig.commit(40);
    let last = rig.next - 1;
    for cut in [1, 200, 3_000] {
        let down = rig.after_power_cut(|bytes| bytes.truncate(bytes.len() - cut));
        let report = has_all(down.path(), last).report;
        assert!(report.wal_bytes_restored as usize >= cut, "{cut}: {report:?}");
        assert_eq!(report.torn_bytes, 0);
    }
    for lost in [1, 500, 3_000] {
        let down = rig.after_power_cut(|bytes| {
            let from = bytes.len() - lost;
            bytes[from..].fill(0);
        });
        assert!(has_all(down.path(), last).report.wal_bytes_restored as usize >= lost);
    }
    let down = rig.after_power_cut(|_| {});
    assert_eq!(
        has_all(down.path(), last).report.wal_bytes_restored,
        0,
        "a process that was killed"
    );
}

#[test]
fn wal_files_are_reused_any_number_of_times() {
    let mut rig = Rig::new();
    let line = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().len() / (rig.next - 1);
    // Both files several times.
    for _ in 0..9 {
        rig.commit(WAL_BYTES / line);
        let down = rig.after_power_cut(|bytes| bytes.truncate(bytes.len() - 9 * line as usize));
        has_all(down.path(), rig.next - 1);
    }
    assert!(frames(&wal_file(rig.dir.path(), 1)) > 0);
}

#[test]
fn batch_larger_than_a_wal_file_is_synced_in_the_segment() {
    let mut rig = Rig::new();
    let batch: Vec<_> = (0..400).map(|n| message(rig.next + n, &["tim"])).collect();
    commit(&mut rig.journal, &batch);
    rig.next += 400;
    rig.commit(5);
    let down = rig.after_power_cut(|bytes| bytes.truncate(bytes.len() - 700));
    has_all(down.path(), rig.next - 1);
}

#[test]
fn incomplete_frame_is_ignored() {
    let mut rig = Rig::new();
    rig.commit(10);
    let down = rig.after_power_cut(|bytes| {
        let newline = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        bytes.truncate(newline + 1);
    });
    let file = wal_file(down.path(), 0);
    let mut bytes = fs::read(&file).unwrap();
    let begins = bytes.windows(MAGIC.len()).rposition(|window| window == MAGIC).unwrap();
    bytes[begins + 60] ^= 1;
    fs::write(file, bytes).unwrap();
    has_all(down.path(), rig.next - 2);
}

#[test]
fn wal_of_another_log_changes_nothing() {
    let mut rig = Rig::new();
    rig.commit(10);
    let other = fresh();
    let mut journal = other.journal;
    for seq in 1..=3 {
        commit(&mut journal, &[message(seq, &["ann"])]);
    }
    journal.close().unwrap();
    let other_log = fs::read(&log_files(other.dir.path())[0]).unwrap();
    let down = rig.after_power_cut(|bytes| other_log.clone_into(bytes));
    let recovered = reopen(down.path());
    assert_eq!(recovered.report.wal_bytes_restored, 0);
    assert_eq!(pending(&recovered), ["1 ann 0", "2 ann 0", "3 ann 0"]);
    assert_eq!(fs::read(&log_files(down.path())[0]).unwrap(), other_log);
}

#[test]
fn wal_of_a_diverged_log_changes_nothing() {
    let mut rig = Rig::new();
    // The logs are equal up to the first batch in the WAL.
    let same = rig.next - 2;
    rig.commit(10);
    let mut other = fresh();
    for seq in 1..=same + 3 {
        let to = if seq <= same { "tim" } else { "ann" };
        commit(&mut other.journal, &[message(seq, &[to])]);
    }
    other.journal.close().unwrap();
    let other_log = fs::read(&log_files(other.dir.path())[0]).unwrap();
    let down = rig.after_power_cut(|bytes| other_log.clone_into(bytes));
    assert_eq!(reopen(down.path()).report.wal_bytes_restored, 0);
    assert_eq!(fs::read(&log_files(down.path())[0]).unwrap(), other_log);
}

/// Opens the journal; returns the kept WAL files.
fn kept(dir: &Path) -> Vec<PathBuf> {
    let report = reopen(dir).report;
    assert!(report.wal_batches_unmatched > 0, "{report:?}");
    assert!(!wal_file(dir, 0).exists() && !wal_file(dir, 1).exists());
    for path in &report.wal_kept {
        assert!(report.to_string().contains(&path.display().to_string()), "{report}");
    }
    report.wal_kept
}

#[test]
fn wal_file_with_unreplayed_batch_is_kept() {
    let mut rig = Rig::new();
    rig.commit(10);
    // A record before those in the WAL is missing, so that none of them follows.
    let down = rig.after_power_cut(|bytes| bytes.truncate(100));
    let files = [0, 1].map(|n| fs::read(wal_file(down.path(), n)).unwrap());
    let kept_files = kept(down.path());
    let names = kept_files.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
    assert!(names.eq(["a2a-wal-0.bin.kept-1", "a2a-wal-1.bin.kept-1"]));
    let content: Vec<_> = kept_files.iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(content, files);
    // The same content is kept once.
    for (n, bytes) in files.iter().enumerate() {
        fs::write(wal_file(down.path(), n as u8), bytes).unwrap();
    }
    assert_eq!(kept(down.path()), kept_files);
}

#[test]
fn at_most_eight_of_each_wal_file_are_kept_and_none_is_removed() {
    let mut rig = Rig::new();
    rig.commit(10);
    let down = rig.after_power_cut(|bytes| bytes.truncate(100));
    for n in 1..=8 {
        fs::write(down.path().join(format!("data/a2a-wal-0.bin.kept-{n}")), "other").unwrap();
    }
    let before = fs::read(wal_file(down.path(), 0)).unwrap();
    for _ in 0..2 {
        let error = Journal::open(&options(down.path())).err().unwrap();
        assert!(matches!(error, OpenError::TooManyKept { .. }), "{error:?}");
        assert_eq!(fs::read(wal_file(down.path(), 0)).unwrap(), before);
    }
    fs::remove_file(down.path().join("data/a2a-wal-0.bin.kept-5")).unwrap();
    assert!(kept(down.path())[0].ends_with("a2a-wal-0.bin.kept-5"));
}

#[test]
fn wal_of_a_day_without_a_segment_is_kept_unless_compressed() {
    let mut rig = Rig::new();
    rig.commit(10);
    let [file] = log_files(rig.dir.path()).try_into().unwrap();
    let text = fs::read(&file).unwrap();
    let down = |with: &dyn Fn(&Path)| {
        let down = rig.after_power_cut(|_| {});
        let [file] = log_files(down.path()).try_into().unwrap();
        // So that the log has a newer segment, and the index is not the only copy.
        fs::write(file.with_file_name("2026-02-23.jsonl"), "").unwrap();
        fs::remove_file(&file).unwrap();
        let _ = fs::remove_dir_all(down.path().join("data/a2a-journal"));
        with(&file);
        down
    };
    let gone = down(&|_| {});
    assert_eq!(kept(gone.path()).len(), 2);
    let packed = down(&|file| {
        let packed = zstd::encode_all(&text[..], 3).unwrap();
        fs::write(file.with_extension("jsonl.zst"), packed).unwrap();
    });
    let report = reopen(packed.path()).report;
    assert_eq!((report.wal_batches_unmatched, report.wal_kept.len()), (0, 0));
    assert!(!wal_file(packed.path(), 0).exists());
    // A compressed segment without its end counts as missing.
    let short = down(&|file| {
        let packed = zstd::encode_all(&text[..text.len() - 500], 3).unwrap();
        fs::write(file.with_extension("jsonl.zst"), packed).unwrap();
    });
    assert_eq!(kept(short.path()).len(), 2);
}

#[test]
fn wal_of_a_day_in_the_index_alone_is_not_kept() {
    let retention = Retention { compress: false, keep_jsonl: false, ..Retention::default() };
    let mut rig = Rig::with(|dir| Options { retention, ..options(dir) });
    rig.commit(10);
    let down = rig.after_power_cut(|_| {});
    let mut line = accepted(rig.next, &["tim"]);
    line.time = at(86_400_000);
    commit(&mut rig.journal, &[Record::Message(line)]);
    rig.journal.retain(at(86_400_000)).unwrap();
    rig.journal.close().unwrap();
    assert_eq!(log_files(rig.dir.path()).len(), 1, "the first day is in the index alone");
    for n in 0..2 {
        fs::copy(wal_file(down.path(), n), wal_file(rig.dir.path(), n)).unwrap();
    }
    let report = reopen(rig.dir.path()).report;
    assert_eq!((report.wal_batches_unmatched, report.wal_kept.len()), (0, 0));
    assert!(!wal_file(rig.dir.path(), 0).exists());
}

#[test]
fn clean_stop_removes_the_wal() {
    let mut rig = Rig::new();
    rig.commit(3);
    rig.journal.close().unwrap();
    assert!(!wal_file(rig.dir.path(), 0).exists() && !wal_file(rig.dir.path(), 1).exists());
    assert_eq!(has_all(rig.dir.path(), rig.next - 1).report.wal_bytes_restored, 0);
}

#[test]
fn quiet_journal_has_no_wal() {
    let mut bench = fresh();
    for seq in 1..=20 {
        commit(&mut bench.journal, &[message(seq, &["tim"])]);
    }
    assert!(!wal_file(bench.dir.path(), 0).exists());
}

#[test]
fn failed_wal_write_falls_back_to_fsync() {
    let mut rig = Rig::new();
    rig.disk.fail(Faults { fixed: true, ..Faults::default() });
    rig.commit(5);
    let down = rig.after_power_cut(|_| {});
    has_all(down.path(), rig.next - 1);
    rig.disk.fail(Faults { sync: true, ..Faults::default() });
    let error = rig.journal.commit(&[message(rig.next, &["tim"])]).unwrap_err();
    assert!(matches!(error, CommitError::Io { .. }), "it is synced now: {error}");
}

#[test]
fn refused_batch_is_not_replayed() {
    let mut rig = Rig::new();
    rig.commit(5);
    // The batch reaches the WAL file, but it is unknown whether it is durable.
    rig.disk.fail(Faults { fixed_sync: true, sync: true, ..Faults::default() });
    assert!(rig.journal.commit(&[message(rig.next, &["tim"])]).is_err());
    let error = rig.journal.commit(&[message(rig.next, &["tim"])]).unwrap_err();
    assert!(matches!(error, CommitError::Poisoned), "{error}");
    let down = rig.after_power_cut(|_| {});
    has_all(down.path(), rig.next - 1);
}

#[test]
fn failed_creation_of_the_wal_falls_back_to_fsync() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    disk.fail(Faults { open_fixed: true, ..Faults::default() });
    let options = Options { disk: Arc::new(disk), ..options(dir.path()) };
    let (mut journal, _) = Journal::open(&options).unwrap();
    for seq in 1..=200 {
        commit(&mut journal, &[message(seq, &["tim"])]);
    }
    drop(journal);
    let options = Options { disk: Arc::new(RealDisk), ..options };
    let (_, recovered) = Journal::open(&options).unwrap();
    assert_eq!(recovered.pending.len(), 200);
}

/// Names of the WAL files in the state folder, kept copies included.
fn wal_names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir.join("data")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> =
        names.filter(|name| name.contains("-wal-") || name.contains("-ahead-")).collect();
    names.sort();
    names
}

fn old_file(dir: &Path, number: u8) -> PathBuf {
    dir.join(format!("data/a2a-ahead-{number}.bin"))
}

/// Gives the WAL files the names that earlier versions used.
fn with_old_names(dir: &Path) {
    for number in 0..2 {
        fs::rename(wal_file(dir, number), old_file(dir, number)).unwrap();
    }
}

#[test]
fn wal_files_with_old_names_are_replayed_and_removed() {
    let mut rig = Rig::new();
    let line = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().len() / (rig.next - 1);
    // Both files have frames.
    rig.commit(WAL_BYTES / line + 20);
    let down = rig.after_power_cut(|bytes| bytes.truncate(bytes.len() - 3_000));
    with_old_names(down.path());
    let offline =
        a2a_journal::bytes_missing_in_log(&down.path().join("a2a-log"), &down.path().join("data"));
    assert!(offline.unwrap() >= 3_000, "a backup counts them too");
    let report = has_all(down.path(), rig.next - 1).report;
    assert!(report.wal_bytes_restored >= 3_000, "{report:?}");
    assert!(wal_names(down.path()).is_empty(), "{:?}", wal_names(down.path()));
}

#[test]
fn interrupted_rename_of_old_wal_files_is_resumed() {
    let mut rig = Rig::new();
    let line = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().len() / (rig.next - 1);
    rig.commit(WAL_BYTES / line + 20);
    for renamed in 0..2 {
        let down = rig.after_power_cut(|bytes| bytes.truncate(bytes.len() - 30 * line as usize));
        with_old_names(down.path());
        fs::rename(old_file(down.path(), renamed), wal_file(down.path(), renamed)).unwrap();
        has_all(down.path(), rig.next - 1);
        assert!(wal_names(down.path()).is_empty(), "{:?}", wal_names(down.path()));
    }
}

#[test]
fn wal_files_of_two_versions_are_both_replayed() {
    let mut rig = Rig::new();
    rig.commit(10);
    // A run with the new names goes down, then one of an earlier version continues its log.
    let first = rig.after_power_cut(|_| {});
    let len = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().len() as usize;
    rig.commit(1);
    rig.journal.close().unwrap();
    let options = Options { disk: Arc::new(rig.disk.clone()), ..options(rig.dir.path()) };
    rig.journal = Journal::open(&options).unwrap().0;
    while frames(&wal_file(rig.dir.path(), 0)) == 0 {
        rig.commit(1);
    }
    rig.commit(10);
    let down = rig.after_power_cut(|bytes| bytes.truncate(bytes.len() - 3_000));
    with_old_names(down.path());
    for number in 0..2 {
        fs::copy(wal_file(first.path(), number), wal_file(down.path(), number)).unwrap();
    }
    // The first run also lost the end of its last batch.
    let file = log_files(down.path()).pop().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[len - 100..len].fill(0);
    fs::write(&file, bytes).unwrap();
    let report = has_all(down.path(), rig.next - 1).report;
    assert_eq!(report.wal_batches_unmatched, 0);
    assert!(wal_names(down.path()).is_empty(), "{:?}", wal_names(down.path()));
}

#[test]
fn old_wal_file_with_unreplayed_batch_is_kept() {
    let mut rig = Rig::new();
    rig.commit(10);
    let down = rig.after_power_cut(|bytes| bytes.truncate(100));
    let before = fs::read(wal_file(down.path(), 0)).unwrap();
    with_old_names(down.path());
    let kept = kept(down.path());
    assert_eq!(fs::read(&kept[0]).unwrap(), before);
    assert_eq!(wal_names(down.path()), ["a2a-wal-0.bin.kept-1", "a2a-wal-1.bin.kept-1"]);
}
