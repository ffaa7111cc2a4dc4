//! Draft of a status update.

use a2a_protocol::body::Status;
use a2a_protocol::{AgentId, PROGRESS_EXTENSION, Progress, TaskId};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Addressee, BuildError, MessageHeader, When, draft};

/// Status of a task, or of the sender's work in general, sent with
/// [`Agent::send_status_update`](crate::Agent::send_status_update).
///
/// As a reply to a delivery it concerns that delivery's task. Addressed to an agent id it is a
/// general status, unless [`for_task`](Self::for_task) sets a task.
///
/// ```
/// use a2a_sdk::StatusReport;
/// use serde_json::json;
///
/// let going = StatusReport::in_progress("Five of the seven kinds validate")
///     .estimated_completion(std::time::Duration::from_secs(600))
///     .extension("https://example.org/cost/v1", json!({"tokens": 1200}));
/// let stuck = StatusReport::blocked("The router is not done", "The limits are not decided");
/// # let _ = (going, stuck);
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    #[serde(skip)]
    pub(super) header: MessageHeader,
    #[serde(skip)]
    trackers: Option<Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<TaskId>,
    status: Status,
    progress: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_completion: Option<When>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
}

draft!(StatusReport is StatusUpdate);

impl StatusReport {
    fn new(status: Status, progress: String) -> Self {
        Self {
            header: MessageHeader::default(),
            trackers: None,
            task_id: None,
            status,
            progress,
            blocked_by: None,
            estimated_completion: None,
            metadata: Map::new(),
        }
    }

    /// In progress; `progress` describes the state in a sentence or two.
    #[must_use]
    pub fn in_progress(progress: impl Into<String>) -> Self {
        Self::new(Status::InProgress, progress.into())
    }

    /// Paused; the work will continue.
    #[must_use]
    pub fn paused(progress: impl Into<String>) -> Self {
        Self::new(Status::Paused, progress.into())
    }

    /// The work itself is done. The task ends only with a task response.
    #[must_use]
    pub fn completed(progress: impl Into<String>) -> Self {
        Self::new(Status::Completed, progress.into())
    }

    /// Blocked: the state, and what blocks it.
    #[must_use]
    pub fn blocked(progress: impl Into<String>, blocked_by: impl Into<String>) -> Self {
        let blocked_by = Some(blocked_by.into());
        Self { blocked_by, ..Self::new(Status::Blocked, progress.into()) }
    }

    /// Sets the task it concerns.
    #[must_use]
    pub fn for_task(mut self, task: TaskId) -> Self {
        self.task_id = Some(task);
        self
    }

    /// The estimated time of completion.
    #[must_use]
    pub fn estimated_completion(mut self, moment: impl Into<When>) -> Self {
        self.estimated_completion = Some(moment.into());
        self
    }

    /// Data of a protocol extension under its URI, carried through unchanged.
    #[must_use]
    pub fn extension(mut self, uri: impl Into<String>, data: impl Into<Value>) -> Self {
        self.metadata.insert(uri.into(), data.into());
        self
    }

    /// Bars of the task-progress extension; its rules are checked when the message is written.
    #[must_use]
    pub fn trackers(mut self, progress: Progress) -> Self {
        self.trackers = Some(progress);
        self
    }

    fn fill_in(&mut self, _: &AgentId, to: &Addressee) -> Result<(), BuildError> {
        self.task_id = self.task_id.or_else(|| to.task());
        let Some(progress) = self.trackers.take() else { return Ok(()) };
        let data = serde_json::to_value(progress)
            .unwrap_or_else(|error| unreachable!("numbers and strings are writable: {error}"));
        self.metadata.insert(PROGRESS_EXTENSION.to_owned(), data);
        Ok(())
    }
}
