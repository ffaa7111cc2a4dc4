//! A copy of the database as it was at one moment, while somebody may be writing to it.
//!
//! The moment is chosen by taking SQLite's write lock for a few milliseconds: whoever writes
//! waits that long. What else is looked at meanwhile, such as the length of the log, belongs to
//! the same moment. The copying itself holds nobody up.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::sqlite::{PATIENCE, make_private, open_reader};
use super::{TaskOpenError, TaskStoreError, schema};

/// How long to try for the lock, and how often. A busy writer has it most of the time, with
/// short gaps, so it is asked for often.
const TRY_FOR: Duration = Duration::from_secs(30);
const TRY_EVERY: Duration = Duration::from_micros(200);

/// The database while nobody can change it.
pub struct Frozen {
    path: PathBuf,
    gate: Connection,
}

impl Frozen {
    /// Waits for the writer to be between two commits, and keeps it there.
    pub fn new(path: &Path) -> Result<Self, TaskStoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let gate = Connection::open_with_flags(path, flags)?;
        gate.busy_timeout(Duration::ZERO)?;
        let until = Instant::now() + TRY_FOR;
        loop {
            match gate.execute_batch("BEGIN IMMEDIATE") {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && Instant::now() < until =>
                {
                    std::thread::sleep(TRY_EVERY);
                }
                begun => {
                    begun?;
                    return Ok(Self { path: path.to_owned(), gate });
                }
            }
        }
    }

    /// Lets the writer go on, and keeps the moment.
    pub fn release(self) -> Result<Moment, TaskStoreError> {
        let reader = open_reader(&self.path)?;
        // Reading something is what fixes the moment.
        reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
        self.gate.execute_batch("ROLLBACK")?;
        Ok(Moment(reader))
    }
}

/// The database as it was.
pub struct Moment(Connection);

impl Moment {
    /// Writes it into a file of its own, which must not be there.
    pub fn copy_to(&self, path: &Path) -> Result<(), TaskOpenError> {
        copy(&self.0, path)
    }
}

/// Copies what a connection sees into a file that only its owner can read. It is whole and on
/// the disk when this returns.
pub(super) fn copy(from: &Connection, path: &Path) -> Result<(), TaskOpenError> {
    let cannot = |source: io::Error| TaskOpenError::Folder { path: path.to_owned(), source };
    make_private(path).map_err(cannot)?;
    let written = pages(from, path);
    written.map_err(TaskStoreError::from)?;
    File::open(path).and_then(|file| file.sync_all()).map_err(cannot)
}

fn pages(from: &Connection, path: &Path) -> Result<(), rusqlite::Error> {
    let mut to = Connection::open(path)?;
    let backup = Backup::new(from, &mut to)?;
    let until = Instant::now() + PATIENCE;
    // All pages in one step: between two steps a writer would make it begin again.
    loop {
        match backup.step(-1)? {
            StepResult::Done => break,
            _ if Instant::now() < until => std::thread::sleep(TRY_EVERY),
            _ => return Err(rusqlite::Error::InvalidQuery),
        }
    }
    drop(backup);
    // One file, which can be read without making others beside it.
    to.pragma_update(None, "journal_mode", "DELETE")?;
    to.close().map_err(|(_, error)| error)
}

/// Checks every page and index of a copy, and that its schema is one that this program knows.
pub fn check_copy(path: &Path) -> Result<u32, TaskOpenError> {
    let file = open_reader(path)?;
    let found = schema::check_known(&file, path)?;
    let said: String = file
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(TaskStoreError::from)?;
    if said != "ok" {
        return Err(TaskStoreError::Damaged { what: said }.into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};

    use super::*;

    /// Ends the writer, also when the test fails.
    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }

    /// The writer notes before a commit that it heard of it, and after it that it was done, as
    /// the log does. Whatever the copy holds must fit what was noted by the same moment.
    #[test]
    fn what_is_looked_at_while_it_is_frozen_is_of_the_same_moment() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.busy_timeout(PATIENCE).unwrap();
        writer.execute_batch("CREATE TABLE rows (n INTEGER); PRAGMA user_version = 1").unwrap();
        let (heard, done, stop) = (AtomicI64::new(0), AtomicI64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (heard, done, stop) = (&heard, &done, &stop);
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    heard.fetch_add(1, SeqCst);
                    writer.execute("INSERT INTO rows VALUES (1)", []).unwrap();
                    done.fetch_add(1, SeqCst);
                }
            });
            let _stop = Stop(stop);
            for n in 0..20 {
                while done.load(SeqCst) < n * 5 {
                    std::thread::yield_now();
                }
                let frozen = Frozen::new(&path).unwrap();
                let noted = (done.load(SeqCst), heard.load(SeqCst));
                let moment = frozen.release().unwrap();
                // It goes on meanwhile.
                let now = done.load(SeqCst);
                while done.load(SeqCst) < now + 3 {
                    std::thread::yield_now();
                }
                let copy = dir.path().join(format!("copy-{n}.db"));
                moment.copy_to(&copy).unwrap();
                assert_eq!(check_copy(&copy).unwrap(), 1);
                let rows: i64 = open_reader(&copy)
                    .unwrap()
                    .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
                    .unwrap();
                assert!(noted.0 <= rows && rows <= noted.1, "{rows} rows, noted {noted:?}");
            }
        });
    }
}
