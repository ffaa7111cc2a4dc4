//! Stored tasks: the A2A task plus what the server needs after a restart.

use std::sync::Arc;

use a2a_protocol::operation::{ArtifactUpdateEvent, PushConfig, StatusUpdateEvent, StreamEvent};
use a2a_protocol::task::{ContextId, Metadata, Task, UtcMillis};
use a2a_protocol::{AgentId, CorrelationId, TaskId, Trace};

/// Metadata key: when the task was queued, in milliseconds.
const QUEUED_AT: &str = "queuedAt";
/// Metadata key: the position in the queue, from 1.
const QUEUE_POSITION: &str = "queuePosition";

/// One task with its owner, version and queue state.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTask {
    /// The A2A task, as its caller sees it.
    pub task: Arc<Task>,
    /// The caller that owns it, such as `client:acme`.
    pub owner: Arc<str>,
    /// The sender name of its messages on the bus.
    pub principal: AgentId,
    /// The agent that executes it.
    pub agent: AgentId,
    /// The A2A version of the request, where it is passed on to the agent; `None` for 1.0.
    pub spoken_version: Option<Arc<str>>,
    /// The correlation id of its messages on the bus.
    pub correlation: CorrelationId,
    /// The trace context of the request; `None` derives it from the correlation id.
    pub trace: Option<Arc<Trace>>,
    /// Rises by 1 with every change, from 1.
    pub version: u64,
    /// Number of its newest event; 0 before the first.
    pub last_event: u64,
    /// Its place in the queue; `None` when it is not queued.
    pub queued: Option<Queued>,
    /// Whether its `task_request` was submitted to the bus.
    pub dispatched: bool,
    /// Total working time of its finished periods in state working, in milliseconds.
    pub worked_ms: u64,
    /// Start of the current working period; `None` outside of one.
    pub working_since: Option<UtcMillis>,
    /// Sequence numbers of the last bus messages that were applied to it. One that is redelivered
    /// after a crash is not applied twice.
    pub applied_seqs: Vec<u64>,
    /// When it was created.
    pub created: UtcMillis,
    /// When it changed last.
    pub updated: UtcMillis,
}

impl StoredTask {
    /// The trace context of its messages.
    #[must_use]
    pub fn trace(&self) -> Trace {
        let step = self.task.id.as_uuid();
        match &self.trace {
            Some(given) => given.step(step),
            None => Trace::of(self.correlation, step),
        }
    }

    pub(crate) fn id(&self) -> TaskId {
        self.task.id
    }

    pub(crate) fn context(&self) -> &ContextId {
        &self.task.context_id
    }

    /// Whether its events follow from its final state: one event per artifact, each complete, and
    /// the terminal status. No events are stored for such a task.
    #[must_use]
    pub fn has_derivable_events(&self) -> bool {
        self.task.status.state.is_terminal()
            && self.last_event == self.task.artifacts.len() as u64 + 1
    }

    /// The events of a task with [derivable events](Self::has_derivable_events).
    pub(crate) fn derived_events(&self) -> impl Iterator<Item = (u64, Arc<StreamEvent>)> {
        let task = &self.task;
        let artifacts = task.artifacts.iter().map(|artifact| {
            StreamEvent::ArtifactUpdate(Box::new(ArtifactUpdateEvent {
                task_id: task.id,
                context_id: task.context_id.clone(),
                artifact: Arc::clone(artifact),
                append: false,
                last_chunk: true,
                metadata: None,
            }))
        });
        let end = StreamEvent::StatusUpdate(Box::new(StatusUpdateEvent {
            task_id: task.id,
            context_id: task.context_id.clone(),
            status: task.status.clone(),
            metadata: None,
        }));
        (1..).zip(artifacts.chain([end]).map(Arc::new))
    }

    /// Whether the immutable fields are equal, so that `other` may be a later state of this task.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.owner == other.owner
            && self.principal == other.principal
            && self.agent == other.agent
            && self.correlation == other.correlation
            && self.created == other.created
            && self.context() == other.context()
    }

    /// Adds the queue position to the metadata of a queued task.
    pub(crate) fn set_queue_position(&mut self, position: u64) {
        if let Some(queued) = self.queued {
            queued.show(Arc::make_mut(&mut self.task), position);
        }
    }

    /// Removes what [`Self::set_queue_position`] added: a position is never stored.
    pub(crate) fn clear_queue_position(&mut self) {
        let shown = |metadata: &Metadata| {
            metadata.contains_key(QUEUED_AT) || metadata.contains_key(QUEUE_POSITION)
        };
        if !self.task.metadata.as_ref().is_some_and(shown) {
            return;
        }
        let metadata = &mut Arc::make_mut(&mut self.task).metadata;
        *metadata = metadata.take().map(|mut metadata| {
            metadata.remove(QUEUED_AT);
            metadata.remove(QUEUE_POSITION);
            metadata
        });
        metadata.take_if(|metadata| metadata.is_empty());
    }
}

/// The place of a task in the queue of its agent and context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// The smallest is next; ties are broken by task id.
    pub order: i64,
    /// When the task was queued.
    pub at: UtcMillis,
}

impl Queued {
    /// Adds `queuedAt` and `queuePosition` to the metadata of the task.
    pub fn show(self, task: &mut Task, position: u64) {
        let metadata = task.metadata.get_or_insert_default();
        metadata.insert(QUEUED_AT.to_owned(), self.at.to_utc().timestamp_millis().into());
        metadata.insert(QUEUE_POSITION.to_owned(), position.into());
    }
}

/// An event of a task to store, for its subscribers.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Greater than that of every earlier event of the task.
    pub number: u64,
    /// The event.
    pub event: Arc<StreamEvent>,
    /// When it happened.
    pub at: UtcMillis,
}

/// An event in the outbox that is due for delivery to a webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxEntry {
    /// The id of the entry, for [`crate::Write::PushDone`] and [`crate::Write::PushRetry`].
    pub outbox: u64,
    /// The task of the event.
    pub task: TaskId,
    /// The push configuration to deliver to.
    pub config: PushConfig,
    /// The event's number within the task.
    pub number: u64,
    /// The event.
    pub event: Arc<StreamEvent>,
    /// Failed attempts so far.
    pub attempts: u32,
}
