//! Settings of the task service.

use std::time::Duration;

use a2a_policy::tasks::PROGRESS_INTERVAL;
use a2a_protocol::AgentId;

use crate::STALLED;

/// What happens at the start to tasks that were working when the server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterRestart {
    /// The task continues: its agent has the request, or gets it redelivered.
    #[default]
    Resume,
    /// The task fails as "interrupted".
    Fail,
}

/// Settings of the task service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSettings {
    /// How long ended tasks are kept.
    pub ttl: Duration,
    /// Longest time in state working.
    pub timeout: Duration,
    /// Queued tasks per conversation with one agent.
    pub queue_per_context: usize,
    /// What happens at the start to tasks that were working when the server stopped.
    pub after_restart: AfterRestart,
    /// Streams, and waiting calls, per task or objective.
    pub subscribers_per_task: usize,
    /// Buffered events per stream; a full stream is cut off.
    pub subscriber_buffer: usize,
    /// How long a stream waits for a plain message of the agent before it shows the task.
    pub plain_answer_grace: Duration,
    /// Longest deferral of the create of a task whose caller waits for its end.
    pub defer_create: Duration,
    /// Bytes of all messages of an agent about one task.
    pub task_bytes: usize,
    /// Shortest time between two published progress updates of a task.
    pub progress_interval: Duration,
    /// Agents for which messages are not deduplicated by `messageId`, such as the host of a
    /// conformance kit that reuses ids.
    pub reused_ids: Vec<AgentId>,
    /// A longer commit makes the task store not ready.
    pub stalled_after: Duration,
}

/// The settings that can change at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveTaskSettings {
    /// How long ended tasks are kept.
    pub ttl: Duration,
    /// Longest time in state working.
    pub timeout: Duration,
    /// Queued tasks per conversation with one agent.
    pub queue_per_context: usize,
}

impl TaskSettings {
    /// The part that can change at run time.
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
