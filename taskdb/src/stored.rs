//! A task as it is kept: what its caller sees, and what the server must know after a restart.

use std::sync::Arc;

use a2a_protocol::operation::{ArtifactUpdate, PushConfig, StatusUpdate, StreamEvent};
use a2a_protocol::task::{ContextId, Metadata, Moment, Task};
use a2a_protocol::{AgentId, CorrelationId, TaskId, Trace};

/// Since when a task waits, in its metadata.
const QUEUED_AT: &str = "queuedAt";
/// Its place in the queue, from 1, in its metadata.
const QUEUE_POSITION: &str = "queuePosition";

/// One task as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTask {
    /// What its caller sees.
    pub task: Arc<Task>,
    /// The caller it belongs to, such as `client:acme`.
    pub owner: Arc<str>,
    /// Under which name it travels on the bus.
    pub principal: AgentId,
    /// Who does it.
    pub agent: AgentId,
    /// The version of A2A in which it was asked for, where its agent is to hear of it.
    pub spoken_version: Option<Arc<str>>,
    /// Of its messages on the bus.
    pub correlation: CorrelationId,
    /// The trace that its caller gave; that of its messages on the bus when there is none.
    pub trace: Option<Arc<Trace>>,
    /// One more with every change, beginning with 1.
    pub version: u64,
    /// The number of its newest event; 0 before the first.
    pub last_event: u64,
    /// It waits for its turn.
    pub queued: Option<Queued>,
    /// Its `task_request` was handed to the bus.
    pub dispatched: bool,
    /// The working time of its finished stretches.
    pub worked_ms: u64,
    /// Since when it is worked on now.
    pub working_since: Option<Moment>,
    /// The numbers of the last messages of the bus that are in it, so that one that comes again
    /// after a crash does not count twice.
    pub heard: Vec<u64>,
    /// When it was made.
    pub created: Moment,
    /// When it changed last.
    pub updated: Moment,
}

impl StoredTask {
    /// Its place in the trace that it belongs to.
    #[must_use]
    pub fn trace(&self) -> Trace {
        let step = self.task.id.as_uuid();
        match &self.trace {
            Some(given) => given.step(step),
            None => Trace::of(self.correlation, step),
        }
    }

    pub(super) fn id(&self) -> TaskId {
        self.task.id
    }

    pub(super) fn context(&self) -> &ContextId {
        &self.task.context_id
    }

    /// Whether everything that happened to it can be told from how it ended: its artifacts came
    /// whole, one after the other, and then it was over. No event of such a task is kept.
    #[must_use]
    pub fn tells_all(&self) -> bool {
        self.task.status.state.is_terminal()
            && self.last_event == self.task.artifacts.len() as u64 + 1
    }

    /// What happened to a task that [tells all](Self::tells_all).
    pub(super) fn told(&self) -> impl Iterator<Item = (u64, Arc<StreamEvent>)> {
        let task = &self.task;
        let artifacts = task.artifacts.iter().map(|artifact| {
            StreamEvent::ArtifactUpdate(Box::new(ArtifactUpdate {
                task_id: task.id,
                context_id: task.context_id.clone(),
                artifact: Arc::clone(artifact),
                append: false,
                last_chunk: true,
                metadata: None,
            }))
        });
        let end = StreamEvent::StatusUpdate(Box::new(StatusUpdate {
            task_id: task.id,
            context_id: task.context_id.clone(),
            status: task.status.clone(),
            metadata: None,
        }));
        (1..).zip(artifacts.chain([end]).map(Arc::new))
    }

    /// Whether the other one may be a later state of this task.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.owner == other.owner
            && self.principal == other.principal
            && self.agent == other.agent
            && self.correlation == other.correlation
            && self.created == other.created
            && self.context() == other.context()
    }

    /// Says in the metadata that it waits, and at which place.
    pub(super) fn show_place(&mut self, place: u64) {
        if let Some(queued) = self.queued {
            queued.show(Arc::make_mut(&mut self.task), place);
        }
    }

    /// Takes off what [`Self::show_place`] put on, so that no place is ever kept.
    pub(super) fn hide_place(&mut self) {
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

/// That a task waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// The smallest of an agent and a conversation is next; equals go by the task's id.
    pub order: i64,
    /// Since when.
    pub at: Moment,
}

impl Queued {
    /// Says in the task's metadata that it waits, and at which place.
    pub fn show(self, task: &mut Task, place: u64) {
        let metadata = task.metadata.get_or_insert_default();
        metadata.insert(QUEUED_AT.to_owned(), self.at.to_utc().timestamp_millis().into());
        metadata.insert(QUEUE_POSITION.to_owned(), place.into());
    }
}

/// Something that happened to a task and is to be kept for those who watch it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Above that of every earlier event of the task.
    pub number: u64,
    /// What.
    pub event: Arc<StreamEvent>,
    /// When.
    pub at: Moment,
}

/// An event that a webhook is to be told of.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    /// Its number in the outbox, for [`super::Write::Pushed`] and [`super::Write::PushLater`].
    pub outbox: u64,
    /// Of which task.
    pub task: TaskId,
    /// Whom to tell.
    pub config: PushConfig,
    /// The event's number within the task.
    pub number: u64,
    /// What happened.
    pub event: Arc<StreamEvent>,
    /// How often it was tried in vain.
    pub attempts: u32,
}
