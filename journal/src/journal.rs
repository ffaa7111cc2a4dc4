//! The journal on disk: commit a batch, keep the state, hand the rest to the indexer.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::formats::{self, FormatError, NewerFormat, Part, check_noted};
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
use crate::{Disk, JournalReader, Parts, ReadError, RealDisk, Record, Recovered, Retention};

/// What the bus needs of a journal.
pub trait Commit: Send {
    /// Makes a batch durable, as a whole or not at all.
    ///
    /// A line with [`a2a_protocol::Event::Removed`] and nothing else to say is an offer: here
    /// the journal may say what it removes because it is too old or too much. Whoever numbers
    /// the lines makes one when a day has passed. If there is nothing to remove, the line is
    /// left out and its number stays unused. If one line is not enough, numbers that were left
    /// out before it are used too; if these are too few, the rest is said at the next offer, and
    /// nothing is removed until then.
    ///
    /// # Errors
    /// When it is not durable; see [`CommitError`] for what to do.
    fn commit(&mut self, batch: &[Record]) -> Result<(), CommitError>;

    /// Whether the disk takes a commit now, tried without one: a journal that refused has nothing to
    /// write until it is asked for something. A journal that is not on a disk always does.
    ///
    /// # Errors
    /// As [`Commit::commit`].
    fn probe(&mut self) -> Result<(), CommitError> {
        Ok(())
    }

    /// The registry in which this journal's threads are, for other parts to join: the same one each
    /// time.
    fn parts(&self) -> Parts;

    /// Ends the journal so that the next start is quick. Later commits fail.
    ///
    /// # Errors
    /// When the index could not be finished. What was committed is durable all the same.
    fn close(&mut self) -> Result<(), CommitError>;

    /// A handle to read what was committed.
    fn reader(&self) -> Arc<dyn JournalReader>;
}

/// Why a batch counts for nothing.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// There is no room. The next commit may find some.
    #[error("the disk is full")]
    DiskFull,
    /// The disk refused otherwise. The next commit may succeed.
    #[error("{doing} failed")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// An earlier failure left the file in doubt; open the journal anew.
    #[error("the journal no longer knows what is on the disk; it must be opened anew")]
    Poisoned,
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
    /// A line's number is not above the one before it.
    #[error("line {seq} cannot follow line {last}")]
    OutOfOrder {
        /// The line's number.
        seq: u64,
        /// The number before it.
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
    /// A restore was cut off there, or nobody can tell who wrote it.
    #[error(transparent)]
    Format(FormatError),
    /// Lines that only the index had are not there.
    #[error(
        "what came before line {before} is missing: the files of these days were removed because the index had them (keep_jsonl = false), and {path} cannot be read or does not hold them; put back a copy of that folder or of the day files, or move a2a-log and that folder away to begin anew without the agents, tasks and messages they knew"
    )]
    Incomplete {
        /// The folder of the index.
        path: PathBuf,
        /// Number of the first line there is.
        before: u64,
    },
    /// A day file cannot be made durable, or cannot be read back from the disk.
    #[error(
        "{path} cannot be synced, or the disk does not keep what is written to it; no file was removed: mend the disk or make room on it (the size of that file and 64 MiB), then start again"
    )]
    Unsettled {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// As many files with batches that are not in the log are kept as may be.
    #[error(
        "the ahead files in {folder} hold batches that are not in the log, and eight of each are kept there already (a2a-ahead-*.kept-*); move these elsewhere, then start again"
    )]
    TooManyKept {
        /// The folder.
        folder: PathBuf,
    },
    /// The disk refused.
    #[error("the journal cannot be opened")]
    Io(#[from] io::Error),
    /// What is stored cannot be read.
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

/// Where a journal lives and how it behaves.
#[derive(Clone)]
pub struct Options {
    /// The state folder: holds `a2a-log/` and `data/a2a-journal/`.
    pub state_dir: PathBuf,
    /// Lines between two checkpoints.
    pub checkpoint_lines: u64,
    /// Bytes of lines kept in memory for the indexer and readers before they are read
    /// from the log instead.
    pub tail_bytes: usize,
    /// Whether records are indexed by agent, conversation and so on. Always, but to measure
    /// what it costs: without it every question is answered by reading everything.
    pub indexes: bool,
    /// What is kept, and for how long.
    pub retention: Retention,
    /// The time. With it, what is too old is removed at opening; without it, only when a line
    /// offers to say so.
    pub now: Option<DateTime<Utc>>,
    /// About how long a line about a removal may be; what must not be forgotten is said in
    /// several where it is more. Far below the longest line that is read back.
    pub removal_line_bytes: usize,
    /// Commits after which batches are written ahead of the day file, which makes each quicker
    /// and takes room on the disk: a journal that is written little needs none.
    pub wal_after: u64,
    /// Bytes of each of the two files that are for that.
    pub wal_bytes: u64,
    /// How long an index that failed is left alone before it is opened again. Each pause is twice
    /// as long as the one before, up to a minute.
    pub index_pause: Duration,
    /// What the log is written with.
    pub disk: Arc<dyn Disk>,
}

impl Options {
    /// The defaults, in this state folder.
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

/// The durable journal. Dropped without [`Commit::close`] it loses nothing, but the next
/// start has more to read.
pub struct Journal {
    log: SegmentWriter,
    encoder: Encoder,
    pub(crate) head: Head,
    /// Where the last committed line ends. Not the end of the newest file: that one may be
    /// empty, after a day whose first write failed.
    end: Option<LogPos>,
    pub(crate) state: DeliveryState,
    checkpoint_lines: u64,
    lines_since_checkpoint: u64,
    heads: HeadFile,
    pub(crate) retention: Retention,
    pub(crate) removal_line_bytes: usize,
    pub(crate) worker: Option<(Arc<RetentionWorker>, JoinHandle<()>)>,
    /// The time of the last line.
    time: DateTime<Utc>,
    pub(crate) shared: Arc<SharedJournal>,
    pub(crate) indexer: Option<JoinHandle<io::Result<()>>>,
    parts: Parts,
}

impl Journal {
    /// Opens or creates the journal and recovers what it remembers.
    ///
    /// # Errors
    /// When another process has it open, or the disk refuses.
    pub fn open(options: &Options) -> Result<(Self, Recovered), OpenError> {
        check_noted(&options.state_dir)?;
        let dir = options.state_dir.join(FOLDER);
        let data = options.state_dir.join("data");
        for folder in [&dir, &data] {
            options.disk.create_dir_all(folder)?;
        }
        options.disk.sync_dir(&options.state_dir)?;
        formats::note(&options.state_dir, &[Part::Log, Part::Index])?;
        let index = data.join("a2a-journal");
        if index.is_dir() && list_segments(&dir)?.is_empty() {
            // The files are gone, but sled holds their lines: a bus that began anew would forget
            // everything it owes.
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
            // An id is known as long as its record is kept.
            recovered.seen.retain(|seen| seen.seq > mark.seq);
        }
        let plan = WalConfig { after: options.wal_after, bytes: options.wal_bytes };
        let last = end.map(|end| (end, head.hash));
        let parts = Parts::default();
        let disk = Arc::clone(&options.disk);
        let log = SegmentWriter::open(dir.clone(), data, disk, plan, last, parts.clone())?;
        let heads = HeadFile::open(&options.state_dir)?;
        let (state_dir, disk) = (&options.state_dir, Arc::clone(&options.disk));
        let shared = SharedJournal::new(state_dir.clone(), dir, head, index, options.tail_bytes);
        shared.tail().stored = stored;
        let shared = Arc::new(shared);
        let worker = Arc::new(RetentionWorker::new(Arc::clone(&shared), disk, options.retention));
        let indexer = indexer::start(
            parts.returning("indexer"),
            Arc::clone(&shared),
            Arc::clone(&worker),
            options.indexes,
            options.index_pause,
        )?;
        let mut journal = Self {
            log,
            encoder: Encoder::default(),
            head,
            end,
            state,
            checkpoint_lines: options.checkpoint_lines,
            lines_since_checkpoint: 0,
            heads,
            retention: options.retention,
            removal_line_bytes: options.removal_line_bytes,
            worker: Some((Arc::clone(&worker), worker.start(parts.returning("retention"))?)),
            time: DateTime::UNIX_EPOCH,
            shared,
            indexer: Some(indexer),
            parts,
        };
        journal.after_opening(options.now, &mut recovered);
        Ok((journal, recovered))
    }

    /// A checkpoint costs as much as there is held, so it waits for as many lines at least.
    fn checkpoint_is_due(&self) -> bool {
        self.lines_since_checkpoint >= self.checkpoint_lines.max(self.state.len() as u64)
    }

    pub(crate) fn take_checkpoint(&mut self) -> Option<checkpoint::PendingCheckpoint> {
        let at = self.end?;
        self.lines_since_checkpoint = 0;
        Some(checkpoint::prepare(self.head, at, &self.state))
    }

    /// Ends both threads and lets go of sled.
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

    /// Makes a batch durable and hands it on.
    pub(crate) fn write(&mut self, batch: &[Record]) -> Result<(), CommitError> {
        // The last line's day: a batch is never split, and no file ends before a line in it.
        let Some(last) = batch.last() else { return Ok(()) };
        let head = self.encoder.encode(self.head, batch)?;
        let at = self.log.append(day_of(last.time()), &self.encoder.bytes, head.hash)?;
        self.head = head;
        let offset = at.offset + self.encoder.bytes.len() as u64;
        let before = self.end.replace(LogPos { offset, ..at });
        self.time = last.time();
        self.heads.note(head, self.time, false);
        for line in batch {
            self.state.apply(line);
        }
        self.lines_since_checkpoint += batch.len() as u64;
        // A closed day is packed, which needs it to be in sled and behind a checkpoint.
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
        if batch.iter().any(Record::is_offer) {
            return self.commit_with_offers(batch);
        }
        self.write(batch)
    }

    fn probe(&mut self) -> Result<(), CommitError> {
        if self.indexer.is_none() {
            return Err(CommitError::Closed);
        }
        self.log.probe()
    }

    fn parts(&self) -> Parts {
        self.parts.clone()
    }

    fn close(&mut self) -> Result<(), CommitError> {
        if self.indexer.is_none() {
            return Ok(());
        }
        if self.time > DateTime::UNIX_EPOCH {
            self.heads.note(self.head, self.time, true);
        }
        if let Err(error) = self.log.finish() {
            // What was written ahead is put into the log at the next start.
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
