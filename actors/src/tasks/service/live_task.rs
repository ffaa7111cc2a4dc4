//! State of one open task: current state, durable state, and the callers that wait for it.
//!
//! ```text
//! persistence  Deferred ──▶ Creating ──▶ Stored        a create that fails evicts the task
//! visibility   Hidden ──▶ Shown                        the client sees a task
//!                 └─────▶ Answered                     or a plain message in its place
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use a2a_policy::Now;
use a2a_policy::tasks::{AgentText, ArtifactPiece, Lane, TaskTransition};
use a2a_protocol::operation::{ArtifactUpdateEvent, StatusUpdateEvent, StreamEvent};
use a2a_protocol::task::{Message, Role, Task, TaskState, TaskStatus, UtcMillis};
use a2a_taskdb::{SentMessage, StoredTask};

use super::ReplySender;
use super::deferred_create::DeferredCreate;
use super::progress_coalescer::ProgressCoalescer;
use super::subscribers::Subscribers;
use super::write_behind::WriteBehindPermit;
use crate::tasks::objectives::StepRef;
use crate::{AckHandle, Submission};

/// Messages of a task's history that are always kept. A quarter more is allowed before the oldest
/// are removed, because each removal rewrites the whole history.
const HISTORY: usize = 1_000;
/// Sequence numbers of bus messages that a task remembers for deduplication. A crash leaves far
/// fewer of them without acknowledgement.
const REMEMBERED: usize = 128;

/// What the agent gets once a change is committed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::tasks) enum AgentAction {
    #[default]
    None,
    /// Dispatch the task's request.
    Dispatch,
    /// Cancel the task on the bus, for this reason.
    Cancel(String),
}

/// Actions to run after the commit of a change.
#[derive(Default)]
pub(in crate::tasks) struct Followup {
    /// The client's message, written with the change.
    pub(in crate::tasks) message: Option<SentMessage>,
    /// Bus messages to acknowledge.
    pub(in crate::tasks) acks: Vec<AckHandle>,
    /// Callers that wait for this change; they get the task.
    pub(in crate::tasks) replies: Vec<ReplySender>,
    /// Callers that get a stream of the events after this change.
    pub(in crate::tasks) streams: Vec<ReplySender>,
    pub(in crate::tasks) action: AgentAction,
}

/// A change that is not committed yet.
pub(in crate::tasks) struct PendingChange {
    pub(in crate::tasks) version: u64,
    pub(in crate::tasks) task: Arc<Task>,
    pub(in crate::tasks) events: Vec<(u64, Arc<StreamEvent>)>,
    /// Its `message` is part of the write and `None` here.
    pub(in crate::tasks) followup: Followup,
}

/// Whether the store has a row for the task.
pub(super) enum Persistence {
    /// No row yet. The create waits for the end of the task or for its time limit.
    Deferred(DeferredCreate),
    /// The create is queued.
    Creating,
    /// The row exists; it may be older than the live state.
    Stored,
}

/// What the client that sent the message sees of the task.
pub(super) enum Visibility {
    /// Nothing, so that a plain message can replace the task.
    Hidden,
    Shown,
    /// A plain message replaces the task; its write is queued.
    Answered(Box<Message>),
}

/// One open task.
pub(in crate::tasks) struct LiveTask {
    /// The current state, which includes changes that are not committed yet.
    pub(in crate::tasks) stored: StoredTask,
    pub(in crate::tasks) lane: Lane,
    /// The committed state, which is what callers see.
    pub(in crate::tasks) durable: Arc<Task>,
    pub(in crate::tasks) durable_event: u64,
    /// Oldest first.
    pub(in crate::tasks) changes: VecDeque<PendingChange>,
    pub(in crate::tasks) subscribers: Subscribers,
    /// Callers that wait until the task ends or is interrupted, with the version to wait for.
    pub(in crate::tasks) waiters: Vec<(u64, ReplySender)>,
    /// The agent's request, built when it was assessed; `None` after the first dispatch.
    pub(in crate::tasks) submission: Option<Submission>,
    persistence: Persistence,
    visibility: Visibility,
    /// Held while the end was returned to the caller and is not committed yet.
    pub(super) write_behind: Option<WriteBehindPermit>,
    /// The step of an objective that the task executes.
    pub(in crate::tasks) part_of: Option<StepRef>,
    /// The bus has assessed the request and charged the caller.
    pub(in crate::tasks) assessed: bool,
    /// Redelivered messages, acknowledged when no change is pending.
    pub(in crate::tasks) late_acks: Vec<AckHandle>,
    /// Number of dispatches since the service started.
    pub(in crate::tasks) dispatches: u32,
    /// Bytes of the agent's messages about the task.
    pub(in crate::tasks) reply_bytes: usize,
    /// The task may have push configs.
    pub(in crate::tasks) has_push: bool,
    pub(in crate::tasks) progress: ProgressCoalescer,
}

impl LiveTask {
    /// A task whose create is about to be queued.
    pub(in crate::tasks) fn new(stored: StoredTask) -> Self {
        Self {
            lane: Lane {
                owner: Arc::clone(&stored.owner),
                agent: stored.agent.clone(),
                context: stored.task.context_id.clone(),
            },
            progress: ProgressCoalescer::of(&stored.task),
            durable: Arc::clone(&stored.task),
            durable_event: stored.last_event,
            stored,
            changes: VecDeque::new(),
            subscribers: Subscribers::default(),
            waiters: Vec::new(),
            submission: None,
            persistence: Persistence::Creating,
            visibility: Visibility::Shown,
            write_behind: None,
            part_of: None,
            assessed: true,
            late_acks: Vec::new(),
            dispatches: 0,
            reply_bytes: 0,
            has_push: false,
        }
    }

    pub(in crate::tasks) fn state(&self) -> TaskState {
        self.stored.task.status.state
    }

    /// Whether nothing more can happen to the task.
    pub(in crate::tasks) fn is_over(&self) -> bool {
        self.state().is_terminal() || self.answer().is_some()
    }

    /// Whether changes, or the plain message, are not committed yet.
    pub(in crate::tasks) fn has_unwritten(&self) -> bool {
        !self.changes.is_empty() || self.answer().is_some()
    }

    /// Whether the task is queued and the store has that state.
    pub(in crate::tasks) fn is_queued_in_store(&self) -> bool {
        self.state() == TaskState::Submitted
            && matches!(self.persistence, Persistence::Stored)
            && !self.has_unwritten()
    }

    pub(in crate::tasks) fn set_stored(&mut self) {
        self.persistence = Persistence::Stored;
    }

    pub(super) fn defer_create(&mut self, create: DeferredCreate) {
        self.persistence = Persistence::Deferred(create);
    }

    /// The deferred create, to be queued now; `None` when none is deferred.
    pub(super) fn take_deferred_create(&mut self) -> Option<DeferredCreate> {
        match std::mem::replace(&mut self.persistence, Persistence::Creating) {
            Persistence::Deferred(create) => Some(create),
            other => {
                self.persistence = other;
                None
            }
        }
    }

    /// Whether the task exists only in the journal, and can be rebuilt from there.
    pub(in crate::tasks) fn is_only_in_journal(&self) -> bool {
        matches!(&self.persistence, Persistence::Deferred(create) if create.in_journal)
    }

    pub(super) fn hide(&mut self) {
        self.visibility = Visibility::Hidden;
    }

    /// From here on the client sees a task; no effect when a plain message replaces it.
    pub(super) fn show(&mut self) {
        if self.is_hidden() {
            self.visibility = Visibility::Shown;
        }
    }

    pub(super) fn is_hidden(&self) -> bool {
        matches!(self.visibility, Visibility::Hidden)
    }

    pub(super) fn is_shown(&self) -> bool {
        matches!(self.visibility, Visibility::Shown)
    }

    pub(super) fn replace_with(&mut self, answer: Box<Message>) {
        self.visibility = Visibility::Answered(answer);
    }

    /// The plain message that replaces the task.
    pub(super) fn answer(&self) -> Option<&Message> {
        match &self.visibility {
            Visibility::Answered(answer) => Some(answer),
            Visibility::Hidden | Visibility::Shown => None,
        }
    }

    /// Moves a queued task to working; returns the event.
    pub(in crate::tasks) fn start_turn(&mut self, now: Now) -> Option<StreamEvent> {
        let event = self.advance(TaskTransition::Start, AgentText::default(), now)?;
        self.stored.dispatched = true;
        self.dispatches += 1;
        Some(event)
    }

    /// Applies a state transition; returns its event, or `None` when it is not allowed.
    pub(in crate::tasks) fn advance(
        &mut self,
        step: TaskTransition,
        mut output: AgentText,
        now: Now,
    ) -> Option<StreamEvent> {
        if self.answer().is_some() {
            return None;
        }
        let state = step.after(self.state())?;
        self.track_working_time(state, now);
        let metadata = self.apply_progress(&mut output, now);
        let task = Arc::make_mut(&mut self.stored.task);
        let message = agent_message(output, task).map(Arc::new);
        let status = TaskStatus { state, message, timestamp: now.utc.into() };
        let before = std::mem::replace(&mut task.status, status.clone());
        let before = self.archive_message(before.message);
        let task = Arc::make_mut(&mut self.stored.task);
        task.history.extend(before);
        truncate_history(&mut task.history);
        self.stored.queued = None;
        Some(StreamEvent::StatusUpdate(Box::new(StatusUpdateEvent {
            task_id: task.id,
            context_id: task.context_id.clone(),
            status,
            metadata,
        })))
    }

    /// Counts the time in state working, which the timeout limits.
    fn track_working_time(&mut self, next: TaskState, now: Now) {
        let now = UtcMillis::from(now.utc);
        match (self.stored.working_since, next == TaskState::Working) {
            (None, true) => self.stored.working_since = Some(now),
            (Some(since), false) => {
                let stretch = (now.to_utc() - since.to_utc()).num_milliseconds();
                self.stored.worked_ms += u64::try_from(stretch).unwrap_or(0);
                self.stored.working_since = None;
            }
            _ => {}
        }
    }

    /// Appends a message of the client to the history.
    pub(in crate::tasks) fn add_client_message(&mut self, message: Message) {
        let task = Arc::make_mut(&mut self.stored.task);
        task.history.extend(task.status.message.take());
        task.history.push(Arc::new(message));
        truncate_history(&mut task.history);
    }

    /// Records that the bus message with this sequence number is applied.
    pub(in crate::tasks) fn record_seq(&mut self, seq: u64) {
        let seqs = &mut self.stored.applied_seqs;
        let surplus = (seqs.len() + 1).saturating_sub(REMEMBERED);
        seqs.drain(..surplus);
        seqs.push(seq);
    }

    /// Adds, replaces or extends an artifact; returns the event.
    pub(in crate::tasks) fn apply_artifact(&mut self, piece: ArtifactPiece) -> StreamEvent {
        let ArtifactPiece { artifact, append, last_chunk } = piece;
        let artifact = Arc::new(artifact);
        let task = Arc::make_mut(&mut self.stored.task);
        let same_id = task.artifacts.iter_mut().find(|a| a.artifact_id == artifact.artifact_id);
        match same_id {
            Some(same_id) if append => {
                Arc::make_mut(same_id).parts.extend(artifact.parts.iter().cloned());
            }
            Some(same_id) => *same_id = Arc::clone(&artifact),
            None => task.artifacts.push(Arc::clone(&artifact)),
        }
        StreamEvent::ArtifactUpdate(Box::new(ArtifactUpdateEvent {
            task_id: task.id,
            context_id: task.context_id.clone(),
            artifact,
            append,
            last_chunk,
            metadata: None,
        }))
    }
}

fn truncate_history(history: &mut Vec<Arc<Message>>) {
    if history.len() >= HISTORY + HISTORY / 4 {
        history.drain(..history.len() - HISTORY);
    }
}

/// The agent's text as a message of the task; `None` when it is empty.
pub(in crate::tasks) fn agent_message(output: AgentText, task: &Task) -> Option<Message> {
    if output.is_empty() {
        return None;
    }
    Some(Message {
        message_id: output.id.map_or_else(uuid::Uuid::now_v7, |id| id.as_uuid()).into(),
        context_id: Some(task.context_id.clone()),
        task_id: Some(task.id.as_uuid().into()),
        role: Role::Agent,
        parts: output.parts,
        metadata: output.metadata,
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    })
}
