//! Errors of creating, verifying and restoring a backup.

use std::io;
use std::path::{Path, PathBuf};

use super::create::Cause;
use a2a_journal::{FormatError, NewerFormat, VerifyError};
use a2a_taskdb::{TaskOpenError, TaskStoreError};

/// Creating, verifying or restoring a backup failed. No partial result is left behind.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The state folder has no log.
    #[error(
        "there is no log in {}; name the folder of a server with --state-dir", path.display()
    )]
    NoState {
        /// The state folder.
        path: PathBuf,
    },
    /// The target exists.
    #[error("{} is there already; give the backup a name of its own", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// The staging folder exists: another backup is running, or one was interrupted.
    #[error(
        "{} is there: a backup is being written, or was cut off; delete it if none is", path.display()
    )]
    Unfinished {
        /// The staging folder.
        path: PathBuf,
    },
    /// The folder has no manifest.
    #[error(
        "{} is no backup, or one that was cut off: it has no manifest.json", path.display()
    )]
    NoBackup {
        /// The folder.
        path: PathBuf,
    },
    /// A newer version of this program wrote it.
    #[error(transparent)]
    Newer(#[from] NewerFormat),
    /// The state folder cannot be opened.
    #[error(transparent)]
    Format(FormatError),
    /// A file differs from the manifest.
    #[error("{} is damaged: {what}. Take another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// The log fails verification.
    #[error(
        "the log is not whole (`openclaw-a2a log verify` says more; if a crash left it so, start the server once)"
    )]
    Log(#[source] VerifyError),
    /// After a power cut some acknowledged lines are in the WAL only.
    #[error(
        "{bytes} bytes that were promised are not in the log yet, because the machine went down; start the server once, which puts them there, and take the backup then"
    )]
    NotInLog {
        /// Bytes that are not in the log.
        bytes: u64,
    },
    /// The task database failed.
    #[error(transparent)]
    Tasks(TaskOpenError),
    /// The disk is full.
    #[error(
        "there is no room: about {} are needed in {}{}. Nothing was left behind",
        megabytes(*needed), path.display(), free.map(|free| format!(", {} are free", megabytes(free))).unwrap_or_default()
    )]
    Full {
        /// The folder.
        path: PathBuf,
        /// Bytes needed, approximately.
        needed: u64,
        /// Free bytes; `None` when they were not measured.
        free: Option<u64>,
    },
    /// Days that only the index has could not be exported.
    #[error("days before {before} are in the index alone, and could not be had")]
    Older {
        /// The first day that has a file.
        before: chrono::NaiveDate,
        /// The cause.
        #[source]
        cause: Cause,
    },
    /// The folder to restore into is not empty.
    #[error(
        "{} is not empty; restore into a folder that is empty or not there, and never under a server that runs", path.display()
    )]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// An I/O error.
    #[error("{}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl BackupError {
    /// Whether the backup itself is at fault, as opposed to a failure to read it.
    #[must_use]
    pub const fn is_verdict(&self) -> bool {
        matches!(
            self,
            Self::NoBackup { .. }
                | Self::Newer(_)
                | Self::Damaged { .. }
                | Self::Log(VerifyError::Fault(_))
                | Self::Tasks(TaskOpenError::Newer(_))
                | Self::Tasks(TaskOpenError::Store(TaskStoreError::Damaged { .. }))
        )
    }

    /// For `map_err`: an I/O error at a path.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Turns an error of a full disk into one that names the bytes needed.
    pub(super) fn needing(self, needed: u64, folder: &Path) -> Self {
        let is_full = match &self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::Tasks(TaskOpenError::Store(TaskStoreError::Full(_))) => true,
            _ => false,
        };
        if is_full { Self::Full { path: folder.to_owned(), needed, free: None } } else { self }
    }
}

impl From<FormatError> for BackupError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Newer(newer) => Self::Newer(newer),
            other => Self::Format(other),
        }
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}
