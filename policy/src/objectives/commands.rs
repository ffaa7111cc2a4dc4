//! Mutations of an objective tree: reports, status changes, additions, and why they are refused.

use a2a_protocol::opt::{
    ObjectiveStatus, PLANS_PER_OBJECTIVE, Plan, PlanStatus, PlanTask, PlanTaskStatus,
    TASKS_PER_PLAN,
};
use a2a_protocol::task::{PlanId, PlanTaskId};
use a2a_protocol::{Code, Violation};

use super::graph::{self, BadDependency};
use super::settle::Effect;
use super::transitions::{TransitionRefused, check_objective_transition, check_plan_transition};
use super::tree::Tree;

/// Why a mutation was refused; nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefused {
    /// The objective has no such plan.
    #[error("the objective has no plan {plan}")]
    NoSuchPlan {
        /// The id in the call.
        plan: PlanId,
    },
    /// The objective has ended.
    #[error("the objective is {status}, it has ended: make a new one")]
    ObjectiveEnded {
        /// Its status.
        status: ObjectiveStatus,
    },
    /// The plan has ended.
    #[error("the plan {plan} is {status}, it has ended: make a new one with plans/create")]
    PlanEnded {
        /// The plan.
        plan: PlanId,
        /// Its status.
        status: PlanStatus,
    },
    /// The plan has begun, so its dependencies are fixed.
    #[error("the plan {plan} is {status}; its dependencies can only be changed before it begins")]
    NotWaiting {
        /// The plan.
        plan: PlanId,
        /// Its status.
        status: PlanStatus,
    },
    /// The limit of plans is reached.
    #[error("an objective has at most {limit} plans, and this one has them")]
    TooManyPlans {
        /// The limit.
        limit: usize,
    },
    /// The limit of tasks would be exceeded.
    #[error("a plan has at most {limit} tasks: this one has {there}, and {more} more were given")]
    TooManyTasks {
        /// The current number of tasks.
        there: usize,
        /// The number of tasks to add.
        more: usize,
        /// The limit.
        limit: usize,
    },
    /// The status change is not allowed.
    #[error(transparent)]
    Transition(#[from] TransitionRefused),
    /// The dependencies are invalid.
    #[error("{}", first(.0))]
    Dependencies(Vec<BadDependency>),
}

fn first(found: &[BadDependency]) -> String {
    found.first().map_or_else(String::new, ToString::to_string)
}

impl CommandRefused {
    /// The refusal as violations of the call.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        let (pointer, code) = match self {
            Self::Transition(refused) => return vec![refused.into()],
            Self::Dependencies(found) => return found.iter().map(Violation::from).collect(),
            Self::NoSuchPlan { .. } => ("/id", Code::NotAllowed),
            Self::ObjectiveEnded { .. } => ("/objectiveId", Code::NotAllowed),
            Self::PlanEnded { .. } => ("/planId", Code::NotAllowed),
            Self::NotWaiting { .. } => ("/dependencies", Code::NotAllowed),
            Self::TooManyPlans { .. } => ("/objectiveId", Code::TooMany),
            Self::TooManyTasks { .. } => ("/tasks", Code::TooMany),
        };
        vec![Violation::new(pointer, code, self.to_string())]
    }
}

impl Tree {
    /// Sets the status of a task from its A2A task. Ignored when the task has ended or not begun.
    pub fn report(&mut self, task: &PlanTaskId, status: PlanTaskStatus) -> Vec<Effect> {
        self.changing(|tree| {
            let mut tasks = tree.plans.iter_mut().flat_map(|plan| &mut plan.tasks);
            let Some(node) = tasks.find(|node| node.id == *task) else { return };
            let begun = node.status != PlanTaskStatus::Pending && !node.status.is_terminal();
            if begun && status != PlanTaskStatus::Pending {
                node.status = status;
            }
        })
    }

    /// Sets the status of a plan for a caller. A terminal status cancels its unfinished tasks;
    /// `blocked` holds it, `working` releases it.
    ///
    /// # Errors
    ///
    /// There is no such plan, or the status change is not allowed.
    pub fn move_plan(
        &mut self,
        plan: &PlanId,
        to: PlanStatus,
    ) -> Result<Vec<Effect>, CommandRefused> {
        let index =
            self.index(plan).ok_or_else(|| CommandRefused::NoSuchPlan { plan: plan.clone() })?;
        let from = self.plans[index].status;
        check_plan_transition(from, to)?;
        // A plan that waits for other plans is blocked already, and can be held as well.
        let holds = to == PlanStatus::Blocked && !self.plans[index].held;
        if from == to && !holds {
            return Ok(Vec::new());
        }
        Ok(self.changing(|tree| {
            let plan = &mut tree.plans[index];
            plan.held = to == PlanStatus::Blocked;
            if to.is_terminal() {
                plan.status = to;
            }
        }))
    }

    /// Sets the status of the objective for a caller. A terminal status cancels everything
    /// unfinished.
    ///
    /// `blocked` holds it: no further task begins until another status is set. `planning` and
    /// `working` are shown until the status derived from its plans changes.
    ///
    /// # Errors
    ///
    /// The status change is not allowed.
    pub fn move_objective(&mut self, to: ObjectiveStatus) -> Result<Vec<Effect>, CommandRefused> {
        check_objective_transition(self.status, to)?;
        Ok(self.changing(|tree| {
            tree.status = to;
            tree.held = to == ObjectiveStatus::Blocked;
        }))
    }

    /// Checks that one more plan, with this number of tasks, can be added.
    ///
    /// # Errors
    ///
    /// The objective has ended, or a limit is reached.
    pub fn check_plan_capacity(&self, tasks: usize) -> Result<(), CommandRefused> {
        if self.status.is_terminal() {
            Err(CommandRefused::ObjectiveEnded { status: self.status })
        } else if self.plans.len() >= PLANS_PER_OBJECTIVE {
            Err(CommandRefused::TooManyPlans { limit: PLANS_PER_OBJECTIVE })
        } else {
            check_task_limit(0, tasks)
        }
    }

    /// Adds a plan whose dependencies [`graph::check_plan`] accepted. One that arrives `blocked`
    /// waits for approval.
    ///
    /// # Errors
    ///
    /// The objective has ended, or a limit is reached.
    pub fn add_plan(&mut self, plan: &Plan) -> Result<Vec<Effect>, CommandRefused> {
        self.check_plan_capacity(plan.tasks.as_ref().map_or(0, Vec::len))?;
        Ok(self.changing(|tree| tree.push_plan(plan)))
    }

    /// Checks that this number of tasks can be added to the plan.
    ///
    /// # Errors
    ///
    /// There is no such plan, it has ended, or the limit is reached.
    pub fn check_task_capacity(&self, plan: &PlanId, tasks: usize) -> Result<(), CommandRefused> {
        let node =
            self.plan(plan).ok_or_else(|| CommandRefused::NoSuchPlan { plan: plan.clone() })?;
        if node.status.is_terminal() {
            return Err(CommandRefused::PlanEnded { plan: plan.clone(), status: node.status });
        }
        check_task_limit(node.tasks.len(), tasks)
    }

    /// Adds tasks, whose dependencies [`graph::check_tasks`] accepted, to a plan.
    ///
    /// # Errors
    ///
    /// There is no such plan, it has ended, or the limit is reached.
    pub fn add_tasks(
        &mut self,
        plan: &PlanId,
        tasks: &[PlanTask],
    ) -> Result<Vec<Effect>, CommandRefused> {
        self.check_task_capacity(plan, tasks.len())?;
        Ok(self.changing(|tree| {
            if let Some(node) = tree.plans.iter_mut().find(|node| node.id == *plan) {
                node.push(tasks);
            }
        }))
    }

    /// Replaces the dependencies of a plan that has not begun.
    ///
    /// # Errors
    ///
    /// There is no such plan, it has begun or ended, or the dependencies are invalid.
    pub fn set_dependencies(
        &mut self,
        plan: &PlanId,
        dependencies: &[PlanId],
    ) -> Result<Vec<Effect>, CommandRefused> {
        let index =
            self.index(plan).ok_or_else(|| CommandRefused::NoSuchPlan { plan: plan.clone() })?;
        graph::check_dependencies(self, plan, dependencies)
            .map_err(CommandRefused::Dependencies)?;
        let (node, indices) = (&self.plans[index], self.indices(dependencies));
        let waits = !node.status.is_terminal() && !node.has_begun();
        if !waits && indices != node.dependencies {
            return Err(CommandRefused::NotWaiting { plan: plan.clone(), status: node.status });
        }
        Ok(self.changing(|tree| tree.plans[index].dependencies = indices))
    }
}

fn check_task_limit(there: usize, more: usize) -> Result<(), CommandRefused> {
    if there.saturating_add(more) > TASKS_PER_PLAN {
        return Err(CommandRefused::TooManyTasks { there, more, limit: TASKS_PER_PLAN });
    }
    Ok(())
}
