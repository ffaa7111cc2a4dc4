//! The writing end of the day files: how a batch gets to the end of the newest.
//!
//! Knows nothing of lines. A batch is on the disk as a whole when `append` returns
//! `Ok`, in the day file or ahead of it (`ahead`); after any error it counts for nothing. Where
//! the last one ends is noted (`watermark`).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::NaiveDate;

use crate::ahead::{self, AheadError, Front, Plan};
use crate::batch::LogPos;
use crate::days::{DayFile, day_files, plain_file};
use crate::hash::Hash;
use crate::pack::unpack;
use crate::watermark::{Promised, Watermark};
use crate::{CommitError, Disk, LogFile, Parts};

/// Name of the folder of day files in the state folder.
pub const FOLDER: &str = "a2a-log";

/// The writing end of the log.
pub(crate) struct Log {
    dir: PathBuf,
    /// Where the ahead files are.
    data: PathBuf,
    disk: Arc<dyn Disk>,
    current: Option<Current>,
    plan: Plan,
    front: Front,
    watermark: Watermark,
    /// Where the last line ends, and its hash.
    last: Option<(LogPos, Hash)>,
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
    /// Goes on writing at the end of the newest day's file, which recovery has left whole and on
    /// the disk. `last` is where its last good line ends, and that line's hash.
    pub fn open(
        dir: PathBuf,
        data: PathBuf,
        disk: Arc<dyn Disk>,
        plan: Plan,
        last: Option<(LogPos, Hash)>,
        parts: Parts,
    ) -> io::Result<Self> {
        let newest = day_files(&dir)?.pop();
        let watermark = Watermark::new(data.clone(), Arc::clone(&disk));
        let (current, front) = (None, Front::None(0));
        let poisoned = false;
        let mut log =
            Self { dir, data, disk, current, plan, front, watermark, last, poisoned, parts };
        if let Some(DayFile { day, is_packed, .. }) = newest {
            if is_packed {
                unpack(&log.dir, day, &*log.disk)?;
            }
            let file = log.disk.open(&plain_file(&log.dir, day))?;
            let len = file.size()?;
            log.current = Some(Current { day, file, len });
        }
        log.watermark.begin(log.promised())?;
        // Recovery has put everything that is in them into the day files.
        ahead::remove(&log.data, &*log.disk)?;
        Ok(log)
    }

    /// Where what was promised ends.
    fn promised(&self) -> Option<Promised> {
        let current = self.current.as_ref()?;
        let (line, hash) = self.last?;
        let end = LogPos { day: current.day, offset: current.len };
        Some(Promised { end, line, hash })
    }

    /// Notes where what was promised ends, after it was synced in the day file.
    fn note_end(&mut self) -> io::Result<()> {
        let is_ahead = matches!(self.front, Front::Ready(_));
        self.promised().map_or(Ok(()), |promised| self.watermark.note(promised, is_ahead))
    }

    /// Makes a batch durable in the file of `day`, or of the newest day if that is later:
    /// a clock that jumps back must not tear the chain's order. `hash` is that of its last line.
    pub fn append(
        &mut self,
        day: NaiveDate,
        bytes: &[u8],
        hash: Hash,
    ) -> Result<LogPos, CommitError> {
        if self.poisoned {
            return Err(CommitError::Poisoned);
        }
        match &self.current {
            Some(current) if day <= current.day => {}
            _ => self.turn_to(day)?,
        }
        // Before anything lies behind the end: it could not be told from what was promised.
        self.watermark
            .sync()
            .map_err(|error| CommitError::from_io("noting the end of the log", error))?;
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
        let synced = match self.sync(at, bytes) {
            Ok(synced) => synced,
            Err(error) => {
                // After a failed fsync it is unknown which pages reached the disk. Cutting them off
                // is best effort: the journal is closed to commits either way.
                self.poisoned = true;
                if let Some(current) = &mut self.current
                    && let Err(undo_error) = current.file.truncate(current.len)
                {
                    tracing::error!(%undo_error, "the log could not be cut back after a failed sync");
                }
                return Err(CommitError::from_io("syncing the log", error));
            }
        };
        let end = LogPos { offset: at.offset + bytes.len() as u64, ..at };
        if let Some(current) = &mut self.current {
            current.len = end.offset;
        }
        self.last = Some((end, hash));
        if synced == Synced::InDay
            && let Err(error) = self.note_end()
        {
            // The batch is durable. The next one must not be written behind a note that is wrong.
            self.poisoned = true;
            tracing::error!(%error, "the end of the log can neither be noted nor the note removed");
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
    fn sync(&mut self, at: LogPos, bytes: &[u8]) -> io::Result<Synced> {
        let Some(current) = &mut self.current else {
            return Err(io::Error::other("there is no day file"));
        };
        let ahead = self.front.ready(self.plan, &self.data, &self.disk, &self.parts);
        let Some(ahead) = ahead.filter(|ahead| ahead.takes(bytes.len())) else {
            return current.file.sync().map(|()| Synced::InDay);
        };
        self.watermark.hand_over()?;
        let day = || self.disk.open(&plain_file(&self.dir, at.day));
        let error = match ahead.write(at, bytes, day) {
            Ok(()) => return Ok(Synced::Ahead),
            // Another sync would succeed, as Linux reports what was lost only once.
            Err(AheadError::Day(error)) => return Err(error),
            Err(AheadError::Room(error)) => error,
        };
        tracing::warn!(%error, "nothing is written ahead any more; commits take longer");
        let synced = ahead.settle().and_then(|()| current.file.sync());
        if synced.is_err() {
            ahead.spoil();
        }
        self.front = Front::Off;
        synced.map(|()| Synced::InDay)
    }

    /// Ends it with everything in the day files and no ahead files beside them.
    pub fn finish(&mut self) -> io::Result<()> {
        let mut front = std::mem::replace(&mut self.front, Front::Off);
        if self.poisoned {
            return Ok(());
        }
        if matches!(front, Front::None(_)) {
            return self.watermark.sync();
        }
        if let Front::Ready(ahead) = &mut front {
            ahead.settle()?;
        }
        if let Some(current) = &mut self.current {
            current.file.sync()?;
        }
        self.note_end()?;
        self.watermark.sync()?;
        // Its thread may still be making them.
        drop(front);
        ahead::remove(&self.data, &*self.disk)
    }

    fn turn_to(&mut self, day: NaiveDate) -> Result<(), CommitError> {
        if let (Some(before), Front::Ready(ahead)) = (&mut self.current, &mut self.front) {
            if let Err(error) = ahead.settle().and_then(|()| before.file.sync()) {
                // Once packed it is read from its own file alone.
                self.poisoned = true;
                return Err(CommitError::from_io("syncing the log of the day before", error));
            }
            ahead.leave_day();
            if let Err(error) = self.note_end() {
                return Err(CommitError::from_io("noting the end of the log", error));
            }
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

/// What a batch's durability rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Synced {
    InDay,
    Ahead,
}
