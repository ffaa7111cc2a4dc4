//! Looking at the objectives in memory.

use std::cmp::Reverse;

use a2a_protocol::TaskId;
use a2a_protocol::opt::{ObjectiveId, PlanTask};
use a2a_protocol::task::{Message, PlanId, PlanTaskId};

use super::{MemoryReader, Result, newest_messages};
use crate::page::fill;
use crate::{MAX_PAGE, ObjectiveQuery, ObjectiveReader, ObjectiveToken, ObjectiveTree, Objectives};

fn is_wanted(query: &ObjectiveQuery, tree: &ObjectiveTree) -> bool {
    query.owner.as_ref().is_none_or(|owner| *owner == tree.stored.owner)
        && query.status.is_none_or(|status| status == tree.stored.objective.status)
}

fn tasks(tree: &ObjectiveTree) -> impl Iterator<Item = &PlanTask> {
    tree.plans.iter().flat_map(|plan| &plan.tasks)
}

impl ObjectiveReader for MemoryReader {
    fn objective(&self, id: &ObjectiveId) -> Result<Option<ObjectiveTree>> {
        Ok(self.state().objectives.get(id).cloned())
    }

    fn objectives(&self, query: &ObjectiveQuery) -> Result<Objectives> {
        let state = self.state();
        let place = |tree: &ObjectiveTree| {
            (tree.stored.objective.created_at, tree.stored.objective.id.clone())
        };
        let mut found: Vec<_> =
            state.objectives.values().filter(|tree| is_wanted(query, tree)).collect();
        found.sort_by_key(|tree| Reverse(place(tree)));
        if let Some(ObjectiveToken { created, id }) = &query.after {
            found.retain(|tree| place(tree) < (*created, id.clone()));
        }
        let size = query.limit.clamp(1, MAX_PAGE);
        let shown = |tree: &ObjectiveTree| match query.with_plans {
            true => tree.clone(),
            false => ObjectiveTree::bare(tree.stored.clone()),
        };
        let (objectives, more) = fill(size, found.into_iter().map(|tree| Ok(shown(tree))))?;
        let last = objectives.last().filter(|_| more);
        let next = last.map(|tree| ObjectiveToken::of(&tree.stored));
        Ok(Objectives { objectives, next })
    }

    fn open_objectives(&self) -> Result<Vec<ObjectiveTree>> {
        let state = self.state();
        let going_on = |tree: &&ObjectiveTree| !tree.stored.objective.status.is_terminal();
        let mut open: Vec<_> = state.objectives.values().filter(going_on).cloned().collect();
        open.sort_by_key(|tree| tree.stored.objective.created_at);
        Ok(open)
    }

    fn plan(&self, id: &PlanId) -> Result<Option<ObjectiveId>> {
        let state = self.state();
        let mut plans = state.objectives.values().flat_map(|tree| &tree.plans);
        let found = plans.find(|plan| plan.stored.plan.id == *id);
        Ok(found.map(|plan| plan.stored.plan.objective_id.clone()))
    }

    fn plan_task_of(&self, task: TaskId) -> Result<Option<(ObjectiveId, PlanTaskId)>> {
        let state = self.state();
        let found = state.objectives.values().flat_map(tasks);
        let mut found = found.filter(|found| found.a2a_task_id == Some(task));
        Ok(found.next().map(|found| (found.objective_id.clone(), found.id.clone())))
    }

    fn history_of_plan(&self, id: &PlanId, limit: usize) -> Result<Vec<Message>> {
        let state = self.state();
        let found = state.objectives.values().flat_map(tasks).filter(|task| task.plan_id == *id);
        let done_by = found.filter_map(|task| state.tasks.get(&task.a2a_task_id?));
        Ok(newest_messages(done_by.map(|kept| &kept.stored), limit))
    }

    fn history_of_objective(&self, id: &ObjectiveId, limit: usize) -> Result<Vec<Message>> {
        let state = self.state();
        let Some(tree) = state.objectives.get(id) else { return Ok(Vec::new()) };
        let of_it = state.stored().filter(|stored| stored.owner == tree.stored.owner);
        Ok(newest_messages(of_it.filter(|stored| stored.context() == id), limit))
    }
}
