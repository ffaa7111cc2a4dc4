//! Handlers: plain async functions.

use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_actors::{Delivery, Handled, HandlerFuture, Runtime, Submission};
use a2a_protocol::body::{Action, TaskResponse};
use a2a_protocol::{AgentId, Body, Envelope, Outcome, Text};

use super::{Agent, DEFAULT_RETRY_PAUSE, trace};

/// Return value of a handler: nothing, or a result whose error fails the task.
pub trait Answer: Send {
    /// The error, if any.
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

/// The code of an agent: an async function of a [`Delivery`], or of the [`Agent`] and a delivery.
///
/// Returning acknowledges the message. After an `Err` a `task_request` is answered with `failed`;
/// for other messages the error is logged. A panic and a missed deadline are failed attempts: the
/// message is redelivered.
///
/// Code that distinguishes kinds of message is easier to read as [`Handlers`](super::Handlers).
pub trait Handler<Args>: Send + Sync + 'static {
    /// Handles one delivery; returns the error, if any.
    fn handle(&self, me: Agent, delivery: Delivery) -> impl Future<Output = Option<String>> + Send;
}

impl<F, Fut> Handler<(Delivery,)> for F
where
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Answer> + Send,
{
    async fn handle(&self, _: Agent, delivery: Delivery) -> Option<String> {
        self(delivery).await.error()
    }
}

impl<F, Fut> Handler<(Agent, Delivery)> for F
where
    F: Fn(Agent, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Answer> + Send,
{
    async fn handle(&self, me: Agent, delivery: Delivery) -> Option<String> {
        self(me, delivery).await.error()
    }
}

/// Answers a delivery synchronously, or leaves it to the handler.
pub(crate) type SyncAnswer = fn(&Agent, &Delivery) -> Option<Envelope>;

/// Thread that runs a handler.
#[derive(Debug, Clone, Copy)]
pub(super) enum HandlerThread {
    /// A thread for agents' code, which may compute and block.
    Own,
    /// The thread of the bus, where most deliveries need no handler.
    Bus(SyncAnswer),
}

/// Adapts a handler to the runtime of a session.
pub(super) fn runtime<Args: Send + 'static>(
    handler: impl Handler<Args>,
    thread: HandlerThread,
    window: NonZeroUsize,
    me: Agent,
) -> Arc<dyn Runtime> {
    Arc::new(InProcess { handler: Arc::new(handler), thread, window, me, args: PhantomData })
}

struct InProcess<H, Args> {
    handler: Arc<H>,
    thread: HandlerThread,
    window: NonZeroUsize,
    me: Agent,
    args: PhantomData<fn(Args)>,
}

impl<Args: Send + 'static, H: Handler<Args>> Runtime for InProcess<H, Args> {
    fn handle(&self, delivery: Delivery) -> HandlerFuture {
        let (handler, me) = (Arc::clone(&self.handler), self.me.clone());
        let trace = delivery.trace();
        Box::pin(trace::within(trace, async move {
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

    fn answer_at_once(&self, delivery: &Delivery) -> Option<Submission> {
        let HandlerThread::Bus(at_once) = self.thread else { return None };
        let answer = at_once(&self.me, delivery)?;
        let trace = Some(Arc::new(delivery.trace()));
        Some(Submission::from_message(answer, Instant::now()).with_trace(trace))
    }

    fn window(&self) -> usize {
        self.window.get()
    }

    fn only_waits(&self) -> bool {
        matches!(self.thread, HandlerThread::Bus(_))
    }

    fn only_computes(&self) -> bool {
        matches!(self.thread, HandlerThread::Bus(_))
    }

    fn watches(&self) -> bool {
        self.me.watched().is_watching()
    }

    fn wants_at_once(&self, sender: &AgentId, message: &Envelope) -> bool {
        self.me.watched().wants(self.me.id(), sender, &message.body)
    }

    fn take_at_once(&self, delivery: &Delivery) -> bool {
        self.me.watched().take(self.me.id(), delivery)
    }
}

/// Sends an answer and retries until it is accepted. The handler's deadline bounds it.
async fn answer(me: &Agent, reply: Envelope) {
    loop {
        let receipt = me.send(reply.clone()).await;
        match receipt.outcome {
            Outcome::RateLimited | Outcome::QueueFull | Outcome::Unavailable => {
                let wait = receipt.retry_after_ms.map(Duration::from_millis);
                tokio::time::sleep(wait.unwrap_or(DEFAULT_RETRY_PAUSE)).await;
            }
            outcome if outcome.is_accepted() || outcome == Outcome::Duplicate => return,
            // The handler had answered before it failed; that answer is kept.
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
    let reason = if text.trim().is_empty() { "the agent gave no reason".to_owned() } else { text };
    Text::try_from(reason).unwrap_or_else(|_| unreachable!("short, without U+0000"))
}
