//! Who writes: one process, the one that holds the file beside the database.
//!
//! It is not the database itself that is locked: closing any handle to that would drop the
//! locks that SQLite holds on it.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::TaskOpenError;

/// The right to write, given back when this goes.
pub(super) struct Lock(File);

impl Lock {
    /// Takes it, or says at once that somebody else has it.
    pub(super) fn take(database: &Path) -> Result<Self, TaskOpenError> {
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

impl Drop for Lock {
    /// A child process that is just being started has a copy of the handle, so that closing ours
    /// would not be enough.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the lock of the task database is released only with its file");
        }
    }
}
