//! Brings the file to the schema that this program knows: `PRAGMA user_version` counts the
//! migrations it has seen. A migration that was released is never changed, only followed.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::{TaskOpenError, TaskStoreError};

/// From nothing to the first schema, from there to the second, and so on.
const MIGRATIONS: [&str; 3] =
    [include_str!("schema/1.sql"), include_str!("schema/2.sql"), include_str!("schema/3.sql")];

const KNOWN: i64 = MIGRATIONS.len() as i64;

fn version(connection: &Connection) -> Result<i64, TaskStoreError> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Brings the file up to date, or refuses it untouched.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), TaskOpenError> {
    let found = version(connection)?;
    refuse_newer(found, path)?;
    if found == 0 {
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(TaskStoreError::from)?;
        if tables > 0 {
            return Err(TaskOpenError::Foreign { path: path.to_owned() });
        }
    }
    for (migration, number) in MIGRATIONS.iter().zip(1..).skip_while(|(_, n)| *n <= found) {
        run(connection, migration, number)?;
    }
    Ok(())
}

fn run(connection: &mut Connection, migration: &str, number: i64) -> Result<(), TaskStoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(migration)?;
    transaction.pragma_update(None, "user_version", number)?;
    Ok(transaction.commit()?)
}

/// For those who only read: the file is as this program knows it.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), TaskOpenError> {
    let found = version(connection)?;
    refuse_newer(found, path)?;
    if found < KNOWN {
        return Err(TaskOpenError::Older { path: path.to_owned(), found, known: KNOWN });
    }
    Ok(())
}

fn refuse_newer(found: i64, path: &Path) -> Result<(), TaskOpenError> {
    if found > KNOWN {
        return Err(TaskOpenError::Newer { path: path.to_owned(), found, known: KNOWN });
    }
    Ok(())
}
