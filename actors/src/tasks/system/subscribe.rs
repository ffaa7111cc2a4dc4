//! Streams the events of a task: the missed ones from the store, then the live ones.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{StreamEvent, Subscribe};
use a2a_protocol::{AgentId, TaskId};
use a2a_taskdb::{TaskReader, TaskStoreError};
use futures_util::Stream;
use tokio::sync::{mpsc, oneshot};

use super::{TaskCaller, TaskSystem, stopping};
use crate::tasks::service::AddSubscriber;
use crate::tasks::service::subscribers::TaskEvent;

/// Missed events that one read returns.
const READ_BATCH: usize = 256;

/// Events of a task or an objective. Ends after the last one, or when the reader was too slow and
/// must subscribe again.
#[derive(Debug)]
pub struct TaskStream {
    missed: std::vec::IntoIter<TaskEvent>,
    live: Option<mpsc::Receiver<TaskEvent>>,
    /// Longest history of a snapshot; `None` for all of it.
    history_length: Option<usize>,
}

impl TaskStream {
    pub(in crate::tasks) fn new(
        missed: Vec<TaskEvent>,
        live: Option<mpsc::Receiver<TaskEvent>>,
    ) -> Self {
        Self { missed: missed.into_iter(), live, history_length: None }
    }

    /// Limits the history of snapshots.
    pub(in crate::tasks) fn with_history(self, history_length: Option<usize>) -> Self {
        Self { history_length, ..self }
    }

    fn limit_history(&self, mut event: TaskEvent) -> TaskEvent {
        if let (Some(most), StreamEvent::Task(task)) = (self.history_length, &*event.event)
            && most < task.history.len()
        {
            let mut task = task.clone();
            task.cut_history(Some(most));
            event.event = Arc::new(StreamEvent::Task(task));
        }
        event
    }
}

impl Stream for TaskStream {
    type Item = TaskEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<TaskEvent>> {
        if let Some(event) = self.missed.next() {
            if self.missed.len() == 0 {
                // Frees the buffer, which may be large, for the rest of the stream.
                self.missed = Vec::new().into_iter();
            }
            return Poll::Ready(Some(self.limit_history(event)));
        }
        let Some(live) = &mut self.live else { return Poll::Ready(None) };
        live.poll_recv(cx).map(|event| event.map(|event| self.limit_history(event)))
    }
}

impl TaskSystem {
    /// Subscribes to a task: a snapshot and the events after it, or every event after the last one
    /// that the caller has seen.
    ///
    /// # Errors
    /// When there is none, or it has ended and the caller has seen all its events.
    pub async fn subscribe(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        watch: Subscribe,
    ) -> Result<TaskStream, Fault> {
        let stored = self.owned(caller, agent, &watch.id).await?;
        if stored.task.status.state.is_terminal() && watch.after.is_none() {
            let state = stored.task.status.state.short_name();
            let reason = format!("task {} has ended ({state}); get it instead", watch.id);
            return Err(Fault::Unsupported { reason });
        }
        self.stream_events(stored.task.id, watch.after, true).await
    }

    pub(super) async fn stream_events(
        &self,
        task: TaskId,
        after: Option<u64>,
        patient: bool,
    ) -> Result<TaskStream, Fault> {
        let (reply, answer) = oneshot::channel();
        self.post(AddSubscriber { task, patient, reply })?;
        let live = answer.await.unwrap_or_else(|_| Err(stopping()))?;
        let Some(after) = after else {
            let (task, number, events) = match live {
                Some(live) => (live.task, live.number, Some(live.events)),
                None => {
                    let stored = self.stored(task).await?;
                    (Arc::unwrap_or_clone(stored.task), stored.last_event, None)
                }
            };
            let last = events.is_none();
            let event = Arc::new(StreamEvent::Task(Box::new(task)));
            return Ok(TaskStream::new(vec![TaskEvent { number, event, last }], events));
        };
        let until = live.as_ref().map_or(u64::MAX, |live| live.number);
        let missed = self.read_store(move |reader| missed(reader, task, after)).await?;
        let over = live.is_none();
        let count = missed.len();
        if over && count == 0 {
            if !patient {
                // A repeated message whose caller has seen every event: return the snapshot.
                return Box::pin(self.stream_events(task, None, patient)).await;
            }
            let reason = format!("task {task} has ended and nothing was missed; get it instead");
            return Err(Fault::Unsupported { reason });
        }
        let before = missed.into_iter().take_while(|(number, _)| *number <= until).enumerate();
        let before = before.map(|(at, (number, event))| TaskEvent {
            number,
            event,
            last: over && at + 1 == count,
        });
        Ok(TaskStream::new(before.collect(), live.map(|live| live.events)))
    }
}

/// Reads the events after a number, in batches. The limit of bytes per task bounds their size.
fn missed(
    reader: &dyn TaskReader,
    task: TaskId,
    mut after: u64,
) -> Result<Vec<(u64, Arc<StreamEvent>)>, TaskStoreError> {
    let mut all = Vec::new();
    loop {
        let batch = reader.events(task, after, READ_BATCH)?;
        let is_last = batch.len() < READ_BATCH;
        after = batch.last().map_or(after, |(number, _)| *number);
        all.extend(batch);
        if is_last {
            return Ok(all);
        }
    }
}
