//! What a refusal of the bus means to an A2A client.

use a2a_protocol::fault::Fault;
use a2a_protocol::{AgentId, Outcome, Receipt};

/// What a refusal of the bus means to an A2A client.
pub(super) fn refused(agent: &AgentId, receipt: &Receipt) -> Fault {
    let reason = receipt.reason.clone().unwrap_or_else(|| receipt.outcome.to_string());
    let wait = receipt.retry_after_ms;
    match receipt.outcome {
        // The bus knows whom the caller may have meant, among those it may write to.
        Outcome::UnknownRecipient => Fault::NoSuchAgent { agent: agent.to_string(), reason },
        Outcome::RateLimited => {
            Fault::RateLimited { reason, retry_after_ms: wait.unwrap_or(1_000) }
        }
        Outcome::CircuitOpen => Fault::CircuitOpen { reason, retry_after_ms: wait },
        Outcome::Forbidden | Outcome::Unauthorized => Fault::Forbidden { reason },
        Outcome::QueueFull | Outcome::Unavailable => {
            Fault::Unavailable { reason, retry_after_ms: wait.unwrap_or(1_000) }
        }
        Outcome::Invalid => Fault::InvalidParams(receipt.errors.clone()),
        _ => {
            tracing::error!(outcome = %receipt.outcome, %reason, "a request of the task service was refused");
            Fault::Internal
        }
    }
}
