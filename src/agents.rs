//! Agents of the server: those that come with it (`host`, `conformance`, the cast of `demo`), which
//! know the bus only as its authors do, and `remote`, what a session runs when an agent's code is
//! elsewhere. Nothing here knows HTTP, or how bytes travel.

pub mod conformance;
pub mod demo;
pub mod host;

use std::num::NonZeroUsize;
use std::time::Duration;

use a2a_actors::Delivery;
use a2a_protocol::Envelope;

use crate::{Agent, SendError};

/// How many messages each of them has in hand at once. An answer is on disk before it counts, and
/// those who wait for the same disk share one write.
const WINDOW: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();

/// How long to wait before trying again when the bus does not say.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// Sends a message about the task of a delivery until the bus takes it. That the task is not wanted
/// any more is no error: `false` then, and there is no more to do.
async fn send(me: &Agent, delivery: &Delivery, message: Envelope) -> Result<bool, SendError> {
    loop {
        match me.post(message.clone()).await {
            Ok(_) => return Ok(true),
            Err(SendError::Task(_)) => return Ok(false),
            Err(error) if error.is_temporary() => {
                let wait = error.retry_after().unwrap_or(TRY_AGAIN);
                if !pause(delivery, wait).await {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits; `false` at once when the task of the delivery is called off meanwhile.
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
