//! Writes: every change of the store, and the outcome of each.
//!
//! ```text
//! Write ─▶ row_cache (or the row) ─▶ validate ─▶ tasks, history, push, objectives ─▶ rows
//! ```
//!
//! - A batch is one transaction. A write is validated before its first row changes, so one that
//!   does not apply leaves nothing to roll back.
//! - [`Write::Atomic`] and [`Write::Objective`] change several rows. They run without a savepoint
//!   first; when one of their parts does not apply, the batch is rolled back and repeated with
//!   savepoints ([`SavepointMode`]).
//! - The row cache holds the last written state of open tasks, so an update writes only the columns
//!   that changed.

mod batch;
mod history;
mod objectives;
mod push;
mod row_cache;
mod tasks;
mod validate;

use a2a_protocol::TaskId;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::{Message, OpaqueId, UtcMillis};

use crate::{NewEvent, ObjectiveChange, SentMessage, StoredTask};

pub(crate) use batch::{Batch, SavepointMode};
pub(crate) use row_cache::RowCache;
pub(crate) use tasks::{find_repeat, message_keys};
pub use validate::InvalidWrite;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Insert a task, of version 1.
    Create {
        /// The task.
        stored: StoredTask,
        /// The message that requested it. Its id is unique per owner and agent.
        message: Option<SentMessage>,
        /// Its first events.
        events: Vec<NewEvent>,
        /// Its push configurations; each has an id.
        push: Vec<PushConfig>,
    },
    /// Update a task.
    Update {
        /// The new state; its version is `expected + 1`.
        stored: StoredTask,
        /// The version that is replaced.
        expected: u64,
        /// New events.
        events: Vec<NewEvent>,
        /// The message that caused the update. A repeated id keeps its first result, and the update
        /// applies all the same.
        message: Option<SentMessage>,
    },
    /// Delete a task that its agent answered with a message. The answer is kept under the ids of
    /// the caller's messages and returned for a repeat.
    Answer {
        /// The task to delete.
        id: TaskId,
        /// The answer.
        message: Box<Message>,
    },
    /// Store the answer to a message whose task was never stored.
    AnswerWithoutTask {
        /// The task that is not stored.
        stored: StoredTask,
        /// The message that requested it.
        message: SentMessage,
        /// The answer.
        answer: Box<Message>,
    },
    /// Delete a task with its events, messages and push configurations.
    Delete(TaskId),
    /// Insert or replace a push configuration. It gets the events from now on.
    PutPush {
        /// The task.
        task: TaskId,
        /// The configuration; it has an id.
        config: PushConfig,
    },
    /// Delete a push configuration and its outbox entries.
    DeletePush {
        /// The task.
        task: TaskId,
        /// The id of the configuration.
        id: OpaqueId,
    },
    /// Remove an outbox entry that was delivered or dropped.
    PushDone {
        /// The id of the outbox entry.
        outbox: u64,
    },
    /// Reschedule an outbox entry after a failed attempt.
    PushRetry {
        /// The id of the outbox entry.
        outbox: u64,
        /// Failed attempts so far.
        attempts: u32,
        /// When to try again.
        next: UtcMillis,
    },
    /// Insert or update an objective with its plans and their tasks.
    Objective(Box<ObjectiveChange>),
    /// Apply all of these or none. The outcome of the first that does not apply is the outcome of
    /// all of them.
    Atomic(Vec<Write>),
    /// Delete ended tasks and stored answers that are older than a moment, oldest first. Then
    /// delete ended objectives that have not changed since and have no task left.
    Expire {
        /// The moment.
        older_than: UtcMillis,
        /// The most rows to delete.
        limit: usize,
    },
    /// Change nothing. Its outcome arrives when all writes before it are durable.
    Barrier,
}

impl Write {
    /// Whether it changes several rows, all or none.
    pub(crate) const fn has_parts(&self) -> bool {
        matches!(self, Self::Atomic(_) | Self::Objective(_))
    }
}

/// The outcome of one [`Write`].
#[derive(Debug, Clone, PartialEq)]
pub enum WriteOutcome {
    /// Applied.
    Done,
    /// The message id is already stored.
    Repeated(Repeated),
    /// The task or objective has another version than expected, or exists already.
    Conflict {
        /// Its version or revision; `None` when it does not exist.
        version: Option<u64>,
    },
    /// The task, push configuration or outbox entry does not exist.
    Missing,
    /// The write is invalid whatever is stored: a bug in the caller.
    Refused(InvalidWrite),
    /// How many tasks, answers and objectives were deleted. There may be more when the limit was
    /// reached.
    Expired(usize),
    /// All parts applied, with the outcome of each.
    Atomic(Vec<WriteOutcome>),
}

impl WriteOutcome {
    /// Whether the write applied. One that did not changed nothing.
    #[must_use]
    pub const fn is_applied(&self) -> bool {
        match self {
            Self::Done | Self::Expired(_) | Self::Atomic(_) => true,
            Self::Repeated(_) | Self::Conflict { .. } | Self::Missing | Self::Refused(_) => false,
        }
    }
}

/// The result of an earlier message with the same id.
#[derive(Debug, Clone, PartialEq)]
pub enum Repeated {
    /// It created or updated this task.
    Task(TaskId),
    /// It was answered without a task.
    Answer(Box<Message>),
    /// The earlier message had other content.
    DifferentContent,
}
