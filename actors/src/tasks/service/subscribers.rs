//! Subscribers: callers that wait for the end of a task, and streams of its events.
//!
//! A slow stream is cut off and never delays the task. The events it missed are in the store,
//! where its caller continues after the number of the last event it got.

use std::sync::Arc;

use a2a_policy::tasks::QueuePosition;
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::{Task, TaskState};
use actix::prelude::*;
use tokio::sync::{mpsc, oneshot};

use super::live_task::LiveTask;
use super::{ReplySender, Service, TaskReply};

/// One event of a task's or an objective's stream.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEvent {
    /// Its number; a stream that continues after it misses nothing.
    pub number: u64,
    /// The event itself.
    pub event: Arc<StreamEvent>,
    /// Whether the stream ends here: the task has ended, or waits for its client.
    pub last: bool,
}

#[derive(Debug)]
struct Subscriber {
    events: mpsc::Sender<TaskEvent>,
    /// The snapshot was sent. Until then a plain message can replace the task.
    has_snapshot: bool,
    /// The stream continues while the task waits for its client.
    patient: bool,
}

/// How a stream continues after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tasks) enum Follows {
    More,
    /// Nothing until the client answers: streams that are not patient end.
    Pause,
    /// Nothing: every stream ends.
    Nothing,
}

/// The streams of one task or objective.
#[derive(Debug, Default)]
pub(in crate::tasks) struct Subscribers(Vec<Subscriber>);

impl Subscribers {
    /// Open streams; removes those whose receiver is gone.
    pub(in crate::tasks) fn len(&mut self) -> usize {
        self.0.retain(|subscriber| !subscriber.events.is_closed());
        self.0.len()
    }

    /// Adds a stream that needs a snapshot no more. A `patient` one continues while the task waits
    /// for its client.
    pub(in crate::tasks) fn add(
        &mut self,
        buffer: usize,
        patient: bool,
    ) -> mpsc::Receiver<TaskEvent> {
        let (events, receiver) = mpsc::channel(buffer.max(1));
        self.0.push(Subscriber { events, has_snapshot: true, patient });
        receiver
    }

    /// Adds the stream of a caller that has sent a message, before its snapshot.
    pub(in crate::tasks) fn add_without_snapshot(
        &mut self,
        buffer: usize,
    ) -> mpsc::Receiver<TaskEvent> {
        let (events, receiver) = mpsc::channel(buffer.max(1));
        self.0.push(Subscriber { events, has_snapshot: false, patient: false });
        receiver
    }

    /// Sends the snapshot to the streams that lack it.
    pub(in crate::tasks) fn send_snapshot(&mut self, number: u64, task: impl FnOnce() -> Task) {
        if self.0.iter().all(|subscriber| subscriber.has_snapshot) {
            return;
        }
        let event = Arc::new(StreamEvent::Task(Box::new(task())));
        for subscriber in self.0.iter_mut().filter(|subscriber| !subscriber.has_snapshot) {
            subscriber.has_snapshot = true;
            // The buffer holds at least one event. A closed stream is removed at the next publish.
            drop(subscriber.events.try_send(TaskEvent {
                number,
                event: Arc::clone(&event),
                last: false,
            }));
        }
    }

    /// Sends an event to every stream; removes those that end with it, are full or are closed.
    pub(in crate::tasks) fn publish(
        &mut self,
        number: u64,
        event: &Arc<StreamEvent>,
        follows: Follows,
    ) {
        self.0.retain(|subscriber| {
            let last = match follows {
                Follows::More => false,
                Follows::Pause => !subscriber.patient,
                Follows::Nothing => true,
            };
            let event = TaskEvent { number, event: Arc::clone(event), last };
            subscriber.events.try_send(event).is_ok() && !last
        });
    }

    /// Whether no stream has a snapshot yet.
    pub(in crate::tasks) fn none_has_snapshot(&self) -> bool {
        self.0.iter().all(|subscriber| !subscriber.has_snapshot)
    }

    pub(in crate::tasks) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Replies with the task once it has ended or is interrupted.
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
        // A client that repeats a message leaves a closed waiter for each earlier attempt.
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

/// Subscribes to a task; replies `None` when its stream would have no events.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct AddSubscriber {
    pub(in crate::tasks) task: TaskId,
    /// Continue while the task waits for its client; otherwise an interrupted task counts as over.
    pub(in crate::tasks) patient: bool,
    pub(in crate::tasks) reply: oneshot::Sender<Result<Option<Subscription>, Fault>>,
}

/// A snapshot of a task and the events after it.
pub(in crate::tasks) struct Subscription {
    pub(in crate::tasks) task: Task,
    /// Number of the last event that the snapshot contains.
    pub(in crate::tasks) number: u64,
    pub(in crate::tasks) events: mpsc::Receiver<TaskEvent>,
}

impl Handler<AddSubscriber> for Service {
    type Result = ();

    fn handle(&mut self, subscribe: AddSubscriber, _: &mut Self::Context) {
        let AddSubscriber { task: id, patient, reply } = subscribe;
        let (limit, buffer) = (self.settings.subscribers_per_task, self.settings.subscriber_buffer);
        let task = self.snapshot(id);
        let continues =
            |live: &&mut LiveTask| patient || !live.durable.status.state.is_interrupted();
        let live = self.live.get_mut(&id).filter(|live| live.answer().is_none());
        let (Some(live), Some(task)) = (live.filter(continues), task) else {
            let _ = reply.send(Ok(None));
            return;
        };
        if live.subscribers.len() >= limit {
            let reason = format!("{limit} streams watch this task already; close one of them");
            let _ = reply.send(Err(Fault::Unavailable { reason, retry_after_ms: 1_000 }));
            return;
        }
        // A plain message cannot replace the task any more, so its other streams get a snapshot.
        live.show();
        let number = live.durable_event;
        let before = task.clone();
        live.subscribers.send_snapshot(number, || before);
        let events = live.subscribers.add(buffer, patient);
        let _ = reply.send(Ok(Some(Subscription { task, number, events })));
    }
}

impl Service {
    /// Replies to a caller that has added a message with a stream that starts at the current state.
    pub(super) fn stream_to(&mut self, id: TaskId, reply: ReplySender) {
        let Some(task) = self.snapshot(id) else { return };
        let Some(live) = self.live.get_mut(&id) else { return };
        let events = live.subscribers.add_without_snapshot(self.settings.subscriber_buffer);
        let _ = reply.send(Ok(TaskReply::Stream(events)));
        live.subscribers.send_snapshot(live.durable_event, || task);
    }

    /// Sends a snapshot to the streams of a task that was hidden so far.
    pub(super) fn reveal(&mut self, id: TaskId) {
        let Some(task) = self.snapshot(id) else { return };
        let Some(live) = self.live.get_mut(&id).filter(|live| live.answer().is_none()) else {
            return;
        };
        if !live.subscribers.is_empty() {
            live.show();
            live.subscribers.send_snapshot(live.durable_event, || task);
        }
    }

    /// The committed state of a task, with its position in the queue.
    pub(super) fn snapshot(&self, id: TaskId) -> Option<Task> {
        let live = self.live.get(&id)?;
        let mut task = Task::clone(&live.durable);
        if task.status.state == TaskState::Submitted
            && let Some(queued) = live.stored.queued
            && let Some(QueuePosition::Waits(place)) =
                self.scheduler.queues.position(&live.lane, id)
        {
            queued.show(&mut task, place as u64);
        }
        Some(task)
    }
}
