//! Durable journal of the bus: a hash-chained, append-only log with sled as its search index.
//!
//! A batch is on the disk before its senders get their receipts. The log consists of JSON Lines
//! whose hashes form a chain, so that a person can read it and a program can prove that no line
//! was changed. The index is a projection: delete it and the next start rebuilds it.
//!
//! ```text
//! write:   batch of records ─▶ record (encode, chain) ─▶ segment (day file, WAL ahead of its fsync) ─▶ committed
//!                                                          │
//!                                                          ├▶ recovery::delivery_state   folded for checkpoints
//!                                                          └▶ index::tail ─▶ indexer thread ─▶ index (sled, blocks)
//! open:    recovery   checkpoint ─▶ WAL replay ─▶ scan of the log ─▶ delivery state, index healed ─▶ Recovered
//! read:    query      tail, then index ─▶ records with their events
//! verify:  verify     segments or blocks ─▶ every hash and link, heads recorded outside the chain
//! retain:  retention  policy ─▶ a record of the removal ─▶ worker thread (removes it, compresses segments)
//! ```
//!
//! Everything here blocks: the caller owns the thread. No decision depends on the clock, no code
//! depends on an actor, and a message is stored byte for byte as it was received.

pub mod file_mode;
pub mod formats;
mod liveness;

mod index;
mod query;
mod record;
mod recovery;
mod retention;
mod segment;
mod verify;

mod journal;
mod memory;

pub use file_mode::{Exposed, close_to_others, exposed};
pub use formats::{FormatError, NewerFormat};
pub use index::facets::time_of;
pub use journal::{Commit, CommitError, Journal, OpenError, Options};
pub use liveness::{EndedPart, Liveness, LivenessGuard};
pub use memory::MemoryJournal;
pub use query::message_history::{BadHistoryCursor, HistoryCursor, MessageHistory};
pub use query::offline::{OfflineJournal, read_offline};
pub use query::reader::{FactEvents, JournalReader, MAX_PAGE, Page, ReadError, StoredRecord};
pub use query::{Query, QueryPlan};
pub use record::chain::{Hash, Head};
pub use record::{EventRecord, Fact, MessageRecord, Received, Record, Removed, RemovedForm};
pub use recovery::dedup::DedupEntry;
pub use recovery::prefix_state::is_continued_in_index;
pub use recovery::{DeadLetter, Pending, Recovered, RecoveryReport};
pub use retention::rebuild::{REBUILT, rebuild_before, rebuild_log};
pub use retention::{Retention, RetentionPlan};
pub use segment::disk::{Disk, FixedFile, LogFile, RealDisk};
pub use segment::newest_time::newest_time;
pub use segment::wal::lacking as bytes_missing_in_log;
pub use segment::{FOLDER as LOG_FOLDER, Segment, list_segments};
pub use verify::head_file::{BadHead, FILE as HEADS_FILE, recorded_heads};
pub use verify::report::{Fault, Tampering, Verified, VerifyError};
pub use verify::source::{verify_journal, verify_journal_in_turns, verify_log};
