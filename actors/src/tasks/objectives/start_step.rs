//! A step's turn has come: an A2A task is made for it. And a message for which the server has made
//! a plan: its first task is what the caller gets.

use a2a_policy::opt::{Effect, Settings};
use a2a_policy::tasks::{Place, Said, Step};
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::opt::{HistoryScope, ObjectiveId, PlanTask, PlanTaskStatus, key};
use a2a_protocol::task::{Message, Metadata, Part as MessagePart, PlanId, PlanTaskId, Role};
use a2a_protocol::{Code, Trace, Violation};
use a2a_taskdb::{
    ObjectiveTree, PlanTree, Queued, SentMessage, StoredObjective, StoredPlan, Write, message_key,
};
use actix::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

use super::live_objective::LiveObjective;
use super::{Cause, PendingWrite, Service, StepRef};
use crate::tasks::TaskCaller;
use crate::tasks::new_task;
use crate::tasks::service::live_task::{AgentAction, LiveTask, PendingChange};
use crate::tasks::service::{ReplySender, WaitFor};

/// Of how many steps that it does not need a step hears at most: the latest.
const OTHER_RESULTS: usize = 50;

/// Whoever asked for what a plan does first, and waits for it.
pub(super) struct FirstTaskRequest {
    pub(super) message: Message,
    pub(super) sent: SentMessage,
    pub(super) push: Option<PushConfig>,
    pub(super) want: WaitFor,
    pub(super) reply: ReplySender,
}

impl Service {
    /// Makes the A2A task of a step; what follows from its being at work already.
    pub(super) fn start_step(
        &mut self,
        id: &ObjectiveId,
        plan: &PlanId,
        step: &PlanTaskId,
    ) -> (Option<(Write, PendingWrite)>, Vec<Effect>) {
        let now = self.clock.now();
        let Some(held) = self.objectives.live.get_mut(id) else { return Default::default() };
        let Some((message, metadata)) = asked(held, plan, step) else { return Default::default() };
        let agent = held.tree.find(step).and_then(|(node, at)| node.assignee(&node.tasks()[at]));
        let agent = agent.unwrap_or(&held.stored.agent).clone();
        let caller = TaskCaller {
            owner: Arc::clone(&held.stored.owner),
            principal: held.stored.principal.clone(),
            is_client: false,
            sees_all: false,
            trace: held.trace.clone(),
            version: None,
        };
        let first = held.first.take();
        let mut live =
            LiveTask::new(new_task::new_task(&caller, &agent, message, Some(metadata), now));
        if let Some(first) = &first {
            // What the caller said stands before what the plan makes of it.
            let task = Arc::make_mut(&mut live.stored.task);
            let mut said = first.message.clone();
            said.context_id = Some(task.context_id.clone());
            said.task_id = Some(task.id.as_uuid().into());
            task.history.insert(0, Arc::new(said));
        }
        let task = live.stored.task.id;
        live.part_of = Some(StepRef { objective: id.clone(), step: step.clone() });
        live.assessed = false;
        let runs = self.queues.restore(&live.lane, task) == Place::Runs;
        if runs {
            let _ = live.advance(Step::Start, Said::default(), now);
            live.stored.dispatched = true;
            live.dispatches = 1;
        } else {
            self.last_order += 1;
            live.stored.queued = Some(Queued { order: self.last_order, at: now.utc.into() });
        }
        live.durable = Arc::clone(&live.stored.task);
        held.link(step, task);
        let more = if runs { held.tree.report(step, PlanTaskStatus::Working) } else { Vec::new() };
        self.held.insert(task, live.stored.principal.clone());
        let stored = live.stored.clone();
        let (awaited, message, push) = match first {
            Some(FirstTaskRequest { sent, push, want, reply, .. }) => {
                live.has_push = push.is_some();
                let push =
                    push.into_iter().map(|push| new_task::push_with_id(push, task)).collect();
                let id = sent.id.clone();
                (PendingWrite::Create { task, sent: id, want, reply }, Some(sent), push)
            }
            None => {
                let then = if runs { AgentAction::Dispatch } else { AgentAction::None };
                let shown = Arc::clone(&live.stored.task);
                live.changes.push_back(PendingChange {
                    version: 1,
                    task: shown,
                    events: Vec::new(),
                    acks: Vec::new(),
                    told: Vec::new(),
                    watchers: Vec::new(),
                    then,
                });
                (PendingWrite::Change(task), None, Vec::new())
            }
        };
        self.live.insert(task, live);
        let write = Write::Create { stored, message, events: Vec::new(), push };
        (Some((write, awaited)), more)
    }
}

/// What the agent of a step is asked, and what stands in the metadata of its task.
fn asked(held: &LiveObjective, plan: &PlanId, step: &PlanTaskId) -> Option<(Message, Metadata)> {
    let PlanTree { stored, tasks } = held.plan(plan)?;
    let found: &PlanTask = tasks.iter().find(|task| task.id == *step)?;
    let text = match &found.description {
        Some(description) => format!("{}\n\n{description}", found.name),
        None => found.name.clone(),
    };
    let mut parts = vec![MessagePart::text(text)];
    let needed = |task: &PlanTask| found.dependencies.contains(&task.id);
    let results = results(held, stored, needed);
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

/// What came of the steps that are done, as far as a step of `plan` hears of it: always of those it
/// needs, and of as many others as the plan's scope of history wishes, the latest of them.
fn results(
    held: &LiveObjective,
    plan: &StoredPlan,
    needed: impl Fn(&PlanTask) -> bool,
) -> Vec<Value> {
    let scope = Settings::of(plan.plan.metadata.as_ref()).history_scope;
    let in_scope =
        |other: &PlanTree| scope == HistoryScope::Objective || other.stored.plan.id == plan.plan.id;
    let tasks = held.plans.iter().filter(|other| in_scope(other)).flat_map(|plan| &plan.tasks);
    let done = tasks.filter(|task| scope != HistoryScope::Task || needed(task));
    let mut told: Vec<(&PlanTask, &String)> = done
        .filter_map(|task| {
            Some((task, held.results.get(&task.id).filter(|text| !text.is_empty())?))
        })
        .collect();
    let mut too_many =
        told.iter().filter(|(task, _)| !needed(task)).count().saturating_sub(OTHER_RESULTS);
    told.retain(|(task, _)| {
        let stays = needed(task) || too_many == 0;
        too_many -= usize::from(!stays);
        stays
    });
    let told = told.into_iter();
    told.map(
        |(task, result)| json!({ "name": task.name, "taskId": task.a2a_task_id, "result": result }),
    )
    .collect()
}

/// A message for whose work the server has made plans.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct SubmitObjective {
    /// The objective that is there, as the store has it, or a new one.
    pub(in crate::tasks) objective: Box<ObjectiveTree>,
    pub(in crate::tasks) is_new: bool,
    /// The plans, with their tasks.
    pub(in crate::tasks) plans: Vec<a2a_protocol::opt::Plan>,
    pub(in crate::tasks) message: Message,
    /// The same as it was sent.
    pub(in crate::tasks) sent: SentMessage,
    pub(in crate::tasks) push: Option<PushConfig>,
    pub(in crate::tasks) want: WaitFor,
    /// The trace of the call.
    pub(in crate::tasks) trace: Option<Arc<Trace>>,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<SubmitObjective> for Service {
    type Result = ();

    fn handle(&mut self, begin: SubmitObjective, _: &mut Self::Context) {
        let SubmitObjective {
            objective,
            mut is_new,
            plans,
            message,
            sent,
            push,
            want,
            trace,
            reply,
        } = begin;
        let id = objective.stored.objective.id.clone();
        let StoredObjective { owner, agent, .. } = &objective.stored;
        if is_new && let Some(there) = self.objectives.live.get(&id) {
            // Another message has brought the same context a moment ago.
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
            // It is on its way to the disk; whoever repeats it then finds it there.
            let reason = "the same message is being taken in right now; send it again".to_owned();
            let _ = reply.send(Err(Fault::Unavailable { reason, retry_after_ms: 100 }));
            return;
        }
        let held =
            self.objectives.live.entry(id.clone()).or_insert_with(|| LiveObjective::of(*objective));
        let mut effects = Vec::new();
        held.first = Some(FirstTaskRequest { message, sent, push, want, reply });
        held.trace = trace;
        for plan in plans {
            match held.add_plan(plan) {
                Ok(more) => effects.extend(more),
                // The limits of a draft are those of an objective, so that only the first can be
                // refused: nothing has changed.
                Err(refused) => {
                    let first = held.first.take();
                    if held.is_over() && held.changes.is_empty() {
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
        let cause = Cause { is_new, is_other: true, ..Cause::default() };
        let (writes, next) = self.apply_effects(&id, effects, cause);
        self.write_all(writes);
        next.into_iter().for_each(|next| self.start_next(Some(next)));
        let held = self.objectives.live.get_mut(&id);
        if let Some(first) = held.and_then(|held| held.first.take()) {
            let reason = "nothing of the plan can begin; look at the objective".to_owned();
            let _ = first.reply.send(Err(Fault::Unsupported { reason }));
        }
    }
}
