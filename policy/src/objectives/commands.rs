//! The ways into a tree: what callers and agents do to an objective, and when they may not.

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

/// Why a change was not made. Nothing changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefused {
    /// The objective has no such plan.
    #[error("the objective has no plan {plan}")]
    NoSuchPlan {
        /// As it was named.
        plan: PlanId,
    },
    /// Nothing can be added to what has ended.
    #[error("the objective is {status}, it has ended: make a new one")]
    ObjectiveEnded {
        /// How.
        status: ObjectiveStatus,
    },
    /// Nothing can be added to what has ended.
    #[error("the plan {plan} is {status}, it has ended: make a new one with plans/create")]
    PlanEnded {
        /// Which.
        plan: PlanId,
        /// How.
        status: PlanStatus,
    },
    /// What it waits for can only be changed while it waits.
    #[error("the plan {plan} is {status}; its dependencies can only be changed before it begins")]
    NotWaiting {
        /// Which.
        plan: PlanId,
        /// How it stands.
        status: PlanStatus,
    },
    /// The limit of plans.
    #[error("an objective has at most {limit} plans, and this one has them")]
    TooManyPlans {
        /// How many it may have.
        limit: usize,
    },
    /// The limit of tasks.
    #[error("a plan has at most {limit} tasks: this one has {there}, and {more} more were given")]
    TooManyTasks {
        /// How many it has.
        there: usize,
        /// How many were to be added.
        more: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The status cannot be set now.
    #[error(transparent)]
    Transition(#[from] TransitionRefused),
    /// The dependencies make no sense.
    #[error("{}", first(.0))]
    Dependencies(Vec<BadDependency>),
}

fn first(found: &[BadDependency]) -> String {
    found.first().map_or_else(String::new, ToString::to_string)
}

impl CommandRefused {
    /// The same for whoever called.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        let (place, code) = match self {
            Self::Transition(refused) => return vec![refused.into()],
            Self::Dependencies(found) => return found.iter().map(Violation::from).collect(),
            Self::NoSuchPlan { .. } => ("/id", Code::NotAllowed),
            Self::ObjectiveEnded { .. } => ("/objectiveId", Code::NotAllowed),
            Self::PlanEnded { .. } => ("/planId", Code::NotAllowed),
            Self::NotWaiting { .. } => ("/dependencies", Code::NotAllowed),
            Self::TooManyPlans { .. } => ("/objectiveId", Code::TooMany),
            Self::TooManyTasks { .. } => ("/tasks", Code::TooMany),
        };
        vec![Violation::new(place, code, self.to_string())]
    }
}

impl Tree {
    /// How a task stands now, as its A2A task says. What has ended or not begun has nothing to
    /// report any more or yet: such a report changes nothing.
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

    /// A caller sets the status of a plan. What is unfinished below is called off; `blocked`
    /// holds it, `working` lets it go on when it can.
    ///
    /// # Errors
    ///
    /// There is no such plan, or the status cannot be set now.
    pub fn move_plan(
        &mut self,
        plan: &PlanId,
        to: PlanStatus,
    ) -> Result<Vec<Effect>, CommandRefused> {
        let place =
            self.place(plan).ok_or_else(|| CommandRefused::NoSuchPlan { plan: plan.clone() })?;
        let from = self.plans[place].status;
        check_plan_transition(from, to)?;
        // One that waits for other plans is blocked already, and may be held besides.
        let holds = to == PlanStatus::Blocked && !self.plans[place].held;
        if from == to && !holds {
            return Ok(Vec::new());
        }
        Ok(self.changing(|tree| {
            let plan = &mut tree.plans[place];
            plan.held = to == PlanStatus::Blocked;
            if to.is_terminal() {
                plan.status = to;
            }
        }))
    }

    /// A caller sets the status of the objective. When that ends it, what is unfinished below is
    /// called off.
    ///
    /// `blocked` holds it: no further task begins until another status is set. `planning` and
    /// `working` are shown until what its plans amount to changes.
    ///
    /// # Errors
    ///
    /// The status cannot be set now.
    pub fn move_objective(&mut self, to: ObjectiveStatus) -> Result<Vec<Effect>, CommandRefused> {
        check_objective_transition(self.status, to)?;
        Ok(self.changing(|tree| {
            tree.status = to;
            tree.held = to == ObjectiveStatus::Blocked;
        }))
    }

    /// Whether the objective can take one more plan, with so many tasks.
    ///
    /// # Errors
    ///
    /// It has ended, or a limit is reached.
    pub fn check_plan_capacity(&self, tasks: usize) -> Result<(), CommandRefused> {
        if self.status.is_terminal() {
            Err(CommandRefused::ObjectiveEnded { status: self.status })
        } else if self.plans.len() >= PLANS_PER_OBJECTIVE {
            Err(CommandRefused::TooManyPlans { limit: PLANS_PER_OBJECTIVE })
        } else {
            check_task_limit(0, tasks)
        }
    }

    /// Adds a plan whose dependencies were checked with [`graph::check_plan`]. One that comes
    /// `blocked` waits for approval.
    ///
    /// # Errors
    ///
    /// The objective has ended, or a limit is reached.
    pub fn add_plan(&mut self, plan: &Plan) -> Result<Vec<Effect>, CommandRefused> {
        self.check_plan_capacity(plan.tasks.as_ref().map_or(0, Vec::len))?;
        Ok(self.changing(|tree| tree.push_plan(plan)))
    }

    /// Whether the plan can take so many more tasks.
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

    /// Adds tasks, whose dependencies were checked with [`graph::check_tasks`], to a plan.
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

    /// Changes what a plan that has not begun waits for.
    ///
    /// # Errors
    ///
    /// There is no such plan, it has begun or ended, or the dependencies make no sense.
    pub fn set_dependencies(
        &mut self,
        plan: &PlanId,
        dependencies: &[PlanId],
    ) -> Result<Vec<Effect>, CommandRefused> {
        let place =
            self.place(plan).ok_or_else(|| CommandRefused::NoSuchPlan { plan: plan.clone() })?;
        graph::check_dependencies(self, plan, dependencies)
            .map_err(CommandRefused::Dependencies)?;
        let (node, places) = (&self.plans[place], self.places(dependencies));
        let waits = !node.status.is_terminal() && !node.has_begun();
        if !waits && places != node.dependencies {
            return Err(CommandRefused::NotWaiting { plan: plan.clone(), status: node.status });
        }
        Ok(self.changing(|tree| tree.plans[place].dependencies = places))
    }
}

fn check_task_limit(there: usize, more: usize) -> Result<(), CommandRefused> {
    if there.saturating_add(more) > TASKS_PER_PLAN {
        return Err(CommandRefused::TooManyTasks { there, more, limit: TASKS_PER_PLAN });
    }
    Ok(())
}
