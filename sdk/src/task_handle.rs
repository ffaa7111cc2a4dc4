//! Handle of a task that another agent does, for the agent that requested it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use a2a_actors::{BusSystem, CancelError};
use a2a_protocol::body::{Status, StatusUpdate, TaskResult};
use a2a_protocol::{AgentId, CorrelationId, Envelope, Extensible, TaskId, Text};
use futures_util::Stream;

use super::task_watch::{TaskWatches, UpdateQueue};
use super::{Agent, SendError, Sent};

/// A task requested with [`Agent::request_task`], and its updates.
///
/// Until it is dropped, the handle receives the task responses and status updates about its task.
/// They are acknowledged without a call of the agent's handler. Messages after the end of the task
/// or the drop of the handle go to the handler again. Reviews always do.
///
/// Up to 256 updates wait to be read; beyond that the oldest progress is dropped
/// ([`missed`](Self::missed)), never the end of the task. A handle lives in memory: after a restart
/// of the process further messages go to the handler.
///
/// ```
/// # #[tokio::main(flavor = "multi_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use a2a_sdk::{Agent, Bus, Delivery, NewTask, SendError, TaskUpdate};
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
    watch: Watch,
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
        /// The state in a sentence or two.
        text: String,
        /// The whole status update, metadata included.
        report: Box<StatusUpdate>,
    },
    /// The work is blocked. It may continue.
    Blocked {
        /// What blocks it.
        reason: String,
        /// The whole status update, if it was one.
        report: Option<Box<StatusUpdate>>,
    },
    /// A notice of the bus about the task.
    Notice {
        /// Its text.
        text: String,
    },
    /// The task is completed. The last update.
    Completed {
        /// The result.
        result: Finished,
    },
    /// The agent declined the task. The last update.
    Declined {
        /// The reason.
        reason: String,
    },
    /// The task failed. The last update.
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
    /// The end of the task, if this update ends it.
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

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The agent declined the task; ask another one.
    #[error("the task was declined: {reason}")]
    Declined {
        /// The reason.
        reason: String,
    },
    /// The task failed.
    #[error("the task failed: {reason}")]
    Failed {
        /// The reason.
        reason: String,
    },
    /// The request is a dead letter; an operator can retry it.
    #[error("the task never got through: {reason}")]
    Undelivered {
        /// The reason.
        reason: String,
    },
    /// The task is still open; the handle can be awaited again.
    #[error("there is no result after {} s; the task goes on", waited.as_secs_f32())]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
    /// The bus was stopped. After a restart, the answer is delivered to the agent's handler.
    #[error("the bus was stopped before the task ended")]
    Stopped,
    /// It was cancelled, with [`TaskHandle::cancel`] or by a person.
    #[error("the task was cancelled")]
    Cancelled,
}

/// The result of a completed task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finished {
    result: Option<Extensible<TaskResult>>,
}

impl Finished {
    pub(super) fn new(result: Option<Extensible<TaskResult>>) -> Self {
        Self { result }
    }

    /// Summary in a few sentences; empty when the agent gave none.
    #[must_use]
    pub fn summary(&self) -> &str {
        self.text(|result| result.summary.as_ref()).unwrap_or_default()
    }

    /// The branch that contains the work.
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        self.text(|result| result.branch.as_ref())
    }

    /// The path of the worktree that contains the work.
    #[must_use]
    pub fn worktree(&self) -> Option<&str> {
        self.text(|result| result.worktree.as_ref())
    }

    /// Paths of the files that were changed.
    #[must_use]
    pub fn files_changed(&self) -> &[Text] {
        self.result.as_ref().and_then(|result| result.files_changed.as_deref()).unwrap_or_default()
    }

    /// Next steps, one each.
    #[must_use]
    pub fn next_steps(&self) -> &[Text] {
        self.result.as_ref().and_then(|result| result.next_steps.as_deref()).unwrap_or_default()
    }

    /// The whole result, unknown fields included.
    #[must_use]
    pub fn result(&self) -> Option<&Extensible<TaskResult>> {
        self.result.as_ref()
    }

    fn text(&self, field: impl Fn(&TaskResult) -> Option<&Text>) -> Option<&str> {
        self.result.as_ref().and_then(|result| field(result)).map(Text::as_str)
    }
}

/// The entry in the watched tasks; removed on drop.
struct Watch {
    task: TaskId,
    owner: AgentId,
    queue: Arc<UpdateQueue>,
    watched: Arc<TaskWatches>,
}

impl Drop for Watch {
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
    /// Watches before it sends: the answer may be faster than the receipt.
    pub(super) async fn begin(owner: &Agent, request: Envelope) -> Result<Self, SendError> {
        let (Some(task), Some(assignee)) = (request.body.task_id(), request.to.as_ref()) else {
            unreachable!("a task request names its task and its recipient");
        };
        let watched = Arc::clone(owner.watched());
        let queue =
            watched.watch(task, owner.id().clone(), assignee.agent_id.clone(), request.message_id);
        let watch = Watch { task, owner: owner.id().clone(), queue, watched };
        let sent = owner.post(request).await?;
        Ok(Self { task_id: task, sent, watch, system: owner.system().clone() })
    }

    /// The task.
    #[must_use]
    pub fn task_id(&self) -> TaskId {
        self.task_id
    }

    /// Its conversation.
    #[must_use]
    pub fn correlation_id(&self) -> CorrelationId {
        self.sent.correlation_id()
    }

    /// The receipt of the request.
    #[must_use]
    pub fn sent(&self) -> &Sent {
        &self.sent
    }

    /// How many updates were dropped because they were not read in time.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.watch.queue.missed()
    }

    /// The next update; `None` when there will be none.
    ///
    /// Cancellation safe.
    pub async fn next(&mut self) -> Option<TaskUpdate> {
        poll_fn(|context| self.poll_update(context)).await
    }

    fn poll_update(&self, context: &mut Context<'_>) -> Poll<Option<TaskUpdate>> {
        self.watch.queue.poll_update(context)
    }

    /// Waits until the task has ended, however long that takes.
    ///
    /// Unread updates stay there for [`next`](Self::next). Further calls return the same result.
    ///
    /// # Errors
    /// When it did not complete.
    pub async fn result(&mut self) -> Result<Finished, TaskError> {
        poll_fn(|context| self.watch.queue.poll_end(context)).await
    }

    /// Cancels the task: once this returns, no answer to it is accepted. An agent that has not
    /// started never sees it; for one at work,
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

    /// Waits until the task has ended, but not longer than `limit`.
    ///
    /// The task continues when the time is up, and may be awaited again.
    ///
    /// # Errors
    /// [`TaskError::TimedOut`], or when it did not complete.
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
