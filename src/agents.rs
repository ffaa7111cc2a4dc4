//! Agents that run in the server's process.
//!
//! `host`, `conformance` and the cast of `demo` are built in; they use the bus through the SDK
//! only. `remote` is the session runtime of an agent whose code runs elsewhere. Nothing here
//! depends on HTTP or on a transport.

pub mod conformance;
pub mod demo;
pub mod host;

use std::num::NonZeroUsize;
use std::time::Duration;

use a2a_actors::Delivery;
use a2a_protocol::Envelope;

use crate::{Agent, SendError};

/// Maximum number of messages in flight per built-in agent. Answers in flight together share one
/// fsync.
const WINDOW: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();

/// Pause before a retry when the bus returns no `retry_after`.
const DEFAULT_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Sends a message about the task of a delivery, and retries until the bus accepts it.
///
/// Returns `false` when the task is cancelled or has ended, so that no further work is needed.
async fn send(me: &Agent, delivery: &Delivery, message: Envelope) -> Result<bool, SendError> {
    loop {
        match me.post(message.clone()).await {
            Ok(_) => return Ok(true),
            Err(SendError::Task(_)) => return Ok(false),
            Err(error) if error.is_temporary() => {
                let wait = error.retry_after().unwrap_or(DEFAULT_RETRY_PAUSE);
                if !pause(delivery, wait).await {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Sleeps for `wait`. Returns `false` at once when the task of the delivery is cancelled.
async fn pause(delivery: &Delivery, wait: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(wait) => !delivery.is_cancelled(),
        () = delivery.cancelled() => false,
    }
}

#[cfg(test)]
mod tests {
    use a2a_gateway::auth::tokens::BUILT_IN_AGENTS;

    #[test]
    fn names_of_built_in_agents_are_reserved() {
        assert_eq!(BUILT_IN_AGENTS, [super::host::NAME, super::conformance::NAME]);
    }
}
