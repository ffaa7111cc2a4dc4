//! What the task service has done since it started, and how much lies with it now.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use a2a_protocol::task::TaskState;
use actix::prelude::*;

use super::service::Service;
use crate::Histogram;
use crate::bus::commit::write_state::{STALLED, WriteState, Writing};

/// How a task can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnd {
    /// It is done.
    Completed,
    /// It could not be done.
    Failed,
    /// It was called off.
    Canceled,
    /// Its agent did not take it.
    Rejected,
    /// Nobody had seen it, and a plain message took its place.
    Answered,
}

impl TaskEnd {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Completed, Self::Failed, Self::Canceled, Self::Rejected, Self::Answered];

    /// In one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
            Self::Answered => "answered",
        }
    }

    const fn of(state: TaskState) -> Option<Self> {
        match state {
            TaskState::Completed => Some(Self::Completed),
            TaskState::Failed => Some(Self::Failed),
            TaskState::Canceled => Some(Self::Canceled),
            TaskState::Rejected => Some(Self::Rejected),
            _ => None,
        }
    }
}

/// What the task service has done since it started; read at any time from any thread.
#[derive(Debug)]
pub struct TaskStats {
    ended: [AtomicU64; TaskEnd::ALL.len()],
    commit_seconds: Histogram,
    commit_changes: Histogram,
    pub(super) store: WriteState,
    unwritten: AtomicU64,
}

impl Default for TaskStats {
    fn default() -> Self {
        Self::new(STALLED)
    }
}

impl TaskStats {
    pub(super) fn new(stalled_after: Duration) -> Self {
        Self {
            ended: Default::default(),
            commit_seconds: Histogram::of_seconds(),
            commit_changes: Histogram::of_sizes(),
            store: WriteState::new(stalled_after),
            unwritten: AtomicU64::new(0),
        }
    }

    /// How many tasks ended so.
    #[must_use]
    pub fn ended(&self, end: TaskEnd) -> u64 {
        self.ended[end as usize].load(Relaxed)
    }

    /// How long the disk took for each batch of changes.
    #[must_use]
    pub fn commit_seconds(&self) -> &Histogram {
        &self.commit_seconds
    }

    /// How many changes each of them had.
    #[must_use]
    pub fn commit_changes(&self) -> &Histogram {
        &self.commit_changes
    }

    /// Whether the store takes changes; when not, no task is accepted.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.store.is_writing()
    }

    /// The same, and why not; a commit that takes very long counts as none.
    #[must_use]
    pub fn store(&self) -> Writing {
        self.store.now()
    }

    /// Changes that happened and could not be written before the server stopped.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.unwritten.load(Relaxed)
    }

    pub(super) fn set_unwritten(&self, changes: usize) {
        self.unwritten.store(changes as u64, Relaxed);
    }

    pub(super) fn end(&self, end: TaskEnd) {
        self.ended[end as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn end_in(&self, state: TaskState) {
        if let Some(end) = TaskEnd::of(state) {
            self.end(end);
        }
    }
}

/// How much lies with the task service at one moment. Tasks that have ended are the store's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskLoad {
    /// Tasks that wait for their turn, or are about to begin.
    pub submitted: usize,
    /// Tasks that are being worked on.
    pub working: usize,
    /// Tasks whose agent needs an answer.
    pub input_required: usize,
    /// Tasks whose agent needs credentials.
    pub auth_required: usize,
    /// Of those that are submitted, tasks that stand behind another of their conversation.
    pub waiting: usize,
}

impl TaskLoad {
    pub(super) fn add(&mut self, state: TaskState, waits: bool) {
        self.waiting += usize::from(waits);
        match state {
            TaskState::Submitted => self.submitted += 1,
            TaskState::Working => self.working += 1,
            TaskState::InputRequired => self.input_required += 1,
            TaskState::AuthRequired => self.auth_required += 1,
            // On its way to the disk as ended.
            _ => {}
        }
    }
}

/// Asks how much lies with the service.
#[derive(Message)]
#[rtype(result = "TaskLoad")]
pub(super) struct MeasureLoad;

impl Handler<MeasureLoad> for Service {
    type Result = MessageResult<MeasureLoad>;

    fn handle(&mut self, _: MeasureLoad, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.load())
    }
}
