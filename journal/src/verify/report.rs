//! What can be said about a journal that was verified: it is whole, or what is wrong first.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::{Head, ReadError};

/// A journal that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Records of messages in it.
    pub records: u64,
    /// Lines in it: records and events.
    pub lines: u64,
    /// Its last line.
    pub head: Head,
    /// Number of its first line; above 1 when older lines were removed for their age.
    /// 0 when there is none.
    pub from: u64,
    /// Bytes behind the last whole line: a write that is going on, or was cut short.
    pub unfinished: u64,
}

impl Verified {
    /// Of heads somebody knows, one that is below the first line. That lines before it were
    /// removed is what the log says; it is no proof that the head was among them.
    #[must_use]
    pub fn unproven(&self, known: &[Head]) -> Option<Head> {
        known.iter().copied().find(|head| head.seq < self.from)
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ok, {} records, head {}", self.records, self.head)
    }
}

/// What was done to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tampering {
    /// Its bytes do not fit its hash, or not the hash the line after it remembers.
    Changed,
    /// Lines before it are missing.
    Removed,
    /// It does not belong between its neighbours.
    Inserted,
    /// The line it follows stands elsewhere.
    Reordered,
    /// It is another line than the one that was known under this number.
    Swapped,
    /// The log ends before a line that was known to be in it.
    CutOff,
    /// It is no line of a log at all.
    Unreadable,
}

/// The first thing wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, if it was found in one.
    pub file: Option<PathBuf>,
    /// Which line of the file, or of the journal, from 1.
    pub line: u64,
    /// The line's number, if it can be read; for a cut tail, of the line that is missing.
    pub seq: Option<u64>,
    /// What was done.
    pub what: Tampering,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}, line {}", file.display(), self.line)?,
            None => write!(f, "line {} of the journal", self.line)?,
        }
        let seq = self.seq.map(|seq| format!(" (seq {seq})")).unwrap_or_default();
        f.write_str(match self.what {
            Tampering::CutOff => " is the last",
            _ => seq.as_str(),
        })?;
        f.write_str(match self.what {
            Tampering::Changed => " was changed: it does not fit its hash",
            Tampering::Removed => " does not follow the line before it: lines were removed",
            Tampering::Inserted => " was inserted: the chain goes on without it",
            Tampering::Reordered => " was moved: the line it follows stands elsewhere",
            Tampering::Swapped => " is not the line that was known under this number",
            Tampering::CutOff => ", but there was one more known",
            Tampering::Unreadable => " is no line of the log",
        })?;
        if self.what == Tampering::CutOff { f.write_str(&seq) } else { Ok(()) }
    }
}

/// Why a journal is not proven to be whole.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Something in it is wrong.
    #[error("{0}")]
    Fault(Fault),
    /// Another process has the index open, perhaps since a moment ago.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The folder of the index.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
