//! The memory of the A2A tasks and objectives: SQLite, and a twin in memory that answers alike.
//!
//! ```text
//! Vec<Write> ─▶ check (does it fit?) ─▶ apply (rows, events, outbox) ─▶ one COMMIT, one fsync ─▶ Vec<Written>
//! get, list, events, outbox_due … ◀─ row ◀─ pool of read-only connections, which never wait for a writer
//! ```
//!
//! It keeps what it is given and says when that does not fit what it has: another version, a
//! message that was heard before. It knows no transition of a task, no caller's rights, no clock
//! and no webhook. Everything here blocks: the caller owns the thread.

mod list;
mod objective;
mod page;
mod sent;
mod stored;
mod token;
mod word;
mod write;

mod check;
mod error;

mod apply;
mod copy;
mod inspect;
mod known;
mod lock;
mod schema;
mod sqlite;

mod pool;
mod reader;
mod row;

mod memory;

use std::path::Path;
use std::sync::Arc;

use a2a_protocol::operation::{PushConfig, StreamEvent};
use a2a_protocol::opt::ObjectiveId;
use a2a_protocol::task::{ContextId, Label, Message, Moment, PlanId, PlanTaskId};
use a2a_protocol::{AgentId, TaskId};

pub use check::Misfit;
pub use error::{TaskOpenError, TaskStoreError};
pub use inspect::Inspected;
pub use list::{BadPageToken, ListQuery, MAX_PAGE, Page, PageToken, PushToken};
pub use memory::Memory;
pub use objective::{
    ObjectiveChange, ObjectiveQuery, ObjectiveToken, ObjectiveTree, Objectives, PlanTree,
    StoredObjective, StoredPlan,
};
pub use sent::SentMessage;
pub use sqlite::{Options, Sqlite};
pub use stored::{Due, NewEvent, Queued, StoredTask};
pub use write::{Repeated, Write, Written};

pub use copy::{Frozen, Moment as CopiedMoment, check_copy};
pub use schema::SCHEMA;

/// The database, in the state folder.
pub const FILE: &str = a2a_journal::formats::Part::Tasks.path();

/// The schema of the database of a state folder, if there is one; looking changes nothing.
#[must_use]
pub fn schema_of(state_dir: &Path) -> Option<u32> {
    schema::peek(&state_dir.join(FILE))
}

/// The key of a message that somebody said to an agent: the same message, the same key.
#[must_use]
pub fn message_key(owner: &str, agent: &AgentId, message: &Label) -> u64 {
    key_of(owner, agent.as_str(), message.as_str())
}

fn key_of(owner: &str, agent: &str, message: &str) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
    for part in [owner, agent, message] {
        hasher.update(part.as_bytes());
        // Stands in no text that is valid UTF-8.
        hasher.update(&[0xff]);
    }
    hasher.digest()
}

/// Whoever changes tasks. There is one per store.
pub trait TaskWriter: Send {
    /// Does all of it at once: after `Ok` it is durable, after `Err` none of it happened.
    ///
    /// A write that does not fit ([`Written::Conflict`], [`Written::Repeated`],
    /// [`Written::Missing`], [`Written::Refused`]) leaves no trace and does not disturb the
    /// others. The answers stand in the order of the writes, and a write sees those before it.
    ///
    /// # Errors
    /// The disk is full or broken. The writer can be used again.
    fn commit(&mut self, writes: Vec<Write>) -> Result<Vec<Written>, TaskStoreError>;

    /// Whether the disk takes a commit now, tried without changing anything.
    ///
    /// # Errors
    /// The disk is full or broken. The writer can be used again.
    fn probe(&mut self) -> Result<(), TaskStoreError>;

    /// A way to read, for any thread.
    fn reader(&self) -> Arc<dyn TaskReader>;
}

/// Whoever looks at tasks. Each call sees one state of the store: all of a commit or none of it.
///
/// `get`, `list`, `find_by_context` and `pending_by_context` add `queuedAt` and `queuePosition`
/// (among those of the same owner, agent and conversation) to the metadata of a task that waits;
/// a writer takes them off again.
///
/// # Errors
/// Every method fails when the disk fails or a row makes no sense.
pub trait TaskReader: ObjectiveReader {
    /// One task.
    fn get(&self, id: TaskId) -> Result<Option<StoredTask>, TaskStoreError>;

    /// Which of these tasks have ended.
    fn ended_among(&self, ids: &[TaskId]) -> Result<Vec<TaskId>, TaskStoreError>;

    /// A page of tasks, the one whose status changed last first.
    fn list(&self, query: &ListQuery) -> Result<Page, TaskStoreError>;

    /// The newest `limit` tasks of a conversation, newest first, whoever owns them.
    fn find_by_context(
        &self,
        context: &ContextId,
        limit: usize,
    ) -> Result<Vec<StoredTask>, TaskStoreError>;

    /// What waits for this agent in this conversation, in the order of the queue.
    fn pending_by_context(
        &self,
        agent: &AgentId,
        context: &ContextId,
    ) -> Result<Vec<StoredTask>, TaskStoreError>;

    /// Every task that has not ended, exactly as it was written: first those that do not wait,
    /// the oldest first, then those that do, in the order of their queues.
    fn open(&self) -> Result<Vec<StoredTask>, TaskStoreError>;

    /// At most `limit` events of a task with numbers above `after`, in order.
    fn events(
        &self,
        id: TaskId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Arc<StreamEvent>)>, TaskStoreError>;

    /// One wish to be told.
    fn push(&self, task: TaskId, id: &Label) -> Result<Option<PushConfig>, TaskStoreError>;

    /// All of them for a task, in the order in which they were made.
    fn pushes(&self, task: TaskId) -> Result<Vec<PushConfig>, TaskStoreError>;

    /// At most `limit` events that webhooks are to be told of now. Of each wish only the oldest
    /// event is ever due, so that a receiver hears them in order.
    fn outbox_due(&self, now: Moment, limit: usize) -> Result<Vec<Due>, TaskStoreError>;

    /// When [`TaskReader::outbox_due`] has something next; `None` when nothing waits.
    fn next_due(&self) -> Result<Option<Moment>, TaskStoreError>;

    /// What came of a caller's message, if one of its id was heard before.
    fn message(
        &self,
        owner: &str,
        agent: &AgentId,
        message: &SentMessage,
    ) -> Result<Option<Repeated>, TaskStoreError>;

    /// The [keys](message_key) of all messages that were heard; `None` when they are more than
    /// `most`.
    fn message_keys(&self, most: usize) -> Result<Option<Vec<u64>>, TaskStoreError>;

    /// The newest `limit` messages that the histories of this owner's tasks with this agent in
    /// this conversation hold, in the order of the tasks' creation.
    fn history_of_context(
        &self,
        owner: &str,
        agent: &AgentId,
        context: &ContextId,
        limit: usize,
    ) -> Result<Vec<Message>, TaskStoreError>;
}

/// Whoever looks at objectives, plans and their tasks; every [`TaskReader`] does. Each call sees
/// one state of the store: all of a commit or none of it.
///
/// # Errors
/// Every method fails when the disk fails or a row makes no sense.
pub trait ObjectiveReader: Send + Sync {
    /// One objective with all that is below it.
    fn objective(&self, id: &ObjectiveId) -> Result<Option<ObjectiveTree>, TaskStoreError>;

    /// A page of objectives, the one made last first.
    fn objectives(&self, query: &ObjectiveQuery) -> Result<Objectives, TaskStoreError>;

    /// Every objective that has not ended, the oldest first.
    fn open_objectives(&self) -> Result<Vec<ObjectiveTree>, TaskStoreError>;

    /// Whose plan it is.
    fn plan(&self, id: &PlanId) -> Result<Option<ObjectiveId>, TaskStoreError>;

    /// The task of a plan that this A2A task does, and its objective.
    fn plan_task_of(
        &self,
        task: TaskId,
    ) -> Result<Option<(ObjectiveId, PlanTaskId)>, TaskStoreError>;

    /// The newest `limit` messages that the histories of the A2A tasks of a plan hold, in the
    /// order of the tasks' creation.
    fn history_of_plan(&self, id: &PlanId, limit: usize) -> Result<Vec<Message>, TaskStoreError>;

    /// The same for an objective: all tasks of its owner in its conversation, of a plan or not,
    /// whoever does them.
    fn history_of_objective(
        &self,
        id: &ObjectiveId,
        limit: usize,
    ) -> Result<Vec<Message>, TaskStoreError>;
}
