//! One objective in the service's hands: how it will be when everything on its way is durable.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use a2a_policy::opt::Tree;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::opt::{Objective, Plan, PlanTask, PlanTaskStatus, key};
use a2a_protocol::task::{Moment, PlanId, PlanTaskId, Task};
use a2a_protocol::{TaskId, Trace};
use a2a_store::tasks::{ObjectiveTree, PlanTree, StoredObjective, StoredPlan};
use tokio::sync::oneshot;

use super::alter::Answer;
use super::begin::First;
use super::named;
use crate::tasks::watch::Watchers;

/// How much of what came of a step travels to the steps that need it, in characters.
const RESULT_CHARS: usize = 4_000;

/// A change on its way to the disk.
pub(super) struct News {
    pub(super) revision: u64,
    pub(super) events: Vec<Arc<StreamEvent>>,
    pub(super) told: Vec<Answer>,
}

pub(super) struct Held {
    pub(super) stored: StoredObjective,
    pub(super) plans: Vec<PlanTree>,
    pub(super) tree: Tree,
    /// The revision that everybody may see.
    pub(super) durable: u64,
    pub(super) changes: VecDeque<News>,
    pub(super) watchers: Watchers,
    /// Callers who wait for a revision above theirs.
    pub(super) waiters: Vec<(u64, oneshot::Sender<()>)>,
    /// What came of the steps that are done.
    pub(super) results: HashMap<PlanTaskId, String>,
    /// Plans that are written with all their tasks, whatever the tree says.
    pub(super) touched: Vec<PlanId>,
    /// Whoever gets the next task that begins.
    pub(super) first: Option<First>,
    /// The trace of the message that its plans were last made for; a restart forgets it.
    pub(super) trace: Option<Arc<Trace>>,
}

impl Held {
    pub(super) fn of(tree: ObjectiveTree) -> Self {
        let ObjectiveTree { stored, plans } = tree;
        let mut held = Self {
            tree: Tree::from(&stored.objective),
            durable: stored.revision,
            stored,
            plans,
            changes: VecDeque::new(),
            watchers: Watchers::default(),
            waiters: Vec::new(),
            results: HashMap::new(),
            touched: Vec::new(),
            first: None,
            trace: None,
        };
        held.read_again();
        held
    }

    /// Makes the tree anew, after something that is not its own has changed.
    pub(super) fn read_again(&mut self) {
        let plans = &self.plans;
        let is_held = |plan: &Plan| named(plans, &plan.id).is_some_and(|plan| plan.stored.held);
        self.tree = Tree::new(&self.shown(), is_held);
    }

    pub(super) fn is_over(&self) -> bool {
        self.tree.status().is_terminal()
    }

    pub(super) fn plan(&self, id: &PlanId) -> Option<&PlanTree> {
        named(&self.plans, id)
    }

    fn step(&self, id: &PlanTaskId) -> Option<&PlanTask> {
        self.plans.iter().flat_map(|plan| &plan.tasks).find(|task| task.id == *id)
    }

    pub(super) fn status_of(&self, step: &PlanTaskId) -> Option<PlanTaskStatus> {
        self.step(step).map(|task| task.status)
    }

    pub(super) fn task_of(&self, step: &PlanTaskId) -> Option<TaskId> {
        self.step(step)?.a2a_task_id
    }

    /// The A2A tasks of its steps.
    pub(super) fn linked(&self) -> impl Iterator<Item = TaskId> {
        self.plans.iter().flat_map(|plan| &plan.tasks).filter_map(|task| task.a2a_task_id)
    }

    /// The same with the steps that they do.
    pub(super) fn links(&self) -> Vec<(PlanTaskId, TaskId)> {
        let tasks = self.plans.iter().flat_map(|plan| &plan.tasks);
        tasks.filter_map(|task| Some((task.id.clone(), task.a2a_task_id?))).collect()
    }

    pub(super) fn link(&mut self, step: &PlanTaskId, task: TaskId) {
        let mut tasks = self.plans.iter_mut().flat_map(|plan| &mut plan.tasks);
        if let Some(found) = tasks.find(|task| task.id == *step) {
            found.a2a_task_id = Some(task);
        }
    }

    pub(super) fn keep_result(&mut self, step: &PlanTaskId, task: &Task) {
        self.results.insert(step.clone(), result_of(task));
    }

    /// Brings plans and tasks into line with the tree; those that changed.
    pub(super) fn note(&mut self, now: Moment) -> (Vec<StoredPlan>, Vec<PlanTask>) {
        let (mut plans, mut tasks) = (Vec::new(), Vec::new());
        let touched = std::mem::take(&mut self.touched);
        for plan in &mut self.plans {
            let Some(node) = self.tree.plan(&plan.stored.plan.id) else { continue };
            let all = touched.contains(&plan.stored.plan.id);
            let mut changed = all;
            for (task, (_, status)) in plan.tasks.iter_mut().zip(node.shown()) {
                if task.status != status || all {
                    task.status = status;
                    changed = true;
                    tasks.push(task.clone());
                }
            }
            let stored = &mut plan.stored;
            if changed || stored.plan.status != node.status() || stored.held != node.is_held() {
                stored.plan.status = node.status();
                stored.held = node.is_held();
                stored.plan.updated_at = now;
                plans.push(stored.clone());
            }
        }
        (plans, tasks)
    }

    /// As its caller sees it, with everything below it.
    pub(super) fn shown(&self) -> Objective {
        let tree = ObjectiveTree { stored: self.stored.clone(), plans: self.plans.clone() };
        shown(tree, true, true)
    }

    pub(super) fn shown_plan(&self, id: &PlanId) -> Option<Plan> {
        let PlanTree { stored, tasks } = self.plan(id)?.clone();
        Some(Plan { tasks: Some(tasks), ..stored.plan })
    }
}

/// What came of a task, in a few words for those who go on with it.
pub(in crate::tasks) fn result_of(task: &Task) -> String {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    let texts = parts.filter_map(|part| match &part.content {
        a2a_protocol::task::Content::Text(text) => Some(text.clone()),
        _ => None,
    });
    let said = task.status.message.as_ref().map(|message| message.text());
    let mut all: Vec<String> = texts.chain(said).collect();
    // Many agents say what stands in the artifact as well.
    all.dedup();
    all.join("\n").chars().take(RESULT_CHARS).collect()
}

/// An objective as its caller sees it.
pub(in crate::tasks) fn shown(
    tree: ObjectiveTree,
    with_plans: bool,
    with_tasks: bool,
) -> Objective {
    let ObjectiveTree { stored, plans } = tree;
    let mut objective = stored.objective;
    let metadata = objective.metadata.get_or_insert_default();
    metadata.insert(key::REVISION.to_owned(), stored.revision.into());
    objective.plans = with_plans.then(|| {
        let plan = |PlanTree { stored, tasks }: PlanTree| Plan {
            tasks: with_tasks.then_some(tasks),
            ..stored.plan
        };
        plans.into_iter().map(plan).collect()
    });
    objective
}
