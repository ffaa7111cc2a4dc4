//! Objectives: what their tasks do to them, and they to their tasks.
//!
//! What follows from a change is decided in `policy::opt`. Here it is done: tasks are begun and
//! called off, and everything goes to the disk in one piece with what caused it, so that nobody
//! ever finds a parent that its children contradict.

mod commands;
mod live_objective;
mod start_step;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use a2a_policy::opt::Effect;
use a2a_policy::tasks::{Said, Step};
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{StatusUpdate, StreamEvent};
use a2a_protocol::opt::{ObjectiveId, PlanTaskStatus, key};
use a2a_protocol::task::{Metadata, Moment, PlanId, PlanTaskId};
use a2a_taskdb::{ObjectiveChange, ObjectiveTree, Write};
use actix::prelude::*;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::service::{Followup, PendingWrite, Service};
use crate::tasks::service::live_task::AgentAction;
use crate::tasks::watch::{Follows, TaskEvent};

pub(in crate::tasks) use commands::{
    ApplyObjectiveCommand, ObjectiveCommand, ObjectiveCommandReply,
};
use live_objective::{LiveObjective, PendingRevision};
pub(in crate::tasks) use live_objective::{result_of, shown};
pub(in crate::tasks) use start_step::SubmitObjective;

/// Why the tasks of a plan that ended are called off.
const ENDED: &str = "its plan has ended";

/// The step of an objective that an A2A task does.
#[derive(Debug, Clone)]
pub(in crate::tasks) struct StepRef {
    pub(in crate::tasks) objective: ObjectiveId,
    pub(in crate::tasks) step: PlanTaskId,
}

/// The objectives that have not ended, and those that are being changed.
#[derive(Default)]
pub(super) struct Objectives {
    live: HashMap<ObjectiveId, LiveObjective>,
}

impl Objectives {
    pub(super) fn evict(&mut self, id: &ObjectiveId) {
        self.live.remove(id);
    }

    /// How many of an owner's are open.
    fn open_of(&self, owner: &str) -> usize {
        self.live
            .values()
            .filter(|objective| &*objective.stored.owner == owner && !objective.is_over())
            .count()
    }
}

/// An objective that was open before a restart, and what came of its steps.
pub(in crate::tasks) type OpenObjective = (ObjectiveTree, Vec<(PlanTaskId, String)>);

/// Why an objective changes, and who wants to know.
#[derive(Default)]
struct Cause {
    /// It is new.
    is_new: bool,
    /// More than how its tasks stand has changed.
    is_other: bool,
    /// What happened to the task that causes it.
    events: Vec<StreamEvent>,
    /// Whoever is answered when it is durable, with what they see.
    told: Vec<commands::PendingReply>,
}

impl Service {
    /// What a change of a task means for its objective: the writes that belong to it, and the
    /// tasks whose turn it is then.
    pub(super) fn roll_up(
        &mut self,
        id: TaskId,
        events: &mut [StreamEvent],
    ) -> (Vec<(Write, PendingWrite)>, Vec<TaskId>) {
        let Some(live) = self.live.get(&id) else { return Default::default() };
        let Some(StepRef { objective, step }) = live.part_of.clone() else {
            return Default::default();
        };
        let status = PlanTaskStatus::from(live.state());
        let Some(held) = self.objectives.live.get_mut(&objective) else {
            return Default::default();
        };
        if held.status_of(&step).is_none_or(|known| known == status) {
            return Default::default();
        }
        if status == PlanTaskStatus::Completed {
            held.record_result(&step, &live.stored.task);
        }
        let effects = held.tree.report(&step, status);
        held.record_failure_reason(&step, &live.stored.task, &effects);
        let mut next = Vec::new();
        if status.is_terminal() || status.is_interrupted() {
            // First, so that what begins now finds its place.
            let lane = live.lane.clone();
            next.extend(self.queues.leave(&lane, id));
        }
        if let Some(news) = self.status_metadata(&objective, &effects)
            && let Some(StreamEvent::StatusUpdate(update)) =
                events.iter_mut().rfind(|event| matches!(event, StreamEvent::StatusUpdate(_)))
        {
            update.metadata.get_or_insert_default().extend(news);
        }
        // What came of the task is read there; those who watch the objective hear how it stands.
        let is_status = |event: &&StreamEvent| matches!(event, StreamEvent::StatusUpdate(_));
        let events = events.iter().filter(is_status).cloned().collect();
        let cause = Cause { events, ..Cause::default() };
        let (writes, more) = self.apply_effects(&objective, effects, cause);
        next.extend(more);
        (writes, next)
    }

    /// How plans and the objective stand now, for the metadata of an event.
    fn status_metadata(&self, objective: &ObjectiveId, effects: &[Effect]) -> Option<Metadata> {
        let held = self.objectives.live.get(objective)?;
        let mut news = Metadata::new();
        for effect in effects {
            match effect {
                Effect::Plan { plan, status } => {
                    let name = held.plan(plan).map(|plan| plan.stored.plan.name.as_str());
                    let plan = json!({ "id": plan, "name": name, "status": status });
                    news.entry(key::PLAN).or_insert(plan);
                }
                Effect::Objective { status } => {
                    let known = &held.stored.objective;
                    let now = json!({ "id": known.id, "name": known.name, "status": status });
                    news.insert(key::OBJECTIVE.to_owned(), now);
                }
                Effect::Begin { .. } | Effect::CallOff { .. } => {}
            }
        }
        (!news.is_empty()).then_some(news)
    }

    /// Does what follows from a change of the tree, and gives the writes that belong to it.
    fn apply_effects(
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
                Effect::CallOff { task, .. } => {
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

    /// Those who watch other tasks of the objective hear of it, too.
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
        let Some(held) = self.objectives.live.get(id) else { return Vec::new() };
        let open: Vec<TaskId> = held.linked().filter(|task| Some(*task) != caused).collect();
        let mut writes = Vec::new();
        for task in open {
            let Some(live) = self.live.get(&task) else { continue };
            if live.is_over() || live.watchers.is_empty() {
                continue;
            }
            let mut metadata = news.clone();
            metadata.insert(key::NEWS.to_owned(), Value::Bool(true));
            let event = StreamEvent::StatusUpdate(Box::new(StatusUpdate {
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

    /// Cancels the A2A task of a step, without asking its objective: that knows.
    fn cancel_step(
        &mut self,
        id: &ObjectiveId,
        step: &PlanTaskId,
    ) -> Option<((Write, PendingWrite), Option<TaskId>)> {
        let now = self.clock.now();
        let task = self.objectives.live.get(id)?.task_of(step)?;
        let live = self.live.get_mut(&task)?;
        let event = live.advance(Step::Cancel, Said::plainly(ENDED), now)?;
        let lane = live.lane.clone();
        let freed = self.queues.leave(&lane, task);
        let then = AgentAction::Cancel(ENDED.to_owned());
        let write =
            self.build_write(task, vec![event], Followup { then, ..Followup::default() })?;
        Some(((write, PendingWrite::Change(task)), freed))
    }

    /// What of the objective has changed; `None` when nothing has.
    fn objective_change(&mut self, id: &ObjectiveId, cause: Cause) -> Option<ObjectiveChange> {
        let now = Moment::from(self.clock.now().utc);
        let held = self.objectives.live.get_mut(id)?;
        let (plans, tasks) = held.note(now);
        let status = held.tree.status();
        let moved = held.stored.objective.status != status;
        if !(moved || cause.is_new || cause.is_other || !plans.is_empty() || !tasks.is_empty()) {
            for telling in cause.told {
                telling.tell(held);
            }
            return None;
        }
        held.stored.objective.status = status;
        held.sync_metadata();
        held.stored.objective.updated_at = now;
        let expected = (!cause.is_new).then_some(held.stored.revision);
        if !cause.is_new {
            held.stored.revision += 1;
        }
        let mut events: Vec<Arc<StreamEvent>> = cause.events.into_iter().map(Arc::new).collect();
        if events.is_empty() {
            events.push(Arc::new(StreamEvent::Objective(Box::new(held.shown()))));
        }
        let told = cause.told.into_iter().map(|telling| telling.seen(held)).collect();
        held.changes.push_back(PendingRevision { revision: held.stored.revision, events, told });
        Some(ObjectiveChange { objective: held.stored.clone(), expected, plans, tasks })
    }

    /// The oldest change of the objective is durable: everybody may know.
    pub(super) fn on_objective_committed(&mut self, id: &ObjectiveId) {
        let Some(held) = self.objectives.live.get_mut(id) else { return };
        let Some(PendingRevision { revision, events, told }) = held.changes.pop_front() else {
            return;
        };
        held.durable = revision;
        let over = held.is_over() && held.changes.is_empty();
        let count = events.len();
        for (at, event) in events.iter().enumerate() {
            let last = over && at + 1 == count;
            let follows = if last { Follows::Nothing } else { Follows::More };
            held.watchers.tell(revision, event, follows);
        }
        for (reply, answer) in told {
            let _ = reply.send(Ok(answer));
        }
        for (_, waiter) in held.waiters.extract_if(.., |(since, _)| *since < revision) {
            let _ = waiter.send(());
        }
        if over {
            self.objectives.live.remove(id);
        }
    }

    /// Takes up the objectives that were open before a restart; their tasks are there.
    pub(super) fn restore_objectives(&mut self, open: Vec<OpenObjective>) {
        for (tree, results) in open {
            let id = tree.stored.objective.id.clone();
            let mut held = LiveObjective::of(tree);
            held.results.extend(results);
            for (step, task) in held.links() {
                if let Some(live) = self.live.get_mut(&task) {
                    live.part_of = Some(StepRef { objective: id.clone(), step });
                }
            }
            self.objectives.live.insert(id, held);
        }
    }

    /// Does what was left to do, which is nothing unless this version decides otherwise than the
    /// one before.
    pub(super) fn settle_objectives(&mut self) {
        let all: Vec<ObjectiveId> = self.objectives.live.keys().cloned().collect();
        for id in all {
            let Some(held) = self.objectives.live.get_mut(&id) else { continue };
            let effects = held.tree.settle();
            if !effects.is_empty() {
                let (writes, next) = self.apply_effects(&id, effects, Cause::default());
                self.write_all(writes);
                next.into_iter().for_each(|next| self.start_next(Some(next)));
            }
        }
    }
}

/// Tells when the revision of an objective is above this one, or it has ended.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct WaitRevision {
    pub(in crate::tasks) id: ObjectiveId,
    pub(in crate::tasks) since: u64,
    pub(in crate::tasks) reply: oneshot::Sender<()>,
}

impl Handler<WaitRevision> for Service {
    type Result = ();

    fn handle(&mut self, wait: WaitRevision, _: &mut Self::Context) {
        let WaitRevision { id, since, reply } = wait;
        match self.objectives.live.get_mut(&id) {
            Some(held) if held.durable <= since => {
                held.waiters.retain(|(_, waiter)| !waiter.is_closed());
                held.waiters.push((since, reply));
            }
            _ => drop(reply.send(())),
        }
    }
}

/// Watches an objective from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct AddObjectiveSubscriber {
    pub(in crate::tasks) id: ObjectiveId,
    /// `None` when it has ended.
    pub(in crate::tasks) reply: oneshot::Sender<Option<Result<mpsc::Receiver<TaskEvent>, Fault>>>,
}

impl Handler<AddObjectiveSubscriber> for Service {
    type Result = ();

    fn handle(
        &mut self,
        AddObjectiveSubscriber { id, reply }: AddObjectiveSubscriber,
        _: &mut Self::Context,
    ) {
        let (limit, buffer) = (self.settings.subscribers_per_task, self.settings.subscriber_buffer);
        let held = self.objectives.live.get_mut(&id);
        let watched = held.filter(|held| !held.is_over());
        let _ = reply.send(watched.map(|held| match held.watchers.len() < limit {
            true => Ok(held.watchers.add(buffer, true)),
            false => {
                let reason = format!("{limit} streams watch this objective already; close one");
                Err(Fault::Unavailable { reason, retry_after_ms: 1_000 })
            }
        }));
    }
}

/// How a plan of an objective is found.
fn find_plan<'a>(
    plans: &'a [a2a_taskdb::PlanTree],
    id: &PlanId,
) -> Option<&'a a2a_taskdb::PlanTree> {
    plans.iter().find(|plan| plan.stored.plan.id == *id)
}
