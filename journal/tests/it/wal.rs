//! What is written ahead of the day file survives a machine that goes down at any moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_journal::{
    Commit, CommitError, Journal, OpenError, Options, RealDisk, Record, Recovered, Retention,
};

use crate::faulty_disk::{Faults, FaultyDisk};
use crate::setup::*;

const ROOM: u64 = 64 << 10;
/// How each batch begins there.
const MAGIC: &[u8] = b"A2A\x01";

fn options(dir: &Path) -> Options {
    let retention = Retention { pack: false, ..Retention::default() };
    Options { retention, wal_after: 0, wal_bytes: ROOM, ..Options::new(dir) }
}

fn room(dir: &Path, number: u8) -> PathBuf {
    dir.join(format!("data/a2a-wal-{number}.bin"))
}

/// How often a batch begins in a room.
fn batches(room: &Path) -> usize {
    let bytes = fs::read(room).unwrap_or_default();
    bytes.windows(MAGIC.len()).filter(|window| *window == MAGIC).count()
}

struct Rig {
    dir: tempfile::TempDir,
    disk: FaultyDisk,
    journal: Journal,
    next: u64,
}

impl Rig {
    /// A journal that writes ahead: it commits until the rooms are made and used.
    fn new() -> Self {
        Self::with(options)
    }

    fn with(options: impl Fn(&Path) -> Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::default();
        let options = Options { disk: Arc::new(disk.clone()), ..options(dir.path()) };
        let (journal, _) = Journal::open(&options).unwrap();
        let mut rig = Self { dir, disk, journal, next: 1 };
        while batches(&room(rig.dir.path(), 0)) == 0 {
            rig.commit(1);
            assert!(rig.next < 100_000, "nothing is ever written ahead");
        }
        rig
    }

    /// Commits so many messages, each by itself.
    fn commit(&mut self, count: u64) {
        for seq in self.next..self.next + count {
            commit(&mut self.journal, &[message(seq, &["tim"])]);
        }
        self.next += count;
    }

    /// The folder as a machine may find it that went down now: `ruin` is what became of the day
    /// file, of which nobody promised that it is on the disk.
    fn went_down(&self, ruin: impl FnOnce(&mut Vec<u8>)) -> tempfile::TempDir {
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

/// Everything that was promised is there, once, in an unbroken chain.
fn has_all(dir: &Path, last: u64) -> Recovered {
    let recovered = reopen(dir);
    let promised: Vec<String> = (1..=last).map(|seq| format!("{seq} tim 0")).collect();
    assert_eq!(pending(&recovered), promised);
    assert_eq!(checked_log(dir).len() as u64, last);
    assert!(!room(dir, 0).exists() && !room(dir, 1).exists(), "nobody needs the rooms any more");
    recovered
}

#[test]
fn what_the_day_file_lost_is_put_back() {
    let mut rig = Rig::new();
    rig.commit(40);
    let last = rig.next - 1;
    for cut in [1, 200, 3_000] {
        let down = rig.went_down(|bytes| bytes.truncate(bytes.len() - cut));
        let report = has_all(down.path(), last).report;
        assert!(report.bytes_brought_back as usize >= cut, "{cut}: {report:?}");
        assert_eq!(report.torn_bytes, 0);
    }
    for lost in [1, 500, 3_000] {
        let down = rig.went_down(|bytes| {
            let from = bytes.len() - lost;
            bytes[from..].fill(0);
        });
        assert!(has_all(down.path(), last).report.bytes_brought_back as usize >= lost);
    }
    let down = rig.went_down(|_| {});
    assert_eq!(
        has_all(down.path(), last).report.bytes_brought_back,
        0,
        "a process that was killed"
    );
}

#[test]
fn however_often_the_rooms_are_filled() {
    let mut rig = Rig::new();
    let line = fs::metadata(&log_files(rig.dir.path())[0]).unwrap().len() / (rig.next - 1);
    // Both rooms several times over.
    for _ in 0..9 {
        rig.commit(ROOM / line);
        let down = rig.went_down(|bytes| bytes.truncate(bytes.len() - 9 * line as usize));
        has_all(down.path(), rig.next - 1);
    }
    assert!(batches(&room(rig.dir.path(), 1)) > 0);
}

#[test]
fn a_batch_larger_than_a_room_goes_to_the_day_file() {
    let mut rig = Rig::new();
    let batch: Vec<_> = (0..400).map(|n| message(rig.next + n, &["tim"])).collect();
    commit(&mut rig.journal, &batch);
    rig.next += 400;
    rig.commit(5);
    let down = rig.went_down(|bytes| bytes.truncate(bytes.len() - 700));
    has_all(down.path(), rig.next - 1);
}

#[test]
fn a_batch_that_is_not_whole_counts_for_nothing() {
    let mut rig = Rig::new();
    rig.commit(10);
    let down = rig.went_down(|bytes| {
        let newline = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        bytes.truncate(newline + 1);
    });
    let room = room(down.path(), 0);
    let mut bytes = fs::read(&room).unwrap();
    let begins = bytes.windows(MAGIC.len()).rposition(|window| window == MAGIC).unwrap();
    bytes[begins + 60] ^= 1;
    fs::write(room, bytes).unwrap();
    has_all(down.path(), rig.next - 2);
}

#[test]
fn another_log_is_left_alone() {
    let mut rig = Rig::new();
    rig.commit(10);
    let other = fresh();
    let mut journal = other.journal;
    for seq in 1..=3 {
        commit(&mut journal, &[message(seq, &["ann"])]);
    }
    journal.close().unwrap();
    let theirs = fs::read(&log_files(other.dir.path())[0]).unwrap();
    let down = rig.went_down(|bytes| theirs.clone_into(bytes));
    let recovered = reopen(down.path());
    assert_eq!(recovered.report.bytes_brought_back, 0);
    assert_eq!(pending(&recovered), ["1 ann 0", "2 ann 0", "3 ann 0"]);
    assert_eq!(fs::read(&log_files(down.path())[0]).unwrap(), theirs);
}

#[test]
fn a_log_that_went_on_otherwise_is_left_alone() {
    let mut rig = Rig::new();
    // Everything before the first batch that was written ahead is the same in both.
    let same = rig.next - 2;
    rig.commit(10);
    let mut other = fresh();
    for seq in 1..=same + 3 {
        let to = if seq <= same { "tim" } else { "ann" };
        commit(&mut other.journal, &[message(seq, &[to])]);
    }
    other.journal.close().unwrap();
    let theirs = fs::read(&log_files(other.dir.path())[0]).unwrap();
    let down = rig.went_down(|bytes| theirs.clone_into(bytes));
    assert_eq!(reopen(down.path()).report.bytes_brought_back, 0);
    assert_eq!(fs::read(&log_files(down.path())[0]).unwrap(), theirs);
}

/// The rooms as they were kept, and that everything else of the start went well.
fn kept(dir: &Path) -> Vec<PathBuf> {
    let report = reopen(dir).report;
    assert!(report.batches_left_out > 0, "{report:?}");
    assert!(!room(dir, 0).exists() && !room(dir, 1).exists());
    for path in &report.wal_kept {
        assert!(report.to_string().contains(&path.display().to_string()), "{report}");
    }
    report.wal_kept
}

#[test]
fn a_room_of_which_a_batch_was_left_out_is_kept() {
    let mut rig = Rig::new();
    rig.commit(10);
    // A line in front of those that were written ahead is gone, so that none of them follows.
    let down = rig.went_down(|bytes| bytes.truncate(100));
    let rooms = [0, 1].map(|n| fs::read(room(down.path(), n)).unwrap());
    let kept_rooms = kept(down.path());
    let names = kept_rooms.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
    assert!(names.eq(["a2a-wal-0.bin.kept-1", "a2a-wal-1.bin.kept-1"]));
    let content: Vec<_> = kept_rooms.iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(content, rooms);
    // The same once more: it is kept already.
    for (n, bytes) in rooms.iter().enumerate() {
        fs::write(room(down.path(), n as u8), bytes).unwrap();
    }
    assert_eq!(kept(down.path()), kept_rooms);
}

#[test]
fn no_more_than_eight_of_each_room_are_kept_and_none_is_removed() {
    let mut rig = Rig::new();
    rig.commit(10);
    let down = rig.went_down(|bytes| bytes.truncate(100));
    for n in 1..=8 {
        fs::write(down.path().join(format!("data/a2a-wal-0.bin.kept-{n}")), "other").unwrap();
    }
    let before = fs::read(room(down.path(), 0)).unwrap();
    for _ in 0..2 {
        let error = Journal::open(&options(down.path())).err().unwrap();
        assert!(matches!(error, OpenError::TooManyKept { .. }), "{error:?}");
        assert_eq!(fs::read(room(down.path(), 0)).unwrap(), before);
    }
    fs::remove_file(down.path().join("data/a2a-wal-0.bin.kept-5")).unwrap();
    assert!(kept(down.path())[0].ends_with("a2a-wal-0.bin.kept-5"));
}

#[test]
fn rooms_of_a_day_without_a_file_are_kept_unless_the_day_was_packed() {
    let mut rig = Rig::new();
    rig.commit(10);
    let [file] = log_files(rig.dir.path()).try_into().unwrap();
    let text = fs::read(&file).unwrap();
    let down = |with: &dyn Fn(&Path)| {
        let down = rig.went_down(|_| {});
        let [file] = log_files(down.path()).try_into().unwrap();
        // So that the log goes on, and the index is not all there is.
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
    assert_eq!((report.batches_left_out, report.wal_kept.len()), (0, 0));
    assert!(!room(packed.path(), 0).exists());
    // A packed file that lacks the end is none.
    let short = down(&|file| {
        let packed = zstd::encode_all(&text[..text.len() - 500], 3).unwrap();
        fs::write(file.with_extension("jsonl.zst"), packed).unwrap();
    });
    assert_eq!(kept(short.path()).len(), 2);
}

#[test]
fn rooms_of_a_day_that_only_the_index_has_are_not_kept() {
    let retention = Retention { pack: false, keep_jsonl: false, ..Retention::default() };
    let mut rig = Rig::with(|dir| Options { retention, ..options(dir) });
    rig.commit(10);
    let down = rig.went_down(|_| {});
    let mut line = accepted(rig.next, &["tim"]);
    line.time = at(86_400_000);
    commit(&mut rig.journal, &[Record::Message(line)]);
    rig.journal.retain(at(86_400_000)).unwrap();
    rig.journal.close().unwrap();
    assert_eq!(log_files(rig.dir.path()).len(), 1, "the first day is in the index alone");
    for n in 0..2 {
        fs::copy(room(down.path(), n), room(rig.dir.path(), n)).unwrap();
    }
    let report = reopen(rig.dir.path()).report;
    assert_eq!((report.batches_left_out, report.wal_kept.len()), (0, 0));
    assert!(!room(rig.dir.path(), 0).exists());
}

#[test]
fn a_clean_stop_leaves_none_of_it() {
    let mut rig = Rig::new();
    rig.commit(3);
    rig.journal.close().unwrap();
    assert!(!room(rig.dir.path(), 0).exists() && !room(rig.dir.path(), 1).exists());
    assert_eq!(has_all(rig.dir.path(), rig.next - 1).report.bytes_brought_back, 0);
}

#[test]
fn a_quiet_journal_has_none() {
    let mut bench = fresh();
    for seq in 1..=20 {
        commit(&mut bench.journal, &[message(seq, &["tim"])]);
    }
    assert!(!room(bench.dir.path(), 0).exists());
}

#[test]
fn where_nothing_can_be_written_ahead_the_day_file_is_synced() {
    let mut rig = Rig::new();
    rig.disk.fail(Faults { fixed: true, ..Faults::default() });
    rig.commit(5);
    let down = rig.went_down(|_| {});
    has_all(down.path(), rig.next - 1);
    rig.disk.fail(Faults { sync: true, ..Faults::default() });
    let error = rig.journal.commit(&[message(rig.next, &["tim"])]).unwrap_err();
    assert!(matches!(error, CommitError::Io { .. }), "it is synced now: {error}");
}

#[test]
fn what_was_refused_is_not_found_ahead() {
    let mut rig = Rig::new();
    rig.commit(5);
    // The batch reaches the room, but whether it is durable nobody can say.
    rig.disk.fail(Faults { fixed_sync: true, sync: true, ..Faults::default() });
    assert!(rig.journal.commit(&[message(rig.next, &["tim"])]).is_err());
    let error = rig.journal.commit(&[message(rig.next, &["tim"])]).unwrap_err();
    assert!(matches!(error, CommitError::Poisoned), "{error}");
    let down = rig.went_down(|_| {});
    has_all(down.path(), rig.next - 1);
}

#[test]
fn without_room_on_the_disk_it_goes_on_as_before() {
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
