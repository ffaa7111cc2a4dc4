//! The task database: opening it, and committing to it.
//!
//! One process writes (`lock`). Readers, in this process or another, need no leave. What a write
//! does to the rows stands in `apply`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2a_journal::file_mode;
use a2a_journal::formats::{self, Part};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::apply::{Batch, Care};
use super::known::Known;
use super::lock::Lock;
use super::pool::Pool;
use super::reader::SqliteReader;

use super::{TaskOpenError, TaskReader, TaskStoreError, TaskWriter, Write, Written, schema};

/// SQLite's page, which is also the unit of [`Options::max_bytes`].
const PAGE_BYTES: u64 = 4_096;
/// How much of the database the writer keeps in memory: what a busy minute changes, so that it
/// need not be read again for every change.
const CACHE_BYTES: i64 = 16 * 1_024 * 1_024;
/// How many pages wait in the log before they go into the database. Tasks are changed soon after
/// they are made, so a page that waits longer is written there fewer times.
const LOG_PAGES: i64 = 4_000;
/// Statements kept ready on each connection; there are fewer different ones.
pub(super) const STATEMENTS: usize = 96;
/// How long to wait for another process that works on the file for a moment, such as `sqlite3`.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Where the tasks lie and how many there may be.
#[derive(Debug, Clone)]
pub struct Options {
    /// The state folder; the database is `data/a2a-tasks.db` in it.
    pub state_dir: PathBuf,
    /// The most bytes of the database; as many as the disk has without a number.
    pub max_bytes: Option<u64>,
}

impl Options {
    /// The database of this state folder, without a limit.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self { state_dir: state_dir.into(), max_bytes: None }
    }
}

/// The tasks in a file.
pub struct Sqlite {
    connection: Connection,
    known: Known,
    reader: Arc<SqliteReader>,
    /// Goes last, when nothing is written any more.
    _lock: Lock,
}

pub(super) fn file_in(state_dir: &Path) -> PathBuf {
    state_dir.join(super::FILE)
}

impl Sqlite {
    /// Opens the tasks of a state folder, which is made if it is not there.
    ///
    /// # Errors
    /// Another process writes to them, another or a newer program wrote them, or the disk fails.
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
        let lock = Lock::take(&path)?;
        make_private(&path).map_err(cannot(&path))?;
        let mut connection = Connection::open(&path).map_err(TaskStoreError::from)?;
        prepare(&connection, options)?;
        let found = schema::check_ours(&connection, &path)?;
        formats::note(&options.state_dir, &[Part::Tasks]).map_err(cannot(&folder))?;
        schema::migrate(&mut connection, &path, found)?;
        let reader = Arc::new(SqliteReader::new(Pool::new(path)));
        Ok(Self { connection, known: Known::default(), reader, _lock: lock })
    }

    /// Only looks at the tasks of a state folder, whether a server runs or not.
    ///
    /// # Errors
    /// There are none, a program of another version wrote them, or the disk fails.
    pub fn open_read_only(state_dir: &Path) -> Result<Arc<dyn TaskReader>, TaskOpenError> {
        let path = file_in(state_dir);
        if !path.exists() {
            return Err(TaskOpenError::Absent { path });
        }
        let pool = Pool::new(path.clone());
        pool.with(|connection| Ok(schema::check(connection, &path)))??;
        Ok(Arc::new(SqliteReader::new(pool)))
    }
}

impl TaskWriter for Sqlite {
    fn commit(&mut self, writes: Vec<Write>) -> Result<Vec<Written>, TaskStoreError> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        // Nearly always everything fits; to be able to take one part back costs as much as the part.
        if writes.iter().any(Write::has_parts) {
            let trusting = self.try_commit(writes.clone(), Care::Trusting)?;
            if let Some(written) = trusting {
                return Ok(written);
            }
        }
        let written = self.try_commit(writes, Care::PartByPart)?;
        written.ok_or_else(|| TaskStoreError::Damaged { what: "a part that was taken back".into() })
    }

    fn probe(&mut self) -> Result<(), TaskStoreError> {
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // The same value again: the page that has it is written and synced all the same.
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

impl Sqlite {
    /// `None` when something did not fit that only a careful writer can take back: nothing of the
    /// batch happened.
    fn try_commit(
        &mut self,
        writes: Vec<Write>,
        care: Care,
    ) -> Result<Option<Vec<Written>>, TaskStoreError> {
        let result = commit(&mut self.connection, &mut self.known, writes, care);
        if !matches!(result, Ok(Some(_))) {
            // What was noted on the way was not written.
            self.known.forget_all();
        }
        result
    }
}

fn commit(
    connection: &mut Connection,
    known: &mut Known,
    writes: Vec<Write>,
    care: Care,
) -> Result<Option<Vec<Written>>, TaskStoreError> {
    if !connection.is_autocommit() {
        // An earlier rollback failed with the disk; it must succeed before anything new begins.
        connection.execute_batch("ROLLBACK")?;
    }
    // Whatever fails below drops the transaction, which rolls it back.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut batch = Batch::new(&transaction, known, care);
    let written = writes.into_iter().map(|write| batch.apply(write)).collect::<Result<_, _>>()?;
    if batch.is_spoiled() {
        return Ok(None);
    }
    transaction.commit()?;
    Ok(Some(written))
}

/// Makes the database for its owner's eyes only: push configurations hold secrets. SQLite gives
/// the files beside it the same rights.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    match file_mode::options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// So that the folder `data` itself survives a power cut.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn prepare(connection: &Connection, options: &Options) -> Result<(), TaskStoreError> {
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Every commit is on the disk before it is answered, also through a power cut.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A negative number is one of KiB.
    connection.pragma_update(None, "cache_size", -(CACHE_BYTES / 1_024))?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1_024 * 1_024)?;
    if let Some(bytes) = options.max_bytes {
        let pages = i64::try_from(bytes / PAGE_BYTES).unwrap_or(i64::MAX).max(1);
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(())
}

pub(super) fn open_reader(path: &Path) -> Result<Connection, TaskStoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}
