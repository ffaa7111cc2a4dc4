//! Commit results: replies, events, acknowledgements and dispatches that follow a commit, and the
//! errors when the store refuses a write.

use std::sync::Arc;

use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::Task;
use a2a_taskdb::WriteOutcome;
use actix::prelude::*;

use super::live_task::{AgentAction, Followup, LiveTask, PendingChange};
use super::store_queue::PendingWrite;
use super::subscribers::Follows;
use super::{ReplySender, Service, TaskReply, WaitFor};
use crate::AckHandle;
use crate::tasks::stats::TaskEnd;
use crate::tasks::system::send::duplicate_reply;

/// Results of writes, by number; `None` when the store was unavailable.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Committed(pub(in crate::tasks) Vec<(u64, Option<WriteOutcome>)>);

impl Handler<Committed> for Service {
    type Result = ();

    fn handle(&mut self, Committed(results): Committed, ctx: &mut Self::Context) {
        for (number, written) in results {
            let Some(pending) = self.store_queue.take_pending(number) else { continue };
            self.on_committed(pending, written, ctx);
        }
    }
}

impl Service {
    fn on_committed(
        &mut self,
        pending: PendingWrite,
        written: Option<WriteOutcome>,
        ctx: &mut Context<Self>,
    ) {
        match (pending, written) {
            (PendingWrite::Atomic(all), Some(WriteOutcome::Atomic(written))) => {
                for (pending, written) in all.into_iter().zip(written) {
                    self.on_committed(pending, Some(written), ctx);
                }
            }
            (PendingWrite::Atomic(all), written) => {
                // Unreachable with a single writer; each write reports the mismatch itself.
                for pending in all {
                    self.on_committed(pending, written.clone(), ctx);
                }
            }
            (PendingWrite::Objective(id), Some(WriteOutcome::Done)) => {
                self.on_objective_committed(&id)
            }
            (PendingWrite::Objective(id), written) => {
                tracing::error!(?written, %id, "a change of an objective did not fit the store");
                self.objectives.evict(&id);
            }
            (PendingWrite::Create { task, wait_for, reply, .. }, Some(WriteOutcome::Done)) => {
                self.on_created(task, wait_for, reply, ctx);
            }
            (PendingWrite::Create { task, sent, reply, .. }, written) => {
                self.on_create_rejected(task);
                let _ = reply.send(match written {
                    Some(WriteOutcome::Repeated(found)) => duplicate_reply(found, &sent),
                    None => Err(store_unavailable()),
                    Some(other) => {
                        tracing::error!(?other, %task, "a new task did not fit the store");
                        Err(Fault::Internal)
                    }
                });
            }
            (PendingWrite::DeferredCreate(task), Some(WriteOutcome::Done)) => {
                if let Some(live) = self.live.get_mut(&task) {
                    live.set_stored();
                }
            }
            (PendingWrite::DeferredCreate(task), written) => {
                tracing::error!(?written, %task, "a task that began did not fit the store");
                self.release_lane(task);
                self.evict(task);
            }
            (PendingWrite::Change(task), Some(WriteOutcome::Done)) => self.on_changed(task, ctx),
            (PendingWrite::Change(task), written) => {
                // Unreachable with a single writer. The state in the store wins.
                tracing::error!(?written, %task, "a change of a task did not fit the store");
                self.release_lane(task);
                self.evict(task);
            }
            (PendingWrite::Answer { task, acks }, Some(WriteOutcome::Done)) => {
                self.on_answered(task, acks);
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
        wait_for: WaitFor,
        reply: ReplySender,
        ctx: &mut Context<Self>,
    ) {
        let Some(live) = self.live.get_mut(&id) else { return };
        live.set_stored();
        match wait_for {
            WaitFor::Created => {
                live.show();
                let gone = Fault::TaskNotFound { task: id.to_string() };
                let task = self.snapshot(id).ok_or(gone);
                let _ = reply.send(task.map(|task| TaskReply::Task(Arc::new(task))));
            }
            WaitFor::End => live.waiters.push((live.stored.version, reply)),
            WaitFor::Stream => {
                let buffer = self.settings.subscriber_buffer;
                let events = live.subscribers.add_without_snapshot(buffer);
                let _ = reply.send(Ok(TaskReply::Stream(events)));
                if live.stored.queued.is_some() {
                    self.reveal(id);
                } else {
                    // An agent that answers later than this answers a task.
                    let grace = self.settings.plain_answer_grace;
                    ctx.run_later(grace, move |service, _| service.reveal(id));
                }
            }
        }
        // A task that has started or ended meanwhile is dispatched after that change.
        let is_next = |live: &LiveTask| live.stored.queued.is_none() && live.changes.is_empty();
        if self.live.get(&id).is_some_and(is_next) {
            self.dispatch(id, ctx);
        }
    }

    /// Discards a task whose message is a duplicate, or whose create failed.
    fn on_create_rejected(&mut self, id: TaskId) {
        if let Some(live) = self.evict(id) {
            let next = self.scheduler.queues.leave(&live.lane, id);
            self.start_next(next);
        }
    }

    /// Publishes the oldest change of a task.
    fn on_changed(&mut self, id: TaskId, ctx: &mut Context<Self>) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let Some(change) = live.changes.pop_front() else { return };
        let PendingChange { version, task, events, followup } = change;
        let Followup { acks, replies, streams, action, .. } = followup;
        live.set_stored();
        if !events.is_empty() {
            live.show();
        }
        if live.is_shown() {
            let (number, before) = (live.durable_event, Arc::clone(&live.durable));
            live.subscribers.send_snapshot(number, || Task::clone(&before));
        }
        let state = task.status.state;
        let pause = state.is_terminal() || state.is_interrupted();
        live.durable = task;
        let count = events.len();
        for (at, (number, event)) in events.iter().enumerate() {
            let follows = match (at + 1 == count, state) {
                (true, state) if state.is_terminal() => Follows::Nothing,
                (true, state) if state.is_interrupted() => Follows::Pause,
                _ => Follows::More,
            };
            live.subscribers.publish(*number, event, follows);
            live.durable_event = *number;
        }
        let committed = || Ok(TaskReply::Task(Arc::clone(&live.durable)));
        if pause {
            for (_, waiter) in live.waiters.extract_if(.., |(from, _)| *from <= version) {
                let _ = waiter.send(committed());
            }
        }
        // The reply to a cancel also waits for the bus.
        let cancels = matches!(action, AgentAction::Cancel(_));
        let (now, later) = if cancels { (Vec::new(), replies) } else { (replies, Vec::new()) };
        for reply in now {
            let _ = reply.send(committed());
        }
        let late =
            if live.has_unwritten() { Vec::new() } else { std::mem::take(&mut live.late_acks) };
        for ack in acks.into_iter().chain(late) {
            ack.handled();
        }
        let over = state.is_terminal() && live.changes.is_empty();
        // The webhook dispatcher queries the store each time: notify it only for events.
        let due = count > 0 && live.has_push;
        streams.into_iter().for_each(|reply| self.stream_to(id, reply));
        match action {
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

    /// Publishes the plain message that replaces a task.
    fn on_answered(&mut self, id: TaskId, acks: Vec<AckHandle>) {
        let Some(mut live) = self.evict(id) else { return };
        self.stats.end(TaskEnd::Answered);
        if let Some(message) = live.answer() {
            let message = Box::new(message.clone());
            let event = Arc::new(StreamEvent::Message(message.clone()));
            live.subscribers.publish(live.durable_event, &event, Follows::Nothing);
            for (_, waiter) in live.waiters {
                let _ = waiter.send(Ok(TaskReply::Message(message.clone())));
            }
        }
        for ack in acks.into_iter().chain(live.late_acks) {
            ack.handled();
        }
    }
}

pub(in crate::tasks) fn store_unavailable() -> Fault {
    Fault::Unavailable {
        reason: "the server cannot write right now; nothing was accepted".into(),
        retry_after_ms: 1_000,
    }
}
