//! One open task in the service's hands: what it is, what of that is durable, who waits for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use a2a_policy::Now;
use a2a_policy::tasks::{ArtifactPiece, Lane, Said, Step};
use a2a_protocol::operation::{ArtifactUpdate, StatusUpdate, StreamEvent};
use a2a_protocol::task::{Message, Moment, Role, Task, TaskState, TaskStatus};
use a2a_taskdb::StoredTask;

use super::progress_coalescer::ProgressCoalescer;
use super::{DeferredCreate, ReplySender};
use crate::tasks::objectives::StepRef;
use crate::tasks::service::write_behind::WriteBehindPermit;
use crate::tasks::watch::Subscribers;
use crate::{Submission, Ticket};

/// How many messages of a task's history are kept at least; the oldest go, a quarter of these at
/// once: cutting off what stands first means writing everything anew.
const HISTORY: usize = 1_000;
/// How many messages of the bus a task remembers: a crash leaves far fewer of them in it without
/// their acknowledgement.
const REMEMBERED: usize = 128;

/// What is to be done when a change is durable.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::tasks) enum AgentAction {
    #[default]
    None,
    /// Hand the task to its agent.
    Dispatch,
    /// Tell the agent that the task is not wanted any more.
    Cancel(String),
}

/// A change on its way to the disk.
pub(in crate::tasks) struct PendingChange {
    pub(in crate::tasks) version: u64,
    pub(in crate::tasks) task: Arc<Task>,
    pub(in crate::tasks) events: Vec<(u64, Arc<StreamEvent>)>,
    /// Messages that are acknowledged when it is durable.
    pub(in crate::tasks) acks: Vec<Ticket>,
    /// Callers who wait for just this.
    pub(in crate::tasks) told: Vec<ReplySender>,
    /// Those who watch what comes after it.
    pub(in crate::tasks) watchers: Vec<ReplySender>,
    pub(in crate::tasks) then: AgentAction,
}

/// One open task.
pub(in crate::tasks) struct LiveTask {
    /// As it will be when everything on its way is durable.
    pub(in crate::tasks) stored: StoredTask,
    pub(in crate::tasks) lane: Lane,
    /// As everybody may see it.
    pub(in crate::tasks) durable: Arc<Task>,
    pub(in crate::tasks) durable_event: u64,
    pub(in crate::tasks) changes: VecDeque<PendingChange>,
    pub(in crate::tasks) watchers: Subscribers,
    /// Callers who wait until it has ended or waits for them, from a version on.
    pub(in crate::tasks) waiters: Vec<(u64, ReplySender)>,
    /// The request to the agent, made when it was assessed.
    pub(in crate::tasks) submission: Option<Submission>,
    /// Nobody has seen the task, so that a plain message can take its place.
    pub(in crate::tasks) unseen: bool,
    /// It is not on the disk yet, and this is what belongs there with it.
    pub(in crate::tasks) birth: Option<DeferredCreate>,
    /// The store has it, as it was once at least.
    pub(in crate::tasks) is_stored: bool,
    /// Its request carries everything, so that the journal can say what the task was.
    pub(in crate::tasks) in_journal: bool,
    /// Its caller was told how it ended, and the store does not have that yet.
    pub(in crate::tasks) told: Option<WriteBehindPermit>,
    /// The step of an objective that it does.
    pub(in crate::tasks) part_of: Option<StepRef>,
    /// The bus has looked at its request and charged for it.
    pub(in crate::tasks) assessed: bool,
    /// What came again while it is on its way to the store: acknowledged when that has it.
    pub(in crate::tasks) late_acks: Vec<Ticket>,
    /// The plain message that takes its place, on its way to the disk.
    pub(in crate::tasks) answer: Option<Box<Message>>,
    /// When it will have been worked on for too long, since the start of the service.
    pub(in crate::tasks) deadline: Option<Duration>,
    /// How often it was handed to its agent since the start.
    pub(in crate::tasks) dispatches: u32,
    /// How much the agent has said about it, in bytes.
    pub(in crate::tasks) reply_bytes: usize,
    /// Somebody may want to be told of it by a call.
    pub(in crate::tasks) has_push: bool,
    /// How far it is.
    pub(in crate::tasks) progress: ProgressCoalescer,
}

impl LiveTask {
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
            watchers: Subscribers::default(),
            waiters: Vec::new(),
            submission: None,
            unseen: false,
            birth: None,
            is_stored: false,
            in_journal: false,
            told: None,
            part_of: None,
            assessed: true,
            late_acks: Vec::new(),
            answer: None,
            deadline: None,
            dispatches: 0,
            reply_bytes: 0,
            has_push: false,
        }
    }

    pub(in crate::tasks) fn state(&self) -> TaskState {
        self.stored.task.status.state
    }

    /// Whether nothing more can happen to it.
    pub(in crate::tasks) fn is_over(&self) -> bool {
        self.state().is_terminal() || self.answer.is_some()
    }

    /// Whether the store has not got all of it yet.
    pub(in crate::tasks) fn has_unwritten(&self) -> bool {
        !self.changes.is_empty() || self.answer.is_some()
    }

    /// Whether it waits for its turn and the store knows that.
    pub(in crate::tasks) fn is_queued_in_store(&self) -> bool {
        self.state() == TaskState::Submitted && self.is_stored && !self.has_unwritten()
    }

    /// It is its turn: the event.
    pub(in crate::tasks) fn start_turn(&mut self, now: Now) -> Option<StreamEvent> {
        let event = self.advance(Step::Start, Said::default(), now)?;
        self.stored.dispatched = true;
        self.dispatches += 1;
        Some(event)
    }

    /// Whether only the journal has it, and all of it.
    pub(in crate::tasks) fn is_only_in_journal(&self) -> bool {
        self.birth.is_some() && self.in_journal
    }

    /// Moves the task if that may happen now; the event, or `None` when it may not.
    pub(in crate::tasks) fn advance(
        &mut self,
        step: Step,
        mut said: Said,
        now: Now,
    ) -> Option<StreamEvent> {
        if self.answer.is_some() {
            return None;
        }
        let state = step.after(self.state())?;
        self.track_working_time(state, now);
        let metadata = self.apply_progress(&mut said, now);
        let task = Arc::make_mut(&mut self.stored.task);
        let message = agent_message(said, task).map(Arc::new);
        let status = TaskStatus { state, message, timestamp: now.utc.into() };
        let before = std::mem::replace(&mut task.status, status.clone());
        let before = self.archive_message(before.message);
        let task = Arc::make_mut(&mut self.stored.task);
        task.history.extend(before);
        truncate_history(&mut task.history);
        self.stored.queued = None;
        Some(StreamEvent::StatusUpdate(Box::new(StatusUpdate {
            task_id: task.id,
            context_id: task.context_id.clone(),
            status,
            metadata,
        })))
    }

    /// The clock of its working time runs while it is worked on.
    fn track_working_time(&mut self, next: TaskState, now: Now) {
        let now = Moment::from(now.utc);
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

    /// Whoever asked says more.
    pub(in crate::tasks) fn add_caller_message(&mut self, message: Message) {
        let task = Arc::make_mut(&mut self.stored.task);
        task.history.extend(task.status.message.take());
        task.history.push(Arc::new(message));
        truncate_history(&mut task.history);
    }

    /// A message of the bus is in it.
    pub(in crate::tasks) fn note(&mut self, seq: u64) {
        let heard = &mut self.stored.heard;
        let surplus = (heard.len() + 1).saturating_sub(REMEMBERED);
        heard.drain(..surplus);
        heard.push(seq);
    }

    /// Takes in an artifact or a piece of one; the event.
    pub(in crate::tasks) fn apply_artifact(&mut self, piece: ArtifactPiece) -> StreamEvent {
        let ArtifactPiece { artifact, append, last_chunk } = piece;
        let artifact = Arc::new(artifact);
        let task = Arc::make_mut(&mut self.stored.task);
        let known = task.artifacts.iter_mut().find(|a| a.artifact_id == artifact.artifact_id);
        match known {
            Some(known) if append => {
                Arc::make_mut(known).parts.extend(artifact.parts.iter().cloned());
            }
            Some(known) => *known = Arc::clone(&artifact),
            None => task.artifacts.push(Arc::clone(&artifact)),
        }
        StreamEvent::ArtifactUpdate(Box::new(ArtifactUpdate {
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

/// What an agent says, as a message of its task; `None` when it says nothing.
pub(in crate::tasks) fn agent_message(said: Said, task: &Task) -> Option<Message> {
    if said.is_empty() {
        return None;
    }
    Some(Message {
        message_id: said.id.map_or_else(uuid::Uuid::now_v7, |id| id.as_uuid()).into(),
        context_id: Some(task.context_id.clone()),
        task_id: Some(task.id.as_uuid().into()),
        role: Role::Agent,
        parts: said.parts,
        metadata: said.metadata,
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    })
}
