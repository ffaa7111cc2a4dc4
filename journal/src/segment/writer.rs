//! Appends batches to the newest segment and makes each durable, in the WAL or by an fsync.
//!
//! A batch is durable as a whole when [`SegmentWriter::append`] returns `Ok`; after any error it
//! counts for nothing. The watermark records where the last durable batch ends.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::NaiveDate;

use crate::record::batch::LogPos;
use crate::record::chain::Hash;
use crate::segment::compress::decompress;
use crate::segment::wal::{self, WalConfig, WalError, WalState};
use crate::segment::watermark::{DurableEnd, Watermark};
use crate::segment::{Segment, list_segments, plain_path};
use crate::{CommitError, Disk, Liveness, LogFile};

/// Writer of the newest segment.
pub(crate) struct SegmentWriter {
    dir: PathBuf,
    /// The folder of the WAL and the watermark.
    data: PathBuf,
    disk: Arc<dyn Disk>,
    current: Option<OpenSegment>,
    wal_config: WalConfig,
    wal: WalState,
    watermark: Watermark,
    /// End of the last record, and its hash.
    last: Option<(LogPos, Hash)>,
    poisoned: bool,
    liveness: Liveness,
}

/// Bytes written to test whether the disk accepts a commit: more than the largest message.
const PROBE_BYTES: usize = 512 << 10;
/// File of that test. It is beside the segments, which may be on a file system of their own.
const PROBE: &str = "probe.new";

struct OpenSegment {
    day: NaiveDate,
    file: Box<dyn LogFile>,
    /// Committed bytes; the file is longer only during a write.
    len: u64,
}

impl SegmentWriter {
    /// Opens the newest segment for appending; recovery has left it complete and durable. `last` is
    /// the end of its last valid record, and the hash of that record.
    pub fn open(
        dir: PathBuf,
        data: PathBuf,
        disk: Arc<dyn Disk>,
        wal_config: WalConfig,
        last: Option<(LogPos, Hash)>,
        liveness: Liveness,
    ) -> io::Result<Self> {
        let newest = list_segments(&dir)?.pop();
        let watermark = Watermark::new(data.clone(), Arc::clone(&disk));
        let (current, wal) = (None, WalState::Idle(0));
        let poisoned = false;
        let mut log =
            Self { dir, data, disk, current, wal_config, wal, watermark, last, poisoned, liveness };
        if let Some(Segment { day, is_compressed, .. }) = newest {
            if is_compressed {
                decompress(&log.dir, day, &*log.disk)?;
            }
            let file = log.disk.open(&plain_path(&log.dir, day))?;
            let len = file.size()?;
            log.current = Some(OpenSegment { day, file, len });
        }
        log.watermark.begin(log.promised())?;
        // Recovery has replayed the WAL.
        wal::remove(&log.data, &*log.disk)?;
        Ok(log)
    }

    /// The end of the durable batches.
    fn promised(&self) -> Option<DurableEnd> {
        let current = self.current.as_ref()?;
        let (line, hash) = self.last?;
        let end = LogPos { day: current.day, offset: current.len };
        Some(DurableEnd { end, line, hash })
    }

    /// Moves the watermark to the end of the segment, which was synced.
    fn write_watermark(&mut self) -> io::Result<()> {
        let wal_in_use = matches!(self.wal, WalState::Ready(_));
        self.promised().map_or(Ok(()), |promised| self.watermark.write_end(promised, wal_in_use))
    }

    /// Makes a batch durable in the segment of `day`, or in the newest segment if that is later: a
    /// clock that jumps back must not break the order of the chain. `hash` is that of the last
    /// record.
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
            _ => self.roll_to(day)?,
        }
        // Before the write: bytes behind the old end could not be distinguished from durable ones.
        self.watermark
            .sync()
            .map_err(|error| CommitError::from_io("noting the end of the log", error))?;
        let Some(current) = &mut self.current else { return Err(CommitError::Poisoned) };
        let at = LogPos { day: current.day, offset: current.len };
        if let Err(error) = current.file.append(bytes) {
            // The truncation must be durable too, or a crash could restore refused records.
            let undone = current.file.truncate(current.len).and_then(|()| current.file.sync());
            if let Err(undo_error) = undone {
                self.poisoned = true;
                tracing::error!(%undo_error, "the log could not be cut back after a failed write");
            }
            return Err(CommitError::from_io("writing the log", error));
        }
        let synced_in = match self.sync(at, bytes) {
            Ok(synced) => synced,
            Err(error) => {
                // After a failed fsync it is unknown which pages reached the disk. Truncating is best
                // effort: the journal accepts no more commits either way.
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
        if synced_in == SyncedIn::Segment
            && let Err(error) = self.write_watermark()
        {
            // The batch is durable. The next one must not follow a wrong watermark.
            self.poisoned = true;
            tracing::error!(%error, "the end of the log can neither be noted nor the note removed");
        }
        Ok(at)
    }

    /// Tests whether the disk accepts a commit: writes and syncs a file of its own, and syncs the
    /// segment, which contains only committed records.
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

    /// Makes the batch durable that was just written to the segment, in the WAL or by an fsync.
    fn sync(&mut self, at: LogPos, bytes: &[u8]) -> io::Result<SyncedIn> {
        let Some(current) = &mut self.current else {
            return Err(io::Error::other("there is no day file"));
        };
        let wal = self.wal.ready(self.wal_config, &self.data, &self.disk, &self.liveness);
        let Some(wal) = wal.filter(|wal| wal.fits(bytes.len())) else {
            return current.file.sync().map(|()| SyncedIn::Segment);
        };
        self.watermark.hand_over_to_wal()?;
        let open_segment = || self.disk.open(&plain_path(&self.dir, at.day));
        let error = match wal.write(at, bytes, open_segment) {
            Ok(()) => return Ok(SyncedIn::Wal),
            // Another sync would succeed: Linux reports a failed writeback only once.
            Err(WalError::Segment(error)) => return Err(error),
            Err(WalError::File(error)) => error,
        };
        tracing::warn!(%error, "WAL disabled after a write error; commits take longer");
        let synced = wal.wait_for_sync().and_then(|()| current.file.sync());
        if synced.is_err() {
            wal.invalidate_last();
        }
        self.wal = WalState::Off;
        synced.map(|()| SyncedIn::Segment)
    }

    /// Closes the writer: syncs the segment and removes the WAL.
    pub fn finish(&mut self) -> io::Result<()> {
        let mut wal = std::mem::replace(&mut self.wal, WalState::Off);
        if self.poisoned {
            return Ok(());
        }
        if matches!(wal, WalState::Idle(_)) {
            return self.watermark.sync();
        }
        if let WalState::Ready(wal) = &mut wal {
            wal.wait_for_sync()?;
        }
        if let Some(current) = &mut self.current {
            current.file.sync()?;
        }
        self.write_watermark()?;
        self.watermark.sync()?;
        // Its thread may still be creating the files.
        drop(wal);
        wal::remove(&self.data, &*self.disk)
    }

    /// Opens the segment of another day, after the one before is durable without the WAL.
    fn roll_to(&mut self, day: NaiveDate) -> Result<(), CommitError> {
        if let (Some(before), WalState::Ready(wal)) = (&mut self.current, &mut self.wal) {
            if let Err(error) = wal.wait_for_sync().and_then(|()| before.file.sync()) {
                // Once compressed, the segment is read without the WAL.
                self.poisoned = true;
                return Err(CommitError::from_io("syncing the log of the day before", error));
            }
            wal.leave_segment();
            if let Err(error) = self.write_watermark() {
                return Err(CommitError::from_io("noting the end of the log", error));
            }
        }
        let file = self
            .disk
            .open(&plain_path(&self.dir, day))
            .map_err(|error| CommitError::from_io("opening the day's log file", error))?;
        let len = file
            .size()
            .map_err(|error| CommitError::from_io("opening the day's log file", error))?;
        if let Err(error) = self.disk.sync_dir(&self.dir) {
            self.poisoned = true;
            return Err(CommitError::from_io("syncing the log folder", error));
        }
        self.current = Some(OpenSegment { day, file, len });
        Ok(())
    }
}

/// Where a batch is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyncedIn {
    Segment,
    Wal,
}
