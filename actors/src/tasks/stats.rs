//! Counters of the task service, and its current load.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use a2a_protocol::task::TaskState;
use actix::prelude::*;

use super::service::Service;
use crate::Histogram;
use crate::bus::commit::write_state::{STALLED, WriteState, Writing};

/// Final states of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnd {
    /// The agent has completed it.
    Completed,
    /// The agent or the server made it fail.
    Failed,
    /// It was cancelled.
    Canceled,
    /// Its agent rejected it.
    Rejected,
    /// A plain message replaced it before a client saw it.
    Answered,
}

impl TaskEnd {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Completed, Self::Failed, Self::Canceled, Self::Rejected, Self::Answered];

    /// Name of the state.
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

/// Counters since the start, readable from every thread.
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

    /// Tasks that ended in this state.
    #[must_use]
    pub fn ended(&self, end: TaskEnd) -> u64 {
        self.ended[end as usize].load(Relaxed)
    }

    /// Duration of each commit.
    #[must_use]
    pub fn commit_seconds(&self) -> &Histogram {
        &self.commit_seconds
    }

    /// Writes in each commit.
    #[must_use]
    pub fn commit_changes(&self) -> &Histogram {
        &self.commit_changes
    }

    /// Whether the store commits writes; if not, no task is accepted.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.store.is_writing()
    }

    /// State of the store's writer; a commit that takes too long counts as a failure.
    #[must_use]
    pub fn store(&self) -> Writing {
        self.store.now()
    }

    /// Changes that were lost because the server stopped while the store was unavailable.
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

/// Open tasks by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskLoad {
    /// Tasks that are queued or about to start.
    pub submitted: usize,
    /// Tasks in state working.
    pub working: usize,
    /// Tasks whose agent needs an answer.
    pub input_required: usize,
    /// Tasks whose agent needs credentials.
    pub auth_required: usize,
    /// Submitted tasks that are queued behind another task of their conversation.
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
            // Ended, and not committed yet.
            _ => {}
        }
    }
}

/// Measures the load.
#[derive(Message)]
#[rtype(result = "TaskLoad")]
pub(super) struct MeasureLoad;

impl Handler<MeasureLoad> for Service {
    type Result = MessageResult<MeasureLoad>;

    fn handle(&mut self, _: MeasureLoad, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.load())
    }
}
