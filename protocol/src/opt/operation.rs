//! What a client can ask about objectives and plans.

use serde::{Deserialize, Serialize};

use crate::opt::{Objective, ObjectiveId, ObjectiveStatus, PlanStatus};
use crate::task::{Metadata, PlanId, PlanTaskId};

/// A call of the OPT extension.
#[derive(Debug, Clone, PartialEq)]
pub enum OptOperation {
    /// Make an objective.
    CreateObjective(CreateObjective),
    /// Look at one.
    GetObjective(GetObjective),
    /// Look at many.
    ListObjectives(ListObjectives),
    /// Change one.
    UpdateObjective(UpdateObjective),
    /// Watch one.
    SubscribeObjective(SubscribeObjective),
    /// Add a plan to an objective.
    CreatePlan(CreatePlan),
    /// Look at one.
    GetPlan(GetPlan),
    /// Change one.
    UpdatePlan(UpdatePlan),
    /// Add tasks to a plan.
    AddTasks(AddTasks),
}

/// A new objective.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateObjective {
    /// For people.
    pub name: String,
    /// In more words.
    pub description: Option<String>,
    /// More about it.
    pub metadata: Option<Metadata>,
}

/// Which objective to look at, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetObjective {
    /// Which.
    pub id: ObjectiveId,
    /// With its plans.
    pub include_plans: bool,
    /// With the tasks of those. Tasks stand inside plans, so who asks for them gets both.
    pub include_tasks: bool,
    /// Answer when its revision is above this one.
    pub since_revision: Option<u64>,
    /// But not later than this; at most [`LONGEST_WAIT_MS`](crate::opt::LONGEST_WAIT_MS).
    pub wait_ms: Option<u64>,
}

/// Which objectives to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListObjectives {
    /// In this state.
    pub status: Option<ObjectiveStatus>,
    /// How many at once; 1 to 100.
    pub page_size: Option<u32>,
    /// Where the page before ended.
    pub page_token: Option<String>,
    /// With their plans.
    pub include_plans: bool,
    /// With the tasks of those, and so with the plans.
    pub include_tasks: bool,
}

/// What is to be changed about an objective; what is `None` stays.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateObjective {
    /// Which.
    pub id: ObjectiveId,
    /// A new name.
    pub name: Option<String>,
    /// A new description; an empty one takes it away.
    pub description: Option<String>,
    /// A new status.
    pub status: Option<ObjectiveStatus>,
    /// In place of what it has.
    pub metadata: Option<Metadata>,
}

/// Which objective to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribeObjective {
    /// Which.
    pub id: ObjectiveId,
}

/// A new plan.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatePlan {
    /// Of this objective.
    pub objective_id: ObjectiveId,
    /// For people.
    pub name: String,
    /// In more words.
    pub description: Option<String>,
    /// Blocked until somebody approves of it, or pending.
    pub status: Option<PlanStatus>,
    /// Its tasks, in order.
    pub tasks: Vec<NewPlanTask>,
    /// The plans that must be done before it begins.
    pub dependencies: Vec<PlanId>,
    /// More about it.
    pub metadata: Option<Metadata>,
}

/// A new task of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlanTask {
    /// For people, and what the agent is asked for.
    pub name: String,
    /// In more words.
    pub description: Option<String>,
    /// What must be done before it begins.
    pub dependencies: Vec<TaskReference>,
    /// More about it.
    pub metadata: Option<Metadata>,
}

/// A task of the same plan, as a caller names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskReference {
    /// The n-th task of the same call, from 0: `task-n`.
    Nth(usize),
    /// One that is there already.
    Known(PlanTaskId),
}

/// Which plan to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetPlan {
    /// Which.
    pub id: PlanId,
    /// With its tasks.
    pub include_tasks: bool,
}

/// What is to be changed about a plan; what is `None` stays.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdatePlan {
    /// Which.
    pub id: PlanId,
    /// A new name.
    pub name: Option<String>,
    /// A new description; an empty one takes it away.
    pub description: Option<String>,
    /// A new status.
    pub status: Option<PlanStatus>,
    /// In place of what it has; only of a plan that has not begun.
    pub dependencies: Option<Vec<PlanId>>,
    /// In place of what it has.
    pub metadata: Option<Metadata>,
}

/// More tasks for a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct AddTasks {
    /// Which plan.
    pub plan_id: PlanId,
    /// The tasks, in order, behind those that it has.
    pub tasks: Vec<NewPlanTask>,
}

/// A page of objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectivePage {
    /// The newest first.
    pub objectives: Vec<Objective>,
    /// Where the next page begins; empty at the end.
    pub next_page_token: String,
}
