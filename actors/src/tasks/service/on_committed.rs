//! What follows when the store has a change, or has it not: callers, watchers and the bus are told,
//! the agent gets its request, what has ended is forgotten.

use std::sync::Arc;

use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::Task;
use a2a_taskdb::Written;
use actix::prelude::*;

use super::{PendingWrite, ReplySender, Service, TaskReply, WaitFor};
use crate::Ticket;
use crate::tasks::service::live_task::{AgentAction, LiveTask};
use crate::tasks::stats::TaskEnd;
use crate::tasks::system::send::duplicate_reply;
use crate::tasks::watch::Follows;

/// What came of changes, by their numbers; `None` when the disk refused.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Committed(pub(in crate::tasks) Vec<(u64, Option<Written>)>);

impl Handler<Committed> for Service {
    type Result = ();

    fn handle(&mut self, Committed(results): Committed, ctx: &mut Self::Context) {
        for (number, written) in results {
            let Some(awaited) = self.awaited.remove(&number) else { continue };
            self.on_committed(awaited, written, ctx);
        }
    }
}

impl Service {
    fn on_committed(
        &mut self,
        awaited: PendingWrite,
        written: Option<Written>,
        ctx: &mut Context<Self>,
    ) {
        match (awaited, written) {
            (PendingWrite::Together(all), Some(Written::Together(written))) => {
                for (awaited, written) in all.into_iter().zip(written) {
                    self.on_committed(awaited, Some(written), ctx);
                }
            }
            (PendingWrite::Together(all), written) => {
                // There is one writer, so this cannot be; each of them says what it means.
                for awaited in all {
                    self.on_committed(awaited, written.clone(), ctx);
                }
            }
            (PendingWrite::Objective(id), Some(Written::Done)) => self.on_objective_committed(&id),
            (PendingWrite::Objective(id), written) => {
                tracing::error!(?written, %id, "a change of an objective did not fit the store");
                self.objectives.evict(&id);
            }
            (PendingWrite::Create { task, want, reply, .. }, Some(Written::Done)) => {
                self.on_created(task, want, reply, ctx);
            }
            (PendingWrite::Create { task, sent, reply, .. }, written) => {
                self.on_create_rejected(task);
                let _ = reply.send(match written {
                    Some(Written::Repeated(found)) => duplicate_reply(found, &sent),
                    None => Err(disk_refuses()),
                    Some(other) => {
                        tracing::error!(?other, %task, "a new task did not fit the store");
                        Err(Fault::Internal)
                    }
                });
            }
            (PendingWrite::DeferredCreate(_), Some(Written::Done)) => {}
            (PendingWrite::DeferredCreate(task), written) => {
                tracing::error!(?written, %task, "a task that began did not fit the store");
                self.release_lane(task);
                self.evict(task);
            }
            (PendingWrite::Change(task), Some(Written::Done)) => self.on_changed(task, ctx),
            (PendingWrite::Change(task), written) => {
                // There is one writer, so this cannot be; what the store says counts.
                tracing::error!(?written, %task, "a change of a task did not fit the store");
                self.release_lane(task);
                self.evict(task);
            }
            (PendingWrite::Answer { task, acks }, Some(Written::Done)) => {
                self.on_answered(task, acks)
            }
            (PendingWrite::Answer { task, .. }, written) => {
                tracing::error!(?written, %task, "a plain answer did not fit the store");
                self.evict(task);
            }
            (PendingWrite::Reply(reply), written) => {
                let _ = reply.send(written);
            }
            (PendingWrite::Expire, written) => self.on_expired(written),
        }
    }

    fn on_created(
        &mut self,
        id: TaskId,
        want: WaitFor,
        reply: ReplySender,
        ctx: &mut Context<Self>,
    ) {
        let Some(live) = self.live.get_mut(&id) else { return };
        live.is_stored = true;
        match want {
            WaitFor::Created => {
                live.unseen = false;
                let gone = Fault::TaskNotFound { task: id.to_string() };
                let task = self.snapshot(id).ok_or(gone);
                let _ = reply.send(task.map(|task| TaskReply::Task(Arc::new(task))));
            }
            WaitFor::End => live.waiters.push((live.stored.version, reply)),
            WaitFor::Stream => {
                let events = live.watchers.add_first(self.settings.subscriber_buffer);
                let _ = reply.send(Ok(TaskReply::Stream(events)));
                if live.stored.queued.is_some() {
                    self.reveal(id);
                } else {
                    // If the agent has not said anything by then, there is a task.
                    ctx.run_later(self.settings.plain_answer_grace, move |service, _| {
                        service.reveal(id)
                    });
                }
            }
        }
        // If it got its turn or its end meanwhile, what follows hangs on that change.
        let is_next = |live: &LiveTask| live.stored.queued.is_none() && live.changes.is_empty();
        if self.live.get(&id).is_some_and(is_next) {
            self.dispatch(id, ctx);
        }
    }

    /// The message was heard before: the task that was to be begun never was.
    fn on_create_rejected(&mut self, id: TaskId) {
        if let Some(live) = self.evict(id) {
            let next = self.queues.leave(&live.lane, id);
            self.start_next(next);
        }
    }

    /// The oldest change of the task is durable: everybody may know.
    fn on_changed(&mut self, id: TaskId, ctx: &mut Context<Self>) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let Some(change) = live.changes.pop_front() else { return };
        live.is_stored = true;
        live.unseen &= change.events.is_empty();
        if !live.unseen {
            let (number, before) = (live.durable_event, Arc::clone(&live.durable));
            live.watchers.greet(number, || Task::clone(&before));
        }
        let state = change.task.status.state;
        let pause = state.is_terminal() || state.is_interrupted();
        live.durable = change.task;
        let count = change.events.len();
        for (at, (number, event)) in change.events.iter().enumerate() {
            let follows = match (at + 1 == count, state) {
                (true, state) if state.is_terminal() => Follows::Nothing,
                (true, state) if state.is_interrupted() => Follows::Pause,
                _ => Follows::More,
            };
            live.watchers.tell(*number, event, follows);
            live.durable_event = *number;
        }
        let shown = || Ok(TaskReply::Task(Arc::clone(&live.durable)));
        if pause {
            for (_, waiter) in live.waiters.extract_if(.., |(from, _)| *from <= change.version) {
                let _ = waiter.send(shown());
            }
        }
        // That a task is cancelled is answered when the bus has it, too.
        let calls_off = matches!(change.then, AgentAction::Cancel(_));
        let (now, later) =
            if calls_off { (Vec::new(), change.told) } else { (change.told, Vec::new()) };
        for told in now {
            let _ = told.send(shown());
        }
        let late =
            if live.has_unwritten() { Vec::new() } else { std::mem::take(&mut live.late_acks) };
        for ack in change.acks.into_iter().chain(late) {
            ack.handled();
        }
        let over = state.is_terminal() && live.changes.is_empty();
        // Whoever is rung for looks into the store: not for nothing.
        let due = count > 0 && live.has_push;
        change.watchers.into_iter().for_each(|watcher| self.subscribe_caller(id, watcher));
        match change.then {
            AgentAction::None => {}
            AgentAction::Dispatch => self.dispatch(id, ctx),
            AgentAction::Cancel(reason) => self.cancel_on_bus(id, reason, later, ctx),
        }
        if over {
            self.stats.end_in(state);
            self.evict(id);
        }
        if due {
            self.push_notify.notify_one();
        }
    }

    /// The plain message that takes the place of the task is durable.
    fn on_answered(&mut self, id: TaskId, acks: Vec<Ticket>) {
        let Some(mut live) = self.evict(id) else { return };
        self.stats.end(TaskEnd::Answered);
        if let Some(message) = live.answer.take() {
            let event = Arc::new(StreamEvent::Message(message.clone()));
            live.watchers.tell(live.durable_event, &event, Follows::Nothing);
            for (_, waiter) in live.waiters {
                let _ = waiter.send(Ok(TaskReply::Message(message.clone())));
            }
        }
        for ack in acks.into_iter().chain(live.late_acks) {
            ack.handled();
        }
    }
}

pub(in crate::tasks) fn disk_refuses() -> Fault {
    Fault::Unavailable {
        reason: "the server cannot write right now; nothing was accepted".into(),
        retry_after_ms: 1_000,
    }
}
