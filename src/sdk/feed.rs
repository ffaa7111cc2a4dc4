//! Registry of watched tasks and their updates.
//!
//! A delivery about a watched task is appended to its queue. Appending never waits, so a slow reader
//! delays nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use a2a_actors::Delivery;
use a2a_protocol::body::{Action, Status, StatusUpdate, TaskResponse};
use a2a_protocol::{AgentId, Body, Event, MessageId, NOTICE_EXTENSION, Notice, TaskId};
use parking_lot::{Mutex, MutexGuard};

use super::work::{Finished, TaskError, TaskUpdate};

/// Sender id of the bus itself, which is reserved.
const SYSTEM: &str = "system";

/// Maximum unread updates; beyond it the oldest progress is dropped.
const WAITING: usize = 256;

/// Watched tasks of all agents on one bus.
///
/// It belongs to the bus and not to a session, because an answer may arrive at another session of
/// the same agent, or after a reconnect.
#[derive(Default)]
pub(super) struct WatchedTasks {
    entries: Mutex<HashMap<TaskId, Entry>>,
    /// Number of entries, readable without the lock.
    count: AtomicUsize,
}

struct Entry {
    /// Requester.
    owner: AgentId,
    /// Current assignee.
    assignee: AgentId,
    request: MessageId,
    queue: Arc<UpdateQueue>,
}

impl WatchedTasks {
    fn entries(&self) -> MutexGuard<'_, HashMap<TaskId, Entry>> {
        self.entries.lock()
    }

    /// Whether any task is watched.
    pub(super) fn is_watching(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether `me` watches the task of a message. It matches exactly what [`WatchedTasks::take`]
    /// consumes.
    pub(super) fn wants(&self, me: &AgentId, sender: &AgentId, body: &Body) -> bool {
        let Some(task) = watched_task(body) else { return false };
        let entries = self.entries();
        entries.get(&task).is_some_and(|entry| entry.owner == *me && entry.accepts(sender, body))
    }

    /// Starts watching: deliveries to `owner` about the task go to the returned queue.
    pub(super) fn watch(
        &self,
        task: TaskId,
        owner: AgentId,
        assignee: AgentId,
        request: MessageId,
    ) -> Arc<UpdateQueue> {
        let queue = Arc::<UpdateQueue>::default();
        let entry = Entry { owner, assignee, request, queue: Arc::clone(&queue) };
        let mut entries = self.entries();
        entries.insert(task, entry);
        self.count.store(entries.len(), Relaxed);
        queue
    }

    /// Stops watching the task, if `queue` is still its queue.
    pub(super) fn forget(&self, task: TaskId, queue: &Arc<UpdateQueue>) {
        let mut entries = self.entries();
        if entries.get(&task).is_some_and(|entry| Arc::ptr_eq(&entry.queue, queue)) {
            entries.remove(&task);
            self.count.store(entries.len(), Relaxed);
        }
    }

    /// Consumes a delivery to `me` about a watched task; `false` when the task is not watched.
    pub(super) fn take(&self, me: &AgentId, delivery: &Delivery) -> bool {
        let Some(task) = watched_task(&delivery.message.body) else { return false };
        // The lock is held until the queue has the update, so that dropping the handle meanwhile
        // loses nothing.
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&task).filter(|entry| entry.owner == *me) else {
            return false;
        };
        let Some(update) = entry.read(delivery) else { return false };
        let end = update.end();
        let ends = end.is_some();
        entry.queue.push(update, end);
        if ends {
            entries.remove(&task);
            self.count.store(entries.len(), Relaxed);
        }
        true
    }

    /// Ends the queue of a task that its owner has cancelled.
    pub(super) fn cancel(&self, task: TaskId) {
        let mut entries = self.entries();
        if let Some(entry) = entries.remove(&task) {
            entry.queue.end(TaskError::Cancelled);
        }
        self.count.store(entries.len(), Relaxed);
    }

    /// Ends all queues, because the bus has stopped.
    pub(super) fn close(&self) {
        for (_, entry) in self.entries().drain() {
            entry.queue.end(TaskError::Stopped);
        }
    }
}

/// Task of a message of a kind that queues consume.
fn watched_task(body: &Body) -> Option<TaskId> {
    matches!(body, Body::TaskResponse(_) | Body::StatusUpdate(_)).then(|| body.task_id()).flatten()
}

impl Entry {
    /// Whether a message of this sender belongs to the queue. Only the assignee can answer (the
    /// ledger enforces it, also after a hand-on). Reports of others go to the handler.
    fn accepts(&self, sender: &AgentId, body: &Body) -> bool {
        matches!(body, Body::TaskResponse(_))
            || *sender == self.assignee
            || sender.as_str() == SYSTEM
    }

    /// Converts a delivery to an update; `None` when it does not belong to the queue.
    fn read(&mut self, delivery: &Delivery) -> Option<TaskUpdate> {
        if !self.accepts(&delivery.sender, &delivery.message.body) {
            return None;
        }
        match &delivery.message.body {
            Body::StatusUpdate(status) if delivery.sender.as_str() == SYSTEM => {
                Some(self.notice(status))
            }
            Body::StatusUpdate(status) => Some(progress(status)),
            Body::TaskResponse(response) => {
                // The sender of an answer is the current assignee.
                self.assignee = delivery.sender.clone();
                Some(answer(response))
            }
            _ => None,
        }
    }

    /// Converts a notice of the bus. Loss of the request and cancellation end the task; loss of
    /// other messages does not.
    fn notice(&self, status: &StatusUpdate) -> TaskUpdate {
        let text = status.progress.to_string();
        let notice =
            status.metadata.as_ref().and_then(|metadata| metadata.get::<Notice>(NOTICE_EXTENSION));
        match notice {
            Some(Notice { event: Event::Cancelled, .. }) => TaskUpdate::Cancelled { reason: text },
            Some(Notice { event: Event::DeadLetter | Event::Expired, message_id })
                if message_id == Some(self.request) =>
            {
                TaskUpdate::Undelivered { reason: text }
            }
            _ => TaskUpdate::Notice { text },
        }
    }
}

fn progress(status: &StatusUpdate) -> TaskUpdate {
    let report = Box::new(status.clone());
    match (status.status, &status.blocked_by) {
        (Status::Blocked, Some(reason)) => {
            TaskUpdate::Blocked { reason: reason.to_string(), report: Some(report) }
        }
        (status, _) => TaskUpdate::Progress { status, text: report.progress.to_string(), report },
    }
}

fn answer(response: &TaskResponse) -> TaskUpdate {
    let reason = response.reason.as_ref().map(ToString::to_string).unwrap_or_default();
    match response.action {
        Action::Accepted => TaskUpdate::Accepted,
        Action::Blocked => TaskUpdate::Blocked { reason, report: None },
        Action::Declined => TaskUpdate::Declined { reason },
        Action::Failed => TaskUpdate::Failed { reason },
        Action::Completed => {
            TaskUpdate::Completed { result: Finished::new(response.result.clone()) }
        }
    }
}

/// Unread updates of one task, and its end.
#[derive(Default)]
pub(super) struct UpdateQueue(Mutex<State>);

#[derive(Default)]
struct State {
    updates: VecDeque<TaskUpdate>,
    missed: u64,
    end: Option<Result<Finished, TaskError>>,
    waker: Option<Waker>,
}

impl UpdateQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    fn push(&self, update: TaskUpdate, end: Option<Result<Finished, TaskError>>) {
        let mut state = self.state();
        if state.updates.len() >= WAITING {
            // The final update is the last one and therefore never dropped.
            let oldest = state.updates.iter().position(TaskUpdate::is_progress).unwrap_or(0);
            state.updates.remove(oldest);
            state.missed += 1;
        }
        state.updates.push_back(update);
        state.end = end;
        wake(state);
    }

    fn end(&self, error: TaskError) {
        let mut state = self.state();
        state.end.get_or_insert(Err(error));
        wake(state);
    }

    pub(super) fn missed(&self) -> u64 {
        self.state().missed
    }

    /// Polls the next update; `None` after the last one.
    pub(super) fn poll_update(&self, context: &mut Context<'_>) -> Poll<Option<TaskUpdate>> {
        let mut state = self.state();
        match state.updates.pop_front() {
            None if state.end.is_none() => state.wait(context),
            update => Poll::Ready(update),
        }
    }

    /// Polls the end of the task. Unread updates are kept.
    pub(super) fn poll_end(&self, context: &mut Context<'_>) -> Poll<Result<Finished, TaskError>> {
        let mut state = self.state();
        match state.end.clone() {
            Some(end) => Poll::Ready(end),
            None => state.wait(context),
        }
    }
}

impl State {
    fn wait<T>(&mut self, context: &Context<'_>) -> Poll<T> {
        // There is only one reader.
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Wakes the reader after releasing the lock.
fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(text: String) -> TaskUpdate {
        TaskUpdate::Notice { text }
    }

    #[test]
    fn full_queue_drops_old_progress_and_never_the_end() {
        let queue = UpdateQueue::default();
        queue.push(TaskUpdate::Accepted, None);
        for i in 0..WAITING + 9 {
            queue.push(notice(i.to_string()), None);
        }
        let failed = TaskUpdate::Failed { reason: "no".into() };
        let end = failed.end();
        queue.push(failed, end);
        let mut context = Context::from_waker(Waker::noop());
        let mut read = Vec::new();
        while let Poll::Ready(Some(update)) = queue.poll_update(&mut context) {
            read.push(update);
        }
        assert_eq!((read.len(), queue.missed()), (WAITING, 11));
        assert!(matches!(read[0], TaskUpdate::Accepted));
        assert!(matches!(&read[1], TaskUpdate::Notice { text } if text == "11"));
        assert!(matches!(read[WAITING - 1], TaskUpdate::Failed { .. }));
        assert!(matches!(queue.poll_end(&mut context), Poll::Ready(Err(TaskError::Failed { .. }))));
    }
}
