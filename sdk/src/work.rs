//! A task that another agent does, watched by the one who asked for it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use a2a_actors::{BusSystem, CancelError};
use a2a_protocol::body::{Status, StatusUpdate, TaskResult};
use a2a_protocol::{AgentId, CorrelationId, Envelope, Open, TaskId, Text};
use futures_util::Stream;

use super::feed::{Feed, Watched};
use super::{Agent, SendError, Sent};

/// A task that was asked for with [`Agent::request_task`], and what happens to it.
///
/// While this handle lives, task responses and status updates about its task come here and
/// count as handled; the agent's handler does not see them. What comes after the task has
/// ended, or after the handle was dropped, goes to the handler again. Reviews always do.
///
/// Up to 256 updates wait to be read; beyond that the oldest progress is dropped
/// ([`missed`](Self::missed)), never what ends the task. A handle lives in memory: after a
/// restart of the process the rest comes to the handler.
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

/// Something that happened to a task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TaskUpdate {
    /// The agent has taken the task.
    Accepted,
    /// How the work stands.
    Progress {
        /// `in_progress`, `paused` or `completed`; none of them ends the task.
        status: Status,
        /// The state in a sentence or two.
        text: String,
        /// Everything the agent said, metadata included.
        report: Box<StatusUpdate>,
    },
    /// The work waits for something. It may go on.
    Blocked {
        /// What is in the way.
        reason: String,
        /// Everything the agent said, if it was a status update.
        report: Option<Box<StatusUpdate>>,
    },
    /// The bus itself has something to say about the task.
    Notice {
        /// What it says.
        text: String,
    },
    /// The task is done. The last update.
    Completed {
        /// What came of it.
        result: Finished,
    },
    /// The agent does not take the task. The last update.
    Declined {
        /// Why.
        reason: String,
    },
    /// The task cannot be done. The last update.
    Failed {
        /// Why.
        reason: String,
    },
    /// The request never got through and is a dead letter. The last update.
    Undelivered {
        /// Why.
        reason: String,
    },
    /// A person called the task off. The last update.
    Cancelled {
        /// Why.
        reason: String,
    },
}

impl TaskUpdate {
    /// How the task ends with this update, if it does.
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
    /// The agent does not take the task; ask another one.
    #[error("the task was declined: {reason}")]
    Declined {
        /// Why.
        reason: String,
    },
    /// The task cannot be done.
    #[error("the task failed: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
    /// The request is a dead letter: somebody can look at it and send it again.
    #[error("the task never got through: {reason}")]
    Undelivered {
        /// Why.
        reason: String,
    },
    /// It is still being worked on; the handle can go on waiting.
    #[error("there is no result after {} s; the task goes on", waited.as_secs_f32())]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
    /// The bus was stopped. The answer comes to the agent's handler when both are back.
    #[error("the bus was stopped before the task ended")]
    Stopped,
    /// It was called off, with [`TaskHandle::cancel`] or by a person.
    #[error("the task was called off")]
    Cancelled,
}

/// What came of a task that was completed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finished {
    result: Option<Open<TaskResult>>,
}

impl Finished {
    pub(super) fn new(result: Option<Open<TaskResult>>) -> Self {
        Self { result }
    }

    /// What was done, in a few sentences; empty when the agent said nothing.
    #[must_use]
    pub fn summary(&self) -> &str {
        self.text(|result| result.summary.as_ref()).unwrap_or_default()
    }

    /// The branch that holds the work.
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        self.text(|result| result.branch.as_ref())
    }

    /// The path of the worktree that holds the work.
    #[must_use]
    pub fn worktree(&self) -> Option<&str> {
        self.text(|result| result.worktree.as_ref())
    }

    /// Paths of the files that were changed.
    #[must_use]
    pub fn files_changed(&self) -> &[Text] {
        self.result.as_ref().and_then(|result| result.files_changed.as_deref()).unwrap_or_default()
    }

    /// What should happen next, one step each.
    #[must_use]
    pub fn next_steps(&self) -> &[Text] {
        self.result.as_ref().and_then(|result| result.next_steps.as_deref()).unwrap_or_default()
    }

    /// Everything the agent said, fields the protocol does not know included.
    #[must_use]
    pub fn result(&self) -> Option<&Open<TaskResult>> {
        self.result.as_ref()
    }

    fn text(&self, field: impl Fn(&TaskResult) -> Option<&Text>) -> Option<&str> {
        self.result.as_ref().and_then(|result| field(result)).map(Text::as_str)
    }
}

/// The place in the list of watched tasks; leaves it when dropped.
struct Watch {
    task: TaskId,
    owner: AgentId,
    feed: Arc<Feed>,
    watched: Arc<Watched>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watched.forget(self.task, &self.feed);
    }
}

impl std::fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskHandle").field("task_id", &self.task_id).finish_non_exhaustive()
    }
}

impl TaskHandle {
    /// Watches first and sends then: the answer may be faster than the receipt.
    pub(super) async fn begin(owner: &Agent, request: Envelope) -> Result<Self, SendError> {
        let (Some(task), Some(assignee)) = (request.body.task_id(), request.to.as_ref()) else {
            unreachable!("a task request names its task and its recipient");
        };
        let watched = Arc::clone(owner.watched());
        let feed =
            watched.watch(task, owner.id().clone(), assignee.agent_id.clone(), request.message_id);
        let watch = Watch { task, owner: owner.id().clone(), feed, watched };
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

    /// What the bus said to the request.
    #[must_use]
    pub fn sent(&self) -> &Sent {
        &self.sent
    }

    /// How many updates were dropped because nobody read them in time.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.watch.feed.missed()
    }

    /// The next thing that happens to the task; `None` when nothing more will.
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<TaskUpdate> {
        poll_fn(|context| self.poll_update(context)).await
    }

    fn poll_update(&self, context: &mut Context<'_>) -> Poll<Option<TaskUpdate>> {
        self.watch.feed.poll_update(context)
    }

    /// Waits until the task has ended, however long that takes.
    ///
    /// Updates that were not read stay there for [`next`](Self::next). Asked again it says the
    /// same again.
    ///
    /// # Errors
    /// When it ended in another way than completed.
    pub async fn result(&mut self) -> Result<Finished, TaskError> {
        poll_fn(|context| self.watch.feed.poll_end(context)).await
    }

    /// Calls the task off: from when this returns, no answer to it is accepted. An agent that
    /// has not begun never sees it; one at work is told, and its
    /// [`Delivery::cancelled`](a2a_actors::Delivery::cancelled) comes true.
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
    /// The task goes on when the time is up, and so can the waiting.
    ///
    /// # Errors
    /// [`TaskError::TimedOut`], or when it ended in another way than completed.
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
