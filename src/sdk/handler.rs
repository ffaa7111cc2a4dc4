//! Handlers are plain async functions of a letter.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use a2a_actors::{BusSystem, Handled, HandlerFuture, Letter, Parcel, Runtime};
use a2a_policy::Caller;
use a2a_protocol::body::{Action, TaskResponse};
use a2a_protocol::{AgentId, Body, Text};

use super::agent::compose;

/// What a handler may return: nothing, or a result whose error is an answer.
pub trait Answer: Send {
    /// The error, if there is one.
    fn error(self) -> Option<String>;
}

impl Answer for () {
    fn error(self) -> Option<String> {
        None
    }
}

impl<E: Display + Send> Answer for Result<(), E> {
    fn error(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

/// The code of an agent: any `Fn(Letter) -> impl Future`.
///
/// Returning acknowledges the message. An `Err` is an answer too: a `task_request` is answered
/// with `failed`, other messages are acknowledged and the error is in the log. A panic or a
/// handler that never returns is neither: the message is tried again.
pub trait Handler: Send + Sync + 'static {
    /// Handles one letter.
    fn handle(&self, letter: Letter) -> impl Future<Output = Option<String>> + Send;
}

impl<F, Fut> Handler for F
where
    F: Fn(Letter) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Answer> + Send,
{
    async fn handle(&self, letter: Letter) -> Option<String> {
        self(letter).await.error()
    }
}

/// A handler in the shape a session runs.
pub(super) fn runtime(
    handler: impl Handler,
    agent: AgentId,
    system: BusSystem,
) -> Arc<dyn Runtime> {
    Arc::new(InProcess { handler: Arc::new(handler), agent, system })
}

struct InProcess<H> {
    handler: Arc<H>,
    agent: AgentId,
    system: BusSystem,
}

impl<H: Handler> Runtime for InProcess<H> {
    fn handle(&self, letter: Letter) -> HandlerFuture {
        let handler = Arc::clone(&self.handler);
        let (agent, system) = (self.agent.clone(), self.system.clone());
        Box::pin(async move {
            let request = Arc::clone(&letter.message);
            let sender = letter.sender.clone();
            let note = handler.handle(letter).await;
            if let (Some(reason), Body::TaskRequest(task)) = (&note, &request.body) {
                let response = TaskResponse {
                    task_id: task.task_id,
                    action: Action::Failed,
                    reason: Some(reason_text(reason)),
                    result: None,
                };
                let reply = compose(&agent, Some(&sender), request.correlation_id, response.into());
                let receipt = system.send(Caller::Agent(agent), Parcel::from_message(reply)).await;
                if !receipt.outcome.is_accepted() {
                    tracing::warn!(outcome = %receipt.outcome, "a failed task could not be answered");
                }
            }
            Handled { note }
        })
    }
}

fn reason_text(reason: &str) -> Text {
    let text: String = reason.replace('\0', " ").chars().take(2_000).collect();
    let said = if text.trim().is_empty() { "the agent gave no reason".to_owned() } else { text };
    Text::try_from(said).unwrap_or_else(|_| unreachable!("short, without U+0000"))
}
