//! Notices of the bus itself: a late failure, a tripped circuit, a missed deadline.

use std::sync::Arc;

use a2a_policy::{Circuit, CircuitKey, Now};
use a2a_protocol::body::{Extensions, Status, StatusUpdate};
use a2a_protocol::{
    AgentId, Body, CorrelationId, Envelope, Event, Extensible, MessageId, NOTICE_EXTENSION,
    NonBlank, Notice, Priority, Protocol, Recipient, Sender, TaskId, Text,
};

/// Sender of notices; reserved.
pub(crate) const SYSTEM: &str = "system";

/// Subject of a notice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About {
    pub(crate) conversation: CorrelationId,
    pub(crate) task: Option<TaskId>,
    /// What happened, machine-readable.
    pub(crate) event: Event,
    /// The message concerned.
    pub(crate) message: Option<MessageId>,
}

/// A `status_update` from the bus to the sender of a dead-lettered message.
///
/// `None` when the message came from the bus itself: notices are never answered.
pub(crate) fn late_failure(
    event: Event,
    failed: &Arc<Envelope>,
    recipient: &AgentId,
    reason: &str,
    now: Now,
) -> Option<Envelope> {
    let to = &failed.from.agent_id;
    if to.as_str() == SYSTEM {
        return None;
    }
    let text = format!(
        "Your {} {} to {recipient} was not handled and is a dead letter now: {reason}",
        failed.kind(),
        failed.message_id
    );
    let about = About {
        conversation: failed.correlation_id,
        task: failed.body.task_id(),
        event,
        message: Some(failed.message_id),
    };
    notice(to, about, &text, reason, now)
}

/// A `status_update` to a participant of a conversation whose circuit opened.
pub(crate) fn stopped(to: &AgentId, circuit: &Circuit, now: Now) -> Option<Envelope> {
    let conversation = match circuit.key {
        CircuitKey::Correlation(conversation) => conversation,
        // The pair had many conversations; the notice starts its own.
        CircuitKey::Pair { .. } => CorrelationId::try_from(uuid::Uuid::now_v7()).ok()?,
    };
    let until = match circuit.until {
        Some(until) => format!("until {}", until.format("%Y-%m-%d %H:%M:%S UTC")),
        None => "until a person resets it".to_owned(),
    };
    let text = format!(
        "This was stopped ({}): {}. Messages of `{}` are refused {until}. Do not answer; go on with something that moves a task, or ask a person.",
        circuit.reason.as_str(),
        circuit.evidence.trim_end_matches('.'),
        circuit.key
    );
    let about = About { conversation, task: None, event: Event::Tripped, message: None };
    notice(to, about, &text, &circuit.evidence, now)
}

/// A `status_update` from the bus: work is blocked, and why.
pub(crate) fn notice(
    to: &AgentId,
    about: About,
    text: &str,
    reason: &str,
    now: Now,
) -> Option<Envelope> {
    Some(Envelope {
        protocol: Protocol::V1,
        message_id: MessageId::try_from(uuid::Uuid::now_v7()).ok()?,
        timestamp: now.utc.into(),
        from: Sender { agent_id: SYSTEM.parse().ok()?, role: None, session_key: None },
        to: Some(Recipient { agent_id: to.clone(), role: None }),
        priority: Priority::High,
        correlation_id: about.conversation,
        body: Body::StatusUpdate(StatusUpdate {
            task_id: about.task,
            status: Status::Blocked,
            progress: NonBlank::try_from(clip(text)).ok()?,
            blocked_by: Text::try_from(clip(reason)).ok(),
            estimated_completion: None,
            metadata: metadata(about),
        }),
    })
}

/// The event, machine-readable, so that programs need not parse the sentence.
fn metadata(about: About) -> Option<Extensible<Extensions>> {
    let notice = Notice { event: about.event, message_id: about.message };
    serde_json::from_value(serde_json::json!({ NOTICE_EXTENSION: notice })).ok()
}

fn clip(text: &str) -> String {
    let harmless: String = text.replace('\0', " ");
    if harmless.trim().is_empty() {
        "no reason given".into()
    } else {
        harmless.chars().take(2_000).collect()
    }
}
