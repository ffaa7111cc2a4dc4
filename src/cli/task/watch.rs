//! `openclaw-a2a task watch`: follows one task until it ends.

use std::io::Read;

use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::{Task, TaskState};
use a2a_protocol::{AgentId, PROGRESS_EXTENSION, TaskId};
use anyhow::{Context, anyhow, bail};

use super::renderer::TaskRenderer;
use crate::cli::server::{EventStream, Response, Server, text};
use crate::cli::server_error::ServerError;
use crate::cli::server_locator::ServerLocator;
use crate::cli::{Answer, Global};

/// Maximum consecutive reconnects without an event.
const TRIES: u32 = 3;

/// Answer to a subscription.
enum Subscription<R> {
    /// A stream of events.
    Events(EventStream<R>),
    /// The task has ended already.
    Ended,
    /// The task does not exist.
    NotFound,
}

/// Endpoint of a task.
struct TaskEndpoint<'a> {
    server: &'a Server,
    /// Path below the server's URL.
    path: String,
}

pub(super) fn run(
    task: TaskId,
    agent: Option<&AgentId>,
    global: &Global,
) -> anyhow::Result<Answer> {
    let locator = ServerLocator::from_options(global)?;
    let server = locator.require_server()?;
    let below = agent.map(|agent| format!("/agents/{agent}")).unwrap_or_default();
    let watched = TaskEndpoint { server: &server, path: format!("{below}/tasks/{task}") };
    let mut renderer = TaskRenderer::new(global.format);
    let (mut last, mut silent) = (None, 0);
    loop {
        match watched.events(last)? {
            Subscription::Events(mut events) => {
                while let Some(data) = events.next() {
                    silent = 0;
                    let event = serde_json::from_str(&data).context("this is no event of A2A")?;
                    renderer.show(&data, &event)?;
                    last = Some(events.last);
                    if let Some(end) = end(&event) {
                        renderer.end();
                        return Ok(answer(end));
                    }
                }
                silent += 1;
                if silent > TRIES {
                    bail!("the server closes the connection again and again; the task continues");
                }
            }
            Subscription::Ended => {
                let (data, event) = watched.task()?;
                renderer.show(&data, &event)?;
                let end = end(&event).ok_or_else(|| anyhow!("the task cannot be watched"))?;
                renderer.end();
                return Ok(answer(end));
            }
            Subscription::NotFound => {
                return super::no_a2a_task(&server, task, "watched");
            }
        }
    }
}

/// Final state of the task, if it has ended.
fn end(event: &StreamEvent) -> Option<TaskState> {
    let state = match event {
        StreamEvent::Task(task) => task.status.state,
        StreamEvent::StatusUpdate(update) => update.status.state,
        StreamEvent::Message(_) | StreamEvent::ArtifactUpdate(_) | StreamEvent::Objective(_) => {
            return None;
        }
    };
    state.is_terminal().then_some(state)
}

fn answer(end: TaskState) -> Answer {
    if end == TaskState::Completed { Answer::Yes } else { Answer::No }
}

impl TaskEndpoint<'_> {
    fn get(&self, rest: &str, last: Option<u64>) -> anyhow::Result<Response> {
        let mut headers = vec![("a2a-extensions", PROGRESS_EXTENSION.to_owned())];
        headers.extend(last.map(|last| ("last-event-id", last.to_string())));
        self.server.get(&format!("{}{rest}", self.path), &[], &headers)
    }

    fn events(&self, last: Option<u64>) -> anyhow::Result<Subscription<impl Read>> {
        let response = self.get(":subscribe", last)?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        if status == 200 {
            let reader = body.into_with_config().limit(u64::MAX).reader();
            return Ok(Subscription::Events(EventStream::new(reader, last.unwrap_or_default())));
        }
        let refusal = ServerError::from_response(status, &body.read_to_string()?);
        match refusal.code.as_str() {
            "TASK_NOT_FOUND" => Ok(Subscription::NotFound),
            "UNSUPPORTED_OPERATION" => Ok(Subscription::Ended),
            _ => Err(refusal.into()),
        }
    }

    fn task(&self) -> anyhow::Result<(String, StreamEvent)> {
        let (status, text) = text(self.get("", None)?)?;
        if status != 200 {
            return Err(ServerError::from_response(status, &text).into());
        }
        let task: Box<Task> = serde_json::from_str(&text).context("this is no task of A2A")?;
        Ok((format!("{{\"task\":{text}}}"), StreamEvent::Task(task)))
    }
}
