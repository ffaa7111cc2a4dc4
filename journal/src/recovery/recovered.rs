//! Result of a recovery: the state to restore and a report.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use a2a_protocol::{AgentId, MessageId, Trace};
use chrono::{DateTime, Utc};

use crate::DedupEntry;

/// A delivery that was accepted and not yet acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Sequence number of the message record.
    pub seq: u64,
    /// The message's id.
    pub message_id: MessageId,
    /// The recipient.
    pub agent_id: AgentId,
    /// The sender.
    pub by: AgentId,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// When the message was accepted.
    pub time: DateTime<Utc>,
    /// The message as received, shared by the deliveries of one message.
    pub message: Arc<[u8]>,
    /// Its trace; `None` for the trace of its conversation.
    pub trace: Option<Arc<Trace>>,
}

/// A dead letter: a delivery without attempts left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Sequence number of the message record.
    pub seq: u64,
    /// The message's id.
    pub message_id: MessageId,
    /// The recipient.
    pub agent_id: AgentId,
    /// The sender.
    pub by: AgentId,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// When the message was accepted.
    pub time: DateTime<Utc>,
    /// The message as received, shared by the deliveries of one message.
    pub message: Arc<[u8]>,
    /// Its trace; `None` for the trace of its conversation.
    pub trace: Option<Arc<Trace>>,
    /// Why it became a dead letter.
    pub reason: String,
}

/// The state that opening a journal restores.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// The first unused sequence number.
    pub next_seq: u64,
    /// Deliveries to make, in the order of acceptance.
    pub pending: Vec<Pending>,
    /// Dead letters, in the order of acceptance.
    pub dead_letters: Vec<DeadLetter>,
    /// The agents that joined and did not leave.
    pub agents: Vec<AgentId>,
    /// The latest value of every key that was not removed, as JSON text.
    pub facts: Vec<(Arc<str>, Arc<str>)>,
    /// The accepted messages, oldest first, for deduplication.
    pub seen: Vec<DedupEntry>,
    /// Details of the recovery.
    pub report: RecoveryReport,
}

/// Work and findings of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Records read after the last checkpoint.
    pub lines_replayed: u64,
    /// Bytes that only the WAL had, written back into segments.
    pub wal_bytes_restored: u64,
    /// Bytes of an unfinished write, cut off the end of the log.
    pub torn_bytes: u64,
    /// The file with those bytes; `None` if there were none.
    pub torn_file: Option<PathBuf>,
    /// Durable bytes that are missing at the end of the log.
    pub lost_bytes: u64,
    /// Batches of the WAL that do not fit into the log.
    pub wal_batches_unmatched: u64,
    /// The WAL files with those batches, under their new names.
    pub wal_kept: Vec<PathBuf>,
    /// Damaged lines in the middle of the log, which stay unchanged.
    pub unreadable_lines: u64,
    /// Valid records whose `prev` does not match: a record before is missing or was changed.
    pub broken_links: u64,
    /// Records that the index lacked and got again.
    pub lines_indexed: u64,
    /// New path of an index that was damaged or of another log; `None` if it was fit.
    pub index_set_aside: Option<PathBuf>,
    /// Messages with open deliveries whose bytes are lost; they are not in `pending`.
    pub lost_messages: u64,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read {} lines of the log", self.lines_replayed)?;
        if self.lines_indexed > 0 {
            write!(f, ", added {} of them to the index", self.lines_indexed)?;
        }
        if self.wal_bytes_restored > 0 {
            let bytes = self.wal_bytes_restored;
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
        if self.wal_batches_unmatched > 0 {
            let (count, files) = (self.wal_batches_unmatched, &self.wal_kept);
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

impl Pending {
    pub(super) fn into_dead_letter(self, reason: String) -> DeadLetter {
        let Self { seq, message_id, agent_id, by, attempts, time, message, trace } = self;
        DeadLetter { seq, message_id, agent_id, by, attempts, time, message, trace, reason }
    }
}
