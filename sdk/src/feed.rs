//! The tasks that somebody in this process watches, and what happened to each.
//!
//! A delivery about a watched task goes to its feed; that never waits, so a slow reader holds
//! nobody up.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use a2a_actors::Delivery;
use a2a_protocol::body::{Action, Status, StatusUpdate, TaskResponse};
use a2a_protocol::{AgentId, Body, Event, MessageId, NOTICE_EXTENSION, Notice, TaskId};

use super::work::{Finished, TaskError, TaskUpdate};

/// The name under which the bus itself speaks; nobody else can use it.
const SYSTEM: &str = "system";

/// Updates that wait for a reader; beyond that the oldest progress is dropped.
const WAITING: usize = 256;

/// The watched tasks of everyone on one bus.
///
/// Of the bus and not of a session: an answer may come to another session of the same agent,
/// or after the agent was away.
#[derive(Default)]
pub(super) struct Watched {
    entries: Mutex<HashMap<TaskId, Entry>>,
    /// How many there are, for whoever cannot wait for the lock.
    count: AtomicUsize,
}

struct Entry {
    /// Who asked for it.
    owner: AgentId,
    /// Who has it.
    assignee: AgentId,
    request: MessageId,
    feed: Arc<Feed>,
}

impl Watched {
    fn entries(&self) -> MutexGuard<'_, HashMap<TaskId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any task is watched.
    pub(super) fn is_watching(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether `me` waits for what a message says; exactly what [`Watched::take`] would take.
    pub(super) fn wants(&self, me: &AgentId, sender: &AgentId, body: &Body) -> bool {
        let Some(task) = watched_task(body) else { return false };
        let entries = self.entries();
        entries.get(&task).is_some_and(|entry| entry.owner == *me && entry.hears(sender, body))
    }

    /// From now on what `owner` hears about the task goes to the feed.
    pub(super) fn watch(
        &self,
        task: TaskId,
        owner: AgentId,
        assignee: AgentId,
        request: MessageId,
    ) -> Arc<Feed> {
        let feed = Arc::<Feed>::default();
        let entry = Entry { owner, assignee, request, feed: Arc::clone(&feed) };
        let mut entries = self.entries();
        entries.insert(task, entry);
        self.count.store(entries.len(), Relaxed);
        feed
    }

    /// Nobody watches the task any more.
    pub(super) fn forget(&self, task: TaskId, feed: &Arc<Feed>) {
        let mut entries = self.entries();
        if entries.get(&task).is_some_and(|entry| Arc::ptr_eq(&entry.feed, feed)) {
            entries.remove(&task);
            self.count.store(entries.len(), Relaxed);
        }
    }

    /// Gives a delivery of `me` to whoever watches its task; `false` when it is nobody's.
    pub(super) fn take(&self, me: &AgentId, delivery: &Delivery) -> bool {
        let Some(task) = watched_task(&delivery.message.body) else { return false };
        // Held until the feed has it: a handle that is dropped meanwhile has lost nothing.
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&task).filter(|entry| entry.owner == *me) else {
            return false;
        };
        let Some(update) = entry.read(delivery) else { return false };
        let end = update.end();
        let ends = end.is_some();
        entry.feed.push(update, end);
        if ends {
            entries.remove(&task);
            self.count.store(entries.len(), Relaxed);
        }
        true
    }

    /// The owner called the task off: nothing more is wanted of it.
    pub(super) fn cancel(&self, task: TaskId) {
        let mut entries = self.entries();
        if let Some(entry) = entries.remove(&task) {
            entry.feed.end(TaskError::Cancelled);
        }
        self.count.store(entries.len(), Relaxed);
    }

    /// The bus has stopped: nothing more happens to any task.
    pub(super) fn close(&self) {
        for (_, entry) in self.entries().drain() {
            entry.feed.end(TaskError::Stopped);
        }
    }
}

/// The task a message is about, if it is a kind that whoever watches the task waits for.
fn watched_task(body: &Body) -> Option<TaskId> {
    matches!(body, Body::TaskResponse(_) | Body::StatusUpdate(_)).then(|| body.task_id()).flatten()
}

impl Entry {
    /// Whether the sender has a say in the task. The ledger lets only the assignee answer, even
    /// when the task was handed on; reports of others are for the handler.
    fn hears(&self, sender: &AgentId, body: &Body) -> bool {
        matches!(body, Body::TaskResponse(_))
            || *sender == self.assignee
            || sender.as_str() == SYSTEM
    }

    /// What a delivery says about the task; `None` when its sender has no say in it.
    fn read(&mut self, delivery: &Delivery) -> Option<TaskUpdate> {
        if !self.hears(&delivery.sender, &delivery.message.body) {
            return None;
        }
        match &delivery.message.body {
            Body::StatusUpdate(status) if delivery.sender.as_str() == SYSTEM => {
                Some(self.notice(status))
            }
            Body::StatusUpdate(status) => Some(progress(status)),
            Body::TaskResponse(response) => {
                // Whoever answers has it now.
                self.assignee = delivery.sender.clone();
                Some(answer(response))
            }
            _ => None,
        }
    }

    /// What the bus itself says. The loss of the request ends the task, and so does calling it
    /// off; other messages about it may be lost, too.
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

/// What happened to one task and has not been read yet.
#[derive(Default)]
pub(super) struct Feed(Mutex<State>);

#[derive(Default)]
struct State {
    updates: VecDeque<TaskUpdate>,
    missed: u64,
    end: Option<Result<Finished, TaskError>>,
    waker: Option<Waker>,
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, update: TaskUpdate, end: Option<Result<Finished, TaskError>>) {
        let mut state = self.state();
        if state.updates.len() >= WAITING {
            // What ends a task comes last and is never among those that wait here.
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

    /// The next update, or `None` when there will be none.
    pub(super) fn poll_update(&self, context: &mut Context<'_>) -> Poll<Option<TaskUpdate>> {
        let mut state = self.state();
        match state.updates.pop_front() {
            None if state.end.is_none() => state.wait(context),
            update => Poll::Ready(update),
        }
    }

    /// How the task ended; what was not read yet stays where it is.
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
        // There is one reader, so the last waker is the one that counts.
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Wakes the reader without holding the lock it needs.
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
    fn beyond_its_limit_old_progress_is_dropped_and_never_the_end() {
        let feed = Feed::default();
        feed.push(TaskUpdate::Accepted, None);
        for i in 0..WAITING + 9 {
            feed.push(notice(i.to_string()), None);
        }
        let failed = TaskUpdate::Failed { reason: "no".into() };
        let end = failed.end();
        feed.push(failed, end);
        let mut context = Context::from_waker(Waker::noop());
        let mut read = Vec::new();
        while let Poll::Ready(Some(update)) = feed.poll_update(&mut context) {
            read.push(update);
        }
        assert_eq!((read.len(), feed.missed()), (WAITING, 11));
        assert!(matches!(read[0], TaskUpdate::Accepted));
        assert!(matches!(&read[1], TaskUpdate::Notice { text } if text == "11"));
        assert!(matches!(read[WAITING - 1], TaskUpdate::Failed { .. }));
        assert!(matches!(feed.poll_end(&mut context), Poll::Ready(Err(TaskError::Failed { .. }))));
    }
}
