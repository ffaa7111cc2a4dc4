//! Scheduler: runs one task per lane (owner, agent and conversation) and dispatches it to its
//! agent.

use std::time::Duration;

use a2a_policy::tasks::{AgentText, ContextQueues, QueuePosition, TaskTransition};
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::TaskState;
use a2a_protocol::{Outcome, Receipt, TaskId};
use a2a_taskdb::Queued;
use actix::prelude::*;
use chrono::{DateTime, Utc};

use super::Service;
use super::live_task::{AgentAction, Followup, LiveTask};
use crate::Submission;
use crate::tasks::outgoing;

/// Shortest wait before a request that the bus refused for now is dispatched again.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The queues of all lanes, and the order numbers that restore them after a restart.
pub(in crate::tasks) struct Scheduler {
    pub(in crate::tasks) queues: ContextQueues,
    last_order: i64,
    first_order: i64,
}

impl Scheduler {
    pub(super) fn new(queue_per_context: usize) -> Self {
        Self { queues: ContextQueues::new(queue_per_context), last_order: 0, first_order: 0 }
    }

    /// Order number behind every queued task.
    pub(in crate::tasks) fn push_back(&mut self, now: DateTime<Utc>) -> Queued {
        self.last_order += 1;
        Queued { order: self.last_order, at: now.into() }
    }

    /// Order number before every queued task.
    fn push_front(&mut self, now: DateTime<Utc>) -> Queued {
        self.first_order -= 1;
        Queued { order: self.first_order, at: now.into() }
    }

    /// Keeps later order numbers clear of one that was read from the store.
    pub(in crate::tasks) fn reserve(&mut self, order: i64) {
        self.last_order = self.last_order.max(order);
        self.first_order = self.first_order.min(order);
    }
}

impl Service {
    /// Removes a task from its lane and starts the next one.
    pub(super) fn release_lane(&mut self, id: TaskId) {
        let Some(lane) = self.live.get(&id).map(|live| live.lane.clone()) else { return };
        let next = self.scheduler.queues.leave(&lane, id);
        self.start_next(next);
    }

    pub(in crate::tasks) fn start_next(&mut self, next: Option<TaskId>) {
        let Some(id) = next else { return };
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return };
        match live.start_turn(now) {
            Some(event) => {
                let action = AgentAction::Dispatch;
                self.change(id, vec![event], Followup { action, ..Followup::default() });
            }
            // The task ended while it was queued, and was not removed from the queue.
            None => self.release_lane(id),
        }
    }

    /// Puts an interrupted task that got its answer at the head of its queue, or starts it.
    pub(super) fn requeue(&mut self, id: TaskId) -> (Vec<StreamEvent>, AgentAction) {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return Default::default() };
        let place = self.scheduler.queues.resume(&live.lane, id);
        let queued = live.advance(TaskTransition::Reply, AgentText::default(), now);
        match place {
            QueuePosition::Runs => {
                // One change for both transitions: the queued state is never visible.
                let started = live.start_turn(now);
                (started.into_iter().collect(), AgentAction::Dispatch)
            }
            QueuePosition::Waits(_) => {
                live.stored.queued = Some(self.scheduler.push_front(now.utc));
                (queued.into_iter().collect(), AgentAction::None)
            }
        }
    }

    /// Sends the task's request to its agent over the bus and starts the timeout.
    pub(in crate::tasks) fn dispatch(&mut self, id: TaskId, ctx: &mut Context<Self>) {
        if !self.start_timeout(id) {
            return; // the task has ended meanwhile
        }
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return };
        let submission = match live.submission.take() {
            Some(submission) => Ok(submission),
            None => outgoing::request(&live.stored, &[], now).map(|request| request.submission),
        };
        let nth = live.dispatches;
        match submission {
            Ok(submission) => {
                let caller = outgoing::speaker(&live.stored, live.assessed);
                let me = ctx.address();
                self.bus.send_then(caller, submission, move |receipt| {
                    me.do_send(DispatchReceipt { task: id, nth, receipt });
                });
            }
            Err(error) => drop(self.fail(id, &error.to_string(), false)),
        }
    }

    fn on_dispatch_receipt(&mut self, dispatched: &DispatchReceipt, ctx: &mut Context<Self>) {
        let &DispatchReceipt { task: id, nth, ref receipt } = dispatched;
        let outcome = receipt.outcome;
        let Some(live) = self.live.get_mut(&id) else { return };
        let first = !std::mem::replace(&mut live.assessed, true);
        // A conflict means that the request was sent before the restart, when the task had a
        // shorter history.
        if outcome.is_accepted() || matches!(outcome, Outcome::Duplicate | Outcome::Conflict) {
            return;
        }
        let is_current =
            move |live: &LiveTask| live.dispatches == nth && live.state() == TaskState::Working;
        if !self.live.get(&id).is_some_and(is_current) {
            return;
        }
        if first && outcome != Outcome::QueueFull && self.refuse_deferred(id, receipt) {
            return;
        }
        if matches!(outcome, Outcome::QueueFull | Outcome::Unavailable | Outcome::RateLimited) {
            let wait = receipt.retry_after_ms.map_or(MIN_RETRY_DELAY, Duration::from_millis);
            ctx.run_later(wait.max(MIN_RETRY_DELAY), move |service, ctx| {
                if service.live.get(&id).is_some_and(is_current) {
                    service.dispatch(id, ctx);
                }
            });
            return;
        }
        let why = receipt.reason.as_deref().unwrap_or("the bus does not take the request");
        self.fail(id, why, false);
    }

    /// Sends what the client adds to a working task to its agent.
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
                // The agent can still read it in the task's history.
                tracing::info!(task = %id, outcome = %receipt.outcome, "an addition was not delivered");
            }
        }));
    }
}

/// The bus's receipt for the `nth` dispatch of a task.
#[derive(Message)]
#[rtype(result = "()")]
struct DispatchReceipt {
    task: TaskId,
    nth: u32,
    receipt: Receipt,
}

impl Handler<DispatchReceipt> for Service {
    type Result = ();

    fn handle(&mut self, dispatched: DispatchReceipt, ctx: &mut Self::Context) {
        self.on_dispatch_receipt(&dispatched, ctx);
    }
}
