//! What the service says on the bus, and in whose name.

use std::sync::Arc;
use std::time::Instant;

use a2a_policy::tasks::{Asked, BadRequest, Request, task_request};
use a2a_policy::{Caller, Now};
use a2a_protocol::body::{Extensions, Status, StatusUpdate};
use a2a_protocol::fault::Fault;
use a2a_protocol::task::Message;
use a2a_protocol::{
    AgentId, Body, Envelope, MessageId, NonBlank, Open, Outcome, Priority, Protocol, Receipt,
    Recipient, Sender, Trace,
};
use a2a_taskdb::StoredTask;

use crate::Submission;

/// The key in `status_update.metadata` under which something the caller adds to a task that is
/// being worked on reaches the agent: `{"taskId": …, "message": …}`.
pub(super) const MESSAGE_EXTENSION: &str = "urn:openclaw:a2a:message:v1";

/// In whose name the task travels.
pub(super) fn speaker(stored: &StoredTask, assessed: bool) -> Caller {
    let (agent, via) = (stored.principal.clone(), Arc::clone(&stored.owner));
    Caller::Service { agent, via, assessed }
}

/// The request that hands the task to its agent.
pub(super) struct OutgoingRequest {
    pub(super) submission: Submission,
    /// It carries all there is to know about the task.
    pub(super) whole: bool,
}

pub(super) fn request(
    stored: &StoredTask,
    said_before: &[Message],
    now: Now,
) -> Result<OutgoingRequest, BadRequest> {
    let request = Request {
        task: &stored.task,
        principal: &stored.principal,
        agent: &stored.agent,
        correlation: stored.correlation,
        said_before,
        version: stored.spoken_version.as_deref(),
    };
    let Asked { message, whole } = task_request(&request, now)?;
    let submission =
        Submission::from_message(message, Instant::now()).with_trace(stored.trace.clone());
    Ok(OutgoingRequest { submission, whole })
}

/// What the caller adds to a task that is being worked on, as the agent hears it. It names no
/// task in the ledger's sense: only the agent says how its work stands.
pub(super) fn addition(
    stored: &StoredTask,
    message: &Message,
    trace: Option<Arc<Trace>>,
    now: Now,
) -> Option<Submission> {
    let said: String = message.text().replace('\0', "\u{fffd}").chars().take(2_000).collect();
    let said = if said.trim().is_empty() { "(no text)".to_owned() } else { said };
    let whole = serde_json::json!({ MESSAGE_EXTENSION: {
        "taskId": stored.task.id,
        "message": message,
    }});
    // What does not fit stays with the task, where the agent can look it up.
    let metadata = Open::<Extensions>::from_value(&whole).or_else(|_| {
        let bare = serde_json::json!({ MESSAGE_EXTENSION: { "taskId": stored.task.id } });
        Open::from_value(&bare)
    });
    let envelope = |metadata| {
        Some(Envelope {
            protocol: Protocol::V1,
            message_id: MessageId::try_from(uuid::Uuid::now_v7()).ok()?,
            timestamp: now.utc.into(),
            from: Sender { agent_id: stored.principal.clone(), role: None, session_key: None },
            to: Some(Recipient { agent_id: stored.agent.clone(), role: None }),
            priority: Priority::Normal,
            correlation_id: stored.correlation,
            body: Body::StatusUpdate(StatusUpdate {
                task_id: None,
                status: Status::InProgress,
                progress: NonBlank::try_from(said.clone()).ok()?,
                blocked_by: None,
                estimated_completion: None,
                metadata,
            }),
        })
    };
    let trace = trace.or_else(|| stored.trace.clone());
    let submission = Submission::from_message(envelope(metadata.ok())?, Instant::now());
    if submission.is_valid() {
        Some(submission.with_trace(trace))
    } else {
        Some(Submission::from_message(envelope(None)?, Instant::now()).with_trace(trace))
    }
}

/// What a refusal of the bus means to an A2A client.
pub(super) fn receipt_fault(agent: &AgentId, receipt: &Receipt) -> Fault {
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
