//! An objective as it is kept: what its caller sees, and what the server must know after a restart.
//!
//! It is written in one piece with its plans and their tasks, and counts its changes. What a
//! status means for those above and below it is not known here.

mod check;
mod list;

use std::sync::Arc;

use a2a_protocol::AgentId;
use a2a_protocol::opt::{Objective, Plan, PlanTask};

pub(super) use check::{Before, follows};
pub use list::{ObjectiveQuery, ObjectiveToken, Objectives};

/// One objective as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredObjective {
    /// What its caller sees, without the plans: those are kept beside it.
    pub objective: Objective,
    /// The caller it belongs to, such as `client:acme`.
    pub owner: Arc<str>,
    /// Under which name its tasks travel on the bus.
    pub principal: AgentId,
    /// Whom the call that made it went to.
    pub agent: AgentId,
    /// One more with every change of it or below it, beginning with 1.
    pub revision: u64,
}

impl StoredObjective {
    /// Whether the other one may be a later state of this objective.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.owner == other.owner
            && self.principal == other.principal
            && self.agent == other.agent
            && self.objective.created_at == other.objective.created_at
    }
}

/// One plan as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPlan {
    /// What its caller sees, without the tasks: those are kept beside it.
    pub plan: Plan,
    /// Its place among the plans of the objective: that of its creation.
    pub order: u32,
    /// A person wants it to wait, whatever its tasks wait for.
    pub held: bool,
}

impl StoredPlan {
    /// Whether the other one may be a later state of this plan.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.plan.objective_id == other.plan.objective_id
            && self.order == other.order
            && self.plan.created_at == other.plan.created_at
    }
}

/// An objective and all that is below it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectiveTree {
    /// The objective.
    pub stored: StoredObjective,
    /// Its plans, in their order.
    pub plans: Vec<PlanTree>,
}

impl ObjectiveTree {
    /// Without what is below it.
    pub(super) const fn bare(stored: StoredObjective) -> Self {
        Self { stored, plans: Vec::new() }
    }
}

/// A plan and its tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTree {
    /// The plan.
    pub stored: StoredPlan,
    /// Its tasks, in their order. One whose A2A task is gone keeps its last status.
    pub tasks: Vec<PlanTask>,
}

/// An objective is new, or it or something below it has changed.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectiveChange {
    /// How it is now; its revision is `expected` and 1.
    pub objective: StoredObjective,
    /// Its revision before; `None` when it is new.
    pub expected: Option<u64>,
    /// The plans that are new or have changed; the others stay.
    pub plans: Vec<StoredPlan>,
    /// The tasks of plans that are new or have changed; the others stay.
    ///
    /// The A2A task that one names must be there by then, of the same owner and in the
    /// objective's conversation. The name of one that has gone is left out, where the status says
    /// that it ended.
    pub tasks: Vec<PlanTask>,
}
