//! A bus with the task service on it, and a caller: the fixture for tests of A2A tasks.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use a2a_actors::tasks::{
    SendOutcome, TaskCaller, TaskEvent, TaskJoinHandle, TaskSettings, TaskStream, TaskSystem,
};
use a2a_protocol::AgentId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{CancelTask, GetTask, SendMessage, StreamEvent, Subscribe};
use a2a_protocol::task::{OpaqueId, Task, TaskState};
use a2a_taskdb::{TaskDb, TaskReader, TaskStoreError, TaskWriter, Write, WriteOutcome};
use futures_util::StreamExt;
use openclaw_a2a::{Bus, BusSettings, RateSettings};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::listener::SOON;

/// A bus with the task service on it.
pub(crate) struct Side {
    pub(crate) bus: Bus,
    pub(crate) tasks: TaskSystem,
    thread: Option<TaskJoinHandle>,
}

/// No caller in these tests reaches a rate limit.
pub(crate) fn settings() -> BusSettings {
    BusSettings { rates: RateSettings::unlimited(), ..BusSettings::default() }
}

impl Side {
    pub(crate) fn start() -> Self {
        Self::with(TaskSettings::default())
    }

    pub(crate) fn with(tasks: TaskSettings) -> Self {
        let bus = Bus::builder().in_memory().settings(settings()).start().unwrap();
        Self::on(bus, tasks, Box::new(TaskDb::open_in_memory().unwrap()))
    }

    pub(crate) fn on(bus: Bus, settings: TaskSettings, store: Box<dyn TaskWriter>) -> Self {
        let (tasks, thread) = TaskSystem::start(settings, bus.system().clone(), store).unwrap();
        Self { bus, tasks, thread: Some(thread) }
    }

    pub(crate) async fn stop(mut self) {
        self.bus.stop_within(Duration::ZERO).await;
        self.stop_tasks().await;
    }

    /// The bus continues without the task service.
    pub(crate) async fn stop_tasks(&mut self) {
        self.tasks.stop().await;
        let Some(thread) = self.thread.take() else { return };
        tokio::task::spawn_blocking(move || thread.join()).await.unwrap();
    }

    /// Sends a message and waits for the answer.
    pub(crate) async fn send(
        &self,
        agent: &str,
        message: SendMessage,
    ) -> Result<SendOutcome, Fault> {
        soon(self.tasks.send(&acme(), &id(agent), message)).await
    }

    /// The same, where a task comes of it.
    pub(crate) async fn task(&self, agent: &str, message: SendMessage) -> Task {
        task(self.send(agent, message).await.unwrap())
    }

    pub(crate) async fn stream(&self, agent: &str, message: SendMessage) -> TaskStream {
        soon(self.tasks.stream(&acme(), &id(agent), message, None)).await.unwrap()
    }

    pub(crate) async fn subscribe(
        &self,
        agent: &str,
        task: &Task,
        after: Option<u64>,
    ) -> Result<TaskStream, Fault> {
        let watch = Subscribe { id: label(task), after };
        soon(self.tasks.subscribe(&acme(), &id(agent), watch)).await
    }

    pub(crate) async fn get(&self, agent: &str, task: &Task) -> Result<Task, Fault> {
        let get = GetTask { id: label(task), history_length: None };
        soon(self.tasks.get(&acme(), &id(agent), get)).await
    }

    pub(crate) async fn cancel(&self, agent: &str, task: &Task) -> Result<Task, Fault> {
        let cancel = CancelTask { id: label(task), metadata: None };
        soon(self.tasks.cancel(&acme(), &id(agent), cancel)).await
    }

    /// Looks until the task is in this state.
    pub(crate) async fn until(&self, agent: &str, task: &Task, state: TaskState) -> Task {
        soon(async {
            loop {
                let now = self.get(agent, task).await.unwrap();
                if now.status.state == state {
                    return now;
                }
                assert!(!now.status.state.is_terminal(), "{now:?}");
                tokio::task::yield_now().await;
            }
        })
        .await
    }
}

/// A store whose disk can refuse.
pub(crate) struct Refusing<W>(pub(crate) W, pub(crate) Arc<AtomicBool>);

impl<W: TaskWriter> TaskWriter for Refusing<W> {
    fn commit(&mut self, writes: Vec<Write>) -> Result<Vec<WriteOutcome>, TaskStoreError> {
        if self.1.load(SeqCst) {
            return Err(TaskStoreError::Damaged { what: "the disk of this test".to_owned() });
        }
        self.0.commit(writes)
    }

    fn probe(&mut self) -> Result<(), TaskStoreError> {
        if self.1.load(SeqCst) {
            return Err(TaskStoreError::Damaged { what: "the disk of this test".to_owned() });
        }
        self.0.probe()
    }

    fn reader(&self) -> Arc<dyn TaskReader> {
        self.0.reader()
    }
}

/// The client that all tests speak for.
pub(crate) fn acme() -> TaskCaller {
    caller("acme")
}

pub(crate) fn caller(name: &str) -> TaskCaller {
    TaskCaller {
        owner: Arc::from(format!("client:{name}")),
        principal: id(name),
        is_client: true,
        sees_all: false,
        trace: None,
        version: None,
    }
}

pub(crate) fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

pub(crate) fn label(task: &Task) -> OpaqueId {
    task.id.as_uuid().into()
}

/// Waits, but not for ever.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(SOON, what).await.expect("in time")
}

pub(crate) fn task(sent: SendOutcome) -> Task {
    match sent {
        SendOutcome::Task(task) => std::sync::Arc::unwrap_or_clone(task),
        SendOutcome::Message(message) => panic!("a plain message: {message:?}"),
    }
}

/// A message with these fields besides a new id and the caller's role; it waits for the end.
pub(crate) fn message(fields: Value) -> SendMessage {
    let mut whole = json!({
        "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": [{"text": "do it"}],
    });
    whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    SendMessage {
        message: serde_json::from_value(whole).unwrap(),
        accepted_output_modes: Vec::new(),
        push: None,
        history_length: None,
        return_immediately: false,
        waits_unless_planned: false,
        metadata: None,
    }
}

pub(crate) fn text(text: &str) -> SendMessage {
    message(json!({"parts": [{"text": text}]}))
}

/// A message in a conversation.
pub(crate) fn in_context(context: &str, text: &str) -> SendMessage {
    message(json!({"contextId": context, "parts": [{"text": text}]}))
}

/// More about a task.
pub(crate) fn more(task: &Task, text: &str) -> SendMessage {
    message(json!({"taskId": task.id, "parts": [{"text": text}]}))
}

/// The same without waiting for the end.
pub(crate) fn at_once(message: SendMessage) -> SendMessage {
    SendMessage { return_immediately: true, ..message }
}

/// The agent's text beside the state.
pub(crate) fn output(task: &Task) -> String {
    task.status.message.as_ref().map(|message| message.text()).unwrap_or_default()
}

/// Everything that happens, to the end of the stream.
pub(crate) async fn all(stream: TaskStream) -> Vec<TaskEvent> {
    soon(stream.collect()).await
}

/// What happened, each in a word or two.
pub(crate) fn words(events: &[TaskEvent]) -> Vec<String> {
    let state =
        |state: TaskState| state.as_str().trim_start_matches("TASK_STATE_").to_ascii_lowercase();
    let word = |happened: &TaskEvent| match &*happened.event {
        StreamEvent::Task(task) => format!("task {}", state(task.status.state)),
        StreamEvent::Message(_) => "message".to_owned(),
        StreamEvent::StatusUpdate(update) => state(update.status.state),
        StreamEvent::ArtifactUpdate(update) => {
            let end = |yes, word| if yes { word } else { "" };
            format!("artifact{}{}", end(update.append, "+"), end(update.last_chunk, "."))
        }
        StreamEvent::Objective(objective) => format!("objective {}", objective.status),
    };
    events.iter().map(word).collect()
}
