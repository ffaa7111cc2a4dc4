//! Write-ahead log (WAL): makes a batch durable before the fsync of its segment.
//!
//! # Why
//! Syncing a growing file is slow, because its size and the location of its new blocks must reach
//! the disk as well. A busy journal therefore writes each batch twice: to the segment, whose pages
//! may stay in the page cache for a while, and to a preallocated WAL file that is overwritten again
//! and again and costs one write and one flush to sync. A receipt is sent only after the sync of
//! the WAL file, or of the segment where the WAL is not used.
//!
//! # On-disk layout
//! ```text
//! data/a2a-wal-0.bin   ┐ two files of equal, fixed size, each a sequence of frames
//! data/a2a-wal-1.bin   ┘ from its beginning; while one is filled, the segment is synced in the
//!                        background up to the last frame of the other
//! frame: magic | length | generation | day | offset | checksum | bytes     (see `frame`)
//! ```
//! Earlier versions named the files `a2a-ahead-N.bin`. [`replay()`] renames them first. Where files
//! with both names exist, two runs wrote them: each pair is replayed on its own, oldest first.
//!
//! # Invariants
//! - Everything before the oldest frame of both files was synced in the segment. A file is
//!   overwritten only after the background sync that covers it succeeded. If that sync fails, the
//!   journal is poisoned: Linux reports a failed writeback once, drops the pages and keeps showing
//!   them, so that no later sync of the segment proves anything.
//! - The descriptor that is synced in the background is opened before the first batch that relies
//!   on it, because a sync reports only failures after its descriptor was opened.
//! - A batch larger than a WAL file is synced in the segment, and with it everything before it.
//!
//! # Reading and deleting
//! At a start, [`replay()`] compares the frames with the disk, not with the page cache
//! ([`crate::Disk::reread`]), and writes back what is missing. Only then are the files removed. A
//! file with a frame that could not be replayed is never removed but renamed ([`keep_aside`]).

mod frame;
mod kept;
mod replay;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use crate::record::batch::LogPos;
use crate::{Disk, FixedFile, Liveness, LivenessGuard, LogFile};

pub(crate) use kept::keep_aside;
pub use replay::lacking;
pub(crate) use replay::replay;

/// The WAL files, in the folder `data`.
const NAMES: [&str; 2] = ["a2a-wal-0.bin", "a2a-wal-1.bin"];
/// Their names in earlier versions.
const OLD_NAMES: [&str; 2] = ["a2a-ahead-0.bin", "a2a-ahead-1.bin"];

fn files(data: &Path) -> [PathBuf; 2] {
    NAMES.map(|name| data.join(name))
}

fn old_files(data: &Path) -> [PathBuf; 2] {
    OLD_NAMES.map(|name| data.join(name))
}

/// The existing files of both names.
fn existing(data: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in old_files(data).into_iter().chain(files(data)) {
        if fs::exists(&path)? {
            found.push(path);
        }
    }
    Ok(found)
}

/// Renames the files of an earlier version, unless there are files with the new names.
fn rename_old(data: &Path, disk: &dyn Disk) -> io::Result<()> {
    let found = existing(data)?;
    if found.is_empty() || files(data).iter().any(|path| found.contains(path)) {
        return Ok(());
    }
    for (old, new) in old_files(data).iter().zip(&files(data)) {
        if found.contains(old) {
            disk.rename(old, new)?;
        }
    }
    disk.sync_dir(data)
}

/// The contents of the files, as one list for each run that wrote them, oldest run first.
fn read_runs(data: &Path) -> io::Result<Vec<Vec<Vec<u8>>>> {
    let mut runs = Vec::new();
    for paths in [old_files(data), files(data)] {
        let mut run = Vec::new();
        for path in paths {
            match fs::read(path) {
                Ok(bytes) => run.push(bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        runs.push(run);
    }
    let first_frame = |run: &Vec<Vec<u8>>| {
        run.iter().flat_map(|file| frame::frames(file)).map(|frame| frame.at).min()
    };
    runs.sort_by_key(first_frame);
    Ok(runs)
}

/// Where the last frame of the files ends in the log.
pub(crate) fn end(data: &Path) -> io::Result<Option<LogPos>> {
    let runs = read_runs(data)?;
    Ok(runs.iter().flatten().flat_map(|file| frame::frames(file)).map(|frame| frame.end()).max())
}

/// Removes the files: every batch in them is durable in its segment.
pub(crate) fn remove(data: &Path, disk: &dyn Disk) -> io::Result<()> {
    existing(data)?.iter().try_for_each(|path| disk.remove(path))
}

/// When the WAL is created, and its size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalConfig {
    /// Commits before it is created: a journal with few writes does not need one.
    pub after: u64,
    /// Bytes of each file.
    pub bytes: u64,
}

/// Life cycle of the WAL: `Idle ─▶ Preparing ─▶ Ready`, and `Off` after any failure.
pub(crate) enum WalState {
    /// Not created yet; the number of commits so far.
    Idle(u64),
    /// Its thread creates the files.
    Preparing(PreparedFiles, SyncThread),
    /// Batches are written to it first.
    Ready(Wal),
    /// Unavailable. What remains of its files contains nothing that the segments lack.
    Off,
}

impl WalState {
    /// The WAL, if it is ready; creates it once enough commits were made.
    pub fn ready(
        &mut self,
        config: WalConfig,
        data: &Path,
        disk: &Arc<dyn Disk>,
        liveness: &Liveness,
    ) -> Option<&mut Wal> {
        match self {
            Self::Idle(commits) if *commits < config.after => *commits += 1,
            Self::Idle(_) => {
                let started = SyncThread::start(
                    files(data),
                    config.bytes,
                    Arc::clone(disk),
                    liveness.returning("write_ahead"),
                );
                *self = started
                    .map_or(Self::Off, |(prepared, thread)| Self::Preparing(prepared, thread));
            }
            Self::Preparing(prepared, _) => {
                let prepared = match prepared.try_recv() {
                    Err(TryRecvError::Empty) => return None,
                    Err(TryRecvError::Disconnected) => Err(io::Error::other("it panicked")),
                    Ok(prepared) => prepared,
                };
                let before = std::mem::replace(self, Self::Off);
                match (prepared, before) {
                    (Ok(files), Self::Preparing(_, thread)) => {
                        *self = Self::Ready(Wal::new(files, config.bytes, thread));
                    }
                    (Err(error), _) => {
                        tracing::warn!(%error, "no files could be made to write ahead in; commits take longer");
                    }
                    _ => {}
                }
            }
            Self::Ready(_) | Self::Off => {}
        }
        match self {
            Self::Ready(wal) => Some(wal),
            _ => None,
        }
    }
}

/// Thread that creates the WAL files and then syncs segments in the background.
pub(crate) struct SyncThread {
    segments: Option<Sender<Box<dyn LogFile>>>,
    /// Returns each segment with the result of its sync.
    synced: Receiver<(Box<dyn LogFile>, io::Result<()>)>,
    thread: Option<JoinHandle<()>>,
}

/// Receives the WAL files once they are created.
type PreparedFiles = Receiver<io::Result<[Box<dyn FixedFile>; 2]>>;

impl SyncThread {
    fn start(
        paths: [PathBuf; 2],
        bytes: u64,
        disk: Arc<dyn Disk>,
        alive: LivenessGuard,
    ) -> io::Result<(PreparedFiles, Self)> {
        let (send_files, prepared) = channel();
        let (segments, requests) = channel::<Box<dyn LogFile>>();
        let (done, synced) = channel();
        let run = move || {
            let _alive = alive;
            let files = paths.iter().map(|path| disk.open_fixed(path, bytes));
            let files = files.collect::<io::Result<Vec<_>>>().and_then(|files| {
                // So that the names survive a power cut.
                paths[0].parent().map_or(Ok(()), |data| disk.sync_dir(data))?;
                files.try_into().map_err(|_| io::Error::other("there are two"))
            });
            if send_files.send(files).is_err() {
                return;
            }
            for mut segment in requests {
                let result = segment.sync();
                if done.send((segment, result)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("a2a-wal".to_owned()).spawn(run)?;
        Ok((prepared, Self { segments: Some(segments), synced, thread: Some(thread) }))
    }

    fn sync(&self, segment: Box<dyn LogFile>) -> io::Result<()> {
        let is_sent = self.segments.as_ref().is_some_and(|segments| segments.send(segment).is_ok());
        if is_sent { Ok(()) } else { Err(gone()) }
    }

    /// The result of the background sync, or `None` while it runs.
    fn poll(&self) -> Option<io::Result<Box<dyn LogFile>>> {
        match self.synced.try_recv() {
            Ok((segment, result)) => Some(result.map(|()| segment)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(gone())),
        }
    }

    fn wait(&self) -> io::Result<Box<dyn LogFile>> {
        let (segment, result) = self.synced.recv().map_err(|_| gone())?;
        result.map(|()| segment)
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that syncs the day file is gone")
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.segments = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that syncs the day file panicked");
        }
    }
}

/// Why a batch is not durable in the WAL.
#[derive(Debug)]
pub(crate) enum WalError {
    /// A WAL file failed. The segment can still be synced.
    File(io::Error),
    /// The segment could not be synced as far as the WAL covers it: its content is in doubt.
    Segment(io::Error),
}

/// The two WAL files, one of which is being filled.
pub(crate) struct Wal {
    files: [Box<dyn FixedFile>; 2],
    /// Bytes of each file.
    size: u64,
    current: usize,
    /// Where the next frame goes in the current file.
    at: u64,
    /// Counts the switches between the files. Distinguishes the frames of the current filling from
    /// older ones behind them.
    generation: u64,
    thread: SyncThread,
    /// A second descriptor of the segment, for background syncs. `None` while the thread uses it
    /// (`is_syncing`), and before the first batch of a segment.
    segment: Option<Box<dyn LogFile>>,
    /// The segment is being synced up to the last frame of the other file.
    is_syncing: bool,
    frame: Vec<u8>,
}

impl Wal {
    fn new(files: [Box<dyn FixedFile>; 2], size: u64, thread: SyncThread) -> Self {
        let (frame, segment) = (Vec::new(), None);
        let (current, at, generation) = (0, 0, 1);
        Self { files, size, current, at, generation, thread, segment, is_syncing: false, frame }
    }

    /// Whether a batch of this size fits into a file at all.
    pub fn fits(&self, bytes: usize) -> bool {
        frame::HEADER as u64 + bytes as u64 <= self.size
    }

    /// Makes a batch durable that was written to its segment at `at`. `open_segment` opens another
    /// descriptor of that segment. After an error the file may contain the batch or not.
    pub fn write(
        &mut self,
        at: LogPos,
        bytes: &[u8],
        open_segment: impl FnOnce() -> io::Result<Box<dyn LogFile>>,
    ) -> Result<(), WalError> {
        if self.is_syncing
            && let Some(ended) = self.thread.poll()
        {
            self.is_syncing = false;
            self.segment = Some(ended.map_err(WalError::Segment)?);
        }
        if self.segment.is_none() && !self.is_syncing {
            self.segment = Some(open_segment().map_err(WalError::File)?);
        }
        if self.at + (frame::HEADER + bytes.len()) as u64 > self.size {
            self.switch_file()?;
        }
        frame::encode(&mut self.frame, self.generation, at, bytes);
        let file = &mut self.files[self.current];
        file.write_at(&self.frame, self.at).map_err(WalError::File)?;
        file.sync().map_err(WalError::File)?;
        self.at += self.frame.len() as u64;
        Ok(())
    }

    /// Continues in the other file, whose batches must be durable in the segment first.
    fn switch_file(&mut self) -> Result<(), WalError> {
        self.wait_for_sync().map_err(WalError::Segment)?;
        let Some(segment) = self.segment.take() else { return Err(WalError::Segment(gone())) };
        self.thread.sync(segment).map_err(WalError::Segment)?;
        self.is_syncing = true;
        self.current ^= 1;
        self.at = 0;
        self.generation += 1;
        Ok(())
    }

    /// Waits for the background sync, if one is running.
    ///
    /// # Errors
    /// The error of that sync: the segment is in doubt, and no other sync of it proves otherwise.
    pub fn wait_for_sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_syncing) {
            self.segment = Some(self.thread.wait()?);
        }
        Ok(())
    }

    /// Closes the descriptor: the next batch belongs to another segment.
    pub fn leave_segment(&mut self) {
        self.segment = None;
    }

    /// Overwrites the header of the last, refused batch, so that a replay does not find it.
    pub fn invalidate_last(&mut self) {
        let file = &mut self.files[self.current];
        let invalidated = file.write_at(&[0; frame::HEADER], self.at).and_then(|()| file.sync());
        if let Err(error) = invalidated {
            tracing::error!(%error, "a refused batch may be found again after a restart");
        }
    }
}
