//! From whatever a stop left behind to a journal that can go on.
//!
//! In order: open the index (its lock keeps a second server out before anything is
//! touched), make sure that the end of the log is read from the disk and not from a page cache
//! that may show what the disk has not, put back what only the ahead files have, check that the
//! index belongs to this log, read the log from the checkpoint on (without
//! one, all of it, and before it what only the index has),
//! cut off a torn end, and fetch the messages that are still owed.

pub(crate) mod checkpoint;
pub(crate) mod dedup;
pub(crate) mod delivery_state;
pub(crate) mod prefix_state;
pub(crate) mod scan;

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_protocol::{AgentId, MessageId, Trace};
use chrono::{DateTime, NaiveDate, Utc};

use crate::formats::newer_index;
use crate::index::block::BlockBuilder;
use crate::index::{Index, IndexError};
use crate::record::batch::LogPos;
use crate::record::chain::Head;
use crate::record::decode::{message_of, peek};
use crate::recovery::checkpoint::Checkpoint;
use crate::recovery::delivery_state::DeliveryState;
use crate::recovery::prefix_state::state_before_files;
use crate::recovery::scan::{Torn, ends_with, scan};
use crate::segment::list_segments;
use crate::segment::wal;
use crate::segment::watermark::promised_end;
use crate::{DedupEntry, Disk, OpenError, ReadError, file_mode};

/// A delivery that was promised and not yet acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Number of the message's record.
    pub seq: u64,
    /// The message's id.
    pub message_id: MessageId,
    /// To whom it is owed.
    pub agent_id: AgentId,
    /// Who sent it.
    pub by: AgentId,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was accepted.
    pub time: DateTime<Utc>,
    /// The message as it came; copies of one message share it.
    pub message: Arc<[u8]>,
    /// The trace it belongs to, where that is not the one of its conversation.
    pub trace: Option<Arc<Trace>>,
}

/// A dead letter: a delivery that no attempt is left for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Number of the message's record.
    pub seq: u64,
    /// The message's id.
    pub message_id: MessageId,
    /// To whom it was owed.
    pub agent_id: AgentId,
    /// Who sent it.
    pub by: AgentId,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was accepted.
    pub time: DateTime<Utc>,
    /// The message as it came; copies of one message share it.
    pub message: Arc<[u8]>,
    /// The trace it belongs to, where that is not the one of its conversation.
    pub trace: Option<Arc<Trace>>,
    /// Why it was given up.
    pub reason: String,
}

/// What a journal remembers when it is opened.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// The first number not yet used.
    pub next_seq: u64,
    /// What is owed, in the order it was accepted.
    pub pending: Vec<Pending>,
    /// What was given up, in the order it was accepted.
    pub dead_letters: Vec<DeadLetter>,
    /// The agents that joined.
    pub agents: Vec<AgentId>,
    /// The latest value of every key that was noted and not forgotten, as JSON text.
    pub facts: Vec<(Arc<str>, Arc<str>)>,
    /// The messages accepted before, oldest first.
    pub seen: Vec<DedupEntry>,
    /// What recovery had to do.
    pub report: RecoveryReport,
}

/// What recovery had to do, and what it found wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Lines read after the last checkpoint.
    pub lines_replayed: u64,
    /// Bytes that were written ahead and not in the day file yet when the machine went down.
    pub bytes_brought_back: u64,
    /// Bytes of an unfinished write that were cut off the end of the log.
    pub torn_bytes: u64,
    /// Where those bytes were kept.
    pub torn_file: Option<PathBuf>,
    /// Bytes at the end of the log that were durable when it was last written and are not there
    /// any more.
    pub lost_bytes: u64,
    /// Batches that were written ahead, are not in the log and could not be put there.
    pub batches_left_out: u64,
    /// The ahead files that hold them, under their new names.
    pub wal_kept: Vec<PathBuf>,
    /// Damaged lines in the middle of the log, which were left as they are.
    pub unreadable_lines: u64,
    /// Good lines that do not follow the one before them: something is missing or was changed.
    pub broken_links: u64,
    /// Lines sled did not hold and was given again.
    pub lines_indexed: u64,
    /// Where a sled that was damaged or belongs to another log was moved.
    pub index_set_aside: Option<PathBuf>,
    /// Messages still owed whose bytes could not be found; they are not listed as pending.
    pub lost_messages: u64,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read {} lines of the log", self.lines_replayed)?;
        if self.lines_indexed > 0 {
            write!(f, ", gave {} of them to the index", self.lines_indexed)?;
        }
        if self.bytes_brought_back > 0 {
            let bytes = self.bytes_brought_back;
            write!(f, ", put {bytes} bytes into it that were written ahead")?;
        }
        if let Some(path) = &self.torn_file {
            let bytes = self.torn_bytes;
            write!(
                f,
                ", cut off {bytes} bytes of an unfinished write (kept in {})",
                path.display()
            )?;
        }
        if self.lost_bytes > 0 {
            let bytes = self.lost_bytes;
            write!(
                f,
                ", missed {bytes} bytes at its end that were durable: something cut the log"
            )?;
        }
        if self.batches_left_out > 0 {
            let (count, files) = (self.batches_left_out, &self.wal_kept);
            let files: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
            let files = files.join(", ");
            write!(f, ", left out {count} batches that were written ahead (kept in {files})")?;
        }
        if let Some(path) = &self.index_set_aside {
            write!(f, ", set an unfit index aside as {}", path.display())?;
        }
        for (count, what) in [
            (self.unreadable_lines, "unreadable lines"),
            (self.broken_links, "breaks in the chain of hashes"),
            (self.lost_messages, "pending messages whose text is lost"),
        ] {
            if count > 0 {
                write!(f, ", found {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Everything [`crate::Journal`] starts from.
pub(crate) struct Opened {
    pub index: Index,
    pub head: Head,
    /// Where the last line ends; `None` when there is none.
    pub end: Option<LogPos>,
    /// Number and day of the line the stored checkpoint was made at.
    pub stored: Option<(u64, NaiveDate)>,
    pub state: DeliveryState,
    pub recovered: Recovered,
}

/// Recovers the log in `dir` and the index at `index_path`.
pub(crate) fn recover(dir: &Path, index_path: &Path, disk: &dyn Disk) -> Result<Opened, OpenError> {
    let mut opened = recover_log(dir, index_path, disk)?;
    let report = &mut opened.recovered.report;
    if report.batches_left_out > 0 {
        report.wal_kept = wal::keep_aside(data_folder(index_path), disk)?;
    }
    Ok(opened)
}

fn data_folder(index_path: &Path) -> &Path {
    index_path.parent().unwrap_or(index_path)
}

fn recover_log(dir: &Path, index_path: &Path, disk: &dyn Disk) -> Result<Opened, OpenError> {
    let mut report = RecoveryReport::default();
    match attempt(dir, index_path, disk, &mut report) {
        Err(OpenError::Read(ReadError::Damaged { .. })) => {}
        done => return done,
    }
    // Whether the files alone are enough must be known before anything is moved.
    state_before_files(dir, index_path, None)?;
    report.index_set_aside = Some(set_aside(index_path)?);
    attempt(dir, index_path, disk, &mut report)
}

/// Moves an index away that does not fit its log. It is not deleted: it may be the last copy of
/// lines whose files are gone.
pub(crate) fn set_aside(index_path: &Path) -> io::Result<PathBuf> {
    let aside = unused(|n| index_path.with_file_name(format!("a2a-journal.unfit-{}{n}", stamp())));
    tracing::error!(aside = %aside.display(), "the index does not fit the log; building a new one");
    fs::rename(index_path, &aside)?;
    Ok(aside)
}

/// One try; an index that is damaged or belongs to another log is [`ReadError::Damaged`].
fn attempt(
    dir: &Path,
    index_path: &Path,
    disk: &dyn Disk,
    report: &mut RecoveryReport,
) -> Result<Opened, OpenError> {
    let (index, mut seen) = Index::open(index_path).map_err(|error| match error {
        IndexError::Locked => OpenError::Locked { path: index_path.to_owned() },
        IndexError::Damaged => ReadError::Damaged { block: 0 }.into(),
        IndexError::Newer(found) => newer_index(index_path, found).into(),
        IndexError::Io(source) => source.into(),
    })?;
    // Nobody else has the log in hands now.
    let data = data_folder(index_path);
    reread_tail(dir, index.last().map(|meta| meta.end), disk)?;
    let replayed = wal::replay(dir, data, &index, disk)?;
    report.bytes_brought_back += replayed.brought_back;
    report.batches_left_out = replayed.left_out;
    if let Some(meta) = index.last()
        && !ends_with(dir, meta.last, meta.end)
    {
        return Err(ReadError::Damaged { block: meta.first }.into());
    }
    let checkpoint = index.checkpoint().map_err(io::Error::from)?;
    let checkpoint = checkpoint.and_then(|value| checkpoint::decode(&value)).filter(|checkpoint| {
        checkpoint.head.seq <= index.last_seq() && ends_with(dir, checkpoint.head, checkpoint.at)
    });
    let mut stored = checkpoint.as_ref().map(|stored| (stored.head.seq, stored.at.day));
    let (start, state) = match checkpoint {
        Some(Checkpoint { head, at, state }) => (Some((head, at)), state),
        None => (None, state_before_files(dir, index_path, Some(&index))?),
    };
    index.remove_stale_blocks()?;
    let mut heal = IndexHealer::new(&index, state)?;
    // Frames of another log say nothing about the end of this one.
    let promised = match report.batches_left_out {
        0 => promised_end(dir, data)?,
        _ => None,
    };
    let scanned = scan(dir, start, promised, |good| heal.line(good, &mut seen))?;
    heal.store()?;
    let IndexHealer { state, indexed, .. } = heal;
    report.lines_replayed = scanned.lines;
    report.lines_indexed = indexed;
    report.unreadable_lines = scanned.unreadable;
    report.broken_links = scanned.broken_links;
    report.lost_bytes = scanned.lost;
    if scanned.lost > 0 {
        tracing::error!(
            bytes = scanned.lost,
            "the log ends before what was durable when it was last written"
        );
    }
    if let Some(torn) = scanned.torn {
        report.torn_bytes = torn.len;
        report.torn_file = Some(cut_off(dir, &torn, disk)?);
    }
    let head = scanned.head.map_or(Head::START, |(head, _)| head);
    let recovered = load_recovered(&index, head, &state, seen, report.clone())?;
    if let Some((head, at)) = scanned.head
        && scanned.lines > 0
    {
        // The next start shall not pay for this again.
        index.set_checkpoint(checkpoint::prepare(head, at, &state).value()?)?;
        stored = Some((head.seq, at.day));
    }
    let end = scanned.head.map(|(_, end)| end);
    Ok(Opened { index, head, end, stored, state, recovered })
}

/// Reads the end of the log anew from the disk. What the index holds was committed, so that it is
/// on the disk or in the ahead files; whatever lies behind may be shown by the page cache alone:
/// a batch whose fsync failed, or a cut that is not durable. Older days were synced before the
/// next one got its first line.
fn reread_tail(dir: &Path, indexed: Option<LogPos>, disk: &dyn Disk) -> Result<(), OpenError> {
    for file in list_segments(dir)?.into_iter().rev() {
        if file.is_compressed {
            break;
        }
        let indexed = indexed.filter(|end| end.day == file.day);
        disk.reread(&file.path, indexed.map_or(0, |end| end.offset))
            .map_err(|source| OpenError::Unsettled { path: file.path.clone(), source })?;
        if fs::metadata(&file.path)?.len() > 0 {
            break;
        }
    }
    Ok(())
}

/// Folds lines, and gives the index those it lacks.
struct IndexHealer<'a> {
    index: &'a Index,
    after: u64,
    state: DeliveryState,
    builder: BlockBuilder,
    compressor: zstd::bulk::Compressor<'static>,
    indexed: u64,
}

impl<'a> IndexHealer<'a> {
    fn new(index: &'a Index, state: DeliveryState) -> io::Result<Self> {
        Ok(Self {
            index,
            after: index.last_seq(),
            state,
            builder: BlockBuilder::new(true),
            compressor: zstd::bulk::Compressor::new(1)?,
            indexed: 0,
        })
    }

    fn line(
        &mut self,
        good: &crate::recovery::scan::GoodLine<'_>,
        seen: &mut Vec<DedupEntry>,
    ) -> io::Result<()> {
        self.state.apply_decoded(&good.decoded);
        let Some((seq, kind)) = peek(good.bytes).filter(|(seq, _)| *seq > self.after) else {
            return Ok(());
        };
        if !self.builder.takes(good.end.day) {
            self.store()?;
        }
        let accepted = good.decoded.seen();
        seen.extend(accepted);
        self.builder.push(good.bytes, seq, kind, accepted, good.end);
        self.indexed += 1;
        if self.builder.is_full() { self.store() } else { Ok(()) }
    }

    fn store(&mut self) -> io::Result<()> {
        self.index.write(&mut self.builder, &mut self.compressor)?;
        self.builder.clear();
        Ok(())
    }
}

/// Moves a torn end into a file of its own, then cuts it off.
fn cut_off(dir: &Path, torn: &Torn, disk: &dyn Disk) -> io::Result<PathBuf> {
    let mut bytes = Vec::new();
    let mut file = File::open(&torn.path)?;
    file.seek(SeekFrom::Start(torn.from))?;
    file.take(torn.len).read_to_end(&mut bytes)?;
    let kept = unused(|n| dir.join(format!("torn-{}{n}.bin", stamp())));
    let mut file = file_mode::options().write(true).create_new(true).open(&kept)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    disk.sync_dir(dir)?;
    let mut log = disk.open(&torn.path)?;
    log.truncate(torn.from)?;
    log.sync()?;
    Ok(kept)
}

/// Names a file, never one that exists.
fn stamp() -> String {
    DateTime::<Utc>::from(std::time::SystemTime::now()).format("%Y-%m-%dT%H-%M-%S%.3fZ").to_string()
}

fn unused(name: impl Fn(&str) -> PathBuf) -> PathBuf {
    let mut path = name("");
    for n in 1_u32.. {
        if !path.exists() {
            break;
        }
        path = name(&format!("-{n}"));
    }
    path
}

/// Fetches the messages still held.
fn load_recovered(
    index: &Index,
    head: Head,
    state: &DeliveryState,
    seen: Vec<DedupEntry>,
    report: RecoveryReport,
) -> Result<Recovered, ReadError> {
    let mut recovered = Recovered {
        next_seq: head.seq + 1,
        agents: state.agents.keys().cloned().collect(),
        facts: state.facts.iter().map(|(key, known)| (key.clone(), known.value.clone())).collect(),
        seen,
        report,
        ..Recovered::default()
    };
    let mut names: HashMap<&str, &AgentId> = HashMap::new();
    for (&seq, held) in &state.held {
        let Some((message, trace)) = message(index, seq)? else {
            tracing::error!(seq, "a message that is still owed cannot be found");
            recovered.report.lost_messages += 1;
            continue;
        };
        let by = (*names.entry(held.by.as_str()).or_insert(&held.by)).clone();
        let time = DateTime::from_timestamp_millis(held.time_ms).unwrap_or_default();
        for copy in &held.copies {
            let agent_id = *names.entry(copy.agent_id.as_str()).or_insert(&copy.agent_id);
            let pending = Pending {
                seq,
                message_id: held.message_id,
                agent_id: agent_id.clone(),
                by: by.clone(),
                attempts: copy.attempts,
                time,
                message: Arc::clone(&message),
                trace: trace.clone(),
            };
            match &copy.dead {
                None => recovered.pending.push(pending),
                Some(reason) => {
                    recovered.dead_letters.push(pending.into_dead_letter(reason.clone()))
                }
            }
        }
    }
    Ok(recovered)
}

impl Pending {
    fn into_dead_letter(self, reason: String) -> DeadLetter {
        let Self { seq, message_id, agent_id, by, attempts, time, message, trace } = self;
        DeadLetter { seq, message_id, agent_id, by, attempts, time, message, trace, reason }
    }
}

type Message = (Arc<[u8]>, Option<Arc<Trace>>);

fn message(index: &Index, seq: u64) -> Result<Option<Message>, ReadError> {
    let Some(meta) = index.block_of(seq) else { return Ok(None) };
    let block = index.block(meta.first)?;
    let line = block.line(seq).map(|entry| entry.of(&block.bytes));
    let found = line.and_then(message_of);
    Ok(found.map(|(message, trace)| (message.get().as_bytes().into(), trace.map(Arc::new))))
}
