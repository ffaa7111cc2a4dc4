//! Propagation of state changes: from a task to its step, plan and objective, and from there to
//! other tasks.

use std::collections::VecDeque;
use std::sync::Arc;

use a2a_policy::objectives::Effect;
use a2a_policy::tasks::{AgentText, TaskTransition};
use a2a_protocol::TaskId;
use a2a_protocol::operation::{StatusUpdateEvent, StreamEvent};
use a2a_protocol::opt::{ObjectiveId, PlanTaskStatus, key};
use a2a_protocol::task::{Metadata, PlanTaskId, UtcMillis};
use a2a_taskdb::{ObjectiveChange, Write};
use serde_json::{Value, json};

use super::live_objective::{LiveObjective, PendingRevision};
use super::{Cause, CauseKind, OpenObjective, PendingWrite, Service, StepRef};
use crate::tasks::service::live_task::{AgentAction, Followup};
use crate::tasks::service::subscribers::Follows;

/// Why the tasks of an ended plan are cancelled.
const ENDED: &str = "its plan has ended";

impl Service {
    /// Applies a task's change to its objective; returns the writes that belong to the change and
    /// the tasks to start afterwards.
    pub(in crate::tasks) fn roll_up(
        &mut self,
        id: TaskId,
        events: &mut [StreamEvent],
    ) -> (Vec<(Write, PendingWrite)>, Vec<TaskId>) {
        let Some(live) = self.live.get(&id) else { return Default::default() };
        let Some(StepRef { objective: parent, step }) = live.part_of.clone() else {
            return Default::default();
        };
        let status = PlanTaskStatus::from(live.state());
        let Some(objective) = self.objectives.live.get_mut(&parent) else {
            return Default::default();
        };
        if objective.status_of(&step).is_none_or(|before| before == status) {
            return Default::default();
        }
        if status == PlanTaskStatus::Completed {
            objective.record_result(&step, &live.stored.task);
        }
        let effects = objective.tree.report(&step, status);
        objective.record_failure_reason(&step, &live.stored.task, &effects);
        let mut next = Vec::new();
        if status.is_terminal() || status.is_interrupted() {
            // Before the effects: a task that they create may need this lane.
            let lane = live.lane.clone();
            next.extend(self.scheduler.queues.leave(&lane, id));
        }
        if let Some(news) = self.status_metadata(&parent, &effects)
            && let Some(StreamEvent::StatusUpdate(update)) =
                events.iter_mut().rfind(|event| matches!(event, StreamEvent::StatusUpdate(_)))
        {
            update.metadata.get_or_insert_default().extend(news);
        }
        // Subscribers of the objective get status updates only; artifacts are read from the task.
        let is_status = |event: &&StreamEvent| matches!(event, StreamEvent::StatusUpdate(_));
        let events = events.iter().filter(is_status).cloned().collect();
        let cause = Cause { events, ..Cause::default() };
        let (writes, more) = self.apply_effects(&parent, effects, cause);
        next.extend(more);
        (writes, next)
    }

    /// Event metadata with the new status of plans and the objective; `None` when none changed.
    fn status_metadata(&self, id: &ObjectiveId, effects: &[Effect]) -> Option<Metadata> {
        let objective = self.objectives.live.get(id)?;
        let mut news = Metadata::new();
        for effect in effects {
            match effect {
                Effect::Plan { plan, status } => {
                    let name = objective.plan(plan).map(|plan| plan.stored.plan.name.as_str());
                    let plan = json!({ "id": plan, "name": name, "status": status });
                    news.entry(key::PLAN).or_insert(plan);
                }
                Effect::Objective { status } => {
                    let current = &objective.stored.objective;
                    let now = json!({ "id": current.id, "name": current.name, "status": status });
                    news.insert(key::OBJECTIVE.to_owned(), now);
                }
                Effect::Begin { .. } | Effect::Cancel { .. } => {}
            }
        }
        (!news.is_empty()).then_some(news)
    }

    /// Applies the effects of a change; returns their writes and the tasks to start afterwards.
    pub(super) fn apply_effects(
        &mut self,
        id: &ObjectiveId,
        effects: Vec<Effect>,
        cause: Cause,
    ) -> (Vec<(Write, PendingWrite)>, Vec<TaskId>) {
        let (mut writes, mut next) = (Vec::new(), Vec::new());
        let news = self.status_metadata(id, &effects);
        let mut waiting = VecDeque::from(effects);
        while let Some(effect) = waiting.pop_front() {
            match effect {
                Effect::Cancel { task, .. } => {
                    if let Some((write, freed)) = self.cancel_step(id, &task) {
                        writes.push(write);
                        next.extend(freed);
                    }
                }
                Effect::Begin { plan, task } => {
                    let (write, more) = self.start_step(id, &plan, &task);
                    writes.extend(write);
                    waiting.extend(more);
                }
                Effect::Plan { .. } | Effect::Objective { .. } => {}
            }
        }
        if let Some(news) = news {
            writes.extend(self.notify_siblings(id, &news, &cause.events));
        }
        writes.extend(self.objective_change(id, cause).map(|change| {
            (Write::Objective(Box::new(change)), PendingWrite::Objective(id.clone()))
        }));
        (writes, next)
    }

    /// Adds the news to the streams of the objective's other tasks.
    fn notify_siblings(
        &mut self,
        id: &ObjectiveId,
        news: &Metadata,
        events: &[StreamEvent],
    ) -> Vec<(Write, PendingWrite)> {
        let caused = events.iter().find_map(|event| match event {
            StreamEvent::StatusUpdate(update) => Some(update.task_id),
            _ => None,
        });
        let Some(objective) = self.objectives.live.get(id) else { return Vec::new() };
        let open: Vec<TaskId> = objective.linked().filter(|task| Some(*task) != caused).collect();
        let mut writes = Vec::new();
        for task in open {
            let Some(live) = self.live.get(&task) else { continue };
            if live.is_over() || live.subscribers.is_empty() {
                continue;
            }
            let mut metadata = news.clone();
            metadata.insert(key::NEWS.to_owned(), Value::Bool(true));
            let event = StreamEvent::StatusUpdate(Box::new(StatusUpdateEvent {
                task_id: task,
                context_id: live.stored.task.context_id.clone(),
                status: live.stored.task.status.clone(),
                metadata: Some(metadata),
            }));
            let write = self.build_write(task, vec![event], Followup::default());
            writes.extend(write.map(|write| (write, PendingWrite::Change(task))));
        }
        writes
    }

    /// Cancels the task of a step. Its objective has caused that, so nothing is rolled up.
    fn cancel_step(
        &mut self,
        id: &ObjectiveId,
        step: &PlanTaskId,
    ) -> Option<((Write, PendingWrite), Option<TaskId>)> {
        let now = self.clock.now();
        let task = self.objectives.live.get(id)?.task_of(step)?;
        let live = self.live.get_mut(&task)?;
        let event = live.advance(TaskTransition::Cancel, AgentText::plain(ENDED), now)?;
        let lane = live.lane.clone();
        let freed = self.scheduler.queues.leave(&lane, task);
        let action = AgentAction::Cancel(ENDED.to_owned());
        let followup = Followup { action, ..Followup::default() };
        let write = self.build_write(task, vec![event], followup)?;
        Some(((write, PendingWrite::Change(task)), freed))
    }

    /// Queues a new revision of the objective and returns its write; `None` when nothing changed.
    fn objective_change(&mut self, id: &ObjectiveId, cause: Cause) -> Option<ObjectiveChange> {
        let now = UtcMillis::from(self.clock.now().utc);
        let objective = self.objectives.live.get_mut(id)?;
        let (plans, tasks) = objective.sync_with_tree(now);
        let status = objective.tree.status();
        let is_same_status = objective.stored.objective.status == status;
        let is_unchanged = is_same_status && plans.is_empty() && tasks.is_empty();
        if cause.kind == CauseKind::Step && is_unchanged {
            for reply in cause.replies {
                reply.send_now(objective);
            }
            return None;
        }
        objective.stored.objective.status = status;
        objective.sync_metadata();
        objective.stored.objective.updated_at = now;
        let is_new = cause.kind == CauseKind::Created;
        let expected = (!is_new).then_some(objective.stored.revision);
        if !is_new {
            objective.stored.revision += 1;
        }
        let mut events: Vec<Arc<StreamEvent>> = cause.events.into_iter().map(Arc::new).collect();
        if events.is_empty() {
            events.push(Arc::new(StreamEvent::Objective(Box::new(objective.shown()))));
        }
        let replies = cause.replies.into_iter().map(|reply| reply.freeze(objective)).collect();
        objective.changes.push_back(PendingRevision {
            revision: objective.stored.revision,
            events,
            replies,
        });
        Some(ObjectiveChange { objective: objective.stored.clone(), expected, plans, tasks })
    }

    /// Publishes the oldest pending revision after its commit.
    pub(in crate::tasks) fn on_objective_committed(&mut self, id: &ObjectiveId) {
        let Some(objective) = self.objectives.live.get_mut(id) else { return };
        let Some(PendingRevision { revision, events, replies }) = objective.changes.pop_front()
        else {
            return;
        };
        objective.durable = revision;
        let over = objective.is_over() && objective.changes.is_empty();
        let count = events.len();
        for (at, event) in events.iter().enumerate() {
            let last = over && at + 1 == count;
            let follows = if last { Follows::Nothing } else { Follows::More };
            objective.subscribers.publish(revision, event, follows);
        }
        for (reply, answer) in replies {
            let _ = reply.send(Ok(answer));
        }
        for (_, waiter) in objective.waiters.extract_if(.., |(since, _)| *since < revision) {
            let _ = waiter.send(());
        }
        if over {
            self.objectives.live.remove(id);
        }
    }

    /// Restores the objectives that were open before a restart, after their tasks.
    pub(in crate::tasks) fn restore_objectives(&mut self, open: Vec<OpenObjective>) {
        for (tree, results) in open {
            let id = tree.stored.objective.id.clone();
            let mut objective = LiveObjective::of(tree);
            objective.results.extend(results);
            for (step, task) in objective.links() {
                if let Some(live) = self.live.get_mut(&task) {
                    live.part_of = Some(StepRef { objective: id.clone(), step });
                }
            }
            self.objectives.live.insert(id, objective);
        }
    }

    /// Applies effects that are due after a restart. There are none, unless this version of the
    /// policy decides otherwise than the one before.
    pub(in crate::tasks) fn settle_objectives(&mut self) {
        let all: Vec<ObjectiveId> = self.objectives.live.keys().cloned().collect();
        for id in all {
            let Some(objective) = self.objectives.live.get_mut(&id) else { continue };
            let effects = objective.tree.settle();
            if !effects.is_empty() {
                let (writes, next) = self.apply_effects(&id, effects, Cause::default());
                self.write_all(writes);
                next.into_iter().for_each(|next| self.start_next(Some(next)));
            }
        }
    }
}
