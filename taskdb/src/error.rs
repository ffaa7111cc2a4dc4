//! What can go wrong with the file; never with what is asked of it.

use std::path::PathBuf;

use rusqlite::ErrorCode;

use a2a_journal::NewerFormat;

/// The store could not do it. A commit that fails with this left nothing behind.
#[derive(Debug, thiserror::Error)]
pub enum TaskStoreError {
    /// No room for it.
    #[error("the disk, or the room allowed for the task database, is full")]
    Full(#[source] rusqlite::Error),
    /// The disk failed.
    #[error("the disk failed under the task database")]
    Io(#[source] rusqlite::Error),
    /// The file, or a row of it, is not what was written.
    #[error("the task database is damaged: {what}")]
    Damaged {
        /// Where.
        what: String,
    },
    /// SQLite does not say more than this.
    #[error("the task database failed")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for TaskStoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full(error),
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
                Self::Io(error)
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { what: error.to_string() }
            }
            _ => Self::Sqlite(error),
        }
    }
}

/// The store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TaskOpenError {
    /// A newer program wrote it.
    #[error(transparent)]
    Newer(#[from] NewerFormat),
    /// An older program wrote it, and it may only be read.
    #[error(
        "{path} was written by an older version of this program: its schema is {found}, this \
         version reads {known}. Start the server once and it is brought up to date"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// Another program wrote it.
    #[error("{path} is a database, but not one of tasks; move it away to begin afresh")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Another process writes to it.
    #[error("another process writes to {path}")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// There is none, and it may only be read.
    #[error("there is no task database at {path}")]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// The folder or a file in it cannot be made.
    #[error("cannot use {path}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// SQLite or the disk.
    #[error(transparent)]
    Store(#[from] TaskStoreError),
}
