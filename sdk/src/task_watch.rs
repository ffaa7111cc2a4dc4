//! Task watches: routes deliveries about watched tasks to the handles that watch them.
//!
//! A delivery about a watched task goes to its queue without blocking, so a slow reader delays no
//! session.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use a2a_actors::Delivery;
use a2a_protocol::body::{Action, Status, StatusUpdate, TaskResponse};
use a2a_protocol::{AgentId, Body, Event, MessageId, NOTICE_EXTENSION, Notice, TaskId};
use parking_lot::{Mutex, MutexGuard};

use super::task_handle::{Finished, TaskError, TaskUpdate};

/// The id under which the bus itself sends; reserved.
const SYSTEM: &str = "system";

/// Updates that wait for a reader; beyond that the oldest progress is dropped.
const WAITING: usize = 256;

/// The watched tasks of all agents of one bus.
///
/// Kept by the bus and not by the session: an answer may come to another session of the same agent,
/// or after a reconnect.
#[derive(Default)]
pub(super) struct TaskWatches {
    entries: Mutex<HashMap<TaskId, Entry>>,
    /// Number of watches, to be read without the lock.
    count: AtomicUsize,
}

struct Entry {
    /// The agent that requested the task.
    owner: AgentId,
    /// The agent that does the task.
    assignee: AgentId,
    request: MessageId,
    queue: Arc<UpdateQueue>,
}

impl TaskWatches {
    fn entries(&self) -> MutexGuard<'_, HashMap<TaskId, Entry>> {
        self.entries.lock()
    }

    /// Whether any task is watched.
    pub(super) fn is_watching(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether `me` watches the task of a message; true exactly when [`TaskWatches::take`] would take
    /// it.
    pub(super) fn wants(&self, me: &AgentId, sender: &AgentId, body: &Body) -> bool {
        let Some(task) = watched_task(body) else { return false };
        let entries = self.entries();
        entries.get(&task).is_some_and(|entry| entry.owner == *me && entry.accepts(sender, body))
    }

    /// Routes deliveries to `owner` about the task to the returned queue.
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

    /// Removes a watch.
    pub(super) fn forget(&self, task: TaskId, queue: &Arc<UpdateQueue>) {
        let mut entries = self.entries();
        if entries.get(&task).is_some_and(|entry| Arc::ptr_eq(&entry.queue, queue)) {
            entries.remove(&task);
            self.count.store(entries.len(), Relaxed);
        }
    }

    /// Routes a delivery of `me` to the watch of its task; `false` when there is none.
    pub(super) fn take(&self, me: &AgentId, delivery: &Delivery) -> bool {
        let Some(task) = watched_task(&delivery.message.body) else { return false };
        // Locked until the update is queued, so that dropping a handle loses nothing.
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

    /// The owner cancelled the task: it ends for its watch.
    pub(super) fn cancel(&self, task: TaskId) {
        let mut entries = self.entries();
        if let Some(entry) = entries.remove(&task) {
            entry.queue.end(TaskError::Cancelled);
        }
        self.count.store(entries.len(), Relaxed);
    }

    /// The bus has stopped: every watch ends.
    pub(super) fn close(&self) {
        for (_, entry) in self.entries().drain() {
            entry.queue.end(TaskError::Stopped);
        }
    }
}

/// The task of a message, if the message is of a kind that watches receive.
fn watched_task(body: &Body) -> Option<TaskId> {
    matches!(body, Body::TaskResponse(_) | Body::StatusUpdate(_)).then(|| body.task_id()).flatten()
}

impl Entry {
    /// Whether the sender may report on the task. The ledger lets only the assignee answer, even
    /// after a takeover; reports of others are for the handler.
    fn accepts(&self, sender: &AgentId, body: &Body) -> bool {
        matches!(body, Body::TaskResponse(_))
            || *sender == self.assignee
            || sender.as_str() == SYSTEM
    }

    /// The update in a delivery; `None` when its sender may not report on the task.
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
                // The agent that answers is the assignee from now on.
                self.assignee = delivery.sender.clone();
                Some(answer(response))
            }
            _ => None,
        }
    }

    /// The update in a message of the bus itself. Losing or cancelling the request ends the task;
    /// losing another message about it does not.
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

/// Unread updates of one task.
#[derive(Default)]
pub(super) struct UpdateQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    updates: VecDeque<TaskUpdate>,
    missed: u64,
    end: Option<Result<Finished, TaskError>>,
    waker: Option<Waker>,
}

impl UpdateQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock()
    }

    fn push(&self, update: TaskUpdate, end: Option<Result<Finished, TaskError>>) {
        let mut state = self.state();
        if state.updates.len() >= WAITING {
            // The final update is kept apart and never dropped.
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

    /// Polls the next update; `None` when there will be none.
    pub(super) fn poll_update(&self, context: &mut Context<'_>) -> Poll<Option<TaskUpdate>> {
        let mut state = self.state();
        match state.updates.pop_front() {
            None if state.end.is_none() => state.wait(context),
            update => Poll::Ready(update),
        }
    }

    /// Polls the end of the task; unread updates stay queued.
    pub(super) fn poll_end(&self, context: &mut Context<'_>) -> Poll<Result<Finished, TaskError>> {
        let mut state = self.state();
        match state.end.clone() {
            Some(end) => Poll::Ready(end),
            None => state.wait(context),
        }
    }
}

impl QueueState {
    fn wait<T>(&mut self, context: &Context<'_>) -> Poll<T> {
        // There is one reader, so only the last waker counts.
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Wakes the reader after the lock is released.
fn wake(mut state: MutexGuard<'_, QueueState>) {
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
    fn beyond_its_limit_old_progress_is_dropped_and_never_the_end() {
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
