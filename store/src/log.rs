//! The writing end of the day files: how a batch gets to the end of the newest.
//!
//! Knows nothing of lines. A batch is on the disk as a whole when `append` returns
//! `Ok`, in the day file or ahead of it (`ahead`); after any error it counts for nothing.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::NaiveDate;

use crate::ahead::{self, Front, Plan};
use crate::batch::LogPos;
use crate::days::{DayFile, day_files, plain_file};
use crate::pack::unpack;
use crate::{CommitError, Disk, LogFile, Parts};

/// Name of the folder of day files in the state folder.
pub(crate) const FOLDER: &str = "a2a-log";

/// The writing end of the log.
pub(crate) struct Log {
    dir: PathBuf,
    /// Where the ahead files are.
    data: PathBuf,
    disk: Arc<dyn Disk>,
    current: Option<Current>,
    plan: Plan,
    front: Front,
    poisoned: bool,
    parts: Parts,
}

/// What is written to learn whether the disk takes a commit: more than the largest message.
const PROBE_BYTES: usize = 512 << 10;
/// Beside the day files, as they may be on a file system of their own.
const PROBE: &str = "probe.new";

struct Current {
    day: NaiveDate,
    file: Box<dyn LogFile>,
    /// Bytes that are committed; the file is never longer while nothing is being written.
    len: u64,
}

impl Log {
    /// Goes on writing at the end of the newest day's file, which recovery has left whole.
    pub fn open(
        dir: PathBuf,
        data: PathBuf,
        disk: Arc<dyn Disk>,
        plan: Plan,
        parts: Parts,
    ) -> io::Result<Self> {
        let newest = day_files(&dir)?.pop();
        // Recovery has put everything that is in them into the day files.
        ahead::remove(&data, &*disk)?;
        let (current, front) = (None, Front::None(0));
        let mut log = Self { dir, data, disk, current, plan, front, poisoned: false, parts };
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
        if let Err(error) = self.sync(at, bytes) {
            // After a failed fsync nobody knows which pages reached the disk. Cutting them off
            // is best effort: the journal is closed to commits either way.
            self.poisoned = true;
            if let Some(current) = &mut self.current
                && let Err(undo_error) = current.file.truncate(current.len)
            {
                tracing::error!(%undo_error, "the log could not be cut back after a failed sync");
            }
            return Err(CommitError::from_io("syncing the log", error));
        }
        if let Some(current) = &mut self.current {
            current.len += bytes.len() as u64;
        }
        Ok(at)
    }

    /// Whether the disk takes a commit now: writes and syncs a file of its own, and syncs the day
    /// file, which holds nothing that is not committed.
    pub fn probe(&mut self) -> Result<(), CommitError> {
        if self.poisoned {
            return Err(CommitError::Poisoned);
        }
        let path = self.dir.join(PROBE);
        let written = self.disk.open(&path).and_then(|mut file| {
            file.truncate(0)?;
            let written = file.append(&vec![b'x'; PROBE_BYTES]).and_then(|()| file.sync());
            drop(file);
            self.disk.remove(&path)?;
            written
        });
        written.map_err(|error| CommitError::from_io("trying the disk", error))?;
        if let Some(current) = &mut self.current
            && let Err(error) = current.file.sync()
        {
            self.poisoned = true;
            return Err(CommitError::from_io("syncing the log", error));
        }
        Ok(())
    }

    /// Makes durable what was just written to the day file: ahead of it, or there.
    fn sync(&mut self, at: LogPos, bytes: &[u8]) -> io::Result<()> {
        let Some(current) = &mut self.current else {
            return Err(io::Error::other("there is no day file"));
        };
        let ahead = self.front.ready(self.plan, &self.data, &self.disk, &self.parts);
        let Some(ahead) = ahead.filter(|ahead| ahead.takes(bytes.len())) else {
            return current.file.sync();
        };
        let day = || self.disk.open(&plain_file(&self.dir, at.day));
        let Err(error) = ahead.write(at, bytes, day) else { return Ok(()) };
        tracing::warn!(%error, "nothing is written ahead any more; commits take longer");
        let synced = current.file.sync();
        if synced.is_err() {
            ahead.spoil();
        }
        self.front = Front::Off;
        synced
    }

    /// Ends it with everything in the day files and no ahead files beside them.
    pub fn finish(&mut self) -> io::Result<()> {
        let front = std::mem::replace(&mut self.front, Front::Off);
        if matches!(front, Front::None(_)) || self.poisoned {
            return Ok(());
        }
        if let Some(current) = &mut self.current {
            current.file.sync()?;
        }
        // Its thread may still be making them.
        drop(front);
        ahead::remove(&self.data, &*self.disk)
    }

    fn turn_to(&mut self, day: NaiveDate) -> Result<(), CommitError> {
        if let (Some(before), Front::Ready(_)) = (&mut self.current, &self.front)
            && let Err(error) = before.file.sync()
        {
            // Once packed it is read from its own file alone.
            self.poisoned = true;
            return Err(CommitError::from_io("syncing the log of the day before", error));
        }
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
