//! Read-only connections, lent to one call at a time.
//!
//! In WAL mode a reader waits for no writer; here it waits for no other reader either: when all
//! are lent another one is opened. Callers are bounded by their threads.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use super::TaskStoreError;
use super::sqlite::open_reader;

/// How many idle connections are kept.
const IDLE: usize = 4;

pub(super) struct Pool {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default() }
    }

    /// Runs `read` in one transaction, so that all its queries see the same state.
    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, TaskStoreError>,
    ) -> Result<T, TaskStoreError> {
        let lent = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match lent {
            Some(connection) => connection,
            None => open_reader(&self.path)?,
        };
        let transaction = connection.transaction()?;
        let found = read(&transaction)?;
        transaction.finish()?;
        // One that failed is dropped on the way instead.
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(connection);
        }
        Ok(found)
    }
}
