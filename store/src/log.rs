//! The writing end of the day files: how a batch gets to the end of the newest.
//!
//! Knows nothing of lines. A batch is on the disk as a whole when `append` returns
//! `Ok`; after any error it counts for nothing.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::NaiveDate;

use crate::batch::LogPos;
use crate::days::{DayFile, day_files, plain_file};
use crate::pack::unpack;
use crate::{CommitError, Disk, LogFile};

/// Name of the folder of day files in the state folder.
pub(crate) const FOLDER: &str = "a2a-log";

/// The writing end of the log.
pub(crate) struct Log {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    current: Option<Current>,
    poisoned: bool,
}

struct Current {
    day: NaiveDate,
    file: Box<dyn LogFile>,
    /// Bytes that are committed; the file is never longer while nothing is being written.
    len: u64,
}

impl Log {
    /// Goes on writing at the end of the newest day's file, which recovery has left whole.
    pub fn open(dir: PathBuf, disk: Arc<dyn Disk>) -> io::Result<Self> {
        let newest = day_files(&dir)?.pop();
        let mut log = Self { dir, disk, current: None, poisoned: false };
        if let Some(DayFile { day, is_packed, .. }) = newest {
            if is_packed {
                unpack(&log.dir, day, &*log.disk)?;
            }
            let file = log.disk.open(&plain_file(&log.dir, day))?;
            let len = file.size()?;
            log.current = Some(Current { day, file, len });
        }
        Ok(log)
    }

    /// Makes a batch durable in the file of `day`, or of the newest day if that is later:
    /// a clock that jumps back must not tear the chain's order.
    pub fn append(&mut self, day: NaiveDate, bytes: &[u8]) -> Result<LogPos, CommitError> {
        if self.poisoned {
            return Err(CommitError::Poisoned);
        }
        match &self.current {
            Some(current) if day <= current.day => {}
            _ => self.turn_to(day)?,
        }
        let Some(current) = &mut self.current else { return Err(CommitError::Poisoned) };
        let at = LogPos { day: current.day, offset: current.len };
        if let Err(error) = current.file.append(bytes) {
            // The cut must be durable too: a crash could otherwise bring refused lines back.
            let undone = current.file.truncate(current.len).and_then(|()| current.file.sync());
            if let Err(undo_error) = undone {
                self.poisoned = true;
                tracing::error!(%undo_error, "the log could not be cut back after a failed write");
            }
            return Err(CommitError::from_io("writing the log", error));
        }
        if let Err(error) = current.file.sync() {
            // After a failed fsync nobody knows which pages reached the disk. Cutting them off
            // is best effort: the journal is closed to commits either way.
            self.poisoned = true;
            if let Err(undo_error) = current.file.truncate(current.len) {
                tracing::error!(%undo_error, "the log could not be cut back after a failed sync");
            }
            return Err(CommitError::from_io("syncing the log", error));
        }
        current.len += bytes.len() as u64;
        Ok(at)
    }

    fn turn_to(&mut self, day: NaiveDate) -> Result<(), CommitError> {
        let file = self
            .disk
            .open(&plain_file(&self.dir, day))
            .map_err(|error| CommitError::from_io("opening the day's log file", error))?;
        let len = file
            .size()
            .map_err(|error| CommitError::from_io("opening the day's log file", error))?;
        if let Err(error) = self.disk.sync_dir(&self.dir) {
            self.poisoned = true;
            return Err(CommitError::from_io("syncing the log folder", error));
        }
        self.current = Some(Current { day, file, len });
        Ok(())
    }
}
