//! Outgoing bus messages: builds requests to agents in the client's name, and maps the bus's
//! refusals to A2A errors.

use std::sync::Arc;
use std::time::Instant;

use a2a_policy::tasks::{BadRequest, Request, TaskDispatch, task_request};
use a2a_policy::{Caller, Now};
use a2a_protocol::body::{Extensions, Status, StatusUpdate};
use a2a_protocol::fault::Fault;
use a2a_protocol::task::Message;
use a2a_protocol::{
    AgentId, Body, Envelope, Extensible, MessageId, NonBlank, Outcome, Priority, Protocol, Receipt,
    Recipient, Sender, Trace,
};
use a2a_taskdb::StoredTask;

use crate::Submission;

/// Key in `status_update.metadata` of a message that the client adds to a working task:
/// `{"taskId": …, "message": …}`.
pub(super) const MESSAGE_EXTENSION: &str = "urn:openclaw:a2a:message:v1";

/// The bus sender of a task's request.
pub(super) fn speaker(stored: &StoredTask, assessed: bool) -> Caller {
    let (agent, via) = (stored.principal.clone(), Arc::clone(&stored.owner));
    Caller::Service { agent, via, assessed }
}

/// The request that asks an agent to execute a task.
pub(super) struct OutgoingRequest {
    pub(super) submission: Submission,
    /// Whether it contains everything about the task.
    pub(super) whole: bool,
}

pub(super) fn request(
    stored: &StoredTask,
    earlier_messages: &[Message],
    now: Now,
) -> Result<OutgoingRequest, BadRequest> {
    let request = Request {
        task: &stored.task,
        principal: &stored.principal,
        agent: &stored.agent,
        correlation: stored.correlation,
        earlier_messages,
        version: stored.spoken_version.as_deref(),
    };
    let TaskDispatch { message, whole } = task_request(&request, now)?;
    let submission =
        Submission::from_message(message, Instant::now()).with_trace(stored.trace.clone());
    Ok(OutgoingRequest { submission, whole })
}

/// Builds the status update that brings a client's message to a working agent. It has no
/// `task_id`: in the ledger only the agent reports the state of its task.
pub(super) fn addition(
    stored: &StoredTask,
    message: &Message,
    trace: Option<Arc<Trace>>,
    now: Now,
) -> Option<Submission> {
    let text: String = message.text().replace('\0', "\u{fffd}").chars().take(2_000).collect();
    let text = if text.trim().is_empty() { "(no text)".to_owned() } else { text };
    let whole = serde_json::json!({ MESSAGE_EXTENSION: {
        "taskId": stored.task.id,
        "message": message,
    }});
    // A message that does not fit is left out; the agent can read it in the task's history.
    let metadata = Extensible::<Extensions>::from_value(&whole).or_else(|_| {
        let bare = serde_json::json!({ MESSAGE_EXTENSION: { "taskId": stored.task.id } });
        Extensible::from_value(&bare)
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
                progress: NonBlank::try_from(text.clone()).ok()?,
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

/// Maps a refusal of the bus to an A2A error.
pub(super) fn receipt_fault(agent: &AgentId, receipt: &Receipt) -> Fault {
    let reason = receipt.reason.clone().unwrap_or_else(|| receipt.outcome.to_string());
    let wait = receipt.retry_after_ms;
    match receipt.outcome {
        // The reason suggests similar names, among those that the caller may write to.
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
