//! Settling an objective: which tasks begin or are cancelled, and the status of their parents.
//!
//! The result follows from the tree alone, so it is the same after a restart.

use PlanTaskStatus::{Canceled, Completed, Pending, Submitted, Working};
use a2a_protocol::opt::{ObjectiveStatus, OnTaskFailure, PlanStatus, PlanTaskStatus};
use a2a_protocol::task::{PlanId, PlanTaskId};

use super::tree::{PlanNode, TaskNode, Tree};

/// An action to execute or a status to publish. The tree has it applied already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The task is cancelled: cancel its A2A task in the same transaction.
    Cancel {
        /// Its plan.
        plan: PlanId,
        /// The task.
        task: PlanTaskId,
    },
    /// The task begins: create an A2A task for it in the same transaction.
    Begin {
        /// Its plan.
        plan: PlanId,
        /// The task.
        task: PlanTaskId,
    },
    /// The status of a plan changed.
    Plan {
        /// The plan.
        plan: PlanId,
        /// The new status.
        status: PlanStatus,
    },
    /// The status of the objective changed.
    Objective {
        /// The new status.
        status: ObjectiveStatus,
    },
}

/// Whether a plan's dependencies let it begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    Waiting,
    /// A dependency failed.
    Unreachable,
}

impl Tree {
    /// Updates plans and objective from their tasks. Returns the effects, children before parents
    /// and each plan at most once. Idempotent.
    pub fn settle(&mut self) -> Vec<Effect> {
        self.changing(|_| ())
    }

    /// Applies a change to the tree and settles it; returns the effects of both.
    pub(super) fn changing(&mut self, change: impl FnOnce(&mut Self)) -> Vec<Effect> {
        let mut before: Vec<PlanStatus> = self.plans.iter().map(|plan| plan.status).collect();
        let objective = self.status;
        let derived = self.status_from_plans();
        change(self);
        // A new plan starts with the status it came with.
        before.extend(self.plans[before.len()..].iter().map(|plan| plan.status));
        let mut effects = Vec::new();
        // The end of one plan can begin or end another.
        while (0..self.plans.len()).any(|index| self.settle_plan(index, &mut effects)) {}
        self.adopt_status(derived);
        let changed = self.plans.iter().zip(before).filter(|(plan, before)| plan.status != *before);
        effects.extend(
            changed.map(|(plan, _)| Effect::Plan { plan: plan.id.clone(), status: plan.status }),
        );
        if self.status != objective {
            effects.push(Effect::Objective { status: self.status });
        }
        effects
    }

    /// Adopts the status derived from the plans if it is not `before`. Until it changes, an open
    /// status set by the caller is kept; `blocked` is kept until the objective ends.
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
            // New: no caller has set a status.
            Some(open) if now != before || self.status == ObjectiveStatus::Submitted => {
                self.status = open;
            }
            _ => {}
        }
    }

    /// Settles one plan; returns whether anything changed.
    fn settle_plan(&mut self, index: usize, effects: &mut Vec<Effect>) -> bool {
        let (cancelled, readiness) = (self.status.is_terminal(), self.readiness(index));
        let waits_for_others = self.waits_for_dependencies(index);
        let held = self.held;
        let plan = &mut self.plans[index];
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

    /// Whether a plan it depends on has not ended.
    fn waits_for_dependencies(&self, index: usize) -> bool {
        self.plans[index].dependencies.iter().any(|d| !self.plans[*d].status.is_terminal())
    }

    fn readiness(&self, index: usize) -> Readiness {
        let plan = &self.plans[index];
        let unreachable = self.unreachable();
        let failed = |d: usize| self.plans[d].status == PlanStatus::Failed || unreachable[d];
        if plan.waits_for().any(failed) {
            Readiness::Unreachable
        } else if plan.waits_for().all(|d| self.plans[d].status.is_terminal()) {
            Readiness::Ready
        } else {
            Readiness::Waiting
        }
    }

    /// For each plan, whether it was skipped because a dependency failed. Its dependents fail to
    /// begin as well; dependents of a plan that an operator skipped can begin.
    fn unreachable(&self) -> Vec<bool> {
        let mut unreachable = vec![false; self.plans.len()];
        loop {
            let mut found = false;
            for (index, plan) in self.plans.iter().enumerate() {
                let fails = |d: usize| self.plans[d].status == PlanStatus::Failed || unreachable[d];
                let is = plan.status == PlanStatus::Skipped && plan.waits_for().any(fails);
                if is && !unreachable[index] {
                    unreachable[index] = true;
                    found = true;
                }
            }
            if !found {
                return unreachable;
            }
        }
    }

    /// The status of the objective derived from its plans; `None` without plans.
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
    /// Whether one of its tasks is running or about to run.
    fn moves(&self) -> bool {
        self.tasks.iter().any(TaskNode::moves)
    }

    /// The terminal status derived from its tasks, if they end it.
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

    /// Whether its caller must act before it can continue.
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
        for index in 0..self.tasks.len() {
            let task = &self.tasks[index];
            let ready = task.dependencies.iter().all(|d| self.tasks[*d].status == Completed);
            if task.status == Pending && ready {
                effects.push(Effect::Begin { plan: self.id.clone(), task: task.id.clone() });
                self.tasks[index].status = Submitted;
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
