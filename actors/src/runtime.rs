//! What a session runs: the code of an agent.

use std::future::Future;
use std::pin::Pin;

use a2a_protocol::{AgentId, Envelope};

use crate::Letter;

/// The work on one message.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// A message was handled; a typed error of the agent is an answer too, noted here.
#[derive(Debug, Default)]
pub struct Handled {
    /// What the log should say beside `acknowledged`.
    pub note: Option<String>,
}

/// The code of an agent. Returning acknowledges the message; a panic or a hang does not.
pub trait Runtime: Send + Sync {
    /// Works on one message.
    fn handle(&self, letter: Letter) -> HandlerFuture;

    /// Whether somebody waits for certain messages while others are being handled. Asked for
    /// every message that arrives, so it must cost next to nothing.
    fn watches(&self) -> bool {
        false
    }

    /// Whether this is such a message.
    fn wants_at_once(&self, _sender: &AgentId, _: &Envelope) -> bool {
        false
    }

    /// Takes such a message; it is acknowledged when this returns `true`. Runs on the thread of
    /// the bus and must not block.
    fn take_at_once(&self, _: &Letter) -> bool {
        false
    }
}
