//! Schema migrations. `PRAGMA user_version` counts those that a file has had.
//!
//! - A released migration is never changed, only followed by another.
//! - Before the first migration of an existing file a copy is kept, so that the older version of
//!   the program can be used again.
//! - A file with a newer schema is refused and left as it is.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use a2a_journal::NewerFormat;
use a2a_journal::formats::{self, Part};
use rusqlite::{Connection, TransactionBehavior};

use crate::database::{open_reader, snapshot};
use crate::{TaskOpenError, TaskStoreError};

/// Migration `n` takes schema `n - 1` to schema `n`.
const MIGRATIONS: [&str; 4] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
];

/// The schema version of this program.
pub const SCHEMA: u32 = MIGRATIONS.len() as u32;

const _: () =
    assert!(SCHEMA == formats::TASKS, "the formats of a state folder name another schema");

/// Offset of `user_version` in the header of a SQLite file: four bytes, big endian.
const VERSION_AT: usize = 60;

fn version(connection: &Connection) -> Result<u32, TaskStoreError> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    // In a database of another program the value can be negative.
    Ok(u32::try_from(found).unwrap_or(u32::MAX))
}

/// The schema version of a file, read from its header: opening it, even for reading, would create
/// files beside it. `None` when there is no file or it is no database.
pub(crate) fn peek(path: &Path) -> Option<u32> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    if fs::metadata(wal).is_ok_and(|wal| wal.len() > 0) {
        // After an unclean shutdown the last commits are in the WAL only.
        return open_reader(path).ok().and_then(|file| version(&file).ok());
    }
    let mut header = [0; VERSION_AT + 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).ok()?;
    let is_ours = header.starts_with(b"SQLite format 3\0");
    let number = header.last_chunk().copied().map(u32::from_be_bytes);
    number.filter(|_| is_ours)
}

/// The schema version of a file that can be migrated. Others are refused and left as they are.
pub(crate) fn check_ours(connection: &Connection, path: &Path) -> Result<u32, TaskOpenError> {
    let found = check_not_newer(connection, path)?;
    if found == 0 {
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(TaskStoreError::from)?;
        if tables > 0 {
            return Err(TaskOpenError::Foreign { path: path.to_owned() });
        }
    }
    Ok(found)
}

/// Runs the migrations that a file of schema `found` has not had.
pub(crate) fn migrate(
    connection: &mut Connection,
    path: &Path,
    found: u32,
) -> Result<(), TaskOpenError> {
    if found > 0 && found < SCHEMA {
        keep_backup(connection, path, found)?;
    }
    for (migration, number) in MIGRATIONS.iter().zip(1..).skip_while(|(_, n)| *n <= found) {
        run(connection, migration, number)?;
    }
    Ok(())
}

/// Keeps a copy of the file before a migration. It is written under a temporary name and renamed,
/// so that it is complete or not there.
fn keep_backup(connection: &Connection, path: &Path, found: u32) -> Result<(), TaskOpenError> {
    let backup = backup_file(path, found);
    let temporary = backup.with_extension("new");
    let cannot = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| TaskOpenError::Folder { path, source }
    };
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(cannot(&temporary)(error));
        }
        _ => {}
    }
    snapshot::copy(connection, &temporary)?;
    fs::rename(&temporary, &backup).map_err(cannot(&backup))?;
    tracing::info!(
        kept = %backup.display(), from = found, to = SCHEMA,
        "the task database is brought up to date; a copy of it as it was is kept"
    );
    Ok(())
}

/// Where the copy of a file with this schema is kept.
fn backup_file(path: &Path, schema: u32) -> PathBuf {
    path.with_extension(format!("db.v{schema}.bak"))
}

fn run(connection: &mut Connection, migration: &str, number: u32) -> Result<(), TaskStoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(migration)?;
    transaction.pragma_update(None, "user_version", number)?;
    Ok(transaction.commit()?)
}

/// Checks that a file opened for reading has the schema of this program.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), TaskOpenError> {
    let found = check_not_newer(connection, path)?;
    if found < SCHEMA {
        return Err(TaskOpenError::Older { path: path.to_owned(), found, known: SCHEMA });
    }
    Ok(())
}

/// The schema version of the file; an error when it is newer than this program's.
pub(crate) fn check_not_newer(connection: &Connection, path: &Path) -> Result<u32, TaskOpenError> {
    let found = version(connection)?;
    refuse_newer(found, path)?;
    Ok(found)
}

/// Refuses a schema version newer than this program's.
pub(crate) fn refuse_newer(found: u32, path: &Path) -> Result<(), NewerFormat> {
    if found <= SCHEMA {
        return Ok(());
    }
    let part = Part::Tasks.name().to_owned();
    Err(NewerFormat { path: path.to_owned(), part, found, known: Some(SCHEMA), program: None })
}
