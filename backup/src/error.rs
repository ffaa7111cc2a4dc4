//! Why there is no backup, or none that can be put back.

use std::io;
use std::path::{Path, PathBuf};

use super::take::Cause;
use a2a_journal::{FormatError, NewerFormat, VerifyError};
use a2a_taskdb::{TaskOpenError, TaskStoreError};

/// A backup could not be taken, is none, or cannot be put back. Nothing was left half done.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to copy.
    #[error(
        "there is no log in {}; name the folder of a server with --state-dir", path.display()
    )]
    NoState {
        /// The state folder.
        path: PathBuf,
    },
    /// Something has the name already.
    #[error("{} is there already; give the backup a name of its own", path.display())]
    Exists {
        /// What.
        path: PathBuf,
    },
    /// Another one is being written under the name, or was cut off.
    #[error(
        "{} is there: a backup is being written, or was cut off; delete it if none is", path.display()
    )]
    Unfinished {
        /// The folder of the unfinished one.
        path: PathBuf,
    },
    /// The folder holds no whole backup.
    #[error(
        "{} is no backup, or one that was cut off: it has no manifest.json", path.display()
    )]
    NoBackup {
        /// The folder.
        path: PathBuf,
    },
    /// A newer program wrote it.
    #[error(transparent)]
    Newer(#[from] NewerFormat),
    /// The state folder is not to be opened.
    #[error(transparent)]
    Format(FormatError),
    /// A file is not what was backed up.
    #[error("{} is damaged: {what}. Take another backup", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// How.
        what: String,
    },
    /// The log is not whole.
    #[error(
        "the log is not whole (`openclaw-a2a log verify` says more; if a crash left it so, start the server once)"
    )]
    Log(#[source] VerifyError),
    /// The machine went down before the log had everything.
    #[error(
        "{bytes} bytes that were promised are not in the log yet, because the machine went down; start the server once, which puts them there, and take the backup then"
    )]
    NotInTheLog {
        /// How many.
        bytes: u64,
    },
    /// The tasks.
    #[error(transparent)]
    Tasks(TaskOpenError),
    /// No room.
    #[error(
        "there is no room: about {} are needed in {}{}. Nothing was left behind",
        megabytes(*needed), path.display(), free.map(|free| format!(", {} are free", megabytes(free))).unwrap_or_default()
    )]
    Full {
        /// Where.
        path: PathBuf,
        /// How many bytes, about.
        needed: u64,
        /// How many there are, if that was asked before.
        free: Option<u64>,
    },
    /// Days that only the index has.
    #[error("days before {before} are in the index alone, and could not be had")]
    Older {
        /// The first day that has a file.
        before: chrono::NaiveDate,
        /// Why.
        #[source]
        cause: Cause,
    },
    /// The folder to restore into is in use.
    #[error(
        "{} is not empty; restore into a folder that is empty or not there, and never under a server that runs", path.display()
    )]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The disk refused.
    #[error("{}", path.display())]
    Io {
        /// What was to be read or written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl BackupError {
    /// Whether it says something about the backup, and not that it could not be looked at.
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

    /// For `map_err`: what the system said about a path.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Says how much room is needed where that was the trouble.
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
