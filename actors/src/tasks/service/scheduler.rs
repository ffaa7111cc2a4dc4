//! Whose turn it is: one task runs per agent and conversation.

use a2a_policy::tasks::{Place, Said, Step};
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::{Task, TaskState};
use a2a_protocol::{Outcome, Receipt, TaskId};
use a2a_taskdb::{Queued, StoredTask};
use actix::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use super::{Followup, ReplySender, Service, TaskReply};
use crate::tasks::AfterRestart;
use crate::tasks::objectives::OpenObjective;
use crate::tasks::outgoing;
use crate::tasks::service::live_task::{AgentAction, LiveTask};
use crate::{CancelError, Submission};

/// How long to wait before a request is handed over again that nobody could take.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl Service {
    /// The task neither runs nor waits any more: the next one may.
    pub(super) fn release_lane(&mut self, id: TaskId) {
        let Some(lane) = self.live.get(&id).map(|live| live.lane.clone()) else { return };
        let next = self.queues.leave(&lane, id);
        self.start_next(next);
    }

    pub(in crate::tasks) fn start_next(&mut self, next: Option<TaskId>) {
        let Some(id) = next else { return };
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return };
        match live.start_turn(now) {
            Some(event) => {
                self.change(
                    id,
                    vec![event],
                    Followup { then: AgentAction::Dispatch, ..Followup::default() },
                );
            }
            // It ended while it waited; whoever ended it should have taken it out.
            None => self.release_lane(id),
        }
    }

    /// Sends the end of a task to the disk, by an answer that the journal has: after a crash it is
    /// heard again, and what follows from it follows again. So whoever is next is handed to its agent
    /// at once, if the store knows that it waits; that it has begun is written in one piece with
    /// the end.
    pub(super) fn end_by_answer(
        &mut self,
        id: TaskId,
        events: Vec<StreamEvent>,
        wake: Followup,
        ctx: &mut Context<Self>,
    ) {
        let (mut all, mut next) = self.build_change(id, events, wake);
        let lane = self.live.get(&id).map(|live| live.lane.clone());
        next.extend(lane.and_then(|lane| self.queues.leave(&lane, id)));
        let waits = |id: &TaskId| self.live.get(id).is_some_and(LiveTask::is_queued_in_store);
        let (ready, mut others): (Vec<_>, Vec<_>) = next.into_iter().partition(waits);
        for &id in &ready {
            let now = self.clock.now();
            let Some(live) = self.live.get_mut(&id) else { continue };
            let Some(event) = live.start_turn(now) else { continue };
            let (writes, more) = self.build_change(id, vec![event], Followup::default());
            all.extend(writes);
            others.extend(more);
        }
        self.write_all(all);
        ready.into_iter().for_each(|id| self.dispatch(id, ctx));
        others.into_iter().for_each(|id| self.start_next(Some(id)));
    }

    /// The caller has answered: the task is next, or runs at once.
    pub(super) fn requeue(&mut self, id: TaskId) -> (Vec<StreamEvent>, AgentAction) {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return Default::default() };
        let place = self.queues.resume(&live.lane, id);
        let lined_up = live.advance(Step::Reply, Said::default(), now);
        match place {
            Place::Runs => {
                // Both at once: nobody sees it wait.
                let started = live.start_turn(now);
                (started.into_iter().collect(), AgentAction::Dispatch)
            }
            Place::Waits(_) => {
                self.first_order -= 1;
                let order = self.first_order;
                live.stored.queued = Some(Queued { order, at: now.utc.into() });
                (lined_up.into_iter().collect(), AgentAction::None)
            }
        }
    }

    /// The task may be worked on for as long as it may; `false` when it is not worked on.
    fn set_deadline(&mut self, id: TaskId) -> bool {
        let Some(live) = self.live.get_mut(&id) else { return false };
        if live.state() != TaskState::Working || live.answer.is_some() {
            return false;
        }
        let worked = Duration::from_millis(live.stored.worked_ms);
        let at = self.clock.now().uptime + self.settings.timeout.saturating_sub(worked);
        if let Some(before) = live.deadline.replace(at) {
            self.deadlines.remove(&(before, id));
        }
        self.deadlines.insert((at, id));
        true
    }

    /// Hands the task to its agent over the bus.
    pub(super) fn dispatch(&mut self, id: TaskId, ctx: &mut Context<Self>) {
        if !self.set_deadline(id) {
            return; // it ended in the meantime
        }
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return };
        let submission = match live.submission.take() {
            Some(submission) => Ok(submission),
            None => outgoing::request(&live.stored, &[], now).map(|composed| composed.submission),
        };
        let turn = live.dispatches;
        match submission {
            Ok(submission) => {
                let caller = outgoing::speaker(&live.stored, live.assessed);
                let me = ctx.address();
                self.bus.send_then(caller, submission, move |receipt| {
                    me.do_send(DispatchReceipt { task: id, turn, receipt });
                });
            }
            Err(error) => drop(self.fail(id, &error.to_string(), false)),
        }
    }

    fn dispatched(&mut self, dispatched: &DispatchReceipt, ctx: &mut Context<Self>) {
        let &DispatchReceipt { task: id, turn, ref receipt } = dispatched;
        let outcome = receipt.outcome;
        let Some(live) = self.live.get_mut(&id) else { return };
        let first = !std::mem::replace(&mut live.assessed, true);
        // A conflict: it was handed over before the restart, when the task had less of a history.
        if outcome.is_accepted() || matches!(outcome, Outcome::Duplicate | Outcome::Conflict) {
            return;
        }
        let current =
            move |live: &LiveTask| live.dispatches == turn && live.state() == TaskState::Working;
        if !self.live.get(&id).is_some_and(current) {
            return;
        }
        if first && outcome != Outcome::QueueFull && self.refuse_deferred(id, receipt) {
            return;
        }
        if matches!(outcome, Outcome::QueueFull | Outcome::Unavailable | Outcome::RateLimited) {
            let wait = receipt.retry_after_ms.map_or(TRY_AGAIN, Duration::from_millis);
            ctx.run_later(wait.max(TRY_AGAIN), move |service, ctx| {
                if service.live.get(&id).is_some_and(current) {
                    service.dispatch(id, ctx);
                }
            });
            return;
        }
        let why = receipt.reason.as_deref().unwrap_or("the bus does not take the request");
        self.fail(id, why, false);
    }

    /// Tells an agent at work what its caller adds.
    pub(super) fn notify_agent(
        &mut self,
        id: TaskId,
        addition: Submission,
        ctx: &mut Context<Self>,
    ) {
        let Some(live) = self.live.get(&id) else { return };
        let (bus, caller) = (self.bus.clone(), outgoing::speaker(&live.stored, true));
        let sent = async move { bus.send(caller, addition).await };
        ctx.spawn(sent.into_actor(self).map(move |receipt, _, _| {
            if !receipt.outcome.is_accepted() {
                // It stands in the task's history, where the agent can look it up.
                tracing::info!(task = %id, outcome = %receipt.outcome, "an addition was not delivered");
            }
        }));
    }

    /// Cancels the task on the bus, where its agent is told. `told` are answered when that is
    /// durable, too: nothing is handed to the agent after a crash then.
    pub(super) fn cancel_on_bus(
        &mut self,
        id: TaskId,
        reason: String,
        told: Vec<ReplySender>,
        ctx: &mut Context<Self>,
    ) {
        let Some(live) = self.live.get(&id) else { return };
        let (bus, principal) = (self.bus.clone(), live.stored.principal.clone());
        let task = Arc::clone(&live.durable);
        let called = async move { bus.cancel_task(id, Some(principal), reason).await };
        ctx.spawn(called.into_actor(self).map(move |result, _, _| {
            let answer = match result {
                Ok(()) => Ok(()),
                Err(CancelError::Refused(refused)) => {
                    // It ended on the bus in the same moment, or never got there.
                    tracing::debug!(task = %id, %refused, "nothing to call off on the bus");
                    Ok(())
                }
                Err(CancelError::Unavailable) => Err(Fault::Unavailable {
                    reason: format!("task {id} is canceled, but the bus cannot record that right now: its agent may still get it"),
                    retry_after_ms: 1_000,
                }),
            };
            for told in told {
                let answer = answer.clone().map(|()| TaskReply::Task(Arc::clone(&task)));
                let _ = told.send(answer);
            }
        }));
    }

    /// The task as everybody may see it, with its place in the line.
    pub(super) fn snapshot(&self, id: TaskId) -> Option<Task> {
        let live = self.live.get(&id)?;
        let mut task = Task::clone(&live.durable);
        if task.status.state == TaskState::Submitted
            && let Some(queued) = live.stored.queued
            && let Some(Place::Waits(place)) = self.queues.place(&live.lane, id)
        {
            queued.show(&mut task, place as u64);
        }
        Some(task)
    }
}

/// What became of the request that hands a task to its agent.
#[derive(Message)]
#[rtype(result = "()")]
struct DispatchReceipt {
    task: TaskId,
    turn: u32,
    receipt: Receipt,
}

impl Handler<DispatchReceipt> for Service {
    type Result = ();

    fn handle(&mut self, dispatched: DispatchReceipt, ctx: &mut Self::Context) {
        self.dispatched(&dispatched, ctx);
    }
}

/// Everything that was open before a restart, in the order of the store. From here on answers
/// count; nobody is asked for anything before [`Resume`].
#[derive(Message)]
#[rtype(result = "Vec<TaskId>")]
pub(in crate::tasks) struct Restore {
    pub(in crate::tasks) open: Vec<StoredTask>,
    /// Whose end is in the journal, and nothing in the store.
    pub(in crate::tasks) rebuilt: Vec<StoredTask>,
    pub(in crate::tasks) objectives: Vec<OpenObjective>,
}

impl Handler<Restore> for Service {
    type Result = MessageResult<Restore>;

    fn handle(&mut self, restore: Restore, _: &mut Self::Context) -> Self::Result {
        let Restore { open, rebuilt, objectives } = restore;
        let mut running = Vec::new();
        for stored in open {
            let id = stored.task.id;
            let mut live = LiveTask::new(stored);
            // What was wished before the restart stands in the store alone.
            live.has_push = true;
            live.is_stored = true;
            self.held.insert(id, live.stored.principal.clone());
            match live.state() {
                TaskState::Working => {
                    self.queues.restore(&live.lane, id);
                    running.push(id);
                }
                TaskState::Submitted => {
                    let order = live.stored.queued.map_or(0, |queued| queued.order);
                    self.last_order = self.last_order.max(order);
                    self.first_order = self.first_order.min(order);
                    if self.queues.restore(&live.lane, id) == Place::Runs {
                        running.push(id);
                    }
                }
                _ => {}
            }
            self.live.insert(id, live);
        }
        rebuilt.into_iter().for_each(|stored| self.restore_from_journal(stored));
        self.restore_objectives(objectives);
        MessageResult(running)
    }
}

/// The tasks whose turn it is go on, those that did not end meanwhile.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Resume(pub(in crate::tasks) Vec<TaskId>);

impl Handler<Resume> for Service {
    type Result = ();

    fn handle(&mut self, Resume(running): Resume, ctx: &mut Self::Context) {
        self.settle_objectives();
        for id in running {
            let state = self.live.get(&id).map(LiveTask::state);
            match (state, self.settings.after_restart) {
                (Some(TaskState::Submitted), _) => self.start_next(Some(id)),
                (Some(TaskState::Working), AfterRestart::Resume) => self.dispatch(id, ctx),
                (Some(TaskState::Working), AfterRestart::Fail) => {
                    let why =
                        "interrupted: the server was stopped while the task was being worked on";
                    self.fail(id, why, true);
                }
                // It has ended meanwhile, or waits for its caller.
                _ => {}
            }
        }
    }
}

/// Tasks whose answers should have come, and did not: they are at work like any other.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct ResumeUnanswered(pub(in crate::tasks) Vec<TaskId>);

impl Handler<ResumeUnanswered> for Service {
    type Result = ();

    fn handle(&mut self, ResumeUnanswered(tasks): ResumeUnanswered, _: &mut Self::Context) {
        for id in tasks {
            if self.set_deadline(id) {
                self.persist_deferred(id);
            }
        }
    }
}
