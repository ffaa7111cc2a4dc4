//! Lock file beside the database: at most one process writes.
//!
//! The database file itself is not locked: closing any handle to it would drop the locks that
//! SQLite holds on it.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::TaskOpenError;

/// The right to write, released on drop.
pub(super) struct WriterLock(File);

impl WriterLock {
    /// Acquires the lock, or fails at once when another process holds it.
    pub(super) fn acquire(database: &Path) -> Result<Self, TaskOpenError> {
        let path = database.with_extension("lock");
        let cannot = |source| TaskOpenError::Folder { path: path.clone(), source };
        let mut options = a2a_journal::file_mode::options();
        options.create(true).truncate(false).write(true);
        let file = options.open(&path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                Err(TaskOpenError::InUse { path: database.to_owned() })
            }
            Err(TryLockError::Error(source)) => Err(cannot(source)),
        }
    }
}

impl Drop for WriterLock {
    /// Unlocks explicitly: a child process between fork and exec has a copy of the handle, so
    /// closing ours would not release the lock.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the lock of the task database is released only with its file");
        }
    }
}
