//! What follows from how the tasks stand: which begin, which are called off, how their parents are.
//!
//! Everything follows from the tree alone, so that after a restart the same comes out again.

use PlanTaskStatus::{Canceled, Completed, Pending, Submitted, Working};
use a2a_protocol::opt::{ObjectiveStatus, OnTaskFailure, PlanStatus, PlanTaskStatus};
use a2a_protocol::task::{PlanId, PlanTaskId};

use super::tree::{PlanNode, TaskNode, Tree};

/// Something that is to be done, or was decided. The tree already stands as after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The task is called off: its A2A task is to be cancelled with the same change.
    Cancel {
        /// Its plan.
        plan: PlanId,
        /// Which.
        task: PlanTaskId,
    },
    /// The task's turn has come: an A2A task for it is to be made with the same change.
    Begin {
        /// Its plan.
        plan: PlanId,
        /// Which.
        task: PlanTaskId,
    },
    /// A plan stands differently.
    Plan {
        /// Which.
        plan: PlanId,
        /// From now on.
        status: PlanStatus,
    },
    /// The objective stands differently.
    Objective {
        /// From now on.
        status: ObjectiveStatus,
    },
}

/// What a plan's dependencies mean for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    Waiting,
    /// What it builds on failed.
    Unreachable,
}

impl Tree {
    /// Brings plans and objective into line with their tasks, and says what is to be done:
    /// children before parents, and each plan at most once. A second call does nothing.
    pub fn settle(&mut self) -> Vec<Effect> {
        self.changing(|_| ())
    }

    /// Does something to the tree, then settles it; says all that both changed.
    pub(super) fn changing(&mut self, change: impl FnOnce(&mut Self)) -> Vec<Effect> {
        let mut before: Vec<PlanStatus> = self.plans.iter().map(|plan| plan.status).collect();
        let objective = self.status;
        let amounted = self.status_from_plans();
        change(self);
        // What was added stood as it came.
        before.extend(self.plans[before.len()..].iter().map(|plan| plan.status));
        let mut effects = Vec::new();
        // One plan's end can be another's beginning or end.
        while (0..self.plans.len()).any(|place| self.settle_plan(place, &mut effects)) {}
        self.adopt_status(amounted);
        let changed = self.plans.iter().zip(before).filter(|(plan, before)| plan.status != *before);
        effects.extend(
            changed.map(|(plan, _)| Effect::Plan { plan: plan.id.clone(), status: plan.status }),
        );
        if self.status != objective {
            effects.push(Effect::Objective { status: self.status });
        }
        effects
    }

    /// Takes the status that the plans amount to, if that is another than `before`. An open status
    /// that a caller set is shown until then; one held with `blocked` stays so until it ends.
    fn adopt_status(&mut self, before: Option<ObjectiveStatus>) {
        let now = self.status_from_plans();
        if self.status.is_terminal() {
            self.held = false;
            return;
        }
        match now {
            Some(end) if end.is_terminal() => {
                self.status = end;
                self.held = false;
            }
            _ if self.held => self.status = ObjectiveStatus::Blocked,
            // Only made: no caller has set anything.
            Some(open) if now != before || self.status == ObjectiveStatus::Submitted => {
                self.status = open;
            }
            _ => {}
        }
    }

    /// Whether anything changed.
    fn settle_plan(&mut self, place: usize, effects: &mut Vec<Effect>) -> bool {
        let (cancelled, readiness) = (self.status.is_terminal(), self.readiness(place));
        let waits_for_others = self.waits_for_dependencies(place);
        let held = self.held;
        let plan = &mut self.plans[place];
        let (before, done_before) = (plan.status, effects.len());
        if !plan.status.is_terminal() {
            plan.status = match plan.end() {
                _ if cancelled || readiness == Readiness::Unreachable => PlanStatus::Skipped,
                Some(end) => end,
                None => {
                    if readiness == Readiness::Ready && !plan.held && !held {
                        plan.begin(effects);
                    }
                    plan.open_status(waits_for_others)
                }
            };
        }
        if plan.status.is_terminal() {
            plan.held = false;
            plan.cancel_open_tasks(effects);
        }
        plan.status != before || effects.len() != done_before
    }

    /// Whether a plan that it depends on has not ended.
    fn waits_for_dependencies(&self, place: usize) -> bool {
        self.plans[place].dependencies.iter().any(|d| !self.plans[*d].status.is_terminal())
    }

    fn readiness(&self, place: usize) -> Readiness {
        let plan = &self.plans[place];
        let lost = self.lost();
        let failed = |d: usize| self.plans[d].status == PlanStatus::Failed || lost[d];
        if plan.waits_for().any(failed) {
            Readiness::Unreachable
        } else if plan.waits_for().all(|d| self.plans[d].status.is_terminal()) {
            Readiness::Ready
        } else {
            Readiness::Waiting
        }
    }

    /// For each plan whether it was skipped because something below it failed. Then those that
    /// build on it are lost too; one that a person skipped lets them go on.
    fn lost(&self) -> Vec<bool> {
        let mut lost = vec![false; self.plans.len()];
        loop {
            let mut found = false;
            for (place, plan) in self.plans.iter().enumerate() {
                let fails = |d: usize| self.plans[d].status == PlanStatus::Failed || lost[d];
                let is = plan.status == PlanStatus::Skipped && plan.waits_for().any(fails);
                if is && !lost[place] {
                    lost[place] = true;
                    found = true;
                }
            }
            if !found {
                return lost;
            }
        }
    }

    /// What the plans of an objective amount to; `None` without plans.
    pub(super) fn status_from_plans(&self) -> Option<ObjectiveStatus> {
        let any = |wanted: fn(&PlanNode) -> bool| self.plans.iter().any(wanted);
        if self.plans.is_empty() {
            return None;
        }
        Some(if !any(|plan| !plan.status.is_terminal()) {
            match () {
                () if any(|plan| plan.status == PlanStatus::Failed) => ObjectiveStatus::Failed,
                () if any(|plan| plan.status == PlanStatus::Completed) => {
                    ObjectiveStatus::Completed
                }
                () => ObjectiveStatus::Planning,
            }
        } else if any(PlanNode::moves) {
            ObjectiveStatus::Working
        } else if any(PlanNode::waits_for_caller) && any(|plan| !plan.tasks.is_empty()) {
            ObjectiveStatus::Blocked
        } else {
            ObjectiveStatus::Planning
        })
    }
}

impl PlanNode {
    /// Whether an agent is, or is about to be, at one of its tasks.
    fn moves(&self) -> bool {
        self.tasks.iter().any(TaskNode::moves)
    }

    /// How its tasks end it, if they do.
    fn end(&self) -> Option<PlanStatus> {
        let out = self.left_out();
        let undone = |task: &TaskNode| task.status.is_terminal() && task.status != Completed;
        if self.on_task_failure == OnTaskFailure::Fail && self.tasks.iter().any(undone) {
            return Some(PlanStatus::Failed);
        }
        let over = self.tasks.iter().zip(&out).all(|(task, out)| *out || task.status == Completed);
        if self.tasks.is_empty() || !over {
            return None;
        }
        let done = self.tasks.iter().any(|task| task.status == Completed);
        Some(if done { PlanStatus::Completed } else { PlanStatus::Skipped })
    }

    /// Whether its caller has to do something before it can go on.
    fn waits_for_caller(&self) -> bool {
        let asks = self.tasks.iter().any(|task| task.status.is_interrupted());
        !self.status.is_terminal() && (self.held || asks)
    }

    fn open_status(&self, waits_for_others: bool) -> PlanStatus {
        if self.waits_for_caller() {
            PlanStatus::Blocked
        } else if self.moves() {
            PlanStatus::Working
        } else if waits_for_others {
            PlanStatus::Blocked
        } else {
            PlanStatus::Pending
        }
    }

    fn begin(&mut self, effects: &mut Vec<Effect>) {
        for place in 0..self.tasks.len() {
            let task = &self.tasks[place];
            let ready = task.dependencies.iter().all(|d| self.tasks[*d].status == Completed);
            if task.status == Pending && ready {
                effects.push(Effect::Begin { plan: self.id.clone(), task: task.id.clone() });
                self.tasks[place].status = Submitted;
            }
        }
    }

    fn cancel_open_tasks(&mut self, effects: &mut Vec<Effect>) {
        for task in &mut self.tasks {
            if task.status != Pending && !task.status.is_terminal() {
                effects.push(Effect::Cancel { plan: self.id.clone(), task: task.id.clone() });
                task.status = Canceled;
            }
        }
    }
}

impl TaskNode {
    fn moves(&self) -> bool {
        matches!(self.status, Submitted | Working)
    }
}
