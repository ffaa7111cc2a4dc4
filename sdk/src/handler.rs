//! Handlers: async functions that an agent runs for each delivery.

use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_actors::{AgentRuntime, Delivery, Handled, HandlerFuture, Submission};
use a2a_protocol::body::{Action, TaskResponse};
use a2a_protocol::{AgentId, Body, Envelope, Outcome, Text};

use super::{Agent, trace};

/// Return type of a handler: `()`, or a result whose error is reported.
pub trait HandlerResult: Send {
    /// The error, if there is one.
    fn error(self) -> Option<String>;
}

impl HandlerResult for () {
    fn error(self) -> Option<String> {
        None
    }
}

impl<E: Display + Send> HandlerResult for Result<(), E> {
    fn error(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

/// Handler of an agent: an async function of [`Delivery`], or of [`Agent`] and [`Delivery`] to send
/// messages from it.
///
/// Returning acknowledges the message. `Err` acknowledges it as well, and its text is recorded in
/// the log; for a `task_request` the SDK also sends a `failed` response. A panic or a missed
/// handler deadline fails the attempt: the message is redelivered after a backoff, or becomes a
/// dead letter after the last attempt.
///
/// Code that treats kinds of message differently is easier to read as
/// [`Handlers`](super::Handlers).
pub trait Handler<Args>: Send + Sync + 'static {
    /// Handles one delivery; the error, if there is one.
    fn handle(&self, me: Agent, delivery: Delivery) -> impl Future<Output = Option<String>> + Send;
}

impl<F, Fut> Handler<(Delivery,)> for F
where
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: HandlerResult> + Send,
{
    async fn handle(&self, _: Agent, delivery: Delivery) -> Option<String> {
        self(delivery).await.error()
    }
}

impl<F, Fut> Handler<(Agent, Delivery)> for F
where
    F: Fn(Agent, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: HandlerResult> + Send,
{
    async fn handle(&self, me: Agent, delivery: Delivery) -> Option<String> {
        self(me, delivery).await.error()
    }
}

/// Answers a delivery inline, or returns `None` to leave it to the handler.
pub type InlineAnswer = fn(&Agent, &Delivery) -> Option<Envelope>;

/// The thread on which a handler runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum RunsOn {
    /// The threads for handlers: it may compute and block.
    HandlerThreads,
    /// The thread of the bus, where most deliveries are answered inline.
    BusThread(InlineAnswer),
}

/// Wraps a handler as the runtime of a session.
pub(super) fn runtime<Args: Send + 'static>(
    handler: impl Handler<Args>,
    runs_on: RunsOn,
    window: NonZeroUsize,
    me: Agent,
) -> Arc<dyn AgentRuntime> {
    Arc::new(InProcess { handler: Arc::new(handler), runs_on, window, me, args: PhantomData })
}

struct InProcess<H, Args> {
    handler: Arc<H>,
    runs_on: RunsOn,
    window: NonZeroUsize,
    me: Agent,
    args: PhantomData<fn(Args)>,
}

impl<Args: Send + 'static, H: Handler<Args>> AgentRuntime for InProcess<H, Args> {
    fn handle(&self, delivery: Delivery) -> HandlerFuture {
        let (handler, me) = (Arc::clone(&self.handler), self.me.clone());
        let (trace, conversation) = (delivery.trace(), delivery.message.correlation_id);
        Box::pin(trace::within(trace, conversation, async move {
            if me.watched().take(me.id(), &delivery) {
                return Ok(Handled::default());
            }
            let note = handler.handle(me.clone(), delivery.clone()).await;
            if let (Some(reason), Body::TaskRequest(task)) = (&note, &delivery.message.body) {
                let response = TaskResponse {
                    task_id: task.task_id,
                    action: Action::Failed,
                    reason: Some(reason_text(reason)),
                    result: None,
                };
                me.flush_progress(task.task_id).await;
                answer(&me, me.reply(&delivery, response)).await;
            }
            Ok(Handled { note, durable: None })
        }))
    }

    fn answer_inline(&self, delivery: &Delivery) -> Option<Submission> {
        let RunsOn::BusThread(inline) = self.runs_on else { return None };
        let answer = inline(&self.me, delivery)?;
        let trace = Some(Arc::new(delivery.trace()));
        Some(Submission::from_message(answer, Instant::now()).with_trace(trace))
    }

    fn max_in_flight(&self) -> usize {
        self.window.get()
    }

    fn runs_on_bus_thread(&self) -> bool {
        matches!(self.runs_on, RunsOn::BusThread(_))
    }

    fn takes_uncommitted(&self) -> bool {
        matches!(self.runs_on, RunsOn::BusThread(_))
    }

    fn has_out_of_band(&self) -> bool {
        self.me.watched().is_watching()
    }

    fn is_out_of_band(&self, sender: &AgentId, message: &Envelope) -> bool {
        self.me.watched().wants(self.me.id(), sender, &message.body)
    }

    fn take_out_of_band(&self, delivery: &Delivery) -> bool {
        self.me.watched().take(self.me.id(), delivery)
    }
}

/// Sends the answer until it is accepted; the handler's deadline bounds it.
async fn answer(me: &Agent, reply: Envelope) {
    loop {
        let receipt = me.send(reply.clone()).await;
        match receipt.outcome {
            Outcome::RateLimited | Outcome::QueueFull | Outcome::Unavailable => {
                let wait = receipt.retry_after_ms.unwrap_or(1_000);
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            outcome if outcome.is_accepted() || outcome == Outcome::Duplicate => return,
            // The handler had already answered before it failed; that answer counts.
            Outcome::IllegalTransition => return,
            outcome => {
                let trace = trace::current().map(|trace| tracing::field::display(trace.id()));
                return tracing::warn!(%outcome, trace, "a failed task could not be answered");
            }
        }
    }
}

fn reason_text(reason: &str) -> Text {
    let text: String = reason.replace('\0', " ").chars().take(2_000).collect();
    let output = if text.trim().is_empty() { "the agent gave no reason".to_owned() } else { text };
    Text::try_from(output).unwrap_or_else(|_| unreachable!("short, without U+0000"))
}
