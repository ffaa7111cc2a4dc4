//! Errors of opening and of using the database. Outcomes of single writes are no errors; see
//! [`crate::WriteOutcome`].

use std::path::PathBuf;

use rusqlite::ErrorCode;

use a2a_journal::NewerFormat;

/// A read or a commit failed. A failed commit changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum TaskStoreError {
    /// The disk or the size limit is full.
    #[error("the disk, or the room allowed for the task database, is full")]
    Full(#[source] rusqlite::Error),
    /// The disk failed.
    #[error("the disk failed under the task database")]
    Io(#[source] rusqlite::Error),
    /// The file or a row of it is corrupt.
    #[error("the task database is damaged: {what}")]
    Damaged {
        /// What is corrupt, and where.
        what: String,
    },
    /// Any other SQLite error.
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
    /// A newer version of this program wrote it.
    #[error(transparent)]
    Newer(#[from] NewerFormat),
    /// An older version of this program wrote it, and it was opened read-only.
    #[error(
        "{path} was written by an older version of this program: its schema is {found}, this \
         version reads {known}. Start the server once and it is brought up to date"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The schema version of this program.
        known: u32,
    },
    /// The file is a database of another program.
    #[error("{path} is a database, but not one of tasks; move it away to begin afresh")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Another process has it open for writing.
    #[error("another process writes to {path}")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// There is no database, and it was opened read-only.
    #[error("there is no task database at {path}")]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// The folder or a file in it cannot be created.
    #[error("cannot use {path}")]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// SQLite or the disk failed.
    #[error(transparent)]
    Store(#[from] TaskStoreError),
}
