//! [`AgentRuntime`]: trait through which a session calls an agent's handler, in process or over a
//! connection.

use std::future::Future;
use std::pin::Pin;

use a2a_protocol::{AgentId, Envelope};
use tokio::sync::oneshot;

use crate::{AckHandle, Delivery, Submission};

/// Future that handles one message.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Handled, Failed>> + Send>>;

/// The message was handled. A typed error of the agent counts as handled; the note has its reason.
#[derive(Debug, Default)]
pub struct Handled {
    /// Reason recorded beside `acknowledged`.
    pub note: Option<String>,
    /// Resolved when the acknowledgement is durable; dropped when it cannot be written.
    pub durable: Option<oneshot::Sender<()>>,
}

/// The attempt failed: the message is redelivered, or dead-lettered after the last attempt.
#[derive(Debug)]
pub struct Failed {
    /// Reason for the log.
    pub reason: String,
    /// Resolved when the failure is durable; dropped when it cannot be written.
    pub durable: Option<oneshot::Sender<()>>,
}

impl Failed {
    /// A failure whose durability is not awaited.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), durable: None }
    }
}

/// Code of an agent. Returning [`Handled`] acknowledges the message; [`Failed`], a panic or a
/// missed deadline does not.
pub trait AgentRuntime: Send + Sync {
    /// Handles one message; the work is in the future. With a `max_in_flight` other than 1 the call
    /// itself is made on the bus thread, in message order, and must not block.
    fn handle(&self, delivery: Delivery) -> HandlerFuture;

    /// Computes the answer to a message inline, where nothing else is to be done. The answer is
    /// sent in the agent's name, and the message is acknowledged once the answer is recorded. If
    /// the bus refuses the answer, the message goes to [`AgentRuntime::handle`], as does every
    /// message without such an answer. Runs on the bus thread and must take next to no time.
    fn answer_inline(&self, _: &Delivery) -> Option<Submission> {
        None
    }

    /// Takes a message whose end is reported later through the [`AckHandle`]; no future runs
    /// meanwhile. Dropping the handle leaves the message unacknowledged. Returns the handle when
    /// the message is for [`AgentRuntime::handle`]. Runs on the bus thread and must not block.
    fn take_deferred(&self, _: &Delivery, ack: AckHandle) -> Option<AckHandle> {
        Some(ack)
    }

    /// Number of messages handled at once, read before each delivery. It may change, also to 0;
    /// call [`BusSystem::set_reachable`](crate::BusSystem::set_reachable) to make the bus read it
    /// again.
    fn max_in_flight(&self) -> usize {
        1
    }

    /// Whether the futures of [`AgentRuntime::handle`] mostly wait. They then run on the bus
    /// thread, which saves a hop to the handler threads; their CPU time delays every message.
    fn runs_on_bus_thread(&self) -> bool {
        false
    }

    /// Whether the code has no effect outside the bus: it computes its answers from its messages
    /// and sends them. It then gets a message while its record is still being committed, so that
    /// message and answer share one fsync. Neither is visible before both are durable; if the
    /// commit fails, both are undone.
    fn takes_uncommitted(&self) -> bool {
        false
    }

    /// Whether the handler deadline is extended. Read when the deadline has passed.
    fn deadline_paused(&self) -> bool {
        false
    }

    /// Whether out-of-band messages are awaited while others are being handled. Read for every
    /// message that arrives, so it must be cheap.
    fn has_out_of_band(&self) -> bool {
        false
    }

    /// Whether this message is delivered out of band, before those that wait.
    fn is_out_of_band(&self, _sender: &AgentId, _: &Envelope) -> bool {
        false
    }

    /// Takes an out-of-band message; `true` acknowledges it. Runs on the bus thread and must not
    /// block.
    fn take_out_of_band(&self, _: &Delivery) -> bool {
        false
    }
}
