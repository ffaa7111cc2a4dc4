//! Recovery: brings the log, the index and the delivery state to one consistent point at open.
//!
//! # Constraints
//! - Every batch with a receipt is recovered. A batch without one is recovered completely or not
//!   at all.
//! - Only bytes that were never durable are cut off, and they are kept in a file of their own.
//! - The page cache is not trusted: after a failed writeback it shows data that the disk lacks.
//! - The index is a projection. It is healed from the log, or set aside and rebuilt, but not where
//!   it holds the last copy of records whose segments were removed.
//!
//! # Steps
//! ```text
//! 1 open the index          its lock excludes a second server before anything is changed
//! 2 reread the tail         the end of the log, from the disk instead of the page cache
//! 3 replay the WAL          writes back batches that only the WAL has       (segment::wal)
//! 4 match index and log     the last indexed record must be in the log
//! 5 load the checkpoint     without one: the state before the first segment (prefix_state)
//! 6 scan the log            folds records into the state, indexes missing ones        (scan)
//! 7 cut off the torn end    into torn-<time>.bin
//! 8 load pending messages   from the index, for Recovered
//! ```
//!
//! # Modules
//! `delivery_state` is the fold over all records, `checkpoint` stores it, `dedup` lists accepted ids.

pub(crate) mod checkpoint;
pub(crate) mod dedup;
pub(crate) mod delivery_state;
pub(crate) mod prefix_state;
mod recovered;
pub(crate) mod scan;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_protocol::{AgentId, Trace};
use chrono::{DateTime, NaiveDate, Utc};

use crate::index::Index;
use crate::index::block::BlockBuilder;
use crate::record::batch::LogPos;
use crate::record::chain::Head;
use crate::record::decode::{message_of, peek};
use crate::recovery::checkpoint::Checkpoint;
use crate::recovery::delivery_state::DeliveryState;
use crate::recovery::prefix_state::state_before_files;
use crate::recovery::scan::{Torn, ValidRecord, ends_with, scan};
use crate::segment::list_segments;
use crate::segment::wal;
use crate::segment::watermark::promised_end;
use crate::{DedupEntry, Disk, OpenError, ReadError, file_mode};
pub use recovered::{DeadLetter, Pending, Recovered, RecoveryReport};

/// Everything that [`crate::Journal`] starts from.
pub(crate) struct Opened {
    pub index: Index,
    pub head: Head,
    /// End of the last record; `None` for an empty log.
    pub end: Option<LogPos>,
    /// Number and day of the record of the stored checkpoint.
    pub stored: Option<(u64, NaiveDate)>,
    pub state: DeliveryState,
    pub recovered: Recovered,
}

/// Recovers the log in `dir` and the index at `index_path`.
pub(crate) fn recover(dir: &Path, index_path: &Path, disk: &dyn Disk) -> Result<Opened, OpenError> {
    let mut opened = recover_log(dir, index_path, disk)?;
    let report = &mut opened.recovered.report;
    if report.wal_batches_unmatched > 0 {
        report.wal_kept = wal::keep_aside(data_folder(index_path), disk)?;
    }
    Ok(opened)
}

/// The folder of the index, which also has the WAL and the watermark.
fn data_folder(index_path: &Path) -> &Path {
    index_path.parent().unwrap_or(index_path)
}

fn recover_log(dir: &Path, index_path: &Path, disk: &dyn Disk) -> Result<Opened, OpenError> {
    let mut report = RecoveryReport::default();
    match attempt(dir, index_path, disk, &mut report) {
        Err(OpenError::Read(ReadError::Damaged { .. })) => {}
        done => return done,
    }
    // Fails if the segments alone are not enough, before anything is moved.
    state_before_files(dir, index_path, None)?;
    report.index_set_aside = Some(set_aside(index_path)?);
    attempt(dir, index_path, disk, &mut report)
}

/// Renames an index that does not fit its log. It is not deleted: it may be the last copy of
/// records whose segments were removed.
pub(crate) fn set_aside(index_path: &Path) -> io::Result<PathBuf> {
    let aside = unused(|n| index_path.with_file_name(format!("a2a-journal.unfit-{}{n}", stamp())));
    tracing::error!(aside = %aside.display(), "the index does not fit the log; building a new one");
    fs::rename(index_path, &aside)?;
    Ok(aside)
}

/// One attempt. An index that is damaged or of another log is [`ReadError::Damaged`].
fn attempt(
    dir: &Path,
    index_path: &Path,
    disk: &dyn Disk,
    report: &mut RecoveryReport,
) -> Result<Opened, OpenError> {
    let (index, mut seen) = Index::open(index_path).map_err(|error| error.at(index_path))?;
    // From here on this process has the only access to the log.
    let data = data_folder(index_path);
    reread_tail(dir, index.last().map(|meta| meta.end), disk)?;
    let replayed = wal::replay(dir, data, &index, disk)?;
    report.wal_bytes_restored += replayed.brought_back;
    report.wal_batches_unmatched = replayed.left_out;
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
    let mut healer = IndexHealer::new(&index, state)?;
    // Frames of another log do not mark the end of this one.
    let promised = match report.wal_batches_unmatched {
        0 => promised_end(dir, data)?,
        _ => None,
    };
    let scanned = scan(dir, start, promised, |good| healer.record(good, &mut seen))?;
    healer.store()?;
    let IndexHealer { state, indexed, .. } = healer;
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
        // So that the next start need not repeat the scan.
        index.set_checkpoint(checkpoint::prepare(head, at, &state).value()?)?;
        stored = Some((head.seq, at.day));
    }
    let end = scanned.head.map(|(_, end)| end);
    Ok(Opened { index, head, end, stored, state, recovered })
}

/// Rereads the end of the log from the disk. Indexed records were committed, so that they are on
/// the disk or in the WAL. Bytes behind them may exist in the page cache alone: a batch whose fsync
/// failed, or a truncation that is not durable. Older segments were synced before the next began.
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

/// Folds records into the state, and adds those to the index that it lacks.
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

    fn record(&mut self, good: &ValidRecord<'_>, seen: &mut Vec<DedupEntry>) -> io::Result<()> {
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

/// Copies a torn end into a file of its own, then truncates the segment.
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

/// A time stamp for file names.
fn stamp() -> String {
    DateTime::<Utc>::from(std::time::SystemTime::now()).format("%Y-%m-%dT%H-%M-%S%.3fZ").to_string()
}

/// A path that does not exist yet.
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

/// Loads the messages with open deliveries or dead letters.
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
        let Some((message, trace)) = load_message(index, seq)? else {
            tracing::error!(seq, "a message with open deliveries cannot be found");
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

/// The bytes of a message, and its own trace if it has one.
type MessageBytes = (Arc<[u8]>, Option<Arc<Trace>>);

fn load_message(index: &Index, seq: u64) -> Result<Option<MessageBytes>, ReadError> {
    let Some(meta) = index.block_of(seq) else { return Ok(None) };
    let block = index.block(meta.first)?;
    let line = block.line(seq).map(|entry| entry.of(&block.bytes));
    let found = line.and_then(message_of);
    Ok(found.map(|(message, trace)| (message.get().as_bytes().into(), trace.map(Arc::new))))
}
