//! Stored objectives with their plans and plan tasks.
//!
//! A change of anything in an objective's tree is one write and raises the objective's revision.
//! How statuses follow from each other is decided by the caller.

use std::sync::Arc;

use a2a_protocol::AgentId;
use a2a_protocol::opt::{Objective, Plan, PlanTask};

/// One objective with its owner and revision.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredObjective {
    /// The objective as its caller sees it, without plans: those are rows of their own.
    pub objective: Objective,
    /// The caller that owns it, such as `client:acme`.
    pub owner: Arc<str>,
    /// The sender name of its tasks' messages on the bus.
    pub principal: AgentId,
    /// The agent that the creating call was addressed to.
    pub agent: AgentId,
    /// Rises by 1 with every change of it, its plans or their tasks, from 1.
    pub revision: u64,
}

/// One plan with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPlan {
    /// The plan as its caller sees it, without tasks: those are rows of their own.
    pub plan: Plan,
    /// Its position among the plans of the objective, in order of creation.
    pub order: u32,
    /// Whether an operator paused it.
    pub held: bool,
}

/// An objective with its plans and their tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectiveTree {
    /// The objective.
    pub stored: StoredObjective,
    /// Its plans, by position.
    pub plans: Vec<PlanTree>,
}

impl ObjectiveTree {
    /// The objective without its plans.
    pub(crate) const fn bare(stored: StoredObjective) -> Self {
        Self { stored, plans: Vec::new() }
    }
}

/// A plan with its tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTree {
    /// The plan.
    pub stored: StoredPlan,
    /// Its tasks, by position. One whose A2A task was deleted keeps its last status.
    pub tasks: Vec<PlanTask>,
}

/// Creates an objective, or changes it or anything in its tree.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectiveChange {
    /// The new state; its revision is `expected + 1`.
    pub objective: StoredObjective,
    /// The revision that is replaced; `None` creates the objective.
    pub expected: Option<u64>,
    /// The plans to insert or update; the others stay.
    pub plans: Vec<StoredPlan>,
    /// The plan tasks to insert or update; the others stay.
    ///
    /// An A2A task that one references must be stored, of the same owner and in the objective's
    /// context. The reference to a deleted task is dropped when the plan task has ended.
    pub tasks: Vec<PlanTask>,
}
