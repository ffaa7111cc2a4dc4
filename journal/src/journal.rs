//! The journal on disk: commits batches, folds the delivery state, and passes records to the indexer.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::formats::{self, FormatError, NewerFormat, Part, check_listed_formats};
use crate::index::indexer;
use crate::index::tail::{HELD_BYTES, SharedJournal, Stop};
use crate::query::disk_reader::DiskReader;
use crate::record::batch::{Batch, LogPos};
use crate::record::chain::Head;
use crate::record::encode::{Encoder, OutOfOrder, day_of};
use crate::recovery::checkpoint;
use crate::recovery::delivery_state::DeliveryState;
use crate::recovery::{Opened, recover};
use crate::retention::rebuild::rebuild_log;
use crate::retention::worker::RetentionWorker;
use crate::segment::wal::WalConfig;
use crate::segment::writer::SegmentWriter;
use crate::segment::{FOLDER, list_segments};
use crate::verify::head_file::HeadFile;
use crate::{Disk, JournalReader, Liveness, ReadError, RealDisk, Record, Recovered, Retention};

/// The interface of a journal to the bus.
pub trait Commit: Send {
    /// Makes a batch durable, completely or not at all.
    ///
    /// A record with [`a2a_protocol::Event::Removed`] and no other content is an offer: the journal
    /// may use its number to record a removal by retention. The bus, which assigns the numbers, adds
    /// an offer once a day. Without a removal the offer is dropped and its number stays unused. If
    /// one record is not enough, unused numbers before it are used too. If these are too few, the
    /// rest is recorded at the next offer, and nothing is removed until then.
    ///
    /// # Errors
    /// When the batch is not durable; see [`CommitError`] for what to do.
    fn commit(&mut self, batch: &[Record]) -> Result<(), CommitError>;

    /// Tests whether the disk accepts a commit, without one: after a refusal the bus has nothing to
    /// write until it accepts messages again. A journal in memory always succeeds.
    ///
    /// # Errors
    /// As [`Commit::commit`].
    fn probe(&mut self) -> Result<(), CommitError> {
        Ok(())
    }

    /// The liveness registry with the threads of this journal. Other parts of the program join it.
    fn liveness(&self) -> Liveness;

    /// Closes the journal with a checkpoint, so that the next start is quick. Later commits fail.
    ///
    /// # Errors
    /// When the index could not be finished. Committed batches are durable nevertheless.
    fn close(&mut self) -> Result<(), CommitError>;

    /// Returns a reader of the committed records.
    fn reader(&self) -> Arc<dyn JournalReader>;
}

/// Why a batch is not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The disk is full. A later commit may succeed.
    #[error("the disk is full")]
    DiskFull,
    /// Another error of the disk. A later commit may succeed.
    #[error("{doing} failed")]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// After a failed fsync the content of the disk is unknown; the journal must be reopened.
    #[error("journal poisoned by a failed fsync; restart the server to recover")]
    Poisoned,
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
    /// The number of a record is not above the one before.
    #[error("line {seq} cannot follow line {last}")]
    OutOfOrder {
        /// The number of the record.
        seq: u64,
        /// The number before.
        last: u64,
    },
}

impl CommitError {
    pub(crate) fn from_io(doing: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Io { doing, source },
        }
    }
}

impl From<OutOfOrder> for CommitError {
    fn from(OutOfOrder { seq, last }: OutOfOrder) -> Self {
        Self::OutOfOrder { seq, last }
    }
}

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "{path} is in use by another process; stop the other server, or give this one a state folder of its own with --state-dir"
    )]
    Locked {
        /// The folder that is locked.
        path: PathBuf,
    },
    /// A later version of the program wrote it.
    #[error(transparent)]
    Newer(#[from] NewerFormat),
    /// A restore into the folder was interrupted, or the file with its formats cannot be read.
    #[error(transparent)]
    Format(FormatError),
    /// Records that only the index had are missing.
    #[error(
        "what came before line {before} is missing: the files of these days were removed because the index had them (keep_jsonl = false), and {path} cannot be read or does not hold them; put back a copy of that folder or of the day files, or move a2a-log and that folder away to begin anew without the agents, tasks and messages they knew"
    )]
    Incomplete {
        /// The folder of the index.
        path: PathBuf,
        /// Number of the first existing record.
        before: u64,
    },
    /// A segment cannot be made durable, or cannot be reread from the disk.
    #[error(
        "{path} cannot be synced, or the disk does not keep what is written to it; no file was removed: mend the disk or make room on it (the size of that file and 64 MiB), then start again"
    )]
    Unsettled {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The limit of kept WAL files with batches that are not in the log is reached.
    #[error(
        "the WAL files in {folder} hold batches that are not in the log, and eight of each are kept there already (a2a-wal-*.kept-*); move these elsewhere, then start again"
    )]
    TooManyKept {
        /// The folder.
        folder: PathBuf,
    },
    /// The disk failed.
    #[error("the journal cannot be opened")]
    Io(#[from] io::Error),
    /// Stored data cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<FormatError> for OpenError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Newer(newer) => Self::Newer(newer),
            other => Self::Format(other),
        }
    }
}

/// Location and settings of a journal.
#[derive(Clone)]
pub struct Options {
    /// The state folder: holds `a2a-log/` and `data/a2a-journal/`.
    pub state_dir: PathBuf,
    /// Records between two checkpoints, at least.
    pub checkpoint_lines: u64,
    /// Bytes of records kept in memory for the indexer and readers. Beyond it they are read from the
    /// log.
    pub tail_bytes: usize,
    /// Whether blocks get summaries of their messages. `false` only in benchmarks: without them every
    /// query scans everything.
    pub indexes: bool,
    /// Which records are kept, and for how long.
    pub retention: Retention,
    /// The current time, to apply the retention at open. `None` applies it only at an offer.
    pub now: Option<DateTime<Utc>>,
    /// Approximate limit of the bytes of a removal record. What a removal preserves is split into
    /// several records above it. It must be far below the longest readable line.
    pub removal_line_bytes: usize,
    /// Commits before the WAL is created. It makes each commit faster and takes disk space, which a
    /// journal with few writes does not need.
    pub wal_after: u64,
    /// Bytes of each of the two WAL files.
    pub wal_bytes: u64,
    /// The pause before a failed index is reopened. It doubles with each attempt, up to a minute.
    pub index_pause: Duration,
    /// The disk of the log.
    pub disk: Arc<dyn Disk>,
}

impl Options {
    /// The defaults, for this state folder.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            checkpoint_lines: 100_000,
            tail_bytes: HELD_BYTES,
            indexes: true,
            retention: Retention::default(),
            now: None,
            removal_line_bytes: 16 << 20,
            wal_after: 100,
            wal_bytes: 8 << 20,
            index_pause: Duration::from_secs(1),
            disk: Arc::new(RealDisk),
        }
    }
}

/// The durable journal. Dropped without [`Commit::close`] it loses nothing, but the next start has
/// more to read.
pub struct Journal {
    writer: SegmentWriter,
    encoder: Encoder,
    pub(crate) head: Head,
    /// End of the last committed record. It may differ from the end of the newest segment, which is
    /// empty after a failed first write of a day.
    end: Option<LogPos>,
    pub(crate) state: DeliveryState,
    checkpoint_lines: u64,
    lines_since_checkpoint: u64,
    head_file: HeadFile,
    pub(crate) retention: Retention,
    pub(crate) removal_line_bytes: usize,
    pub(crate) worker: Option<(Arc<RetentionWorker>, JoinHandle<()>)>,
    /// The time of the last record.
    time: DateTime<Utc>,
    pub(crate) shared: Arc<SharedJournal>,
    pub(crate) indexer: Option<JoinHandle<io::Result<()>>>,
    liveness: Liveness,
}

impl Journal {
    /// Opens or creates the journal and recovers its state.
    ///
    /// # Errors
    /// When another process has it open, or the disk fails.
    pub fn open(options: &Options) -> Result<(Self, Recovered), OpenError> {
        check_listed_formats(&options.state_dir)?;
        let dir = options.state_dir.join(FOLDER);
        let data = options.state_dir.join("data");
        for folder in [&dir, &data] {
            options.disk.create_dir_all(folder)?;
        }
        options.disk.sync_dir(&options.state_dir)?;
        formats::register(&options.state_dir, &[Part::Log, Part::Index])?;
        let index = data.join("a2a-journal");
        if index.is_dir() && list_segments(&dir)?.is_empty() {
            // The segments are missing, but the index has their records: an empty log would lose all
            // open deliveries.
            let written = rebuild_log(&options.state_dir)?;
            if !written.is_empty() {
                tracing::error!(
                    files = written.len(),
                    "the log was missing and is built from the index"
                );
            }
        }
        let opened = recover(&dir, &index, &*options.disk)?;
        let Opened { index, head, end, stored, state, mut recovered } = opened;
        if let Some(mark) = &state.marks.records {
            // Ids are deduplicated as long as their records are kept.
            recovered.seen.retain(|seen| seen.seq > mark.seq);
        }
        let wal_config = WalConfig { after: options.wal_after, bytes: options.wal_bytes };
        let last = end.map(|end| (end, head.hash));
        let liveness = Liveness::default();
        let disk = Arc::clone(&options.disk);
        let writer =
            SegmentWriter::open(dir.clone(), data, disk, wal_config, last, liveness.clone())?;
        let head_file = HeadFile::open(&options.state_dir)?;
        let (state_dir, disk) = (&options.state_dir, Arc::clone(&options.disk));
        let shared = SharedJournal::new(state_dir.clone(), dir, head, index, options.tail_bytes);
        shared.tail().stored = stored;
        let shared = Arc::new(shared);
        let worker = Arc::new(RetentionWorker::new(Arc::clone(&shared), disk, options.retention));
        let indexer = indexer::start(
            liveness.returning("indexer"),
            Arc::clone(&shared),
            Arc::clone(&worker),
            options.indexes,
            options.index_pause,
        )?;
        let mut journal = Self {
            writer,
            encoder: Encoder::default(),
            head,
            end,
            state,
            checkpoint_lines: options.checkpoint_lines,
            lines_since_checkpoint: 0,
            head_file,
            retention: options.retention,
            removal_line_bytes: options.removal_line_bytes,
            worker: Some((Arc::clone(&worker), worker.start(liveness.returning("retention"))?)),
            time: DateTime::UNIX_EPOCH,
            shared,
            indexer: Some(indexer),
            liveness,
        };
        journal.after_opening(options.now, &mut recovered);
        Ok((journal, recovered))
    }

    /// A checkpoint costs as much as the state is large, so that it waits for as many records.
    fn checkpoint_is_due(&self) -> bool {
        self.lines_since_checkpoint >= self.checkpoint_lines.max(self.state.len() as u64)
    }

    pub(crate) fn take_checkpoint(&mut self) -> Option<checkpoint::PendingCheckpoint> {
        let at = self.end?;
        self.lines_since_checkpoint = 0;
        Some(checkpoint::prepare(self.head, at, &self.state))
    }

    /// Stops both threads and closes sled.
    fn stop(&mut self, how: Stop) -> Option<io::Result<()>> {
        if let Some((worker, thread)) = self.worker.take() {
            worker.stop();
            if thread.join().is_err() {
                tracing::error!("the retention worker panicked");
            }
        }
        let indexer = self.indexer.take()?;
        self.shared.tail().stop = Some(how);
        self.shared.wake.notify_one();
        let ended = indexer.join();
        self.shared.close_index();
        Some(ended.unwrap_or_else(|_| Err(io::Error::other("the indexer panicked"))))
    }

    /// Makes a batch durable, applies it to the state and appends it to the tail.
    pub(crate) fn write(&mut self, batch: &[Record]) -> Result<(), CommitError> {
        // The day of the last record: a batch is never split.
        let Some(last) = batch.last() else { return Ok(()) };
        let head = self.encoder.encode(self.head, batch)?;
        let at = self.writer.append(day_of(last.time()), &self.encoder.bytes, head.hash)?;
        self.head = head;
        let offset = at.offset + self.encoder.bytes.len() as u64;
        let before = self.end.replace(LogPos { offset, ..at });
        self.time = last.time();
        self.head_file.append(head, self.time, false);
        for line in batch {
            self.state.apply(line);
        }
        self.lines_since_checkpoint += batch.len() as u64;
        // A closed segment can be compressed once it is in the index and before a checkpoint.
        let day_closed = before.is_some_and(|before| before.day < at.day);
        let is_due = day_closed || self.checkpoint_is_due();
        let checkpoint = if is_due { self.take_checkpoint() } else { None };
        let batch =
            Batch { at, entries: self.encoder.entries.clone(), seen: self.encoder.seen.clone() };
        let terms = self.encoder.terms.clone();
        self.shared.push(batch, &self.encoder.bytes, terms, head, checkpoint);
        Ok(())
    }
}

impl Commit for Journal {
    fn commit(&mut self, batch: &[Record]) -> Result<(), CommitError> {
        if self.indexer.is_none() {
            return Err(CommitError::Closed);
        }
        if batch.iter().any(Record::is_removal_slot) {
            return self.commit_with_removal_slots(batch);
        }
        self.write(batch)
    }

    fn probe(&mut self) -> Result<(), CommitError> {
        if self.indexer.is_none() {
            return Err(CommitError::Closed);
        }
        self.writer.probe()
    }

    fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    fn close(&mut self) -> Result<(), CommitError> {
        if self.indexer.is_none() {
            return Ok(());
        }
        if self.time > DateTime::UNIX_EPOCH {
            self.head_file.append(self.head, self.time, true);
        }
        if let Err(error) = self.writer.finish() {
            // The next start replays the WAL.
            tracing::error!(%error, "the log could not be synced at the end");
        }
        let fail = |source| CommitError::Io { doing: "finishing the index", source };
        let checkpoint = self.take_checkpoint();
        self.shared.tail().checkpoint = checkpoint;
        self.stop(Stop::Finish).unwrap_or(Ok(())).map_err(fail)
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::new(DiskReader { shared: Arc::clone(&self.shared) })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.stop(Stop::Abandon) {
            tracing::error!(%error, "the indexer failed");
        }
    }
}
