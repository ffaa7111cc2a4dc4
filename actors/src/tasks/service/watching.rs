//! Callers who come later to wait for a task, or to watch it.

use std::sync::Arc;

use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::task::Task;
use actix::prelude::*;
use tokio::sync::{mpsc, oneshot};

use super::{Answering, Begun, Service};
use crate::tasks::service::entry::Entry;
use crate::tasks::watch::Happened;

/// Waits until a task has ended or waits for its caller.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Wait {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) reply: Answering,
}

impl Handler<Wait> for Service {
    type Result = ();

    fn handle(&mut self, Wait { task: id, reply }: Wait, _: &mut Self::Context) {
        let Some(entry) = self.entries.get_mut(&id) else {
            let _ = reply.send(Err(Fault::TaskNotFound { task: id.to_string() }));
            return;
        };
        let state = entry.durable.status.state;
        if state.is_terminal() || state.is_interrupted() {
            let _ = reply.send(Ok(Begun::Task(Arc::clone(&entry.durable))));
            return;
        }
        // Repeats of one message wait here, also those whose callers have gone meanwhile.
        entry.waiters.retain(|(_, waiter)| !waiter.is_closed());
        let limit = self.settings.watchers_per_task;
        if entry.waiters.len() >= limit {
            let reason = format!("{limit} calls wait for this task already; get the task instead");
            let _ = reply.send(Err(Fault::Unavailable { reason, retry_after_ms: 1_000 }));
            return;
        }
        entry.waiters.push((entry.stored.version, reply));
    }
}

/// Watches a task from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Subscribe {
    pub(in crate::tasks) task: TaskId,
    /// Also while the task waits for its caller; else it is as good as over then.
    pub(in crate::tasks) patient: bool,
    pub(in crate::tasks) reply: oneshot::Sender<Result<Option<Subscribed>, Fault>>,
}

/// A task as it stands, and what happens from now on.
pub(in crate::tasks) struct Subscribed {
    pub(in crate::tasks) task: Task,
    /// The number of the last event that the task shows.
    pub(in crate::tasks) number: u64,
    pub(in crate::tasks) events: mpsc::Receiver<Happened>,
}

impl Handler<Subscribe> for Service {
    type Result = ();

    fn handle(&mut self, subscribe: Subscribe, _: &mut Self::Context) {
        let Subscribe { task: id, patient, reply } = subscribe;
        let (limit, buffer) = (self.settings.watchers_per_task, self.settings.watcher_buffer);
        let task = self.shown(id);
        let goes_on = |entry: &&mut Entry| patient || !entry.durable.status.state.is_interrupted();
        let entry = self.entries.get_mut(&id).filter(|entry| entry.answer.is_none());
        let (Some(entry), Some(task)) = (entry.filter(goes_on), task) else {
            let _ = reply.send(Ok(None));
            return;
        };
        if entry.watchers.len() >= limit {
            let reason = format!("{limit} streams watch this task already; close one of them");
            let _ = reply.send(Err(Fault::Unavailable { reason, retry_after_ms: 1_000 }));
            return;
        }
        // Whoever was to get a plain message gets the task now: it has been seen.
        entry.unseen = false;
        let number = entry.durable_event;
        let before = task.clone();
        entry.watchers.greet(number, || before);
        let events = entry.watchers.add(buffer, patient);
        let _ = reply.send(Ok(Some(Subscribed { task, number, events })));
    }
}

impl Service {
    /// Whoever has said more about the task watches what comes of it, from the task as it is now.
    pub(super) fn watch_on(&mut self, id: TaskId, reply: Answering) {
        let Some(task) = self.shown(id) else { return };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let events = entry.watchers.add_first(self.settings.watcher_buffer);
        let _ = reply.send(Ok(Begun::Stream(events)));
        entry.watchers.greet(entry.durable_event, || task);
    }

    /// Shows the task to whoever asked for it and has seen nothing yet.
    pub(super) fn greet(&mut self, id: TaskId) {
        let Some(task) = self.shown(id) else { return };
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.answer.is_none()) else {
            return;
        };
        if !entry.watchers.is_empty() {
            entry.unseen = false;
            entry.watchers.greet(entry.durable_event, || task);
        }
    }
}
