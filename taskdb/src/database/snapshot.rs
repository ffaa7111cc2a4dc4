//! Consistent snapshot of a database that another process may be writing to.
//!
//! 1. [`PausedWrites`] holds SQLite's write lock for a few milliseconds. Other state that is read
//!    meanwhile, such as the length of the log, is of the same moment.
//! 2. [`Snapshot`] is a read transaction that was begun under that lock. Copying it blocks no
//!    writer.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{BUSY_TIMEOUT, make_private, open_reader};
use crate::{TaskOpenError, TaskStoreError, schema};

/// How long to wait for the write lock, and how often to try. A busy writer holds it most of the
/// time, with short gaps, so it is tried often.
const TRY_FOR: Duration = Duration::from_secs(30);
const TRY_EVERY: Duration = Duration::from_micros(200);

/// SQLite's write lock on a database: no process can commit.
pub struct PausedWrites {
    path: PathBuf,
    lock: Connection,
}

impl PausedWrites {
    /// Acquires the write lock between two commits of the writer.
    pub fn new(path: &Path) -> Result<Self, TaskStoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let lock = Connection::open_with_flags(path, flags)?;
        lock.busy_timeout(Duration::ZERO)?;
        let until = Instant::now() + TRY_FOR;
        loop {
            match lock.execute_batch("BEGIN IMMEDIATE") {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && Instant::now() < until =>
                {
                    std::thread::sleep(TRY_EVERY);
                }
                begun => {
                    begun?;
                    return Ok(Self { path: path.to_owned(), lock });
                }
            }
        }
    }

    /// Begins a snapshot and releases the write lock.
    pub fn into_snapshot(self) -> Result<Snapshot, TaskStoreError> {
        let reader = open_reader(&self.path)?;
        // A read transaction begins with its first read.
        reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
        self.lock.execute_batch("ROLLBACK")?;
        Ok(Snapshot(reader))
    }
}

/// A read transaction on the database as it was at one moment.
pub struct Snapshot(Connection);

impl Snapshot {
    /// Copies the snapshot to a new file.
    pub fn copy_to(&self, path: &Path) -> Result<(), TaskOpenError> {
        copy(&self.0, path)
    }
}

/// Copies what a connection sees to a file that only its owner can read. The copy is complete and
/// synced when this returns.
pub(crate) fn copy(from: &Connection, path: &Path) -> Result<(), TaskOpenError> {
    let cannot = |source: io::Error| TaskOpenError::Folder { path: path.to_owned(), source };
    make_private(path).map_err(cannot)?;
    copy_pages(from, path).map_err(TaskStoreError::from)?;
    File::open(path).and_then(|file| file.sync_all()).map_err(cannot)
}

fn copy_pages(from: &Connection, path: &Path) -> Result<(), rusqlite::Error> {
    let mut to = Connection::open(path)?;
    let backup = Backup::new(from, &mut to)?;
    let until = Instant::now() + BUSY_TIMEOUT;
    // All pages in one step: between two steps a commit would restart the copy.
    loop {
        match backup.step(-1)? {
            StepResult::Done => break,
            _ if Instant::now() < until => std::thread::sleep(TRY_EVERY),
            _ => return Err(rusqlite::Error::InvalidQuery),
        }
    }
    drop(backup);
    // A single file that can be read without creating others beside it.
    to.pragma_update(None, "journal_mode", "DELETE")?;
    to.close().map_err(|(_, error)| error)
}

/// Runs SQLite's `integrity_check` on a snapshot file and returns its schema version.
pub fn check_snapshot(path: &Path) -> Result<u32, TaskOpenError> {
    let file = open_reader(path)?;
    let found = schema::check_not_newer(&file, path)?;
    let line: String = file
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(TaskStoreError::from)?;
    if line != "ok" {
        return Err(TaskStoreError::Damaged { what: line }.into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};

    use super::*;

    /// Stops the writer, also when the test fails.
    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }

    /// The writer counts each commit before and after it, as the log does. The snapshot must
    /// contain a number of commits between the two counters of the same moment.
    #[test]
    fn snapshot_matches_state_read_while_writes_were_paused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.busy_timeout(BUSY_TIMEOUT).unwrap();
        writer.execute_batch("CREATE TABLE rows (n INTEGER); PRAGMA user_version = 1").unwrap();
        let (begun, done, stop) = (AtomicI64::new(0), AtomicI64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (begun, done, stop) = (&begun, &done, &stop);
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    begun.fetch_add(1, SeqCst);
                    writer.execute("INSERT INTO rows VALUES (1)", []).unwrap();
                    done.fetch_add(1, SeqCst);
                }
            });
            let _stop = Stop(stop);
            for n in 0..20 {
                while done.load(SeqCst) < n * 5 {
                    std::thread::yield_now();
                }
                let paused = PausedWrites::new(&path).unwrap();
                let counted = (done.load(SeqCst), begun.load(SeqCst));
                let snapshot = paused.into_snapshot().unwrap();
                // The writer commits while the snapshot is open.
                let now = done.load(SeqCst);
                while done.load(SeqCst) < now + 3 {
                    std::thread::yield_now();
                }
                let copy = dir.path().join(format!("copy-{n}.db"));
                snapshot.copy_to(&copy).unwrap();
                assert_eq!(check_snapshot(&copy).unwrap(), 1);
                let rows: i64 = open_reader(&copy)
                    .unwrap()
                    .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
                    .unwrap();
                assert!(counted.0 <= rows && rows <= counted.1, "{rows} rows, counted {counted:?}");
            }
        });
    }
}
