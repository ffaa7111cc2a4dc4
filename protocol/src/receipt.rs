//! Every answer the router can give, and what can happen to a message afterwards.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AgentId, CorrelationId, MessageId, Report, Timestamp, Violation};

closed_set! {
    /// What became of a message at the moment it was sent.
    pub enum Outcome {
        /// Durable, and a slot in a live session is taken.
        Delivered = "delivered",
        /// Durable, waiting for a busy or absent session.
        Queued = "queued",
        /// This message was accepted before; the first receipt again.
        Duplicate = "duplicate",
        /// This id was accepted before with another body or from another sender.
        Conflict = "conflict",
        /// The message breaks rules; all violations are listed.
        Invalid = "invalid",
        /// No valid credential.
        Unauthorized = "unauthorized",
        /// Not your agent id, a reserved name, or a rule of access.
        Forbidden = "forbidden",
        /// There is no such agent.
        UnknownRecipient = "unknown_recipient",
        /// There is no such task.
        UnknownTask = "unknown_task",
        /// The task belongs to another agent.
        NotAssignee = "not_assignee",
        /// The task cannot change in this way.
        IllegalTransition = "illegal_transition",
        /// Too many messages; try again after the time given.
        RateLimited = "rate_limited",
        /// The conversation was stopped because it went in circles.
        CircuitOpen = "circuit_open",
        /// The recipient's inbox is at its limit.
        QueueFull = "queue_full",
        /// The bus is stopping, or cannot write.
        Unavailable = "unavailable",
    }
}

impl Outcome {
    /// Whether the message is durable and will reach its recipient.
    #[must_use]
    pub const fn is_accepted(self) -> bool {
        matches!(self, Self::Delivered | Self::Queued)
    }
}

closed_set! {
    /// What happened to an accepted message later.
    pub enum Event {
        /// It was handed to the recipient, again or from the queue.
        Delivered = "delivered",
        /// The recipient is done with it; it is never handed out again.
        Acknowledged = "acknowledged",
        /// An attempt to handle it panicked, hung or lost its connection.
        AttemptFailed = "attempt_failed",
        /// It was not handled before its time was up.
        Expired = "expired",
        /// Every attempt failed; a person can look at it and send it again.
        DeadLetter = "dead_letter",
        /// A dead letter was sent again.
        Returned = "returned",
        /// A dead letter was thrown away.
        Dropped = "dropped",
        /// An agent became known to the bus, or what is known of it changed.
        Joined = "joined",
        /// An agent was removed from the directory, by a person.
        Left = "left",
        /// The breaker opened a circuit: messages of it are refused from now on.
        Tripped = "tripped",
        /// A circuit is closed again.
        Closed = "closed",
        /// A task's deadline passed while it was being worked on.
        Overdue = "overdue",
        /// The task a message asked for was cancelled before it ended.
        Cancelled = "cancelled",
        /// More refusals of one kind came than are written down; this is how many.
        Suppressed = "suppressed",
        /// Somebody came without a good token.
        Denied = "denied",
        /// A person had an A2A task that had ended deleted from the task store.
        Deleted = "deleted",
        /// Old records were removed, as the settings ask for; this is which.
        Removed = "removed",
    }
}

/// The key under which a notice of the bus says in `status_update.metadata` what happened.
pub const NOTICE_EXTENSION: &str = "urn:openclaw:a2a:notice:v1";

/// What a notice of the bus is about, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// What happened.
    pub event: Event,
    /// The message it happened to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
}

/// One recipient of a message and what became of its copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecipientOutcome {
    /// The recipient.
    pub agent_id: AgentId,
    /// What became of its copy.
    pub outcome: Outcome,
}

closed_set! {
    /// What a circuit covers.
    pub enum CircuitScope {
        /// One conversation.
        Correlation = "correlation",
        /// One content from one agent to another, whatever the conversation.
        Pair = "pair",
    }
}

/// The circuit that refused a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenCircuit {
    /// What it covers.
    pub scope: CircuitScope,
    /// Its name, for whoever wants to look at it or reset it.
    pub circuit: String,
    /// When it opened.
    pub since: Timestamp,
}

/// The router's answer to one message.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// What became of the message.
    pub outcome: Outcome,
    /// The message, when its id could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Its conversation, when that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    /// The number of its record in the log; absent when nothing could be recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When the router answered.
    pub time: Timestamp,
    /// Whom it went to; shared, because a fan-out has thousands.
    pub recipients: Arc<[RecipientOutcome]>,
    /// Why, in a sentence that says what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When trying again makes sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The circuit that refused it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub circuit: Option<Box<OpenCircuit>>,
    /// Everything wrong with an invalid message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Violation>,
}

impl Receipt {
    /// A receipt with an outcome, and nothing else said yet.
    #[must_use]
    pub fn new(outcome: Outcome, time: Timestamp) -> Self {
        Self {
            outcome,
            message_id: None,
            correlation_id: None,
            seq: None,
            time,
            recipients: Arc::new([]),
            reason: None,
            retry_after_ms: None,
            circuit: None,
            errors: Vec::new(),
        }
    }

    /// The answer to a message that breaks rules.
    #[must_use]
    pub fn invalid(report: Report, time: Timestamp) -> Self {
        let mut receipt = Self::new(Outcome::Invalid, time);
        let (count, plural) = match report.violations().len() + report.more() {
            1 => (1, ""),
            n => (n, "s"),
        };
        receipt.reason = Some(format!("The message breaks {count} rule{plural}; see `errors`."));
        receipt.errors = report.into_violations();
        receipt
    }
}
