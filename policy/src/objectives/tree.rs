//! Objective tree: an objective with its plans and tasks, as far as decisions need it.
//!
//! A task that has not begun is always `pending` here. That it can never begin follows from the
//! other tasks and is computed on demand by [`PlanNode::shown`].

use PlanTaskStatus::{Canceled, Completed, Pending};
use a2a_protocol::AgentId;
use a2a_protocol::opt::{
    BlockedBy, Objective, ObjectiveId, ObjectiveStatus, OnTaskFailure, Plan, PlanStatus, PlanTask,
    PlanTaskStatus, key,
};
use a2a_protocol::task::{Metadata, PlanId, PlanTaskId};
use serde_json::Value;

use super::settings::Settings;

/// An objective with its plans. Equal trees have equal statuses: compare with an earlier clone to
/// detect changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    pub(super) id: ObjectiveId,
    pub(super) status: ObjectiveStatus,
    /// The caller set it to `blocked`: no task begins until another status is set.
    pub(super) held: bool,
    pub(super) plans: Vec<PlanNode>,
}

/// A plan of the objective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanNode {
    pub(super) id: PlanId,
    pub(super) status: PlanStatus,
    /// It waits for approval: none of its tasks begins before.
    pub(super) held: bool,
    /// Indices of plans in the objective.
    pub(super) dependencies: Vec<usize>,
    /// Indices of plans that come before it without being dependencies.
    pub(super) after: Vec<usize>,
    pub(super) on_task_failure: OnTaskFailure,
    pub(super) assignee: Option<AgentId>,
    pub(super) tasks: Vec<TaskNode>,
}

/// A task of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskNode {
    pub(super) id: PlanTaskId,
    pub(super) status: PlanTaskStatus,
    /// Indices of tasks in the plan.
    pub(super) dependencies: Vec<usize>,
    pub(super) assignee: Option<AgentId>,
}

/// Whether a plan seems to wait for approval, for data without that flag: it is blocked, and
/// neither a question of its tasks nor a dependency is the reason.
#[must_use]
pub fn looks_held(plan: &Plan) -> bool {
    let asks = |task: &PlanTask| task.status.is_interrupted();
    plan.status == PlanStatus::Blocked
        && !plan.tasks.iter().flatten().any(asks)
        && plan.dependencies.is_empty()
}

/// What a plan waits for; `None` when it is not blocked. `held`: it waits for approval.
#[must_use]
pub fn blocked_by(plan: &Plan, tasks: &[PlanTask], held: bool) -> Option<BlockedBy> {
    if plan.status != PlanStatus::Blocked {
        None
    } else if held {
        Some(BlockedBy::Approval)
    } else if tasks.iter().any(|task| task.status.is_interrupted()) {
        Some(BlockedBy::Input)
    } else {
        Some(BlockedBy::Dependencies)
    }
}

/// Metadata keys that only the server writes; values sent by a caller are ignored.
const OF_THE_SERVER: [&str; 3] = [key::BLOCKED_BY, key::AFTER, key::REASON];

/// The metadata of a caller, with the server's keys taken from `before`.
#[must_use]
pub fn with_server_keys(given: Option<Metadata>, before: Option<&Metadata>) -> Option<Metadata> {
    let mut metadata = given.unwrap_or_default();
    metadata.retain(|key, _| !OF_THE_SERVER.contains(&key.as_str()));
    for key in OF_THE_SERVER {
        if let Some(value) = before.and_then(|before| before.get(key)) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    Some(metadata).filter(|metadata| !metadata.is_empty())
}

/// The plans that the planner put before this one.
fn after(plan: &Plan) -> Vec<PlanId> {
    let listed = plan.metadata.as_ref().and_then(|metadata| metadata.get(key::AFTER));
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|id| PlanId::try_from(id.as_str()?).ok()).collect()
}

impl From<&Objective> for Tree {
    /// Guesses holds with [`looks_held`]; use [`Tree::new`] where they are known.
    fn from(objective: &Objective) -> Self {
        Self::new(objective, looks_held)
    }
}

impl Tree {
    /// The tree of an objective that is loaded with all its plans and tasks.
    ///
    /// `held` returns which plans wait for approval: a plan can do so while one of its tasks waits
    /// for input, and then the status alone is ambiguous. Dependencies on missing plans and tasks
    /// are ignored.
    #[must_use]
    pub fn new(objective: &Objective, held: impl Fn(&Plan) -> bool) -> Self {
        let plans: &[Plan] = objective.plans.as_deref().unwrap_or_default();
        let blocked_by = objective.metadata.as_ref().and_then(|all| all.get(key::BLOCKED_BY));
        let is_held = objective.status == ObjectiveStatus::Blocked
            && blocked_by.and_then(Value::as_str) == Some(BlockedBy::Approval.as_str());
        let mut tree = Self {
            id: objective.id.clone(),
            status: objective.status,
            held: is_held,
            plans: vec![],
        };
        tree.plans = plans.iter().map(|plan| PlanNode::new(plan, held(plan))).collect();
        for (index, plan) in plans.iter().enumerate() {
            tree.plans[index].dependencies = tree.indices(&plan.dependencies);
            tree.plans[index].after = tree.indices(&after(plan));
        }
        tree
    }

    /// The objective's id.
    #[must_use]
    pub const fn id(&self) -> &ObjectiveId {
        &self.id
    }

    /// The objective's status.
    #[must_use]
    pub const fn status(&self) -> ObjectiveStatus {
        self.status
    }

    /// Whether its caller set it to `blocked`.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// Its plans, in order of creation.
    #[must_use]
    pub fn plans(&self) -> &[PlanNode] {
        &self.plans
    }

    /// The plan with this id.
    #[must_use]
    pub fn plan(&self, id: &PlanId) -> Option<&PlanNode> {
        self.plans.iter().find(|plan| plan.id == *id)
    }

    /// The ids of the plans that `plan` waits for.
    pub fn dependencies(&self, plan: &PlanNode) -> impl Iterator<Item = &PlanId> {
        plan.dependencies.iter().map(|index| &self.plans[*index].id)
    }

    /// The plan of a task, and the task's index in it.
    #[must_use]
    pub fn find(&self, task: &PlanTaskId) -> Option<(&PlanNode, usize)> {
        self.plans.iter().find_map(|plan| {
            let index = plan.tasks.iter().position(|node| node.id == *task)?;
            Some((plan, index))
        })
    }

    /// Copies all statuses to the objective and to those of its plans and tasks that are loaded.
    pub fn show_in(&self, objective: &mut Objective) {
        objective.status = self.status;
        for plan in objective.plans.iter_mut().flatten() {
            let Some(node) = self.plan(&plan.id) else { continue };
            plan.status = node.status;
            let Some(tasks) = &mut plan.tasks else { continue };
            for (task, (node, status)) in tasks.iter_mut().zip(node.shown()) {
                if task.id == node.id {
                    task.status = status;
                }
            }
        }
    }

    /// Appends a new plan.
    pub(super) fn push_plan(&mut self, plan: &Plan) {
        let mut node = PlanNode::new(plan, plan.status == PlanStatus::Blocked);
        node.dependencies = self.indices(&plan.dependencies);
        node.after = self.indices(&after(plan));
        self.plans.push(node);
    }

    pub(super) fn index(&self, plan: &PlanId) -> Option<usize> {
        self.plans.iter().position(|node| node.id == *plan)
    }

    pub(super) fn indices(&self, plans: &[PlanId]) -> Vec<usize> {
        unique(plans.iter().filter_map(|plan| self.index(plan)))
    }
}

impl PlanNode {
    pub(super) fn new(plan: &Plan, held: bool) -> Self {
        let settings = Settings::of(plan.metadata.as_ref());
        let mut node = Self {
            id: plan.id.clone(),
            status: plan.status,
            held,
            dependencies: vec![],
            after: vec![],
            on_task_failure: settings.on_task_failure,
            assignee: settings.assignee,
            tasks: vec![],
        };
        node.push(plan.tasks.as_deref().unwrap_or_default());
        node
    }

    pub(super) fn push(&mut self, tasks: &[PlanTask]) {
        let first = self.tasks.len();
        self.tasks.extend(tasks.iter().map(TaskNode::new));
        for (index, task) in (first..).zip(tasks) {
            let place_of = |id: &PlanTaskId| self.tasks.iter().position(|node| node.id == *id);
            self.tasks[index].dependencies = unique(task.dependencies.iter().filter_map(place_of));
        }
    }

    /// Indices of all plans that must end before it begins.
    pub(super) fn waits_for(&self) -> impl Iterator<Item = usize> {
        self.dependencies.iter().chain(&self.after).copied()
    }

    /// The plan's id.
    #[must_use]
    pub const fn id(&self) -> &PlanId {
        &self.id
    }

    /// The plan's status.
    #[must_use]
    pub const fn status(&self) -> PlanStatus {
        self.status
    }

    /// Whether it waits for approval. Not always derivable from the protocol's model, so it must be
    /// persisted.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// What a failed task means for the plan.
    #[must_use]
    pub const fn on_task_failure(&self) -> OnTaskFailure {
        self.on_task_failure
    }

    /// Whether a task of it has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.tasks.iter().any(|task| task.status != Pending)
    }

    /// Its tasks, in order.
    #[must_use]
    pub fn tasks(&self) -> &[TaskNode] {
        &self.tasks
    }

    /// The ids of the tasks that `task` waits for.
    pub fn dependencies_of(&self, task: &TaskNode) -> impl Iterator<Item = &PlanTaskId> {
        task.dependencies.iter().map(|index| &self.tasks[*index].id)
    }

    /// The agent that does a task; `None` is the agent that was called.
    #[must_use]
    pub fn assignee<'a>(&'a self, task: &'a TaskNode) -> Option<&'a AgentId> {
        task.assignee.as_ref().or(self.assignee.as_ref())
    }

    /// Its tasks with their visible status: one that can never begin is `canceled`.
    pub fn shown(&self) -> impl Iterator<Item = (&TaskNode, PlanTaskStatus)> {
        let out = self.left_out();
        self.tasks.iter().zip(out).map(move |(task, out)| {
            let never = task.status == Pending && (out || self.status.is_terminal());
            (task, if never { Canceled } else { task.status })
        })
    }

    /// For each task whether it ended without completing, or depends on one that did.
    pub(super) fn left_out(&self) -> Vec<bool> {
        let mut out: Vec<bool> = self
            .tasks
            .iter()
            .map(|task| task.status.is_terminal() && task.status != Completed)
            .collect();
        // Tasks mostly depend on earlier ones, so one pass finds all and another one confirms it.
        loop {
            let mut found = false;
            for (index, task) in self.tasks.iter().enumerate() {
                if !out[index]
                    && task.status == Pending
                    && task.dependencies.iter().any(|d| out[*d])
                {
                    out[index] = true;
                    found = true;
                }
            }
            if !found {
                return out;
            }
        }
    }
}

impl TaskNode {
    fn new(task: &PlanTask) -> Self {
        // A task shown as canceled that never began is still pending.
        let began = task.a2a_task_id.is_some() || task.status != Canceled;
        Self {
            id: task.id.clone(),
            status: if began { task.status } else { Pending },
            dependencies: vec![],
            assignee: Settings::of(task.metadata.as_ref()).assignee,
        }
    }

    /// The task's id.
    #[must_use]
    pub const fn id(&self) -> &PlanTaskId {
        &self.id
    }

    /// Its own status; [`PlanNode::shown`] has the visible one.
    #[must_use]
    pub const fn status(&self) -> PlanTaskStatus {
        self.status
    }
}

fn unique(indices: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut indices: Vec<usize> = indices.collect();
    indices.sort_unstable();
    indices.dedup();
    indices
}
