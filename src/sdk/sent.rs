//! Result of sending: an accepted message, or the reason of its refusal.

use std::fmt::{self, Write as _};
use std::time::Duration;

use a2a_protocol::{
    CorrelationId, Envelope, MessageId, Outcome, Receipt, RecipientOutcome, TaskId, Violation,
};

use super::draft::BuildError;

/// A message that the bus has accepted: it is durable and will be delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    message_id: MessageId,
    correlation_id: CorrelationId,
    task_id: Option<TaskId>,
    receipt: Receipt,
}

impl Sent {
    /// Ids of a message, kept before it is moved.
    pub(super) fn ids(message: &Envelope) -> (MessageId, CorrelationId, Option<TaskId>) {
        (message.message_id, message.correlation_id, message.body.task_id())
    }

    /// Converts the receipt for the message with these ids.
    pub(super) fn from_receipt(
        (message_id, correlation_id, task_id): (MessageId, CorrelationId, Option<TaskId>),
        receipt: Receipt,
    ) -> Result<Self, SendError> {
        if receipt.outcome.is_accepted() || receipt.outcome == Outcome::Duplicate {
            Ok(Self { message_id, correlation_id, task_id, receipt })
        } else {
            Err(SendError::refused(receipt))
        }
    }

    /// `delivered`, `queued` for a busy or absent recipient, or `duplicate` for a message that was
    /// accepted before.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.receipt.outcome
    }

    /// Sequence number of its record in the log.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        self.receipt.seq
    }

    /// Id of the message.
    #[must_use]
    pub fn message_id(&self) -> MessageId {
        self.message_id
    }

    /// Id of its conversation.
    #[must_use]
    pub fn correlation_id(&self) -> CorrelationId {
        self.correlation_id
    }

    /// Its task, if it is about one.
    #[must_use]
    pub fn task_id(&self) -> Option<TaskId> {
        self.task_id
    }

    /// Recipients, each with its outcome.
    #[must_use]
    pub fn recipients(&self) -> &[RecipientOutcome] {
        &self.receipt.recipients
    }

    /// The complete receipt.
    #[must_use]
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// A message that the bus has refused; it is not delivered.
///
/// The text states the reason and what to do. Only three variants are worth a retry of the same
/// message:
///
/// ```
/// # async fn example(tim: openclaw_a2a::Agent, delivery: openclaw_a2a::Delivery) -> Result<(), openclaw_a2a::SendError> {
/// while let Err(error) = tim.complete(&delivery, "There are seven.").await {
///     let Some(pause) = error.retry_after().filter(|_| error.is_temporary()) else {
///         return Err(error);
///     };
///     tokio::time::sleep(pause).await;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SendError {
    /// The draft is invalid and was not sent. Correct its violations.
    Build(BuildError),
    /// The message is invalid; the receipt's `errors` list why.
    Invalid(Box<Receipt>),
    /// This agent may not send this, or not to this recipient (`forbidden`, `unauthorized`).
    Forbidden(Box<Receipt>),
    /// The recipient is unknown.
    UnknownRecipient(Box<Receipt>),
    /// The task is unknown, another agent's, or does not allow this transition (`unknown_task`,
    /// `not_assignee`, `illegal_transition`).
    Task(Box<Receipt>),
    /// The rate limit is reached; wait and retry.
    RateLimited {
        /// Time after which the same message would be admitted.
        retry_after: Option<Duration>,
        /// The complete receipt.
        receipt: Box<Receipt>,
    },
    /// The recipient's inbox is full; wait and retry.
    QueueFull {
        /// Suggested time before a retry.
        retry_after: Option<Duration>,
        /// The complete receipt.
        receipt: Box<Receipt>,
    },
    /// The bus is stopping, or cannot write; wait and retry.
    Unavailable {
        /// Suggested time before a retry.
        retry_after: Option<Duration>,
        /// The complete receipt.
        receipt: Box<Receipt>,
    },
    /// The circuit of the conversation is open, because it went in circles.
    CircuitOpen(Box<Receipt>),
    /// The message id was used before with other content or by another sender.
    Conflict(Box<Receipt>),
}

impl SendError {
    fn refused(receipt: Receipt) -> Self {
        let retry_after = receipt.retry_after_ms.map(Duration::from_millis);
        let outcome = receipt.outcome;
        let receipt = Box::new(receipt);
        match outcome {
            Outcome::Invalid => Self::Invalid(receipt),
            Outcome::Unauthorized | Outcome::Forbidden => Self::Forbidden(receipt),
            Outcome::UnknownRecipient => Self::UnknownRecipient(receipt),
            Outcome::UnknownTask | Outcome::NotAssignee | Outcome::IllegalTransition => {
                Self::Task(receipt)
            }
            Outcome::RateLimited => Self::RateLimited { retry_after, receipt },
            Outcome::QueueFull => Self::QueueFull { retry_after, receipt },
            Outcome::CircuitOpen => Self::CircuitOpen(receipt),
            Outcome::Conflict => Self::Conflict(receipt),
            // Accepted outcomes are never converted.
            Outcome::Unavailable | Outcome::Delivered | Outcome::Queued | Outcome::Duplicate => {
                Self::Unavailable { retry_after, receipt }
            }
        }
    }

    /// The complete receipt; `None` for an invalid draft.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::Build(_) => None,
            Self::Invalid(receipt)
            | Self::Forbidden(receipt)
            | Self::UnknownRecipient(receipt)
            | Self::Task(receipt)
            | Self::RateLimited { receipt, .. }
            | Self::QueueFull { receipt, .. }
            | Self::Unavailable { receipt, .. }
            | Self::CircuitOpen(receipt)
            | Self::Conflict(receipt) => Some(receipt),
        }
    }

    /// Outcome of the submission; `None` for an invalid draft.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.receipt().map(|receipt| receipt.outcome)
    }

    /// Violations of the draft or the message; empty for other refusals.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Build(error) => error.violations(),
            other => other.receipt().map_or(&[], |receipt| &receipt.errors),
        }
    }

    /// Time before a retry, if the bus has given one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.receipt()?.retry_after_ms.map(Duration::from_millis)
    }

    /// Whether a retry of the same message may succeed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::QueueFull { .. } | Self::Unavailable { .. })
    }
}

impl From<BuildError> for SendError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Build(error) = self {
            return error.fmt(f);
        }
        match self.receipt().and_then(|receipt| receipt.reason.as_deref()) {
            Some(reason) => f.write_str(reason)?,
            None => f.write_str(self.advice())?,
        }
        for violation in self.violations() {
            f.write_char('\n')?;
            violation.fmt(f)?;
        }
        Ok(())
    }
}

impl SendError {
    /// Advice when the bus gave no reason.
    fn advice(&self) -> &'static str {
        match self {
            Self::Build(_) | Self::Invalid(_) => "The message breaks rules; correct it.",
            Self::Forbidden(_) => "This agent may not send that; ask whoever runs the bus.",
            Self::UnknownRecipient(_) => "There is no such agent; look at who is there.",
            Self::Task(_) => "The task cannot be changed like this; do not send it again.",
            Self::RateLimited { .. } | Self::QueueFull { .. } | Self::Unavailable { .. } => {
                "The bus cannot take it now; send it again later."
            }
            Self::CircuitOpen(_) => "The conversation goes in circles; leave it to a person.",
            Self::Conflict(_) => "The message's id was used before; send it under a new one.",
        }
    }
}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(outcome: Outcome) -> SendError {
        let mut receipt = Receipt::new(outcome, chrono::Utc::now().into());
        receipt.retry_after_ms = Some(7);
        SendError::refused(receipt)
    }

    #[test]
    fn refusals_map_to_their_variants() {
        for outcome in [Outcome::UnknownTask, Outcome::NotAssignee, Outcome::IllegalTransition] {
            assert!(matches!(refused(outcome), SendError::Task(_)), "{outcome}");
        }
        assert!(matches!(refused(Outcome::CircuitOpen), SendError::CircuitOpen(_)));
        assert!(matches!(refused(Outcome::Unauthorized), SendError::Forbidden(_)));
        let temporary = Outcome::ALL.iter().filter(|outcome| {
            !outcome.is_accepted()
                && **outcome != Outcome::Duplicate
                && refused(**outcome).is_temporary()
        });
        assert!(temporary.eq(&[Outcome::RateLimited, Outcome::QueueFull, Outcome::Unavailable]));
    }

    #[test]
    fn refusal_without_a_reason_contains_advice() {
        for outcome in Outcome::ALL {
            let error = refused(*outcome);
            assert_eq!(error.outcome(), Some(*outcome));
            assert_eq!(error.retry_after(), Some(Duration::from_millis(7)));
            assert!(error.to_string().ends_with('.'), "{outcome}");
        }
    }
}
