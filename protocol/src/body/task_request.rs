//! Payload of `task_request`: a task for another agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::example;
use crate::fields::object::present;
use crate::{Extensible, List, NonBlank, TaskId, Text, Timestamp, Title, TypedFields};

closed_set! {
    /// The kind of work that is asked for.
    pub enum TaskType {
        /// Write or change code.
        Implementation = "implementation",
        /// Judge work that exists.
        Review = "review",
        /// Find something out.
        Research = "research",
        /// Explain what is there.
        Analysis = "analysis",
        /// Decide how something should be built.
        Design = "design",
    }
}

closed_set! {
    /// How demanding the task is.
    pub enum Complexity {
        /// Minutes, no thought.
        Trivial = "trivial",
        /// Small and clear.
        Low = "low",
        /// Ordinary work.
        Medium = "medium",
        /// Several parts or unknowns.
        High = "high",
        /// Needs a specialist.
        Expert = "expert",
    }
}

/// The payload of `task_request`: a task for the agent named in `to`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [Self::example()]))]
pub struct TaskRequest {
    /// A new UUID of version 7 for this task; every later message about the task repeats it.
    pub task_id: TaskId,
    /// One line that names the work.
    pub title: Title,
    /// What is to be done, in enough detail to start without asking back.
    pub description: NonBlank,
    /// The kind of work that is asked for.
    pub task_type: TaskType,
    /// How demanding the task is.
    pub complexity: Complexity,
    /// When the task must be done: RFC 3339 with `T` and an offset. Leave out if there is no deadline.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Where the work lives. Any further fields are carried through unchanged.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub context: Option<Extensible<TaskContext>>,
    /// What must be true for the task to count as done, one statement each.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub acceptance_criteria: Option<List<Text>>,
}

/// The typed fields of a task's `context`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase")]
pub struct TaskContext {
    /// The branch to work on.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub branch: Option<Text>,
    /// The path of the worktree to work in.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Text>,
    /// Paths of files to read first.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub related_files: Option<List<Text>>,
}

object_only!(TaskRequest, TaskContext);

impl TypedFields for TaskContext {}

impl TaskRequest {
    pub(super) fn example() -> Self {
        example!({
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
            "title": "Implement the message validator",
            "description": "Check every field of the seven message kinds and list all violations of a message at once.",
            "taskType": "implementation",
            "complexity": "medium",
            "deadline": "2026-02-22T00:00:00Z",
            "context": {
                "branch": "roman/validator",
                "worktree": "worktrees/validator",
                "relatedFiles": ["specs/a2a-communication-protocol.md"]
            },
            "acceptanceCriteria": ["All seven kinds validate", "Invalid messages get descriptive errors"]
        })
    }
}
