//! What can be set about tasks.

use std::time::Duration;

use a2a_policy::tasks::PROGRESS_INTERVAL;
use a2a_protocol::AgentId;

use crate::STALLED;

/// What becomes of a task that was being worked on when the server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterRestart {
    /// Its agent has the request still, or gets it again; the task goes on.
    #[default]
    Resume,
    /// It fails: "interrupted".
    Fail,
}

/// What can be set about tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSettings {
    /// How long tasks that have ended are kept.
    pub ttl: Duration,
    /// How long a task may be worked on.
    pub timeout: Duration,
    /// How many tasks may wait in one conversation with one agent.
    pub queue_per_context: usize,
    /// What becomes of a task that was being worked on when the server stopped.
    pub after_restart: AfterRestart,
    /// How many may watch one task.
    pub subscribers_per_task: usize,
    /// How many events may wait for one watcher before it is cut off.
    pub subscriber_buffer: usize,
    /// How long a stream waits whether the agent answers with a plain message before it shows
    /// the task.
    pub plain_answer_grace: Duration,
    /// How long a task may stay off the disk whose caller waits for the end and for nothing before.
    pub defer_create: Duration,
    /// How much the messages of an agent about one task may be together, in bytes.
    pub task_bytes: usize,
    /// The shortest time between two updates of a task that say nothing but how far it is.
    pub progress_interval: Duration,
    /// Agents to whom a caller may use a `messageId` again for something new. For all others the
    /// same id is the same message. A conformance kit uses few ids for all of its messages.
    pub reused_ids: Vec<AgentId>,
    /// A commit that takes longer makes the task store not ready.
    pub stalled_after: Duration,
}

/// What of the settings can change while the service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveTaskSettings {
    /// How long tasks that have ended are kept.
    pub ttl: Duration,
    /// How long a task may be worked on.
    pub timeout: Duration,
    /// How many tasks may wait in one conversation with one agent.
    pub queue_per_context: usize,
}

impl TaskSettings {
    /// The part of them that can change while the service runs.
    #[must_use]
    pub const fn live(&self) -> LiveTaskSettings {
        let (ttl, timeout, queue_per_context) = (self.ttl, self.timeout, self.queue_per_context);
        LiveTaskSettings { ttl, timeout, queue_per_context }
    }
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(7 * 86_400),
            timeout: Duration::from_secs(30 * 60),
            queue_per_context: 9_999,
            after_restart: AfterRestart::default(),
            subscribers_per_task: 100,
            subscriber_buffer: 256,
            plain_answer_grace: Duration::from_millis(250),
            defer_create: Duration::from_millis(100),
            task_bytes: 16 * 1024 * 1024,
            progress_interval: PROGRESS_INTERVAL,
            reused_ids: Vec::new(),
            stalled_after: STALLED,
        }
    }
}
