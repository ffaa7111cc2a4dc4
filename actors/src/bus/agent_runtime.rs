//! What a session runs: the code of an agent, wherever it is.

use std::future::Future;
use std::pin::Pin;

use a2a_protocol::{AgentId, Envelope};
use tokio::sync::oneshot;

use crate::{AckHandle, Delivery, Submission};

/// The work on one message.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Handled, Failed>> + Send>>;

/// A message was handled; a typed error of the agent is an answer too, noted here.
#[derive(Debug, Default)]
pub struct Handled {
    /// What the log should say beside `acknowledged`.
    pub note: Option<String>,
    /// Told when the acknowledgement is durable; dropped when it is not.
    pub durable: Option<oneshot::Sender<()>>,
}

/// The attempt failed: the message is tried again, or given up after the last attempt.
#[derive(Debug)]
pub struct Failed {
    /// Why, for the log.
    pub reason: String,
    /// Told when that is durable; dropped when it is not.
    pub durable: Option<oneshot::Sender<()>>,
}

impl Failed {
    /// Failed for this reason, and nobody waits until that is durable.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), durable: None }
    }
}

/// The code of an agent. Returning [`Handled`] acknowledges the message; [`Failed`], a panic or
/// a hang does not.
pub trait AgentRuntime: Send + Sync {
    /// Works on one message. The work is in the future; with a window other than 1 the call
    /// itself is made on the thread of the bus, in the order of the messages, and must not block.
    fn handle(&self, delivery: Delivery) -> HandlerFuture;

    /// Works the answer to a message out on the spot, where that is all there is to do. The answer
    /// goes out in the agent's name, and the message is acknowledged when it is on record. If the
    /// bus does not take it, the message is for [`Runtime::handle`], as is every message without
    /// such an answer. Runs on the thread of the bus and must take next to no time.
    fn answer_at_once(&self, _: &Delivery) -> Option<Submission> {
        None
    }

    /// Takes a message over whose end is known elsewhere, and later: there is no work to run here,
    /// and whoever knows the end says so with the ticket. One that is dropped leaves the message
    /// unacknowledged. Gives the ticket back when the message is for [`Runtime::handle`]. Runs on
    /// the thread of the bus and must not block.
    fn take_deferred(&self, _: &Delivery, ack: AckHandle) -> Option<AckHandle> {
        Some(ack)
    }

    /// How many messages it takes at once, asked whenever there may be another. It may change
    /// (none at all for a while, too): [`BusSystem::set_present`](crate::BusSystem::set_present)
    /// makes the bus look again.
    fn max_in_flight(&self) -> usize {
        1
    }

    /// Whether the futures of [`Runtime::handle`] do next to nothing but wait. They then run on the
    /// thread of the bus itself, which costs no visit to the threads for agents' code; what they
    /// take of its time, everybody waits for.
    fn runs_on_bus_thread(&self) -> bool {
        false
    }

    /// Whether it does nothing that reaches beyond the bus: it works its answers out of what it is
    /// told, and sends them. It is then handed a message while the record of it is on its way to the
    /// disk, so that the message and the answer share one write. Nobody hears of either before both
    /// are there; if they never are, neither has happened.
    fn takes_uncommitted(&self) -> bool {
        false
    }

    /// Whether what is being handled may take longer than handlers may, asked when that time is up.
    fn deadline_paused(&self) -> bool {
        false
    }

    /// Whether somebody waits for certain messages while others are being handled. Asked for
    /// every message that arrives, so it must cost next to nothing.
    fn has_out_of_band(&self) -> bool {
        false
    }

    /// Whether this is such a message.
    fn is_out_of_band(&self, _sender: &AgentId, _: &Envelope) -> bool {
        false
    }

    /// Takes such a message; it is acknowledged when this returns `true`. Runs on the thread of
    /// the bus and must not block.
    fn take_out_of_band(&self, _: &Delivery) -> bool {
        false
    }
}
