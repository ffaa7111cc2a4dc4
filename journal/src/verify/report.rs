//! Results of a verification: the journal is complete, or the first fault.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::{Head, ReadError};

/// A journal without faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Number of message records.
    pub records: u64,
    /// Number of lines: message records and events.
    pub lines: u64,
    /// Its last record.
    pub head: Head,
    /// Number of its first record; above 1 if retention removed older ones, 0 for an empty journal.
    pub from: u64,
    /// Bytes behind the last complete line: a write in progress, or an interrupted one.
    pub unfinished: u64,
}

impl Verified {
    /// Returns a known head before the first record. The log states that records before it were
    /// removed, but does not prove that the head was among them.
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

/// Kind of tampering with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tampering {
    /// Its bytes do not match its hash, or its hash does not match the `prev` of the next line.
    Changed,
    /// Lines before it are missing.
    Removed,
    /// It does not belong between its neighbours.
    Inserted,
    /// The line that it follows is elsewhere.
    Reordered,
    /// It differs from the known head of its number.
    Swapped,
    /// The log ends before a known head.
    CutOff,
    /// It is not a record.
    Unreadable,
}

/// The first fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The segment; `None` for a fault in the index.
    pub file: Option<PathBuf>,
    /// Number of the line in the segment, or in the journal, from 1.
    pub line: u64,
    /// Sequence number of the record, if it can be read; of the missing one for a cut end.
    pub seq: Option<u64>,
    /// The kind of tampering.
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

/// Why a verification failed.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The journal has a fault.
    #[error("{0}")]
    Fault(Fault),
    /// Another process has the index open, possibly since the verification began.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The folder of the index.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
