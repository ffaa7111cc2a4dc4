//! What follows when the store has a change, or has it not: callers, watchers and the bus are told,
//! the agent gets its request, what has ended is forgotten.

use std::sync::Arc;

use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::Task;
use a2a_taskdb::Written;
use actix::prelude::*;

use super::{Answering, Awaited, Begun, Service, Want};
use crate::Ticket;
use crate::tasks::service::entry::{Entry, Then};
use crate::tasks::stats::TaskEnd;
use crate::tasks::system::send::repeated;
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
            self.committed(awaited, written, ctx);
        }
    }
}

impl Service {
    fn committed(&mut self, awaited: Awaited, written: Option<Written>, ctx: &mut Context<Self>) {
        match (awaited, written) {
            (Awaited::Together(all), Some(Written::Together(written))) => {
                for (awaited, written) in all.into_iter().zip(written) {
                    self.committed(awaited, Some(written), ctx);
                }
            }
            (Awaited::Together(all), written) => {
                // There is one writer, so this cannot be; each of them says what it means.
                for awaited in all {
                    self.committed(awaited, written.clone(), ctx);
                }
            }
            (Awaited::Objective(id), Some(Written::Done)) => self.objective_kept(&id),
            (Awaited::Objective(id), written) => {
                tracing::error!(?written, %id, "a change of an objective did not fit the store");
                self.objectives.forget(&id);
            }
            (Awaited::Create { task, want, reply, .. }, Some(Written::Done)) => {
                self.created(task, want, reply, ctx);
            }
            (Awaited::Create { task, sent, reply, .. }, written) => {
                self.not_created(task);
                let _ = reply.send(match written {
                    Some(Written::Repeated(found)) => repeated(found, &sent),
                    None => Err(disk_refuses()),
                    Some(other) => {
                        tracing::error!(?other, %task, "a new task did not fit the store");
                        Err(Fault::Internal)
                    }
                });
            }
            (Awaited::Birth(_), Some(Written::Done)) => {}
            (Awaited::Birth(task), written) => {
                tracing::error!(?written, %task, "a task that began did not fit the store");
                self.free_place(task);
                self.forget(task);
            }
            (Awaited::Change(task), Some(Written::Done)) => self.changed(task, ctx),
            (Awaited::Change(task), written) => {
                // There is one writer, so this cannot be; what the store says counts.
                tracing::error!(?written, %task, "a change of a task did not fit the store");
                self.free_place(task);
                self.forget(task);
            }
            (Awaited::Answer { task, acks }, Some(Written::Done)) => self.answered(task, acks),
            (Awaited::Answer { task, .. }, written) => {
                tracing::error!(?written, %task, "a plain answer did not fit the store");
                self.forget(task);
            }
            (Awaited::Push(reply), written) => {
                let _ = reply.send(written);
            }
            (Awaited::Expire, written) => self.expired(written),
        }
    }

    fn created(&mut self, id: TaskId, want: Want, reply: Answering, ctx: &mut Context<Self>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.is_stored = true;
        match want {
            Want::Now => {
                entry.unseen = false;
                let gone = Fault::TaskNotFound { task: id.to_string() };
                let task = self.shown(id).ok_or(gone);
                let _ = reply.send(task.map(|task| Begun::Task(Arc::new(task))));
            }
            Want::End => entry.waiters.push((entry.stored.version, reply)),
            Want::Stream => {
                let events = entry.watchers.add_first(self.settings.watcher_buffer);
                let _ = reply.send(Ok(Begun::Stream(events)));
                if entry.stored.queued.is_some() {
                    self.greet(id);
                } else {
                    // If the agent has not said anything by then, there is a task.
                    ctx.run_later(self.settings.grace, move |service, _| service.greet(id));
                }
            }
        }
        // If it got its turn or its end meanwhile, what follows hangs on that change.
        let is_next = |entry: &Entry| entry.stored.queued.is_none() && entry.changes.is_empty();
        if self.entries.get(&id).is_some_and(is_next) {
            self.dispatch(id, ctx);
        }
    }

    /// The message was heard before: the task that was to be begun never was.
    fn not_created(&mut self, id: TaskId) {
        if let Some(entry) = self.forget(id) {
            let next = self.queues.leave(&entry.lane, id);
            self.start_next(next);
        }
    }

    /// The oldest change of the task is durable: everybody may know.
    fn changed(&mut self, id: TaskId, ctx: &mut Context<Self>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(change) = entry.changes.pop_front() else { return };
        entry.is_stored = true;
        entry.unseen &= change.events.is_empty();
        if !entry.unseen {
            let (number, before) = (entry.durable_event, Arc::clone(&entry.durable));
            entry.watchers.greet(number, || Task::clone(&before));
        }
        let state = change.task.status.state;
        let pause = state.is_terminal() || state.is_interrupted();
        entry.durable = change.task;
        let count = change.events.len();
        for (at, (number, event)) in change.events.iter().enumerate() {
            let follows = match (at + 1 == count, state) {
                (true, state) if state.is_terminal() => Follows::Nothing,
                (true, state) if state.is_interrupted() => Follows::Pause,
                _ => Follows::More,
            };
            entry.watchers.tell(*number, event, follows);
            entry.durable_event = *number;
        }
        let shown = || Ok(Begun::Task(Arc::clone(&entry.durable)));
        if pause {
            for (_, waiter) in entry.waiters.extract_if(.., |(from, _)| *from <= change.version) {
                let _ = waiter.send(shown());
            }
        }
        // That a task is cancelled is answered when the bus has it, too.
        let calls_off = matches!(change.then, Then::CallOff(_));
        let (now, later) =
            if calls_off { (Vec::new(), change.told) } else { (change.told, Vec::new()) };
        for told in now {
            let _ = told.send(shown());
        }
        let late = if entry.is_on_its_way() { Vec::new() } else { std::mem::take(&mut entry.late) };
        for ack in change.acks.into_iter().chain(late) {
            ack.handled();
        }
        let over = state.is_terminal() && entry.changes.is_empty();
        // Whoever is rung for looks into the store: not for nothing.
        let due = count > 0 && entry.is_pushed;
        change.watchers.into_iter().for_each(|watcher| self.watch_on(id, watcher));
        match change.then {
            Then::Nothing => {}
            Then::Dispatch => self.dispatch(id, ctx),
            Then::CallOff(reason) => self.call_off(id, reason, later, ctx),
        }
        if over {
            self.stats.end_in(state);
            self.forget(id);
        }
        if due {
            self.bell.notify_one();
        }
    }

    /// The plain message that takes the place of the task is durable.
    fn answered(&mut self, id: TaskId, acks: Vec<Ticket>) {
        let Some(mut entry) = self.forget(id) else { return };
        self.stats.end(TaskEnd::Answered);
        if let Some(message) = entry.answer.take() {
            let event = Arc::new(StreamEvent::Message(message.clone()));
            entry.watchers.tell(entry.durable_event, &event, Follows::Nothing);
            for (_, waiter) in entry.waiters {
                let _ = waiter.send(Ok(Begun::Message(message.clone())));
            }
        }
        for ack in acks.into_iter().chain(entry.late) {
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
