//! Connections for readers.
//!
//! A file gets read-only connections, one per concurrent call: in WAL mode a reader waits for no
//! writer, and here it waits for no other reader. The number of callers is bounded by their
//! threads. A database in memory has one connection, which readers share with the writer.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::TaskStoreError;
use crate::database::open_reader;

/// How many idle connections are kept.
const IDLE: usize = 4;

pub(crate) enum Pool {
    File { path: PathBuf, idle: Mutex<Vec<Connection>> },
    Memory(Arc<Mutex<Connection>>),
}

impl Pool {
    pub(crate) fn of_file(path: PathBuf) -> Self {
        Self::File { path, idle: Mutex::default() }
    }

    /// The connection of a database in memory.
    pub(crate) fn of_connection(connection: Arc<Mutex<Connection>>) -> Self {
        Self::Memory(connection)
    }

    /// Runs `read` in one transaction, so that all its queries see the same state.
    pub(crate) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, TaskStoreError>,
    ) -> Result<T, TaskStoreError> {
        let (path, idle) = match self {
            Self::File { path, idle } => (path, idle),
            Self::Memory(connection) => return in_transaction(&mut connection.lock(), read),
        };
        let borrowed = idle.lock().pop();
        let mut connection = match borrowed {
            Some(connection) => connection,
            None => open_reader(path)?,
        };
        // A connection that failed is dropped instead of going back to the pool.
        let found = in_transaction(&mut connection, read)?;
        let mut idle = idle.lock();
        if idle.len() < IDLE {
            idle.push(connection);
        }
        Ok(found)
    }
}

fn in_transaction<T>(
    connection: &mut Connection,
    read: impl FnOnce(&Connection) -> Result<T, TaskStoreError>,
) -> Result<T, TaskStoreError> {
    let transaction = connection.transaction()?;
    let found = read(&transaction)?;
    transaction.finish()?;
    Ok(found)
}
