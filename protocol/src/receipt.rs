//! Receipts: the router's answers to a message, and the events that can follow.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AgentId, CorrelationId, MessageId, Report, Timestamp, Violation};

closed_set! {
    /// Result of sending a message.
    pub enum Outcome {
        /// Durable, and a connected session has capacity for it.
        Delivered = "delivered",
        /// Durable; the session is busy or not connected.
        Queued = "queued",
        /// The same message was accepted before; the first receipt is returned.
        Duplicate = "duplicate",
        /// The id was accepted before with another body or from another sender.
        Conflict = "conflict",
        /// The message is invalid; all violations are listed.
        Invalid = "invalid",
        /// No valid credential.
        Unauthorized = "unauthorized",
        /// Another agent's id, a reserved name, or a rule of access.
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
        /// The circuit breaker has stopped the conversation because it was looping.
        CircuitOpen = "circuit_open",
        /// The recipient's inbox is at its limit.
        QueueFull = "queue_full",
        /// The bus is shutting down, or cannot write its journal.
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
    /// An event in the life of an accepted message, an agent, a circuit or a task.
    pub enum Event {
        /// Delivered to the recipient from the queue, or redelivered.
        Delivered = "delivered",
        /// Acknowledged by the recipient; it is not delivered again.
        Acknowledged = "acknowledged",
        /// An attempt to handle it panicked, hung or lost its connection.
        AttemptFailed = "attempt_failed",
        /// Not handled before its expiry.
        Expired = "expired",
        /// Every attempt failed; an operator can inspect and resend it.
        DeadLetter = "dead_letter",
        /// A dead letter was sent again.
        Returned = "returned",
        /// A dead letter was discarded.
        Dropped = "dropped",
        /// An agent was added to the directory, or its profile changed.
        Joined = "joined",
        /// An operator removed an agent from the directory.
        Left = "left",
        /// The breaker opened a circuit: its messages are refused.
        Tripped = "tripped",
        /// A circuit was closed.
        Closed = "closed",
        /// A task's deadline passed while it was being worked on.
        Overdue = "overdue",
        /// The task a message asked for was cancelled before it ended.
        Cancelled = "cancelled",
        /// Refusals of one kind above the logging limit; the record contains their number.
        Suppressed = "suppressed",
        /// A connection presented no valid token.
        Denied = "denied",
        /// An operator deleted an ended A2A task from the task store.
        Deleted = "deleted",
        /// Old records were removed by the retention settings; the record states which.
        Removed = "removed",
    }
}

/// Key of a bus notice in the `metadata` of a `status_update`.
pub const NOTICE_EXTENSION: &str = "urn:openclaw:a2a:notice:v1";

/// Machine-readable content of a bus notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The event.
    pub event: Event,
    /// The message that the event is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
}

/// One recipient of a message and the outcome for its copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecipientOutcome {
    /// The recipient.
    pub agent_id: AgentId,
    /// Outcome for its copy.
    pub outcome: Outcome,
}

closed_set! {
    /// What a circuit covers.
    pub enum CircuitScope {
        /// One conversation.
        Correlation = "correlation",
        /// The same content from one agent to another, in any conversation.
        Pair = "pair",
    }
}

/// The circuit that refused a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenCircuit {
    /// What the circuit covers.
    pub scope: CircuitScope,
    /// Its name, for commands that show or reset it.
    pub circuit: String,
    /// When it opened.
    pub since: Timestamp,
}

/// The router's answer to one message.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Result of sending the message.
    pub outcome: Outcome,
    /// The message, when its id could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Its conversation, when that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    /// Sequence number of its record in the log; absent when nothing could be recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When the router answered.
    pub time: Timestamp,
    /// The recipients, each with its outcome.
    // Shared, because a fan-out can have thousands.
    pub recipients: Arc<[RecipientOutcome]>,
    /// The reason, with advice for the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds to wait before a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The circuit that refused it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub circuit: Option<Box<OpenCircuit>>,
    /// The violations of an invalid message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Violation>,
}

impl Receipt {
    /// A receipt with an outcome and all other fields empty.
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

    /// The receipt of an invalid message.
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
