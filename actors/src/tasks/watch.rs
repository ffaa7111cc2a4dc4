//! Whoever waits for a task or watches it.
//!
//! A watcher that does not read is cut off and never slows the task: what it missed is kept,
//! and it can ask for it by the number of the last event it saw.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::Task;
use futures_util::Stream;
use tokio::sync::mpsc;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEvent {
    /// Its number; asking on with it misses nothing.
    pub number: u64,
    /// What happened.
    pub event: Arc<StreamEvent>,
    /// Nothing follows: the task has ended, or waits for the caller.
    pub last: bool,
}

/// What happens to a task, event by event. Ends after the last one, or when the reader was too
/// slow and has to ask on.
#[derive(Debug)]
pub struct TaskStream {
    before: std::vec::IntoIter<TaskEvent>,
    live: Option<mpsc::Receiver<TaskEvent>>,
    /// How much of its history a task shows.
    history_length: Option<usize>,
}

impl TaskStream {
    pub(super) fn new(before: Vec<TaskEvent>, live: Option<mpsc::Receiver<TaskEvent>>) -> Self {
        Self { before: before.into_iter(), live, history_length: None }
    }

    /// The same with so many messages of a task's history at most.
    pub(super) fn with_history(self, history_length: Option<usize>) -> Self {
        Self { history_length, ..self }
    }

    fn cut(&self, mut happened: TaskEvent) -> TaskEvent {
        if let (Some(most), StreamEvent::Task(task)) = (self.history_length, &*happened.event)
            && most < task.history.len()
        {
            let mut task = task.clone();
            task.cut_history(Some(most));
            happened.event = Arc::new(StreamEvent::Task(task));
        }
        happened
    }
}

impl Stream for TaskStream {
    type Item = TaskEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<TaskEvent>> {
        if let Some(happened) = self.before.next() {
            if self.before.len() == 0 {
                // However much was missed: what is over takes no room while the stream goes on.
                self.before = Vec::new().into_iter();
            }
            return Poll::Ready(Some(self.cut(happened)));
        }
        let Some(live) = &mut self.live else { return Poll::Ready(None) };
        live.poll_recv(cx).map(|happened| happened.map(|happened| self.cut(happened)))
    }
}

/// One who watches.
#[derive(Debug)]
struct Subscriber {
    events: mpsc::Sender<TaskEvent>,
    /// It has seen the task; until then it may still get a plain message instead.
    greeted: bool,
    /// It goes on watching while the task waits for its caller.
    patient: bool,
}

/// Whether nothing, or for the moment nothing, follows an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// More.
    More,
    /// Nothing until the caller answers: impatient watchers go.
    Pause,
    /// Nothing: everyone goes.
    Nothing,
}

/// Those who watch one task.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Vec<Subscriber>);

impl Subscribers {
    pub(super) fn len(&mut self) -> usize {
        self.0.retain(|watcher| !watcher.events.is_closed());
        self.0.len()
    }

    /// One more who has seen the task; a `patient` one goes on while that waits for its caller.
    pub(super) fn add(&mut self, buffer: usize, patient: bool) -> mpsc::Receiver<TaskEvent> {
        let (events, receiver) = mpsc::channel(buffer.max(1));
        self.0.push(Subscriber { events, greeted: true, patient });
        receiver
    }

    /// The one who asked for the task, and has seen nothing of it.
    pub(super) fn add_first(&mut self, buffer: usize) -> mpsc::Receiver<TaskEvent> {
        let (events, receiver) = mpsc::channel(buffer.max(1));
        self.0.push(Subscriber { events, greeted: false, patient: false });
        receiver
    }

    /// Shows the task to those who have not seen it.
    pub(super) fn greet(&mut self, number: u64, task: impl FnOnce() -> Task) {
        if self.0.iter().all(|watcher| watcher.greeted) {
            return;
        }
        let event = Arc::new(StreamEvent::Task(Box::new(task())));
        for watcher in self.0.iter_mut().filter(|watcher| !watcher.greeted) {
            watcher.greeted = true;
            // There is room for the first event; whoever is gone is noticed with the next one.
            drop(watcher.events.try_send(TaskEvent {
                number,
                event: Arc::clone(&event),
                last: false,
            }));
        }
    }

    /// Tells everyone; whoever has no room left, or is gone, is let go.
    pub(super) fn tell(&mut self, number: u64, event: &Arc<StreamEvent>, follows: Follows) {
        self.0.retain(|watcher| {
            let last = match follows {
                Follows::More => false,
                Follows::Pause => !watcher.patient,
                Follows::Nothing => true,
            };
            let happened = TaskEvent { number, event: Arc::clone(event), last };
            watcher.events.try_send(happened).is_ok() && !last
        });
    }

    /// Whether nobody has seen the task yet.
    pub(super) fn none_notified(&self) -> bool {
        self.0.iter().all(|watcher| !watcher.greeted)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
