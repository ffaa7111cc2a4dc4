//! What the bus itself says: a late failure, told to the one who sent the message.

use std::sync::Arc;

use a2a_policy::Now;
use a2a_protocol::body::{Status, StatusUpdate};
use a2a_protocol::{
    AgentId, Body, Envelope, MessageId, NonBlank, Priority, Protocol, Recipient, Sender, TaskId,
    Text,
};

/// The name under which the bus speaks; nobody else may use it.
pub(crate) const SYSTEM: &str = "system";

/// A `status_update` from the bus to the sender of a message that was given up.
///
/// `None` when the message came from the bus itself: notices are never answered.
pub(crate) fn late_failure(
    given_up: &Arc<Envelope>,
    recipient: &AgentId,
    reason: &str,
    now: Now,
) -> Option<Envelope> {
    let to = given_up.from.agent_id.clone();
    if to.as_str() == SYSTEM {
        return None;
    }
    let progress = format!(
        "Your {} {} to {recipient} was not handled and is a dead letter now: {reason}",
        given_up.kind(),
        given_up.message_id
    );
    Some(Envelope {
        protocol: Protocol::V1,
        message_id: MessageId::try_from(uuid::Uuid::now_v7()).ok()?,
        timestamp: now.utc.into(),
        from: Sender { agent_id: SYSTEM.parse().ok()?, role: None, session_key: None },
        to: Some(Recipient { agent_id: to, role: None }),
        priority: Priority::High,
        correlation_id: given_up.correlation_id,
        body: Body::StatusUpdate(StatusUpdate {
            task_id: task_of(&given_up.body),
            status: Status::Blocked,
            progress: NonBlank::try_from(clip(progress)).ok()?,
            blocked_by: Text::try_from(clip(reason.to_owned())).ok(),
            estimated_completion: None,
            metadata: None,
        }),
    })
}

fn clip(text: String) -> String {
    let harmless: String = text.replace('\0', " ");
    if harmless.trim().is_empty() {
        "no reason given".into()
    } else {
        harmless.chars().take(2_000).collect()
    }
}

fn task_of(body: &Body) -> Option<TaskId> {
    match body {
        Body::TaskRequest(body) => Some(body.task_id),
        Body::TaskResponse(body) => Some(body.task_id),
        Body::ReviewRequest(body) => Some(body.task_id),
        Body::ReviewResponse(body) => Some(body.task_id),
        Body::StatusUpdate(body) => body.task_id,
        _ => None,
    }
}
