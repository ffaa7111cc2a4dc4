//! Payload of `task_response`: accept a task, decline it, or report how it ended.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::{example, required_when};
use crate::fields::object::present;
use crate::{Extensible, List, TaskId, Text, TypedFields};

closed_set! {
    /// What happens with the task.
    pub enum Action {
        /// I take the task and start.
        Accepted = "accepted",
        /// I do not take the task.
        Declined = "declined",
        /// The task is done.
        Completed = "completed",
        /// The task cannot be done.
        Failed = "failed",
        /// The task waits for something I cannot provide.
        Blocked = "blocked",
    }
}

impl Action {
    /// Whether the sender must give a `reason`.
    #[must_use]
    pub const fn needs_reason(self) -> bool {
        matches!(self, Self::Declined | Self::Failed | Self::Blocked)
    }

    /// Whether the action ends the task.
    #[must_use]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Declined | Self::Completed | Self::Failed)
    }
}

/// The payload of `task_response`: the answer to a `task_request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = reason_is_required, extend("examples" = [Self::example(), Self::declined_example()]))]
pub struct TaskResponse {
    /// The `taskId` of the request that is answered.
    pub task_id: TaskId,
    /// What happens with the task.
    pub action: Action,
    /// Why. Required, and not blank, when `action` is `declined`, `failed` or `blocked`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// What came of the work. Any further fields are carried through unchanged.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<Extensible<TaskResult>>,
}

/// The typed fields of a task's `result`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase")]
pub struct TaskResult {
    /// The branch that holds the work.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub branch: Option<Text>,
    /// The path of the worktree that holds the work.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Text>,
    /// Paths of the files that were changed.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<List<Text>>,
    /// What was done, in a few sentences.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub summary: Option<Text>,
    /// What should happen next, one step each.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub next_steps: Option<List<Text>>,
}

object_only!(TaskResponse, TaskResult);

impl TypedFields for TaskResult {}

fn reason_is_required(schema: &mut Schema) {
    let values = Action::ALL.iter().filter(|a| a.needs_reason()).map(|a| a.as_str());
    let description = "Why the task was declined, failed or is blocked.";
    required_when(schema, "action", values, "reason", description);
}

impl TaskResponse {
    pub(super) fn is_consistent(&self) -> bool {
        !self.action.needs_reason()
            || self.reason.as_ref().is_some_and(|reason| !reason.trim().is_empty())
    }

    fn declined_example() -> Self {
        example!({
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
            "action": "declined",
            "reason": "I have no access to that repository."
        })
    }

    pub(super) fn example() -> Self {
        example!({
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
            "action": "completed",
            "result": {
                "branch": "roman/validator",
                "worktree": "worktrees/validator",
                "filesChanged": ["src/validator.rs", "tests/validator.rs"],
                "summary": "All seven kinds validate; 42 tests pass.",
                "nextSteps": ["Needs a review"]
            }
        })
    }
}
