//! Handle of a requested task, with its updates and result.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use a2a_actors::{BusSystem, CancelError};
use a2a_protocol::body::{Status, StatusUpdate, TaskResult};
use a2a_protocol::{AgentId, CorrelationId, Envelope, Open, TaskId, Text};
use futures_util::Stream;

use super::feed::{UpdateQueue, WatchedTasks};
use super::{Agent, SendError, Sent};

/// A task requested with [`Agent::request_task`], and its updates.
///
/// While the handle exists, task responses and status updates about its task go to it and count as
/// handled. Messages after the end of the task, or after the handle was dropped, go to the agent's
/// handler. Reviews always do.
///
/// Up to 256 unread updates are kept. Beyond that the oldest progress is dropped
/// ([`missed`](Self::missed)), never the final update. A handle is not durable: after a restart of
/// the process updates go to the handler.
///
/// ```
/// # #[tokio::main(flavor = "multi_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use openclaw_a2a::{Agent, Bus, Delivery, NewTask, SendError, TaskUpdate};
///
/// async fn count(tim: Agent, delivery: Delivery) -> Result<(), SendError> {
///     tim.accept(&delivery).await?;
///     tim.complete(&delivery, "There are seven.").await?;
///     Ok(())
/// }
///
/// let bus = Bus::builder().in_memory().start()?;
/// bus.attach("tim", count).await?;
/// let roman = bus.connect("roman").await?;
/// let task = NewTask::new("Count the kinds", "How many kinds of message are there?");
/// let mut work = roman.request_task("tim", task).await?;
/// while let Some(update) = work.next().await {
///     match update {
///         TaskUpdate::Accepted => println!("Tim is at it"),
///         TaskUpdate::Progress { text, .. } => println!("{text}"),
///         other => println!("{other:?}"),
///     }
/// }
/// assert_eq!(work.result().await?.summary(), "There are seven.");
/// # bus.stop().await;
/// # Ok(())
/// # }
/// ```
pub struct TaskHandle {
    task_id: TaskId,
    sent: Sent,
    watch: WatchGuard,
    system: BusSystem,
}

/// An update of a task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TaskUpdate {
    /// The agent has accepted the task.
    Accepted,
    /// Progress of the work.
    Progress {
        /// `in_progress`, `paused` or `completed`; none of them ends the task.
        status: Status,
        /// The progress text.
        text: String,
        /// The complete status update, metadata included.
        report: Box<StatusUpdate>,
    },
    /// The work is blocked. It may continue later.
    Blocked {
        /// What blocks it.
        reason: String,
        /// The complete status update; `None` when a task response reported the block.
        report: Option<Box<StatusUpdate>>,
    },
    /// A notice of the bus about the task.
    Notice {
        /// Text of the notice.
        text: String,
    },
    /// The task is done. The last update.
    Completed {
        /// The result.
        result: Finished,
    },
    /// The agent declines the task. The last update.
    Declined {
        /// The reason.
        reason: String,
    },
    /// The task has failed. The last update.
    Failed {
        /// The reason.
        reason: String,
    },
    /// The request could not be delivered and is a dead letter. The last update.
    Undelivered {
        /// The reason.
        reason: String,
    },
    /// The task was cancelled by a person. The last update.
    Cancelled {
        /// The reason.
        reason: String,
    },
}

impl TaskUpdate {
    /// The end of the task, if this update is the last one.
    pub(super) fn end(&self) -> Option<Result<Finished, TaskError>> {
        match self {
            Self::Completed { result } => Some(Ok(result.clone())),
            Self::Declined { reason } => Some(Err(TaskError::Declined { reason: reason.clone() })),
            Self::Failed { reason } => Some(Err(TaskError::Failed { reason: reason.clone() })),
            Self::Undelivered { reason } => {
                Some(Err(TaskError::Undelivered { reason: reason.clone() }))
            }
            Self::Cancelled { .. } => Some(Err(TaskError::Cancelled)),
            Self::Accepted | Self::Progress { .. } | Self::Blocked { .. } | Self::Notice { .. } => {
                None
            }
        }
    }

    pub(super) fn is_progress(&self) -> bool {
        matches!(self, Self::Progress { .. } | Self::Notice { .. })
    }

    /// Whether this is the last update of its task.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.end().is_some()
    }
}

/// Reason why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The agent declined the task; request it from another one.
    #[error("the task was declined: {reason}")]
    Declined {
        /// The reason.
        reason: String,
    },
    /// The task has failed.
    #[error("the task failed: {reason}")]
    Failed {
        /// The reason.
        reason: String,
    },
    /// The request is a dead letter, which an operator can retry.
    #[error("the task never got through: {reason}")]
    Undelivered {
        /// The reason.
        reason: String,
    },
    /// The timeout has passed. The task continues, and waiting can be repeated.
    #[error("there is no result after {} s; the task goes on", waited.as_secs_f32())]
    TimedOut {
        /// The timeout.
        waited: Duration,
    },
    /// The bus was stopped. The answer goes to the agent's handler after a restart.
    #[error("the bus was stopped before the task ended")]
    Stopped,
    /// The task was cancelled, with [`TaskHandle::cancel`] or by a person.
    #[error("the task was called off")]
    Cancelled,
}

/// Result of a completed task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finished {
    result: Option<Open<TaskResult>>,
}

impl Finished {
    pub(super) fn new(result: Option<Open<TaskResult>>) -> Self {
        Self { result }
    }

    /// Summary of the result; empty when the agent gave none.
    #[must_use]
    pub fn summary(&self) -> &str {
        self.text(|result| result.summary.as_ref()).unwrap_or_default()
    }

    /// Branch that contains the work.
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        self.text(|result| result.branch.as_ref())
    }

    /// Path of the worktree that contains the work.
    #[must_use]
    pub fn worktree(&self) -> Option<&str> {
        self.text(|result| result.worktree.as_ref())
    }

    /// Paths of changed files.
    #[must_use]
    pub fn files_changed(&self) -> &[Text] {
        self.result.as_ref().and_then(|result| result.files_changed.as_deref()).unwrap_or_default()
    }

    /// Next steps.
    #[must_use]
    pub fn next_steps(&self) -> &[Text] {
        self.result.as_ref().and_then(|result| result.next_steps.as_deref()).unwrap_or_default()
    }

    /// The complete result, unknown fields included.
    #[must_use]
    pub fn result(&self) -> Option<&Open<TaskResult>> {
        self.result.as_ref()
    }

    fn text(&self, field: impl Fn(&TaskResult) -> Option<&Text>) -> Option<&str> {
        self.result.as_ref().and_then(|result| field(result)).map(Text::as_str)
    }
}

/// Registration as a watcher; ended when dropped.
struct WatchGuard {
    task: TaskId,
    owner: AgentId,
    queue: Arc<UpdateQueue>,
    watched: Arc<WatchedTasks>,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.watched.forget(self.task, &self.queue);
    }
}

impl std::fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskHandle").field("task_id", &self.task_id).finish_non_exhaustive()
    }
}

impl TaskHandle {
    /// Registers before sending, because an answer may arrive before the receipt.
    pub(super) async fn begin(owner: &Agent, request: Envelope) -> Result<Self, SendError> {
        let (Some(task), Some(assignee)) = (request.body.task_id(), request.to.as_ref()) else {
            unreachable!("a task request names its task and its recipient");
        };
        let watched = Arc::clone(owner.watched());
        let queue =
            watched.watch(task, owner.id().clone(), assignee.agent_id.clone(), request.message_id);
        let watch = WatchGuard { task, owner: owner.id().clone(), queue, watched };
        let sent = owner.post(request).await?;
        Ok(Self { task_id: task, sent, watch, system: owner.system().clone() })
    }

    /// Id of the task.
    #[must_use]
    pub fn task_id(&self) -> TaskId {
        self.task_id
    }

    /// Id of its conversation.
    #[must_use]
    pub fn correlation_id(&self) -> CorrelationId {
        self.sent.correlation_id()
    }

    /// Result of sending the request.
    #[must_use]
    pub fn sent(&self) -> &Sent {
        &self.sent
    }

    /// Number of updates dropped because they were not read in time.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.watch.queue.missed()
    }

    /// Waits for the next update; `None` after the last one. Cancel-safe.
    pub async fn next(&mut self) -> Option<TaskUpdate> {
        poll_fn(|context| self.poll_update(context)).await
    }

    fn poll_update(&self, context: &mut Context<'_>) -> Poll<Option<TaskUpdate>> {
        self.watch.queue.poll_update(context)
    }

    /// Waits until the task has ended, without a limit.
    ///
    /// Unread updates stay available to [`next`](Self::next). Further calls return the same result.
    ///
    /// # Errors
    /// When the task did not complete.
    pub async fn result(&mut self) -> Result<Finished, TaskError> {
        poll_fn(|context| self.watch.queue.poll_end(context)).await
    }

    /// Cancels the task. When this returns, no further answer is accepted. An agent that has not
    /// started does not get the request; a running one is notified, and its
    /// [`Delivery::cancelled`](a2a_actors::Delivery::cancelled) resolves.
    ///
    /// # Errors
    /// When the task has ended already, or the bus cannot write.
    pub async fn cancel(&mut self, reason: &str) -> Result<(), CancelError> {
        let owner = self.watch.owner.clone();
        self.system.cancel_task(self.task_id, Some(owner), reason.to_owned()).await?;
        self.watch.watched.cancel(self.task_id);
        Ok(())
    }

    /// Waits until the task has ended, at most for `limit`.
    ///
    /// After the timeout the task continues, and waiting can be repeated.
    ///
    /// # Errors
    /// [`TaskError::TimedOut`], or when the task did not complete.
    pub async fn result_within(&mut self, limit: Duration) -> Result<Finished, TaskError> {
        let timed_out = TaskError::TimedOut { waited: limit };
        tokio::time::timeout(limit, self.result()).await.unwrap_or(Err(timed_out))
    }
}

impl Stream for TaskHandle {
    type Item = TaskUpdate;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<TaskUpdate>> {
        self.poll_update(context)
    }
}
