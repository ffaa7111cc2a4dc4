//! What a session runs: the code of an agent.

use std::future::Future;
use std::pin::Pin;

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
}
