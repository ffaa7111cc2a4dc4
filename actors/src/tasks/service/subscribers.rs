//! Callers who come later to wait for a task, or to watch it.

use std::sync::Arc;

use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::task::Task;
use actix::prelude::*;
use tokio::sync::{mpsc, oneshot};

use super::{ReplySender, Service, TaskReply};
use crate::tasks::service::live_task::LiveTask;
use crate::tasks::watch::TaskEvent;

/// Waits until a task has ended or waits for its caller.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct WaitForEnd {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<WaitForEnd> for Service {
    type Result = ();

    fn handle(&mut self, WaitForEnd { task: id, reply }: WaitForEnd, _: &mut Self::Context) {
        let Some(live) = self.live.get_mut(&id) else {
            let _ = reply.send(Err(Fault::TaskNotFound { task: id.to_string() }));
            return;
        };
        let state = live.durable.status.state;
        if state.is_terminal() || state.is_interrupted() {
            let _ = reply.send(Ok(TaskReply::Task(Arc::clone(&live.durable))));
            return;
        }
        // Repeats of one message wait here, also those whose callers have gone meanwhile.
        live.waiters.retain(|(_, waiter)| !waiter.is_closed());
        let limit = self.settings.subscribers_per_task;
        if live.waiters.len() >= limit {
            let reason = format!("{limit} calls wait for this task already; get the task instead");
            let _ = reply.send(Err(Fault::Unavailable { reason, retry_after_ms: 1_000 }));
            return;
        }
        live.waiters.push((live.stored.version, reply));
    }
}

/// Watches a task from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct AddSubscriber {
    pub(in crate::tasks) task: TaskId,
    /// Also while the task waits for its caller; else it is as good as over then.
    pub(in crate::tasks) patient: bool,
    pub(in crate::tasks) reply: oneshot::Sender<Result<Option<Subscription>, Fault>>,
}

/// A task as it stands, and what happens from now on.
pub(in crate::tasks) struct Subscription {
    pub(in crate::tasks) task: Task,
    /// The number of the last event that the task shows.
    pub(in crate::tasks) number: u64,
    pub(in crate::tasks) events: mpsc::Receiver<TaskEvent>,
}

impl Handler<AddSubscriber> for Service {
    type Result = ();

    fn handle(&mut self, subscribe: AddSubscriber, _: &mut Self::Context) {
        let AddSubscriber { task: id, patient, reply } = subscribe;
        let (limit, buffer) = (self.settings.subscribers_per_task, self.settings.subscriber_buffer);
        let task = self.snapshot(id);
        let goes_on = |live: &&mut LiveTask| patient || !live.durable.status.state.is_interrupted();
        let live = self.live.get_mut(&id).filter(|live| live.answer.is_none());
        let (Some(live), Some(task)) = (live.filter(goes_on), task) else {
            let _ = reply.send(Ok(None));
            return;
        };
        if live.watchers.len() >= limit {
            let reason = format!("{limit} streams watch this task already; close one of them");
            let _ = reply.send(Err(Fault::Unavailable { reason, retry_after_ms: 1_000 }));
            return;
        }
        // Whoever was to get a plain message gets the task now: it has been seen.
        live.unseen = false;
        let number = live.durable_event;
        let before = task.clone();
        live.watchers.greet(number, || before);
        let events = live.watchers.add(buffer, patient);
        let _ = reply.send(Ok(Some(Subscription { task, number, events })));
    }
}

impl Service {
    /// Whoever has said more about the task watches what comes of it, from the task as it is now.
    pub(super) fn subscribe_caller(&mut self, id: TaskId, reply: ReplySender) {
        let Some(task) = self.snapshot(id) else { return };
        let Some(live) = self.live.get_mut(&id) else { return };
        let events = live.watchers.add_first(self.settings.subscriber_buffer);
        let _ = reply.send(Ok(TaskReply::Stream(events)));
        live.watchers.greet(live.durable_event, || task);
    }

    /// Shows the task to whoever asked for it and has seen nothing yet.
    pub(super) fn reveal(&mut self, id: TaskId) {
        let Some(task) = self.snapshot(id) else { return };
        let Some(live) = self.live.get_mut(&id).filter(|live| live.answer.is_none()) else {
            return;
        };
        if !live.watchers.is_empty() {
            live.unseen = false;
            live.watchers.greet(live.durable_event, || task);
        }
    }
}
