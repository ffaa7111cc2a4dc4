//! The task database: opening it and committing to it.
//!
//! - One process writes; it holds the lock file (`writer_lock`). Readers, in this process or
//!   another, take no lock.
//! - A file runs in WAL mode with `synchronous=FULL`: a commit is one fsync, and readers use
//!   connections of their own.
//! - A database in memory has a single connection. The writer and the readers take turns on it,
//!   for the length of a commit or of one read.
//! - `snapshot` copies a database while it is in use. `integrity` runs SQLite's own checks.

pub(crate) mod integrity;
pub(crate) mod snapshot;
mod writer_lock;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2a_journal::file_mode;
use a2a_journal::formats::{self, Part};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::read::{Pool, SqliteReader};
use crate::write::{Batch, RowCache, SavepointMode};
use crate::{TaskOpenError, TaskReader, TaskStoreError, TaskWriter, Write, WriteOutcome, schema};
use writer_lock::WriterLock;

pub use integrity::IntegrityReport;

/// SQLite's page size, which is also the unit of [`Options::max_bytes`].
const PAGE_BYTES: u64 = 4_096;
/// Page cache of the writer: enough for what a busy minute changes, so that pages are not read
/// again for every change.
const CACHE_BYTES: i64 = 16 * 1_024 * 1_024;
/// Pages in the WAL before a checkpoint. Tasks change soon after they are created, so a page that
/// stays in the WAL longer is written to the database fewer times.
const CHECKPOINT_PAGES: i64 = 4_000;
/// Prepared statements cached per connection; there are fewer different ones.
const STATEMENTS: usize = 96;
/// How long to wait for another process that has the file locked for a moment, such as `sqlite3`.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the database is and how large it may become.
#[derive(Debug, Clone)]
pub struct Options {
    /// The state folder; the database is `data/a2a-tasks.db` in it.
    pub state_dir: PathBuf,
    /// The most bytes of the database; `None` for no limit.
    pub max_bytes: Option<u64>,
}

impl Options {
    /// The database of this state folder, without a size limit.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self { state_dir: state_dir.into(), max_bytes: None }
    }
}

/// The writer of a task database.
pub struct TaskDb {
    /// Locked for a commit. Only a database in memory shares it with readers.
    connection: Arc<Mutex<Connection>>,
    row_cache: RowCache,
    reader: Arc<SqliteReader>,
    /// Dropped last, after the connections; `None` in memory.
    _lock: Option<WriterLock>,
}

pub(crate) fn file_in(state_dir: &Path) -> PathBuf {
    state_dir.join(crate::FILE)
}

impl TaskDb {
    /// Opens the database of a state folder for writing; creates both when they are missing.
    ///
    /// # Errors
    /// Another process has it open for writing, another program or a newer version wrote it, or the
    /// disk fails.
    pub fn open(options: &Options) -> Result<Self, TaskOpenError> {
        let path = file_in(&options.state_dir);
        let folder = options.state_dir.join("data");
        if let Some(found) = schema::peek(&path) {
            schema::refuse_newer(found, &path)?;
        }
        let cannot = |path: &Path| {
            let path = path.to_owned();
            move |source| TaskOpenError::Folder { path, source }
        };
        file_mode::create_dir_all(&folder).map_err(cannot(&folder))?;
        sync_folder(&options.state_dir).map_err(cannot(&options.state_dir))?;
        let lock = WriterLock::acquire(&path)?;
        make_private(&path).map_err(cannot(&path))?;
        let mut connection = Connection::open(&path).map_err(TaskStoreError::from)?;
        prepare_file(&connection, options)?;
        let found = schema::check_ours(&connection, &path)?;
        formats::register(&options.state_dir, &[Part::Tasks]).map_err(cannot(&folder))?;
        schema::migrate(&mut connection, &path, found)?;
        let connection = Arc::new(Mutex::new(connection));
        Ok(Self::new(connection, Pool::of_file(path), Some(lock)))
    }

    /// Opens an empty database in memory. It is gone when the writer and its readers are dropped.
    ///
    /// # Errors
    /// SQLite has no memory.
    pub fn open_in_memory() -> Result<Self, TaskOpenError> {
        let mut connection = Connection::open_in_memory().map_err(TaskStoreError::from)?;
        prepare(&connection)?;
        schema::migrate(&mut connection, Path::new(":memory:"), 0)?;
        let connection = Arc::new(Mutex::new(connection));
        let pool = Pool::of_connection(Arc::clone(&connection));
        Ok(Self::new(connection, pool, None))
    }

    fn new(connection: Arc<Mutex<Connection>>, pool: Pool, lock: Option<WriterLock>) -> Self {
        let reader = Arc::new(SqliteReader::new(pool));
        Self { connection, row_cache: RowCache::default(), reader, _lock: lock }
    }

    /// Opens the database of a state folder for reading, whether a server runs or not.
    ///
    /// # Errors
    /// There is no database, a program of another version wrote it, or the disk fails.
    pub fn open_read_only(state_dir: &Path) -> Result<Arc<dyn TaskReader>, TaskOpenError> {
        let path = file_in(state_dir);
        if !path.exists() {
            return Err(TaskOpenError::Absent { path });
        }
        let pool = Pool::of_file(path.clone());
        pool.with(|connection| Ok(schema::check(connection, &path)))??;
        Ok(Arc::new(SqliteReader::new(pool)))
    }

    /// Applies the writes in one transaction. `None` when a part did not apply and could not be
    /// rolled back by itself: then nothing of the batch is committed.
    fn try_commit(
        &mut self,
        writes: Vec<Write>,
        savepoints: SavepointMode,
    ) -> Result<Option<Vec<WriteOutcome>>, TaskStoreError> {
        let mut connection = self.connection.lock();
        let result = commit(&mut connection, &mut self.row_cache, writes, savepoints);
        if !matches!(result, Ok(Some(_))) {
            // What was cached on the way was not committed.
            self.row_cache.clear();
        }
        result
    }
}

impl TaskWriter for TaskDb {
    fn commit(&mut self, writes: Vec<Write>) -> Result<Vec<WriteOutcome>, TaskStoreError> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        // Nearly every batch applies as a whole, and a savepoint costs as much as the part it
        // guards.
        if writes.iter().any(Write::has_parts) {
            let outcomes = self.try_commit(writes.clone(), SavepointMode::Off)?;
            if let Some(outcomes) = outcomes {
                return Ok(outcomes);
            }
        }
        let outcomes = self.try_commit(writes, SavepointMode::PerWrite)?;
        outcomes
            .ok_or_else(|| TaskStoreError::Damaged { what: "a part that was taken back".into() })
    }

    fn probe(&mut self) -> Result<(), TaskStoreError> {
        let mut connection = self.connection.lock();
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // The same value again: its page is written and synced all the same.
        let version: u32 =
            transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
        Ok(())
    }

    fn reader(&self) -> Arc<dyn TaskReader> {
        Arc::clone(&self.reader) as Arc<dyn TaskReader>
    }
}

fn commit(
    connection: &mut Connection,
    row_cache: &mut RowCache,
    writes: Vec<Write>,
    savepoints: SavepointMode,
) -> Result<Option<Vec<WriteOutcome>>, TaskStoreError> {
    if !connection.is_autocommit() {
        // An earlier rollback failed with the disk; it must succeed before a new transaction.
        connection.execute_batch("ROLLBACK")?;
    }
    // An error below drops the transaction, which rolls it back.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut batch = Batch::new(&transaction, row_cache, savepoints);
    let outcomes = writes.into_iter().map(|write| batch.apply(write)).collect::<Result<_, _>>()?;
    if batch.must_roll_back() {
        return Ok(None);
    }
    transaction.commit()?;
    Ok(Some(outcomes))
}

/// Creates the database readable for its owner only: push configurations hold secrets. SQLite gives
/// the files beside it the same permissions.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    match file_mode::options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// Makes the name of the folder `data` durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Settings of every writing connection.
fn prepare(connection: &Connection) -> Result<(), TaskStoreError> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(())
}

fn prepare_file(connection: &Connection, options: &Options) -> Result<(), TaskStoreError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    prepare(connection)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A commit is on the disk before it returns, so that it survives a power cut.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A negative number is in KiB.
    connection.pragma_update(None, "cache_size", -(CACHE_BYTES / 1_024))?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1_024 * 1_024)?;
    if let Some(bytes) = options.max_bytes {
        let pages = i64::try_from(bytes / PAGE_BYTES).unwrap_or(i64::MAX).max(1);
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(())
}

pub(crate) fn open_reader(path: &Path) -> Result<Connection, TaskStoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}
