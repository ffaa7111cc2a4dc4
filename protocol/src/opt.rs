//! OPT extension: objectives, their plans, and the tasks of the plans.
//!
//! One model serves both versions of A2A; its wire names are lower case in both. The transitions of
//! states, and how a parent's state follows from its children, are decided in `a2a-policy`.
//!
//! - this file: model, limits and metadata keys
//! - `operation`: the calls
//! - `hints`: metadata with which a message requests an objective
//! - `filter`: removes the extension for callers that have not activated it

mod filter;
mod hints;
pub(crate) mod operation;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use filter::without_opt;
pub use hints::{ObjectiveHint, OptHints};

use crate::TaskId;
use crate::task::{ContextId, Metadata, PlanId, PlanTaskId, TaskState, UtcMillis};

/// The extension's URI, by which a caller activates it.
pub const OPT_EXTENSION: &str = "https://github.com/zeroasterisk/a2a-opt/v1";

/// Maximum plans of an objective.
pub const PLANS_PER_OBJECTIVE: usize = 10;
/// Maximum tasks of a plan.
pub const TASKS_PER_PLAN: usize = 50;

/// Maximum bytes of the metadata of one objective, plan or plan task.
pub const METADATA_BYTES: usize = 64 * 1024;
/// Maximum bytes of an objective with all its plans and their tasks.
pub const OBJECTIVE_BYTES: usize = 1024 * 1024;

/// Maximum milliseconds that a call waits for a change of an objective.
pub const LONGEST_WAIT_MS: u64 = 60_000;

/// Metadata keys of the extension.
pub mod key {
    /// Common prefix of the keys.
    pub const PREFIX: &str = "opt/v1/";
    /// Of a task: its objective.
    pub const OBJECTIVE_ID: &str = "opt/v1/objectiveId";
    /// Of a task: its plan.
    pub const PLAN_ID: &str = "opt/v1/planId";
    /// Of a task: its index in the plan, from 0.
    pub const TASK_INDEX: &str = "opt/v1/taskIndex";
    /// Of a task: the tasks of the plan that it depends on.
    pub const DEPENDENCIES: &str = "opt/v1/dependencies";
    /// Of a message: the caller prefers an objective.
    pub const PREFER_OBJECTIVE: &str = "opt/v1/preferObjective";
    /// Of a message: a name for the objective.
    pub const SUGGESTED_NAME: &str = "opt/v1/suggestedName";
    /// Of a message: the objective it belongs to (`id`), or the name of a new one (`name`). Of an
    /// event: the state of the objective.
    pub const OBJECTIVE: &str = "opt/v1/objective";
    /// Of an event: the state of a plan.
    pub const PLAN: &str = "opt/v1/plan";
    /// Of a message and of a plan: how much history its agent receives.
    pub const HISTORY_SCOPE: &str = "opt/v1/historyScope";
    /// Of an objective: a number that every change of it, its plans or their tasks increases.
    pub const REVISION: &str = "opt/v1/revision";
    /// Of a plan: the agent that runs its tasks.
    pub const ASSIGNEE: &str = "opt/v1/assignee";
    /// Of a plan: what happens when one of its tasks fails.
    pub const ON_TASK_FAILURE: &str = "opt/v1/onTaskFailure";
    /// Of a blocked plan, and of an objective that its caller blocked: the cause. See
    /// [`BlockedBy`](super::BlockedBy). Set by the server.
    pub const BLOCKED_BY: &str = "opt/v1/blockedBy";
    /// Of a plan drafted by the server's planner: the ids of the plans before it. The plan is
    /// `pending` until they have ended. Set by the server.
    pub const AFTER: &str = "opt/v1/after";
    /// Of a failed plan or objective: the reason given by the agent or the server. Set by the server.
    pub const REASON: &str = "opt/v1/reason";
    /// Of an event: `true` if its task has not changed and the event only carries data of the
    /// extension.
    pub const NEWS: &str = "opt/v1/news";
}

/// Id of an objective. It is also the context id of all its tasks.
pub type ObjectiveId = ContextId;

closed_set! {
    /// State of an objective.
    pub enum ObjectiveStatus {
        /// Created.
        Submitted = "submitted",
        /// Its plans are being drafted.
        Planning = "planning",
        /// Its plans are running.
        Working = "working",
        /// It waits for its caller.
        Blocked = "blocked",
        /// All plans are completed.
        Completed = "completed",
        /// Failed.
        Failed = "failed",
        /// Cancelled.
        Canceled = "canceled",
    }
}

impl ObjectiveStatus {
    /// Whether no further state can follow.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

closed_set! {
    /// State of a plan.
    pub enum PlanStatus {
        /// Not started.
        Pending = "pending",
        /// Its tasks are running.
        Working = "working",
        /// It waits for plans it depends on, for approval, or for an answer to one of its tasks.
        Blocked = "blocked",
        /// All tasks are completed.
        Completed = "completed",
        /// Failed.
        Failed = "failed",
        /// No longer needed.
        Skipped = "skipped",
    }
}

impl PlanStatus {
    /// Whether no further state can follow.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Skipped)
    }
}

closed_set! {
    /// State of a plan's task: not started, or the state of its A2A task.
    pub enum PlanTaskStatus {
        /// Not started.
        Pending = "pending",
        /// Submitted to its agent.
        Submitted = "submitted",
        /// The agent is working on it.
        Working = "working",
        /// The agent needs an answer.
        InputRequired = "input-required",
        /// The agent needs credentials.
        AuthRequired = "auth-required",
        /// Completed.
        Completed = "completed",
        /// Failed.
        Failed = "failed",
        /// Cancelled, or never started because its plan ended or a dependency was not completed.
        Canceled = "canceled",
        /// The agent has rejected it.
        Rejected = "rejected",
    }
}

impl PlanTaskStatus {
    /// Whether no further state can follow.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether the task waits for its caller.
    #[must_use]
    pub const fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

impl From<TaskState> for PlanTaskStatus {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Submitted => Self::Submitted,
            TaskState::Working => Self::Working,
            TaskState::Completed => Self::Completed,
            TaskState::Failed => Self::Failed,
            TaskState::Canceled => Self::Canceled,
            TaskState::InputRequired => Self::InputRequired,
            TaskState::Rejected => Self::Rejected,
            TaskState::AuthRequired => Self::AuthRequired,
        }
    }
}

closed_set! {
    /// What happens when a task of a plan fails.
    pub enum OnTaskFailure {
        /// The plan fails.
        Fail = "fail",
        /// The task and the tasks that depend on it are left out.
        Skip = "skip",
    }
}

closed_set! {
    /// Cause of a blocked plan.
    pub enum BlockedBy {
        /// Plans that it depends on have not ended.
        Dependencies = "dependencies",
        /// Its caller must approve it.
        Approval = "approval",
        /// One of its tasks waits for input from the caller.
        Input = "input",
    }
}

closed_set! {
    /// How much of the earlier messages an agent receives with its task.
    pub enum HistoryScope {
        /// The messages of the task.
        Task = "task",
        /// The messages of all tasks of its plan.
        Plan = "plan",
        /// The messages of all tasks of its objective.
        Objective = "objective",
    }
}

/// A goal of a caller, reached by plans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Objective {
    /// Its id, which is also the context id of all its tasks.
    pub id: ObjectiveId,
    /// Display name.
    pub name: String,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The state.
    pub status: ObjectiveStatus,
    /// Its plans in the order of creation; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plans: Option<Vec<Plan>>,
    /// Additional data; the server sets `opt/v1/revision`, which rises with every change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// When it was created.
    pub created_at: UtcMillis,
    /// When it, one of its plans or one of their tasks last changed.
    pub updated_at: UtcMillis,
}

/// A sequence of tasks towards an objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Generated by the server.
    pub id: PlanId,
    /// Its objective.
    pub objective_id: ObjectiveId,
    /// Display name.
    pub name: String,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The state.
    pub status: PlanStatus,
    /// Its tasks in order; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<PlanTask>>,
    /// The plans that must be completed before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<PlanId>,
    /// Additional data; the server evaluates `opt/v1/assignee`, `opt/v1/onTaskFailure` and
    /// `opt/v1/historyScope`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// When it was created.
    pub created_at: UtcMillis,
    /// When it or one of its tasks last changed.
    pub updated_at: UtcMillis,
}

/// A task of a plan, run as an A2A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanTask {
    /// Generated by the server; differs from the A2A task's id.
    pub id: PlanTaskId,
    /// Its plan.
    pub plan_id: PlanId,
    /// Its objective.
    pub objective_id: ObjectiveId,
    /// Display name, and the request to the agent.
    pub name: String,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its index in the plan, from 0.
    pub task_index: u32,
    /// The tasks of the same plan that must be completed before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<PlanTaskId>,
    /// The A2A task that runs it; absent before it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a2a_task_id: Option<TaskId>,
    /// The state.
    pub status: PlanTaskStatus,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}
