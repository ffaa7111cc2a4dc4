//! Objectives in memory, as plain trees.

use a2a_protocol::TaskId;
use a2a_protocol::opt::PlanTask;
use a2a_protocol::task::Moment;

use super::State;
use crate::objective::{Before, follows};
use crate::{Misfit, ObjectiveChange, ObjectiveTree, PlanTree, StoredPlan, Write, Written};

impl State {
    /// All of them, or the state of before again.
    pub(super) fn together(&mut self, writes: Vec<Write>) -> Written {
        let before = self.clone();
        let mut all = Vec::with_capacity(writes.len());
        for write in writes {
            let written = self.apply(write);
            if !written.fits() {
                *self = before;
                return written;
            }
            all.push(written);
        }
        Written::Together(all)
    }

    pub(super) fn objective(&mut self, change: ObjectiveChange) -> Written {
        let id = change.objective.objective.id.clone();
        let old = self.objectives.get(&id);
        let before = old.map(|old| Before {
            revision: old.stored.revision,
            is_same: old.stored.is_same(&change.objective),
        });
        if let Err(misfit) = follows(before, &change) {
            return misfit;
        }
        let ObjectiveChange { mut objective, plans, tasks, .. } = change;
        objective.objective.plans = None;
        let below = old.map(|old| old.plans.clone()).unwrap_or_default();
        let mut tree = ObjectiveTree { stored: objective, plans: below };
        for plan in plans {
            if let Err(misfit) = self.keep_plan(&mut tree, plan) {
                return Written::Refused(misfit);
            }
        }
        for task in tasks {
            if let Err(misfit) = self.keep_plan_task(&mut tree, task) {
                return Written::Refused(misfit);
            }
        }
        self.objectives.insert(id, tree);
        Written::Done
    }

    /// All plans, with those of `tree` instead of what is kept of it.
    fn plans<'a>(&'a self, tree: &'a ObjectiveTree) -> impl Iterator<Item = &'a PlanTree> {
        let id = &tree.stored.objective.id;
        let others = self.objectives.values().filter(|other| other.stored.objective.id != *id);
        others.chain([tree]).flat_map(|tree| &tree.plans)
    }

    fn keep_plan(&self, tree: &mut ObjectiveTree, mut stored: StoredPlan) -> Result<(), Misfit> {
        if stored.plan.objective_id != tree.stored.objective.id {
            return Err(Misfit::Stray);
        }
        stored.plan.tasks = None;
        let same = |old: &&PlanTree| old.stored.plan.id == stored.plan.id;
        match self.plans(tree).find(same) {
            Some(old) if !old.stored.is_same(&stored) => return Err(Misfit::ObjectiveIdentity),
            Some(_) => {}
            None if tree.plans.iter().any(|other| other.stored.order == stored.order) => {
                return Err(Misfit::PlaceTaken);
            }
            None => {}
        }
        match tree.plans.iter_mut().find(|old| old.stored.plan.id == stored.plan.id) {
            Some(old) => old.stored = stored,
            None => tree.plans.push(PlanTree { stored, tasks: Vec::new() }),
        }
        tree.plans.sort_by_key(|plan| plan.stored.order);
        Ok(())
    }

    fn keep_plan_task(&self, tree: &mut ObjectiveTree, mut task: PlanTask) -> Result<(), Misfit> {
        if task.objective_id != tree.stored.objective.id {
            return Err(Misfit::Stray);
        }
        let place =
            |task: &PlanTask| (task.objective_id.clone(), task.plan_id.clone(), task.task_index);
        let of_it = |plan: &PlanTree| plan.stored.plan.id == task.plan_id;
        let old = self.plans(tree).flat_map(|plan| &plan.tasks).find(|old| old.id == task.id);
        match (old, tree.plans.iter().find(|plan| of_it(plan))) {
            (Some(old), _) if place(old) != place(&task) => return Err(Misfit::ObjectiveIdentity),
            (Some(_), _) => {}
            (None, None) => return Err(Misfit::Stray),
            (None, Some(plan)) => {
                if plan.tasks.iter().any(|other| other.task_index == task.task_index) {
                    return Err(Misfit::PlaceTaken);
                }
            }
        }
        task.a2a_task_id = self.link(tree, &task)?;
        let of_it = |plan: &&mut PlanTree| plan.stored.plan.id == task.plan_id;
        let plan = tree.plans.iter_mut().find(of_it).ok_or(Misfit::Stray)?;
        plan.tasks.retain(|old| old.id != task.id);
        plan.tasks.push(task);
        plan.tasks.sort_by_key(|task| task.task_index);
        Ok(())
    }

    /// The A2A task to name: none when it ended and is gone.
    fn link(&self, tree: &ObjectiveTree, task: &PlanTask) -> Result<Option<TaskId>, Misfit> {
        let Some(id) = task.a2a_task_id else { return Ok(None) };
        let Some(kept) = self.tasks.get(&id) else {
            return if task.status.is_terminal() { Ok(None) } else { Err(Misfit::Link) };
        };
        let of_it = kept.stored.owner == tree.stored.owner
            && *kept.stored.context() == tree.stored.objective.id;
        let mut every = self.plans(tree).flat_map(|plan| &plan.tasks);
        let busy = every.any(|other| other.a2a_task_id == Some(id) && other.id != task.id);
        if of_it && !busy { Ok(Some(id)) } else { Err(Misfit::Link) }
    }

    /// The A2A task is gone.
    pub(super) fn unlink(&mut self, id: TaskId) {
        let plans = self.objectives.values_mut().flat_map(|tree| &mut tree.plans);
        for task in plans.flat_map(|plan| &mut plan.tasks) {
            task.a2a_task_id.take_if(|task| *task == id);
        }
    }

    pub(super) fn expire_objectives(&mut self, older_than: Moment, limit: usize) -> usize {
        let is_over = |tree: &&ObjectiveTree| {
            let (stored, objective) = (&tree.stored, &tree.stored.objective);
            let of_it = |task: &crate::StoredTask| {
                *task.context() == objective.id && task.owner == stored.owner
            };
            objective.status.is_terminal()
                && objective.updated_at < older_than
                && !self.stored().any(of_it)
        };
        let over = self.objectives.values().filter(is_over).map(|tree| &tree.stored.objective);
        let mut old: Vec<_> = over.map(|over| (over.updated_at, over.id.clone())).collect();
        old.sort_unstable();
        old.truncate(limit);
        for (_, id) in &old {
            self.objectives.remove(id);
        }
        old.len()
    }
}
