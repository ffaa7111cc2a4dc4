//! Starts steps: creates the A2A task of a step, and turns a message into an objective whose first
//! task is the caller's reply.

use std::sync::Arc;

use a2a_policy::objectives::{Effect, Settings};
use a2a_policy::tasks::QueuePosition;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::opt::{HistoryScope, ObjectiveId, PlanTask, PlanTaskStatus, key};
use a2a_protocol::task::{Message, Metadata, Part as MessagePart, PlanId, PlanTaskId, Role};
use a2a_protocol::{Code, Trace, Violation};
use a2a_taskdb::{
    ObjectiveTree, PlanTree, SentMessage, StoredObjective, StoredPlan, Write, message_key,
};
use actix::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::live_objective::LiveObjective;
use super::{Cause, CauseKind, PendingWrite, Service, StepRef};
use crate::tasks::TaskCaller;
use crate::tasks::new_task;
use crate::tasks::service::live_task::{AgentAction, Followup, LiveTask, PendingChange};
use crate::tasks::service::{ReplySender, WaitFor};

/// Most results of unrelated steps in the request of a step: the latest ones.
const OTHER_RESULTS: usize = 50;

/// The message that created a plan, and its caller, which gets the first task.
pub(super) struct FirstTaskRequest {
    pub(super) message: Message,
    pub(super) sent: SentMessage,
    pub(super) push: Option<PushConfig>,
    pub(super) wait_for: WaitFor,
    pub(super) reply: ReplySender,
}

impl Service {
    /// Creates the A2A task of a step; returns its write and the effects of its start.
    pub(super) fn start_step(
        &mut self,
        id: &ObjectiveId,
        plan: &PlanId,
        step: &PlanTaskId,
    ) -> (Option<(Write, PendingWrite)>, Vec<Effect>) {
        let now = self.clock.now();
        let Some(objective) = self.objectives.live.get_mut(id) else { return Default::default() };
        let Some((message, metadata)) = step_message(objective, plan, step) else {
            return Default::default();
        };
        let agent =
            objective.tree.find(step).and_then(|(node, at)| node.assignee(&node.tasks()[at]));
        let agent = agent.unwrap_or(&objective.stored.agent).clone();
        let caller = TaskCaller {
            owner: Arc::clone(&objective.stored.owner),
            principal: objective.stored.principal.clone(),
            is_client: false,
            sees_all: false,
            trace: objective.trace.clone(),
            version: None,
        };
        let first = objective.first.take();
        let mut live =
            LiveTask::new(new_task::new_task(&caller, &agent, message, Some(metadata), now));
        if let Some(first) = &first {
            // The client's message precedes the request that the plan makes of it.
            let task = Arc::make_mut(&mut live.stored.task);
            let mut first_message = first.message.clone();
            first_message.context_id = Some(task.context_id.clone());
            first_message.task_id = Some(task.id.as_uuid().into());
            task.history.insert(0, Arc::new(first_message));
        }
        let task = live.stored.task.id;
        live.part_of = Some(StepRef { objective: id.clone(), step: step.clone() });
        live.assessed = false;
        let runs = self.scheduler.queues.restore(&live.lane, task) == QueuePosition::Runs;
        if runs {
            let _ = live.start_turn(now);
        } else {
            live.stored.queued = Some(self.scheduler.push_back(now.utc));
        }
        live.durable = Arc::clone(&live.stored.task);
        objective.link(step, task);
        let more =
            if runs { objective.tree.report(step, PlanTaskStatus::Working) } else { Vec::new() };
        self.index.insert(task, live.stored.principal.clone());
        let stored = live.stored.clone();
        let (awaited, message, push) = match first {
            Some(FirstTaskRequest { sent, push, wait_for, reply, .. }) => {
                live.has_push = push.is_some();
                let push =
                    push.into_iter().map(|push| new_task::push_with_id(push, task)).collect();
                let id = sent.id.clone();
                (PendingWrite::Create { task, sent: id, wait_for, reply }, Some(sent), push)
            }
            None => {
                let action = if runs { AgentAction::Dispatch } else { AgentAction::None };
                let shown = Arc::clone(&live.stored.task);
                live.changes.push_back(PendingChange {
                    version: 1,
                    task: shown,
                    events: Vec::new(),
                    followup: Followup { action, ..Followup::default() },
                });
                (PendingWrite::Change(task), None, Vec::new())
            }
        };
        self.live.insert(task, live);
        let write = Write::Create { stored, message, events: Vec::new(), push };
        (Some((write, awaited)), more)
    }
}

/// The message to the agent of a step, and the metadata of its task.
fn step_message(
    objective: &LiveObjective,
    plan: &PlanId,
    step: &PlanTaskId,
) -> Option<(Message, Metadata)> {
    let PlanTree { stored, tasks } = objective.plan(plan)?;
    let found: &PlanTask = tasks.iter().find(|task| task.id == *step)?;
    let text = match &found.description {
        Some(description) => format!("{}\n\n{description}", found.name),
        None => found.name.clone(),
    };
    let mut parts = vec![MessagePart::text(text)];
    let needed = |task: &PlanTask| found.dependencies.contains(&task.id);
    let results = results(objective, stored, needed);
    if !results.is_empty() {
        parts.push(MessagePart::data(json!({ "results": results })));
    }
    let before = tasks.iter().filter(|task| needed(task));
    let ids = before.filter_map(|task| task.a2a_task_id.map(|id| id.to_string()));
    let ids: Vec<String> = ids.collect();
    let mut metadata = Metadata::new();
    metadata.insert(key::OBJECTIVE_ID.to_owned(), json!(found.objective_id));
    metadata.insert(key::PLAN_ID.to_owned(), json!(found.plan_id));
    metadata.insert(key::TASK_INDEX.to_owned(), json!(found.task_index));
    if !ids.is_empty() {
        metadata.insert(key::DEPENDENCIES.to_owned(), json!(ids));
    }
    let message = Message {
        message_id: Uuid::now_v7().into(),
        context_id: Some(found.objective_id.clone()),
        task_id: None,
        role: Role::User,
        parts,
        metadata: None,
        extensions: Vec::new(),
        reference_task_ids: ids,
    };
    Some((message, metadata))
}

/// Results of completed steps for a step of `plan`: of the steps it depends on, and of the latest
/// others within the plan's history scope.
fn results(
    objective: &LiveObjective,
    plan: &StoredPlan,
    needed: impl Fn(&PlanTask) -> bool,
) -> Vec<Value> {
    let scope = Settings::of(plan.plan.metadata.as_ref()).history_scope;
    let in_scope =
        |other: &PlanTree| scope == HistoryScope::Objective || other.stored.plan.id == plan.plan.id;
    let tasks = objective.plans.iter().filter(|other| in_scope(other)).flat_map(|plan| &plan.tasks);
    let done = tasks.filter(|task| scope != HistoryScope::Task || needed(task));
    let mut shown: Vec<(&PlanTask, &String)> = done
        .filter_map(|task| {
            Some((task, objective.results.get(&task.id).filter(|text| !text.is_empty())?))
        })
        .collect();
    let mut too_many =
        shown.iter().filter(|(task, _)| !needed(task)).count().saturating_sub(OTHER_RESULTS);
    shown.retain(|(task, _)| {
        let stays = needed(task) || too_many == 0;
        too_many -= usize::from(!stays);
        stays
    });
    let shown = shown.into_iter();
    shown.map(
        |(task, result)| json!({ "name": task.name, "taskId": task.a2a_task_id, "result": result }),
    )
    .collect()
}

/// Submits a message that the planner has turned into plans.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct SubmitObjective {
    /// The objective from the store, or the new one.
    pub(in crate::tasks) tree: Box<ObjectiveTree>,
    pub(in crate::tasks) is_new: bool,
    /// New plans with their steps.
    pub(in crate::tasks) plans: Vec<a2a_protocol::opt::Plan>,
    pub(in crate::tasks) message: Message,
    /// The message as the client sent it.
    pub(in crate::tasks) sent: SentMessage,
    pub(in crate::tasks) push: Option<PushConfig>,
    pub(in crate::tasks) wait_for: WaitFor,
    /// Trace of the call.
    pub(in crate::tasks) trace: Option<Arc<Trace>>,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<SubmitObjective> for Service {
    type Result = ();

    fn handle(&mut self, begin: SubmitObjective, _: &mut Self::Context) {
        let SubmitObjective {
            tree,
            mut is_new,
            plans,
            message,
            sent,
            push,
            wait_for,
            trace,
            reply,
        } = begin;
        let id = tree.stored.objective.id.clone();
        let StoredObjective { owner, agent, .. } = &tree.stored;
        if is_new && let Some(there) = self.objectives.live.get(&id) {
            // Another message with the same context came first.
            if there.stored.owner != *owner {
                let why = format!("{id} names something else already; choose another contextId");
                let found = Violation::new("/message/contextId", Code::NotAllowed, why);
                let _ = reply.send(Err(Fault::InvalidParams(vec![found])));
                return;
            }
            is_new = false;
        }
        if is_new && let Err(fault) = self.check_open_objectives(owner) {
            let _ = reply.send(Err(fault));
            return;
        }
        let key = message_key(owner, agent, &message.message_id);
        if !self.is_new_message(key) {
            // Its create is queued. A repeat after the commit finds it as a duplicate.
            let reason = "the same message is being taken in right now; send it again".to_owned();
            let _ = reply.send(Err(Fault::Unavailable { reason, retry_after_ms: 100 }));
            return;
        }
        let objective =
            self.objectives.live.entry(id.clone()).or_insert_with(|| LiveObjective::of(*tree));
        let mut effects = Vec::new();
        objective.first = Some(FirstTaskRequest { message, sent, push, wait_for, reply });
        objective.trace = trace;
        for plan in plans {
            match objective.add_plan(plan) {
                Ok(more) => effects.extend(more),
                // A draft is within the limits of an objective. So only its first plan can exceed
                // them, and nothing has changed.
                Err(refused) => {
                    let first = objective.first.take();
                    if objective.is_over() && objective.changes.is_empty() {
                        self.objectives.evict(&id);
                    }
                    let mut found = refused.violations();
                    for violation in &mut found {
                        violation.path = "/message/contextId".into();
                    }
                    if let Some(first) = first {
                        let _ = first.reply.send(Err(Fault::InvalidParams(found)));
                    }
                    return;
                }
            }
        }
        let kind = if is_new { CauseKind::Created } else { CauseKind::Edited };
        let cause = Cause { kind, ..Cause::default() };
        let (writes, next) = self.apply_effects(&id, effects, cause);
        self.write_all(writes);
        next.into_iter().for_each(|next| self.start_next(Some(next)));
        let objective = self.objectives.live.get_mut(&id);
        if let Some(first) = objective.and_then(|objective| objective.first.take()) {
            let reason = "nothing of the plan can begin; look at the objective".to_owned();
            let _ = first.reply.send(Err(Fault::Unsupported { reason }));
        }
    }
}
