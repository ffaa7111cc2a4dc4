//! State of one open objective, including changes that are not committed yet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use a2a_policy::objectives::{Effect, Tree, blocked_by};
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::opt::{
    BlockedBy, Objective, ObjectiveStatus, Plan, PlanStatus, PlanTask, PlanTaskStatus, key,
};
use a2a_protocol::task::{Metadata, PlanId, PlanTaskId, Task, UtcMillis};
use a2a_protocol::{TaskId, Trace};
use a2a_taskdb::{ObjectiveTree, PlanTree, StoredObjective, StoredPlan};
use serde_json::Value;
use tokio::sync::oneshot;

use super::commands::ReadyReply;
use super::find_plan;
use super::start_step::FirstTaskRequest;
use crate::tasks::service::subscribers::Subscribers;

/// Longest result of a step that later steps get, in characters.
const RESULT_CHARS: usize = 4_000;
/// Longest recorded reason of a failed plan, in characters.
const REASON_CHARS: usize = 1_000;

/// A revision that is not committed yet.
pub(super) struct PendingRevision {
    pub(super) revision: u64,
    pub(super) events: Vec<Arc<StreamEvent>>,
    pub(super) replies: Vec<ReadyReply>,
}

pub(super) struct LiveObjective {
    pub(super) stored: StoredObjective,
    pub(super) plans: Vec<PlanTree>,
    pub(super) tree: Tree,
    /// The committed revision.
    pub(super) durable: u64,
    pub(super) changes: VecDeque<PendingRevision>,
    pub(super) subscribers: Subscribers,
    /// Callers that wait for a revision above theirs.
    pub(super) waiters: Vec<(u64, oneshot::Sender<()>)>,
    /// Results of completed steps.
    pub(super) results: HashMap<PlanTaskId, String>,
    /// Plans to write with all their steps in the next change.
    pub(super) touched: Vec<PlanId>,
    /// The caller that gets the next started task.
    pub(super) first: Option<FirstTaskRequest>,
    /// Trace of the message that last added plans; `None` after a restart.
    pub(super) trace: Option<Arc<Trace>>,
}

impl LiveObjective {
    pub(super) fn of(tree: ObjectiveTree) -> Self {
        let ObjectiveTree { stored, plans } = tree;
        let mut objective = Self {
            tree: Tree::from(&stored.objective),
            durable: stored.revision,
            stored,
            plans,
            changes: VecDeque::new(),
            subscribers: Subscribers::default(),
            waiters: Vec::new(),
            results: HashMap::new(),
            touched: Vec::new(),
            first: None,
            trace: None,
        };
        objective.rebuild_tree();
        objective
    }

    /// Rebuilds the tree after a change that bypassed it.
    pub(super) fn rebuild_tree(&mut self) {
        let plans = &self.plans;
        let is_held = |plan: &Plan| find_plan(plans, &plan.id).is_some_and(|plan| plan.stored.held);
        self.tree = Tree::new(&self.shown(), is_held);
    }

    pub(super) fn is_over(&self) -> bool {
        self.tree.status().is_terminal()
    }

    pub(super) fn plan(&self, id: &PlanId) -> Option<&PlanTree> {
        find_plan(&self.plans, id)
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

    /// Steps and their A2A tasks.
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

    pub(super) fn record_result(&mut self, step: &PlanTaskId, task: &Task) {
        self.results.insert(step.clone(), result_of(task));
    }

    /// Copies states from the tree to plans and steps; returns those that changed.
    pub(super) fn sync_with_tree(&mut self, now: UtcMillis) -> (Vec<StoredPlan>, Vec<PlanTask>) {
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

    /// Records the reason in the metadata of plans that this step made fail.
    pub(super) fn record_failure_reason(
        &mut self,
        step: &PlanTaskId,
        task: &Task,
        effects: &[Effect],
    ) {
        let failed = effects.iter().filter_map(|effect| match effect {
            Effect::Plan { plan, status: PlanStatus::Failed } => Some(plan),
            _ => None,
        });
        let failed: Vec<&PlanId> = failed.collect();
        if failed.is_empty() {
            return;
        }
        let name = self.step(step).map(|step| step.name.as_str()).unwrap_or_default();
        let final_text =
            task.status.message.as_ref().map(|message| message.text()).unwrap_or_default();
        let reason = format!("{name}: {}: {final_text}", task.status.state.short_name());
        let reason: String = reason.chars().take(REASON_CHARS).collect();
        for plan in &mut self.plans {
            if failed.contains(&&plan.stored.plan.id) {
                let metadata = plan.stored.plan.metadata.get_or_insert_default();
                metadata.insert(key::REASON.to_owned(), reason.clone().into());
            }
        }
    }

    /// Updates the server's keys in the objective's metadata from the tree.
    pub(super) fn sync_metadata(&mut self) {
        let reason = || {
            let failed = |plan: &&PlanTree| plan.stored.plan.status == PlanStatus::Failed;
            let first = self.plans.iter().find(failed)?.stored.plan.metadata.as_ref()?;
            first.get(key::REASON).cloned()
        };
        let reason = (self.tree.status() == ObjectiveStatus::Failed).then(reason).flatten();
        let held = self.tree.is_held().then(|| BlockedBy::Approval.as_str().into());
        let metadata = &mut self.stored.objective.metadata;
        set(metadata, key::REASON, reason);
        set(metadata, key::BLOCKED_BY, held);
    }

    /// The objective as clients see it, with plans and steps.
    pub(super) fn shown(&self) -> Objective {
        let tree = ObjectiveTree { stored: self.stored.clone(), plans: self.plans.clone() };
        shown(tree, true, true)
    }

    pub(super) fn shown_plan(&self, id: &PlanId) -> Option<Plan> {
        Some(shown_plan(self.plan(id)?.clone(), true))
    }
}

/// Sets a key of metadata; `None` removes it.
fn set(metadata: &mut Option<Metadata>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(metadata.get_or_insert_default().insert(key.to_owned(), value)),
        None => {
            if let Some(fields) = metadata {
                fields.shift_remove(key);
            }
            metadata.take_if(|fields| fields.is_empty());
        }
    }
}

/// The plan as clients see it.
fn shown_plan(PlanTree { stored, tasks }: PlanTree, with_tasks: bool) -> Plan {
    let mut plan = stored.plan;
    let waits_for = blocked_by(&plan, &tasks, stored.held).map(|word| word.as_str().into());
    set(&mut plan.metadata, key::BLOCKED_BY, waits_for);
    Plan { tasks: with_tasks.then_some(tasks), ..plan }
}

/// Result of a task as text, for the steps that depend on it.
pub(in crate::tasks) fn result_of(task: &Task) -> String {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    let texts = parts.filter_map(|part| match &part.content {
        a2a_protocol::task::Content::Text(text) => Some(text.clone()),
        _ => None,
    });
    let final_text = task.status.message.as_ref().map(|message| message.text());
    let mut all: Vec<String> = texts.chain(final_text).collect();
    // Many agents repeat the artifact's text in the final message.
    all.dedup();
    all.join("\n").chars().take(RESULT_CHARS).collect()
}

/// The objective as clients see it.
pub(in crate::tasks) fn shown(
    tree: ObjectiveTree,
    with_plans: bool,
    with_tasks: bool,
) -> Objective {
    let ObjectiveTree { stored, plans } = tree;
    let mut objective = stored.objective;
    let metadata = objective.metadata.get_or_insert_default();
    metadata.insert(key::REVISION.to_owned(), stored.revision.into());
    objective.plans =
        with_plans.then(|| plans.into_iter().map(|plan| shown_plan(plan, with_tasks)).collect());
    objective
}
