//! SQLite store for A2A tasks and objectives, in a file or in memory.
//!
//! ```text
//! Vec<Write> ─▶ write (validate, rows, events, outbox) ─▶ COMMIT, fsync ─▶ Vec<WriteOutcome>
//! get, list, events, outbox_due ◀─ read (rows to structs) ◀─ pool of read-only connections
//! ```
//!
//! - [`TaskWriter`] commits batches of [`Write`]s. A write that does not apply, because of a
//!   version conflict or a repeated message id, changes nothing and does not fail its batch.
//! - [`TaskReader`] and [`ObjectiveReader`] read one consistent state per call. In WAL mode a
//!   reader never waits for the writer.
//! - Task transitions, access rights, the clock and webhooks are the caller's business.
//! - Every call blocks: the caller owns the thread.
//!
//! ```text
//! model/     what is stored: tasks, objectives, queries, page tokens
//! write/     what a write does to the rows
//! read/      queries, row decoding, page limits
//! database/  opening, the writer lock, snapshots, integrity checks
//! schema/    migrations; PRAGMA user_version counts them
//! ```

mod columns;
mod database;
mod error;
mod model;
mod read;
mod schema;
mod store;
mod write;

use std::path::Path;

use a2a_protocol::AgentId;
use a2a_protocol::task::OpaqueId;

pub use database::snapshot::{PausedWrites, Snapshot, check_snapshot};
pub use database::{IntegrityReport, Options, TaskDb};
pub use error::{TaskOpenError, TaskStoreError};
pub use model::{
    BadPageToken, ListQuery, MAX_PAGE, NewEvent, ObjectiveChange, ObjectiveQuery, ObjectiveToken,
    ObjectiveTree, Objectives, OutboxEntry, Page, PageToken, PlanTree, PushToken, Queued,
    SentMessage, StoredObjective, StoredPlan, StoredTask,
};
pub use schema::SCHEMA;
pub use store::{ObjectiveReader, TaskReader, TaskWriter};
pub use write::{InvalidWrite, Repeated, Write, WriteOutcome};

/// Path of the database, relative to the state folder.
pub const FILE: &str = a2a_journal::formats::Part::Tasks.path();

/// The schema version of the database in a state folder; `None` when there is no database. Creates
/// no files.
#[must_use]
pub fn schema_of(state_dir: &Path) -> Option<u32> {
    schema::peek(&state_dir.join(FILE))
}

/// Dedup key of a caller's message: a 64-bit hash of owner, agent and message id.
#[must_use]
pub fn message_key(owner: &str, agent: &AgentId, message: &OpaqueId) -> u64 {
    key_of(owner, agent.as_str(), message.as_str())
}

fn key_of(owner: &str, agent: &str, message: &str) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
    for part in [owner, agent, message] {
        hasher.update(part.as_bytes());
        // A separator that occurs in no valid UTF-8.
        hasher.update(&[0xff]);
    }
    hasher.digest()
}
