//! One objective with its plans and tasks, as far as decisions need it.
//!
//! A task that has not begun is `pending` here for as long as it exists: that it can never begin
//! any more follows from the others and is worked out whenever somebody looks.

use PlanTaskStatus::{Canceled, Completed, Pending};
use a2a_protocol::AgentId;
use a2a_protocol::opt::{
    BlockedBy, Objective, ObjectiveId, ObjectiveStatus, OnTaskFailure, Plan, PlanStatus, PlanTask,
    PlanTaskStatus, key,
};
use a2a_protocol::task::{Metadata, PlanId, PlanTaskId};
use serde_json::Value;

use super::settings::Settings;

/// An objective. Two that are equal say the same about everything: compare with a clone from
/// before to know whether something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    pub(super) id: ObjectiveId,
    pub(super) status: ObjectiveStatus,
    /// Its caller set it to `blocked`: no further task begins until another status is set.
    pub(super) held: bool,
    pub(super) plans: Vec<PlanNode>,
}

/// A plan of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanNode {
    pub(super) id: PlanId,
    pub(super) status: PlanStatus,
    /// Somebody holds it: nothing of it begins until they approve.
    pub(super) held: bool,
    /// Places in the objective.
    pub(super) dependencies: Vec<usize>,
    /// Places of plans that come before it without being its dependencies.
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
    /// Places in the plan.
    pub(super) dependencies: Vec<usize>,
    pub(super) assignee: Option<AgentId>,
}

/// Whether a plan seems to wait for approval, where that was not recorded: it is blocked, and
/// neither a question of its tasks nor a dependency explains why.
#[must_use]
pub fn looks_held(plan: &Plan) -> bool {
    let asks = |task: &PlanTask| task.status.is_interrupted();
    plan.status == PlanStatus::Blocked
        && !plan.tasks.iter().flatten().any(asks)
        && plan.dependencies.is_empty()
}

/// What a plan waits for; `None` when it is not blocked. `held` says whether it waits for approval.
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

/// The keys of metadata that the server alone writes; a caller that sends them back with the rest
/// changes nothing by it.
const OF_THE_SERVER: [&str; 3] = [key::BLOCKED_BY, key::AFTER, key::REASON];

/// The metadata a caller gives, without what is the server's to say but for what it said before.
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

/// The plans that the server's planner put before this one.
fn after(plan: &Plan) -> Vec<PlanId> {
    let listed = plan.metadata.as_ref().and_then(|metadata| metadata.get(key::AFTER));
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|id| PlanId::try_from(id.as_str()?).ok()).collect()
}

impl From<&Objective> for Tree {
    /// With [`looks_held`]; use [`Tree::new`] where it is known.
    fn from(objective: &Objective) -> Self {
        Self::new(objective, looks_held)
    }
}

impl Tree {
    /// The tree of an objective that is there with all its plans and tasks.
    ///
    /// `held` says which plans wait for approval: a plan can do so while a task of it asks
    /// something, and then its status alone does not tell. Dependencies on what is not there
    /// count for nothing: nobody could wait for it.
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
        for (place, plan) in plans.iter().enumerate() {
            tree.plans[place].dependencies = tree.places(&plan.dependencies);
            tree.plans[place].after = tree.places(&after(plan));
        }
        tree
    }

    /// Which objective.
    #[must_use]
    pub const fn id(&self) -> &ObjectiveId {
        &self.id
    }

    /// How it stands.
    #[must_use]
    pub const fn status(&self) -> ObjectiveStatus {
        self.status
    }

    /// Whether its caller set it to `blocked`.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// Its plans, in the order in which they were made.
    #[must_use]
    pub fn plans(&self) -> &[PlanNode] {
        &self.plans
    }

    /// One of them.
    #[must_use]
    pub fn plan(&self, id: &PlanId) -> Option<&PlanNode> {
        self.plans.iter().find(|plan| plan.id == *id)
    }

    /// The ids of the plans that `plan` waits for.
    pub fn dependencies(&self, plan: &PlanNode) -> impl Iterator<Item = &PlanId> {
        plan.dependencies.iter().map(|place| &self.plans[*place].id)
    }

    /// Where the task stands.
    #[must_use]
    pub fn find(&self, task: &PlanTaskId) -> Option<(&PlanNode, usize)> {
        self.plans.iter().find_map(|plan| {
            let place = plan.tasks.iter().position(|node| node.id == *task)?;
            Some((plan, place))
        })
    }

    /// Writes how everything stands into the objective and what is there of its plans and tasks.
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

    /// Puts a new plan at the end.
    pub(super) fn push_plan(&mut self, plan: &Plan) {
        let mut node = PlanNode::new(plan, plan.status == PlanStatus::Blocked);
        node.dependencies = self.places(&plan.dependencies);
        node.after = self.places(&after(plan));
        self.plans.push(node);
    }

    pub(super) fn place(&self, plan: &PlanId) -> Option<usize> {
        self.plans.iter().position(|node| node.id == *plan)
    }

    pub(super) fn places(&self, plans: &[PlanId]) -> Vec<usize> {
        unique(plans.iter().filter_map(|plan| self.place(plan)))
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
        for (place, task) in (first..).zip(tasks) {
            let place_of = |id: &PlanTaskId| self.tasks.iter().position(|node| node.id == *id);
            self.tasks[place].dependencies = unique(task.dependencies.iter().filter_map(place_of));
        }
    }

    /// Places of all plans that must have ended before it begins.
    pub(super) fn waits_for(&self) -> impl Iterator<Item = usize> {
        self.dependencies.iter().chain(&self.after).copied()
    }

    /// Which plan.
    #[must_use]
    pub const fn id(&self) -> &PlanId {
        &self.id
    }

    /// How it stands.
    #[must_use]
    pub const fn status(&self) -> PlanStatus {
        self.status
    }

    /// Whether it waits for approval. The one thing here that cannot always be told from the
    /// model, so that whoever keeps objectives keeps it as well.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// What follows when a task of it fails.
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
        task.dependencies.iter().map(|place| &self.tasks[*place].id)
    }

    /// Who does a task of it; `None` is the agent that the call went to.
    #[must_use]
    pub fn assignee<'a>(&'a self, task: &'a TaskNode) -> Option<&'a AgentId> {
        task.assignee.as_ref().or(self.assignee.as_ref())
    }

    /// Its tasks and how they are shown: one that cannot begin any more is `canceled`.
    pub fn shown(&self) -> impl Iterator<Item = (&TaskNode, PlanTaskStatus)> {
        let out = self.left_out();
        self.tasks.iter().zip(out).map(move |(task, out)| {
            let never = task.status == Pending && (out || self.status.is_terminal());
            (task, if never { Canceled } else { task.status })
        })
    }

    /// For each task whether it was not done, or needs one that was not.
    pub(super) fn left_out(&self) -> Vec<bool> {
        let mut out: Vec<bool> = self
            .tasks
            .iter()
            .map(|task| task.status.is_terminal() && task.status != Completed)
            .collect();
        // Most tasks need earlier ones, so that one round finds them all and one sees that it did.
        loop {
            let mut found = false;
            for (place, task) in self.tasks.iter().enumerate() {
                if !out[place]
                    && task.status == Pending
                    && task.dependencies.iter().any(|d| out[*d])
                {
                    out[place] = true;
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
        // That one which never began is shown as canceled is not its own state.
        let began = task.a2a_task_id.is_some() || task.status != Canceled;
        Self {
            id: task.id.clone(),
            status: if began { task.status } else { Pending },
            dependencies: vec![],
            assignee: Settings::of(task.metadata.as_ref()).assignee,
        }
    }

    /// Which task.
    #[must_use]
    pub const fn id(&self) -> &PlanTaskId {
        &self.id
    }

    /// How it stands by itself; [`PlanNode::shown`] is what others see.
    #[must_use]
    pub const fn status(&self) -> PlanTaskStatus {
        self.status
    }
}

fn unique(places: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut places: Vec<usize> = places.collect();
    places.sort_unstable();
    places.dedup();
    places
}
