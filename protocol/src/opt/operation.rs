//! Calls of the OPT extension and their parameters.

use serde::{Deserialize, Serialize};

use crate::opt::{Objective, ObjectiveId, ObjectiveStatus, PlanStatus};
use crate::task::{Metadata, PlanId, PlanTaskId};

/// A call of the OPT extension.
#[derive(Debug, Clone, PartialEq)]
pub enum OptOperation {
    /// Create an objective.
    CreateObjective(CreateObjective),
    /// Get an objective.
    GetObjective(GetObjective),
    /// List objectives.
    ListObjectives(ListObjectives),
    /// Update an objective.
    UpdateObjective(UpdateObjective),
    /// Subscribe to an objective.
    SubscribeObjective(SubscribeObjective),
    /// Add a plan to an objective.
    CreatePlan(CreatePlan),
    /// Get a plan.
    GetPlan(GetPlan),
    /// Update a plan.
    UpdatePlan(UpdatePlan),
    /// Add tasks to a plan.
    AddTasks(AddTasks),
}

/// A new objective.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateObjective {
    /// Display name.
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
    /// Additional data.
    pub metadata: Option<Metadata>,
}

/// Parameters of getting an objective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetObjective {
    /// The objective.
    pub id: ObjectiveId,
    /// Whether to include its plans.
    pub include_plans: bool,
    /// Whether to include the tasks. Tasks are nested in plans, so this includes the plans too.
    pub include_tasks: bool,
    /// Reply when the revision is above this one.
    pub since_revision: Option<u64>,
    /// Maximum milliseconds to wait for that, up to [`LONGEST_WAIT_MS`](crate::opt::LONGEST_WAIT_MS).
    pub wait_ms: Option<u64>,
}

/// Filter and page of an objective list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListObjectives {
    /// Only objectives in this state.
    pub status: Option<ObjectiveStatus>,
    /// Page size, 1 to 100.
    pub page_size: Option<u32>,
    /// Token of the previous page's end.
    pub page_token: Option<String>,
    /// Whether to include their plans.
    pub include_plans: bool,
    /// Whether to include the tasks, and so the plans.
    pub include_tasks: bool,
}

/// Changes of an objective; `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateObjective {
    /// The objective.
    pub id: ObjectiveId,
    /// A new name.
    pub name: Option<String>,
    /// A new description; an empty one removes it.
    pub description: Option<String>,
    /// A new status.
    pub status: Option<ObjectiveStatus>,
    /// Replaces the metadata.
    pub metadata: Option<Metadata>,
}

/// Parameters of subscribing to an objective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribeObjective {
    /// The objective.
    pub id: ObjectiveId,
}

/// A new plan.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatePlan {
    /// The objective of the plan.
    pub objective_id: ObjectiveId,
    /// Display name.
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
    /// Initial status: `blocked` until the caller approves it, or `pending`.
    pub status: Option<PlanStatus>,
    /// Its tasks, in order.
    pub tasks: Vec<NewPlanTask>,
    /// The plans that must be completed before it starts.
    pub dependencies: Vec<PlanId>,
    /// Additional data.
    pub metadata: Option<Metadata>,
}

/// A new task of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlanTask {
    /// Display name, and the request to the agent.
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
    /// The tasks that must be completed before it starts.
    pub dependencies: Vec<TaskReference>,
    /// Additional data.
    pub metadata: Option<Metadata>,
}

/// A caller's reference to a task of the same plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskReference {
    /// The n-th task of the same call, from 0; written as `task-n`.
    Nth(usize),
    /// An existing task.
    Known(PlanTaskId),
}

/// Parameters of getting a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetPlan {
    /// The plan.
    pub id: PlanId,
    /// Whether to include its tasks.
    pub include_tasks: bool,
}

/// Changes of a plan; `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdatePlan {
    /// The plan.
    pub id: PlanId,
    /// A new name.
    pub name: Option<String>,
    /// A new description; an empty one removes it.
    pub description: Option<String>,
    /// A new status.
    pub status: Option<PlanStatus>,
    /// Replaces the dependencies, of a plan that has not started.
    pub dependencies: Option<Vec<PlanId>>,
    /// Replaces the metadata.
    pub metadata: Option<Metadata>,
}

/// More tasks for a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct AddTasks {
    /// The plan.
    pub plan_id: PlanId,
    /// The tasks, appended in order.
    pub tasks: Vec<NewPlanTask>,
}

/// A page of objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectivePage {
    /// The objectives, the newest first.
    pub objectives: Vec<Objective>,
    /// Token of the next page; empty on the last one.
    pub next_page_token: String,
}
