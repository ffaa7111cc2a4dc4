//! Traits of the store: one writer, any number of readers.

use std::sync::Arc;

use a2a_protocol::operation::{PushConfig, StreamEvent};
use a2a_protocol::opt::ObjectiveId;
use a2a_protocol::task::{ContextId, Message, OpaqueId, PlanId, PlanTaskId, UtcMillis};
use a2a_protocol::{AgentId, TaskId};

use crate::{
    ListQuery, ObjectiveQuery, ObjectiveTree, Objectives, OutboxEntry, Page, Repeated, SentMessage,
    StoredTask, TaskStoreError, Write, WriteOutcome,
};

/// The write side of the store. There is one writer per database.
pub trait TaskWriter: Send {
    /// Commits all writes in one transaction: after `Ok` they are durable, after `Err` none
    /// applied.
    ///
    /// A write that does not apply ([`WriteOutcome::Conflict`], [`WriteOutcome::Repeated`],
    /// [`WriteOutcome::Missing`], [`WriteOutcome::Refused`]) changes nothing and does not affect
    /// the others. Outcomes are in the order of the writes, and a write sees those before it.
    ///
    /// # Errors
    /// The disk is full or broken. The writer can be used again.
    fn commit(&mut self, writes: Vec<Write>) -> Result<Vec<WriteOutcome>, TaskStoreError>;

    /// Commits a no-op transaction to find out whether the disk accepts writes.
    ///
    /// # Errors
    /// The disk is full or broken. The writer can be used again.
    fn probe(&mut self) -> Result<(), TaskStoreError>;

    /// A reader that can be shared between threads.
    fn reader(&self) -> Arc<dyn TaskReader>;
}

/// The read side for tasks. Each call sees one state of the store: all of a commit or none of it.
///
/// `get`, `list`, `find_by_context` and `pending_by_context` add `queuedAt` and `queuePosition`
/// (within the same owner, agent and context) to the metadata of a queued task; the writer removes
/// them again.
///
/// # Errors
/// Every method fails when the disk fails or a row cannot be decoded.
pub trait TaskReader: ObjectiveReader {
    /// One task.
    fn get(&self, id: TaskId) -> Result<Option<StoredTask>, TaskStoreError>;

    /// Those of these tasks that are in a terminal state.
    fn ended_among(&self, ids: &[TaskId]) -> Result<Vec<TaskId>, TaskStoreError>;

    /// A page of tasks, newest status timestamp first.
    fn list(&self, query: &ListQuery) -> Result<Page, TaskStoreError>;

    /// The newest `limit` tasks of a context, newest first, of all owners.
    fn find_by_context(
        &self,
        context: &ContextId,
        limit: usize,
    ) -> Result<Vec<StoredTask>, TaskStoreError>;

    /// The tasks queued for this agent in this context, in queue order.
    fn pending_by_context(
        &self,
        agent: &AgentId,
        context: &ContextId,
    ) -> Result<Vec<StoredTask>, TaskStoreError>;

    /// Every task in a non-terminal state, exactly as it was written: first those that are not
    /// queued, oldest first, then the queued ones in queue order.
    fn open(&self) -> Result<Vec<StoredTask>, TaskStoreError>;

    /// At most `limit` events of a task with numbers above `after`, ascending.
    fn events(
        &self,
        id: TaskId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Arc<StreamEvent>)>, TaskStoreError>;

    /// One push configuration of a task.
    fn push(&self, task: TaskId, id: &OpaqueId) -> Result<Option<PushConfig>, TaskStoreError>;

    /// All push configurations of a task, in order of creation.
    fn pushes(&self, task: TaskId) -> Result<Vec<PushConfig>, TaskStoreError>;

    /// At most `limit` outbox entries that are due now. Of each push configuration only the oldest
    /// entry is ever due, so that a webhook receives events in order.
    fn outbox_due(&self, now: UtcMillis, limit: usize) -> Result<Vec<OutboxEntry>, TaskStoreError>;

    /// When the next outbox entry becomes due; `None` when the outbox is empty.
    fn next_due(&self) -> Result<Option<UtcMillis>, TaskStoreError>;

    /// The result of an earlier message with the same id; `None` when the id is new.
    fn message(
        &self,
        owner: &str,
        agent: &AgentId,
        message: &SentMessage,
    ) -> Result<Option<Repeated>, TaskStoreError>;

    /// The [keys](crate::message_key) of all stored message ids; `None` when they are more than
    /// `most`.
    fn message_keys(&self, most: usize) -> Result<Option<Vec<u64>>, TaskStoreError>;

    /// The newest `limit` messages in the histories of this owner's tasks with this agent in this
    /// context, in order of task creation.
    fn history_of_context(
        &self,
        owner: &str,
        agent: &AgentId,
        context: &ContextId,
        limit: usize,
    ) -> Result<Vec<Message>, TaskStoreError>;
}

/// The read side for objectives, plans and their tasks. Each call sees one state of the store: all
/// of a commit or none of it.
///
/// # Errors
/// Every method fails when the disk fails or a row cannot be decoded.
pub trait ObjectiveReader: Send + Sync {
    /// One objective with its plans and their tasks.
    fn objective(&self, id: &ObjectiveId) -> Result<Option<ObjectiveTree>, TaskStoreError>;

    /// A page of objectives, newest first.
    fn objectives(&self, query: &ObjectiveQuery) -> Result<Objectives, TaskStoreError>;

    /// Every objective in a non-terminal state, oldest first.
    fn open_objectives(&self) -> Result<Vec<ObjectiveTree>, TaskStoreError>;

    /// The objective that a plan belongs to.
    fn plan(&self, id: &PlanId) -> Result<Option<ObjectiveId>, TaskStoreError>;

    /// The plan task that this A2A task executes, and its objective.
    fn plan_task_of(
        &self,
        task: TaskId,
    ) -> Result<Option<(ObjectiveId, PlanTaskId)>, TaskStoreError>;

    /// The newest `limit` messages in the histories of a plan's A2A tasks, in order of task
    /// creation.
    fn history_of_plan(&self, id: &PlanId, limit: usize) -> Result<Vec<Message>, TaskStoreError>;

    /// The newest `limit` messages in the histories of an objective's A2A tasks: all tasks of its
    /// owner in its context, in a plan or not, of every agent.
    fn history_of_objective(
        &self,
        id: &ObjectiveId,
        limit: usize,
    ) -> Result<Vec<Message>, TaskStoreError>;
}
