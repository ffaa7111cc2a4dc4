//! Drafts about tasks: a request and an answer.

use a2a_protocol::body::{Action, Complexity, TaskResponse, TaskResult, TaskType};
use a2a_protocol::{AgentId, Body, Extensible, TaskId, Text};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Addressee, BuildError, MessageHeader, When, draft, strings};

/// A task for another agent, sent with
/// [`Agent::send_task_request`](crate::Agent::send_task_request) or
/// [`Agent::request_task`](crate::Agent::request_task). It gets a new task id.
///
/// ```
/// use a2a_sdk::{Complexity, NewTask, TaskType};
///
/// let task = NewTask::new("Count the kinds", "How many kinds of message are there?")
///     .task_type(TaskType::Research)
///     .complexity(Complexity::Trivial)
///     .deadline(std::time::Duration::from_secs(3_600))
///     .related_files(["docs/protocol.md"])
///     .criterion("The answer is a number");
/// # let _ = task;
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTask {
    #[serde(skip)]
    pub(super) header: MessageHeader,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<TaskId>,
    title: String,
    description: String,
    task_type: TaskType,
    complexity: Complexity,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<When>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    context: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    acceptance_criteria: Vec<String>,
}

draft!(NewTask is TaskRequest);

impl NewTask {
    /// A task with a title and a description; an `implementation` of `medium` complexity by
    /// default.
    #[must_use]
    pub fn new(title: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            header: MessageHeader::default(),
            task_id: None,
            title: title.into(),
            description: description.into(),
            task_type: TaskType::Implementation,
            complexity: Complexity::Medium,
            deadline: None,
            context: Map::new(),
            acceptance_criteria: Vec::new(),
        }
    }

    /// The type of work.
    #[must_use]
    pub fn task_type(mut self, task_type: TaskType) -> Self {
        self.task_type = task_type;
        self
    }

    /// The complexity of the task.
    #[must_use]
    pub fn complexity(mut self, complexity: Complexity) -> Self {
        self.complexity = complexity;
        self
    }

    /// The deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: impl Into<When>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }

    /// Adds a completion criterion.
    #[must_use]
    pub fn criterion(mut self, statement: impl Into<String>) -> Self {
        self.acceptance_criteria.push(statement.into());
        self
    }

    /// The branch to work on.
    #[must_use]
    pub fn branch(self, branch: impl Into<String>) -> Self {
        self.context("branch", branch.into())
    }

    /// The path of the worktree to work in.
    #[must_use]
    pub fn worktree(self, worktree: impl Into<String>) -> Self {
        self.context("worktree", worktree.into())
    }

    /// Paths of files to read first.
    #[must_use]
    pub fn related_files<S: Into<String>>(self, files: impl IntoIterator<Item = S>) -> Self {
        let files: Vec<String> = strings(files).collect();
        self.context("relatedFiles", files)
    }

    /// A field of the task's context, carried through unchanged.
    #[must_use]
    pub fn context(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.context.insert(key.into(), value.into());
        self
    }

    fn fill_in(&mut self, _: &AgentId, _: &Addressee) -> Result<(), BuildError> {
        self.task_id = Some(crate::agent::new_task_id());
        Ok(())
    }
}

/// A text of this many bytes fits a message, however it is escaped.
const SHORT: usize = a2a_protocol::limits::MESSAGE_BYTES / 8;

/// The answer to a task, sent with [`Agent::send_task_response`](crate::Agent::send_task_response).
///
/// An answer that needs a reason cannot be built without one.
///
/// ```
/// use a2a_sdk::TaskAnswer;
///
/// let taken = TaskAnswer::accepted();
/// let not_mine = TaskAnswer::declined("I have no access to that repository.");
/// let done = TaskAnswer::completed("All seven kinds validate.")
///     .branch("tim/validator")
///     .files_changed(["src/validator.rs"])
///     .next_step("Needs a review");
/// # let _ = (taken, not_mine, done);
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskAnswer {
    #[serde(skip)]
    pub(super) header: MessageHeader,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<TaskId>,
    action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    result: Map<String, Value>,
}

draft!(TaskAnswer is TaskResponse, response);

impl TaskAnswer {
    fn new(action: Action, reason: Option<String>) -> Self {
        Self { header: MessageHeader::default(), task_id: None, action, reason, result: Map::new() }
    }

    /// Accepts the task.
    #[must_use]
    pub fn accepted() -> Self {
        Self::new(Action::Accepted, None)
    }

    /// Completes the task; `summary` describes the result in a few sentences.
    #[must_use]
    pub fn completed(summary: impl Into<String>) -> Self {
        Self::new(Action::Completed, None).field("summary", summary.into())
    }

    /// Declines the task.
    #[must_use]
    pub fn declined(reason: impl Into<String>) -> Self {
        Self::new(Action::Declined, Some(reason.into()))
    }

    /// Fails the task.
    #[must_use]
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::new(Action::Failed, Some(reason.into()))
    }

    /// Reports the task as blocked: it waits for something that the sender cannot provide.
    #[must_use]
    pub fn blocked(reason: impl Into<String>) -> Self {
        Self::new(Action::Blocked, Some(reason.into()))
    }

    /// Sets the task; needed only when no delivery about it is answered.
    #[must_use]
    pub fn for_task(mut self, task: TaskId) -> Self {
        self.task_id = Some(task);
        self
    }

    /// The branch that contains the work.
    #[must_use]
    pub fn branch(self, branch: impl Into<String>) -> Self {
        self.field("branch", branch.into())
    }

    /// The path of the worktree that contains the work.
    #[must_use]
    pub fn worktree(self, worktree: impl Into<String>) -> Self {
        self.field("worktree", worktree.into())
    }

    /// Paths of the files that were changed.
    #[must_use]
    pub fn files_changed<S: Into<String>>(self, files: impl IntoIterator<Item = S>) -> Self {
        let files: Vec<String> = strings(files).collect();
        self.field("filesChanged", files)
    }

    /// Adds a next step.
    #[must_use]
    pub fn next_step(self, step: impl Into<String>) -> Self {
        self.also("nextSteps", step.into())
    }

    /// Adds a value to a list of the result.
    #[must_use]
    pub(crate) fn also(mut self, key: &str, value: impl Into<Value>) -> Self {
        let list = self.result.entry(key).or_insert_with(|| Value::Array(Vec::new()));
        match list {
            Value::Array(list) => list.push(value.into()),
            // The field was set to another type; the last call wins, as everywhere.
            other => *other = Value::Array(vec![value.into()]),
        }
        self
    }

    /// A field of the result, carried through unchanged.
    #[must_use]
    pub fn field(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.result.insert(key.into(), value.into());
        self
    }

    fn response(&self) -> Option<Body> {
        let result: Option<Result<Extensible<TaskResult>, _>> =
            (!self.result.is_empty()).then(|| Extensible::from_value(&self.result));
        let (result, reason) = (result.transpose().ok()?, self.reason.as_deref());
        let length = result.as_ref().map_or(0, |result| result.as_json().len());
        // Whether a long text fits a message, only parsing the message decides.
        if length + reason.map_or(0, str::len) > SHORT {
            return None;
        }
        Some(Body::TaskResponse(TaskResponse {
            task_id: self.task_id?,
            action: self.action,
            reason: reason.map(|text| Text::try_from(text.to_owned())).transpose().ok()?,
            result,
        }))
    }

    fn fill_in(&mut self, _: &AgentId, to: &Addressee) -> Result<(), BuildError> {
        self.task_id = self.task_id.or_else(|| to.task());
        if self.task_id.is_some() {
            return Ok(());
        }
        Err(BuildError::missing(
            "/payload/taskId",
            "This answers no task. Answer the delivery that brought the task_request, or name the task with `for_task`.",
        ))
    }
}
