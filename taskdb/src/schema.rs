//! Brings the file to the schema that this program knows: `PRAGMA user_version` counts the
//! migrations it has seen. A migration that was released is never changed, only followed. Before
//! the first of them the file is copied, so that the old program can be taken up again.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use a2a_journal::NewerFormat;
use a2a_journal::formats::{self, Part};
use rusqlite::{Connection, TransactionBehavior};

use super::sqlite::open_reader;
use super::{TaskOpenError, TaskStoreError, copy};

/// From nothing to the first schema, from there to the second, and so on.
const MIGRATIONS: [&str; 4] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
];

/// The newest schema that this program knows.
pub const SCHEMA: u32 = MIGRATIONS.len() as u32;

const _: () =
    assert!(SCHEMA == formats::TASKS, "the formats of a state folder name another schema");

/// Where a database says how many migrations it has seen: four bytes, the highest first.
const VERSION_AT: usize = 60;

fn version(connection: &Connection) -> Result<u32, TaskStoreError> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    // Another program's database may say anything; none of ours has more than a few.
    Ok(u32::try_from(found).unwrap_or(u32::MAX))
}

/// The schema of a file that may not even be opened for reading: that would make files beside
/// it. `None` when there is none, or it cannot be told.
pub(super) fn peek(path: &Path) -> Option<u32> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    if fs::metadata(wal).is_ok_and(|wal| wal.len() > 0) {
        // A stop that was not clean: what was written last is not in the file itself.
        return open_reader(path).ok().and_then(|file| version(&file).ok());
    }
    let mut header = [0; VERSION_AT + 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).ok()?;
    let is_ours = header.starts_with(b"SQLite format 3\0");
    let number = header.last_chunk().copied().map(u32::from_be_bytes);
    number.filter(|_| is_ours)
}

/// The schema of a file that can be brought up to date; others are refused untouched.
pub(super) fn check_ours(connection: &Connection, path: &Path) -> Result<u32, TaskOpenError> {
    let found = check_known(connection, path)?;
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

/// Brings a file of this schema up to date.
pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    found: u32,
) -> Result<(), TaskOpenError> {
    if found > 0 && found < SCHEMA {
        keep(connection, path, found)?;
    }
    for (migration, number) in MIGRATIONS.iter().zip(1..).skip_while(|(_, n)| *n <= found) {
        run(connection, migration, number)?;
    }
    Ok(())
}

/// Copies the file as it is before a migration. The copy is written aside, so that it is whole
/// or not there.
fn keep(connection: &Connection, path: &Path, found: u32) -> Result<(), TaskOpenError> {
    let kept = kept_file(path, found);
    let aside = kept.with_extension("new");
    let cannot = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| TaskOpenError::Folder { path, source }
    };
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(&aside)(error)),
        _ => {}
    }
    copy::copy(connection, &aside)?;
    fs::rename(&aside, &kept).map_err(cannot(&kept))?;
    tracing::info!(
        kept = %kept.display(), from = found, to = SCHEMA,
        "the task database is brought up to date; a copy of it as it was is kept"
    );
    Ok(())
}

/// Where the file is kept as it was with this schema.
fn kept_file(path: &Path, schema: u32) -> PathBuf {
    path.with_extension(format!("db.v{schema}.bak"))
}

fn run(connection: &mut Connection, migration: &str, number: u32) -> Result<(), TaskStoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(migration)?;
    transaction.pragma_update(None, "user_version", number)?;
    Ok(transaction.commit()?)
}

/// For those who only read: the file is as this program knows it.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), TaskOpenError> {
    let found = check_known(connection, path)?;
    if found < SCHEMA {
        return Err(TaskOpenError::Older { path: path.to_owned(), found, known: SCHEMA });
    }
    Ok(())
}

/// The schema of the file, unless it is newer than any that this program knows.
pub(super) fn check_known(connection: &Connection, path: &Path) -> Result<u32, TaskOpenError> {
    let found = version(connection)?;
    refuse_newer(found, path)?;
    Ok(found)
}

/// Refuses a schema that is newer than any that this program knows.
pub(super) fn refuse_newer(found: u32, path: &Path) -> Result<(), NewerFormat> {
    if found <= SCHEMA {
        return Ok(());
    }
    let part = Part::Tasks.name().to_owned();
    Err(NewerFormat { path: path.to_owned(), part, found, known: Some(SCHEMA), program: None })
}
