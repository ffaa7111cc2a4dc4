//! The OPT extension: objectives, their plans, and the tasks of those.
//!
//! One model for both versions of A2A: its words are lower case in either. What may follow what,
//! and what a parent makes of its children, stands in `a2a-policy`.

mod hide;
mod hints;
pub(crate) mod operation;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hide::without_opt;
pub use hints::{ObjectiveHint, OptHints};

use crate::TaskId;
use crate::task::{ContextId, Metadata, PlanId, PlanTaskId, TaskState, UtcMillis};

/// The extension's URI, by which a caller activates it.
pub const OPT_EXTENSION: &str = "https://github.com/zeroasterisk/a2a-opt/v1";

/// Plans that one objective may have.
pub const PLANS_PER_OBJECTIVE: usize = 10;
/// Tasks that one plan may have.
pub const TASKS_PER_PLAN: usize = 50;

/// How many bytes the metadata of one objective, plan or task of a plan may take.
pub const METADATA_BYTES: usize = 64 * 1024;
/// How many bytes an objective may take with all its plans and their tasks.
pub const OBJECTIVE_BYTES: usize = 1024 * 1024;

/// How long a caller may wait for a change of an objective.
pub const LONGEST_WAIT_MS: u64 = 60_000;

/// The keys of the extension in the metadata of others.
pub mod key {
    /// What every key of the extension begins with.
    pub const PREFIX: &str = "opt/v1/";
    /// Of a task: its objective.
    pub const OBJECTIVE_ID: &str = "opt/v1/objectiveId";
    /// Of a task: its plan.
    pub const PLAN_ID: &str = "opt/v1/planId";
    /// Of a task: its place in the plan, from 0.
    pub const TASK_INDEX: &str = "opt/v1/taskIndex";
    /// Of a task: the tasks of the plan that come before it.
    pub const DEPENDENCIES: &str = "opt/v1/dependencies";
    /// Of a message: the caller would like an objective.
    pub const PREFER_OBJECTIVE: &str = "opt/v1/preferObjective";
    /// Of a message: a name for it.
    pub const SUGGESTED_NAME: &str = "opt/v1/suggestedName";
    /// Of a message: the objective it belongs to (`id`), or the name of a new one (`name`). Of an
    /// event: how the objective stands.
    pub const OBJECTIVE: &str = "opt/v1/objective";
    /// Of an event: how a plan stands.
    pub const PLAN: &str = "opt/v1/plan";
    /// Of a message and of a plan: how much of what came before its agent hears.
    pub const HISTORY_SCOPE: &str = "opt/v1/historyScope";
    /// Of an objective: a number that every change of it or below it raises.
    pub const REVISION: &str = "opt/v1/revision";
    /// Of a plan: the agent that does its tasks.
    pub const ASSIGNEE: &str = "opt/v1/assignee";
    /// Of a plan: what follows when one of its tasks fails.
    pub const ON_TASK_FAILURE: &str = "opt/v1/onTaskFailure";
    /// Of a plan that is blocked, and of an objective that its caller blocked: by what. See
    /// [`BlockedBy`](super::BlockedBy). Set by the server.
    pub const BLOCKED_BY: &str = "opt/v1/blockedBy";
    /// Of a plan that the server's planner drafted: the ids of the plans before it. It begins when
    /// they have ended, and is `pending` until then. Set by the server.
    pub const AFTER: &str = "opt/v1/after";
    /// Of a plan or an objective that failed: why, as the agent or the server gave it. Set by the
    /// server.
    pub const REASON: &str = "opt/v1/reason";
    /// Of an event: `true` when nothing about its task changed, and it is there for what the
    /// extension has to say alone.
    pub const NEWS: &str = "opt/v1/news";
}

/// An objective is a conversation: its id is the context of all its tasks.
pub type ObjectiveId = ContextId;

closed_set! {
    /// How an objective stands.
    pub enum ObjectiveStatus {
        /// Just made.
        Submitted = "submitted",
        /// Its plans are being made.
        Planning = "planning",
        /// Its plans are carried out.
        Working = "working",
        /// It waits for somebody.
        Blocked = "blocked",
        /// All plans are done.
        Completed = "completed",
        /// It cannot be reached.
        Failed = "failed",
        /// Called off.
        Canceled = "canceled",
    }
}

impl ObjectiveStatus {
    /// Whether it stays like this for ever.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

closed_set! {
    /// How a plan stands.
    pub enum PlanStatus {
        /// Not begun.
        Pending = "pending",
        /// Its tasks are worked on.
        Working = "working",
        /// It waits for plans it depends on, for approval, or for an answer to one of its tasks.
        Blocked = "blocked",
        /// All tasks are done.
        Completed = "completed",
        /// It cannot be completed.
        Failed = "failed",
        /// It is not needed any more.
        Skipped = "skipped",
    }
}

impl PlanStatus {
    /// Whether it stays like this for ever.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Skipped)
    }
}

closed_set! {
    /// How a task of a plan stands: not begun, or as the A2A task that does it.
    pub enum PlanTaskStatus {
        /// Not begun.
        Pending = "pending",
        /// Waits for its agent.
        Submitted = "submitted",
        /// Being worked on.
        Working = "working",
        /// Its agent needs an answer.
        InputRequired = "input-required",
        /// Its agent needs credentials.
        AuthRequired = "auth-required",
        /// Done.
        Completed = "completed",
        /// It could not be done.
        Failed = "failed",
        /// Called off, or never begun because its plan ended or what it needs was not done.
        Canceled = "canceled",
        /// Its agent did not take it.
        Rejected = "rejected",
    }
}

impl PlanTaskStatus {
    /// Whether it stays like this for ever.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether it waits for whoever asked.
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
    /// What follows when a task of a plan fails.
    pub enum OnTaskFailure {
        /// The plan fails.
        Fail = "fail",
        /// The task and what depends on it is left out.
        Skip = "skip",
    }
}

closed_set! {
    /// What a blocked plan waits for.
    pub enum BlockedBy {
        /// Plans that it depends on have not ended.
        Dependencies = "dependencies",
        /// Its caller has to release it.
        Approval = "approval",
        /// One of its tasks asks its caller something.
        Input = "input",
    }
}

closed_set! {
    /// How much of what was said before an agent hears with its task.
    pub enum HistoryScope {
        /// What was said about the task.
        Task = "task",
        /// What was said about any task of its plan.
        Plan = "plan",
        /// What was said about any task of its objective.
        Objective = "objective",
    }
}

/// A goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Objective {
    /// Also the context of all its tasks.
    pub id: ObjectiveId,
    /// For people.
    pub name: String,
    /// In more words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it stands.
    pub status: ObjectiveStatus,
    /// In the order in which they were made; absent when not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plans: Option<Vec<Plan>>,
    /// More about it; [`key::REVISION`] is the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// When it was made.
    pub created_at: UtcMillis,
    /// When it or anything below it last changed.
    pub updated_at: UtcMillis,
}

/// A way towards a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Made by the server.
    pub id: PlanId,
    /// The goal.
    pub objective_id: ObjectiveId,
    /// For people.
    pub name: String,
    /// In more words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it stands.
    pub status: PlanStatus,
    /// In order; absent when not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<PlanTask>>,
    /// The plans that must be done before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<PlanId>,
    /// More about it; [`key::ASSIGNEE`], [`key::ON_TASK_FAILURE`] and [`key::HISTORY_SCOPE`] are
    /// heeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// When it was made.
    pub created_at: UtcMillis,
    /// When it or one of its tasks last changed.
    pub updated_at: UtcMillis,
}

/// A step of a plan, done by an A2A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanTask {
    /// Made by the server; not the A2A task's.
    pub id: PlanTaskId,
    /// The plan.
    pub plan_id: PlanId,
    /// The goal.
    pub objective_id: ObjectiveId,
    /// For people, and what the agent is asked for.
    pub name: String,
    /// In more words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its place in the plan, from 0.
    pub task_index: u32,
    /// The tasks of the same plan that must be done before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<PlanTaskId>,
    /// The A2A task that does it, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a2a_task_id: Option<TaskId>,
    /// How it stands.
    pub status: PlanTaskStatus,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}
