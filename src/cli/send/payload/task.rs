//! Flags of task_request, task_response and status_update.

use a2a_protocol::body::{Action, Complexity, Status, TaskType};
use a2a_protocol::{AgentId, Kind, TaskId};
use serde_json::Value;

use super::super::{TaskParties, new_id};
use super::{Fields, Payload, timestamp};
use crate::cli::human::one_of;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a send task-request --to tim --title 'Count the kinds' \\
    --description 'How many are there?'
  openclaw-a2a send task-request --from roman --to tim \\
    --title 'Write the validator' --type implementation \\
    --complexity high --priority high --deadline 2h \\
    --criterion 'All vectors pass' --branch tim/validator")]
pub(in super::super) struct TaskRequest {
    /// Title of the work in one line
    #[arg(long, value_name = "TEXT")]
    title: String,
    /// Description of the work [default: the title]
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Type of work
    #[arg(long = "type", default_value = "implementation",
        value_parser = one_of(TaskType::ALL, TaskType::as_str))]
    task_type: TaskType,
    /// Complexity
    #[arg(long, default_value = "medium", value_parser = one_of(Complexity::ALL, Complexity::as_str))]
    complexity: Complexity,
    /// Deadline: RFC 3339, or a duration from now (90s, 15m, 2h, 3d)
    #[arg(long, value_name = "T", value_parser = timestamp)]
    deadline: Option<String>,
    /// Acceptance criterion; may be given several times
    #[arg(long = "criterion", value_name = "TEXT")]
    criteria: Vec<String>,
    /// The branch to work on
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// The worktree to work in
    #[arg(long, value_name = "PATH")]
    worktree: Option<String>,
    /// A file to read first; may be given several times
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
    /// Earlier task to request again or to hand on [default: a new one]
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
}

impl Payload for TaskRequest {
    const KIND: Kind = Kind::TaskRequest;

    fn task(&self) -> Option<TaskId> {
        self.task
    }

    fn write(&self, _: &str) -> anyhow::Result<Value> {
        let context = Fields::default()
            .with("branch", self.branch.as_ref())
            .with("worktree", self.worktree.as_ref())
            .list("relatedFiles", &self.files);
        Ok(Fields::default()
            .with("taskId", Some(self.task.map_or_else(new_id, |task| task.to_string())))
            .with("title", Some(&self.title))
            .with("description", Some(self.description.as_ref().unwrap_or(&self.title)))
            .with("taskType", Some(self.task_type))
            .with("complexity", Some(self.complexity))
            .with("deadline", self.deadline.as_ref())
            .with("context", context.some())
            .list("acceptanceCriteria", &self.criteria)
            .object())
    }
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a send task-response --from tim \\
    --task 0192a4c8-7e1a-7b3c-9d4e-000000000003 --action accepted
  openclaw-a2a send task-response --from tim \\
    --task 0192a4c8-7e1a-7b3c-9d4e-000000000003 --action failed \\
    --reason 'no access'

Without --to it goes to the requester of the task.")]
pub(in super::super) struct TaskResponse {
    /// Task that is answered
    #[arg(long, value_name = "ID")]
    task: TaskId,
    /// Action on the task
    #[arg(long, value_parser = one_of(Action::ALL, Action::as_str))]
    action: Action,
    /// Reason; required for declined, failed and blocked
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Summary of the work
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
    /// The branch that holds the work
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// The worktree that holds the work
    #[arg(long, value_name = "PATH")]
    worktree: Option<String>,
    /// A file that was changed; may be given several times
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
    /// Next step; may be given several times
    #[arg(long = "next-step", value_name = "TEXT")]
    next_steps: Vec<String>,
}

impl Payload for TaskResponse {
    const KIND: Kind = Kind::TaskResponse;

    fn task(&self) -> Option<TaskId> {
        Some(self.task)
    }

    fn addressee<'a>(&self, parties: &'a TaskParties) -> Option<&'a AgentId> {
        Some(&parties.requester)
    }

    fn write(&self, _: &str) -> anyhow::Result<Value> {
        let result = Fields::default()
            .with("summary", self.summary.as_ref())
            .with("branch", self.branch.as_ref())
            .with("worktree", self.worktree.as_ref())
            .list("filesChanged", &self.files)
            .list("nextSteps", &self.next_steps);
        Ok(Fields::default()
            .with("taskId", Some(self.task))
            .with("action", Some(self.action))
            .with("reason", self.reason.as_ref())
            .with("result", result.some())
            .object())
    }
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a send status-update --from tim --to roman \\
    --progress 'Five of seven kinds validate'
  openclaw-a2a send status-update --from tim \\
    --task 0192a4c8-7e1a-7b3c-9d4e-000000000003 \\
    --status blocked --progress 'The validator is done' \\
    --blocked-by 'The limits are not decided'

With --task and without --to it goes to the requester of the task. It never ends a task: task-response does.")]
pub(in super::super) struct StatusUpdate {
    /// Current progress in a sentence or two
    #[arg(long, value_name = "TEXT")]
    progress: String,
    /// Status of the work
    #[arg(long, default_value = "in_progress", value_parser = one_of(Status::ALL, Status::as_str))]
    status: Status,
    /// Task [default: work in general]
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// What blocks the work; required for blocked
    #[arg(long, value_name = "TEXT")]
    blocked_by: Option<String>,
    /// Estimated completion: RFC 3339, or a duration from now (15m, 2h)
    #[arg(long, value_name = "T", value_parser = timestamp)]
    done_by: Option<String>,
}

impl Payload for StatusUpdate {
    const KIND: Kind = Kind::StatusUpdate;

    fn task(&self) -> Option<TaskId> {
        self.task
    }

    fn addressee<'a>(&self, parties: &'a TaskParties) -> Option<&'a AgentId> {
        Some(&parties.requester)
    }

    fn write(&self, _: &str) -> anyhow::Result<Value> {
        Ok(Fields::default()
            .with("taskId", self.task)
            .with("status", Some(self.status))
            .with("progress", Some(&self.progress))
            .with("blockedBy", self.blocked_by.as_ref())
            .with("estimatedCompletion", self.done_by.as_ref())
            .object())
    }
}
