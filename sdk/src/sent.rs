//! Results of sending: an accepted message, or a refusal.

use std::fmt::{self, Write as _};
use std::time::Duration;

use a2a_protocol::{
    CorrelationId, Envelope, MessageId, Outcome, Receipt, RecipientOutcome, TaskId, Violation,
};

use super::draft::BuildError;

/// An accepted message: durable, and on its way to its recipients.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    message_id: MessageId,
    correlation_id: CorrelationId,
    task_id: Option<TaskId>,
    receipt: Receipt,
}

impl Sent {
    /// The ids of a message, taken before it is moved.
    pub(super) fn ids(message: &Envelope) -> (MessageId, CorrelationId, Option<TaskId>) {
        (message.message_id, message.correlation_id, message.body.task_id())
    }

    /// Reads the receipt of the message with these ids.
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

    /// The sequence number of its record in the log.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        self.receipt.seq
    }

    /// Its id.
    #[must_use]
    pub fn message_id(&self) -> MessageId {
        self.message_id
    }

    /// Its conversation.
    #[must_use]
    pub fn correlation_id(&self) -> CorrelationId {
        self.correlation_id
    }

    /// The task it concerns, if there is one.
    #[must_use]
    pub fn task_id(&self) -> Option<TaskId> {
        self.task_id
    }

    /// Its recipients.
    #[must_use]
    pub fn recipients(&self) -> &[RecipientOutcome] {
        &self.receipt.recipients
    }

    /// The receipt.
    #[must_use]
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// A refused message; it is not delivered.
///
/// Its text has the reason and what to do. [`RateLimited`](Self::RateLimited),
/// [`QueueFull`](Self::QueueFull) and [`Unavailable`](Self::Unavailable) are temporary; retry after
/// [`retry_after`](Self::retry_after):
///
/// ```
/// # async fn example(tim: a2a_sdk::Agent, delivery: a2a_sdk::Delivery) -> Result<(), a2a_sdk::SendError> {
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
    /// The draft is not a valid message; it was not submitted. Correct its violations.
    Build(BuildError),
    /// The message breaks rules, listed in the receipt's `errors`.
    Invalid(Box<Receipt>),
    /// This agent may not send this, or not to this recipient (`forbidden`, `unauthorized`).
    Forbidden(Box<Receipt>),
    /// There is no such agent.
    UnknownRecipient(Box<Receipt>),
    /// The task is unknown, another agent's, or cannot change in this way (`unknown_task`,
    /// `not_assignee`, `illegal_transition`).
    Task(Box<Receipt>),
    /// Rate limited; retry later.
    RateLimited {
        /// When a retry would pass.
        retry_after: Option<Duration>,
        /// The receipt.
        receipt: Box<Receipt>,
    },
    /// The recipient's inbox is full; retry later.
    QueueFull {
        /// When a retry makes sense.
        retry_after: Option<Duration>,
        /// The receipt.
        receipt: Box<Receipt>,
    },
    /// The bus is stopping, or cannot write; retry later.
    Unavailable {
        /// When a retry makes sense.
        retry_after: Option<Duration>,
        /// The receipt.
        receipt: Box<Receipt>,
    },
    /// The circuit of the conversation is open.
    CircuitOpen(Box<Receipt>),
    /// The message id was used before with another content or by another sender.
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
            // Accepted outcomes are handled by the caller.
            Outcome::Unavailable | Outcome::Delivered | Outcome::Queued | Outcome::Duplicate => {
                Self::Unavailable { retry_after, receipt }
            }
        }
    }

    /// The receipt; `None` when the draft was not submitted.
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

    /// The outcome; `None` when the draft was not submitted.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.receipt().map(|receipt| receipt.outcome)
    }

    /// Every violation of the draft or the message; empty for other refusals.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Build(error) => error.violations(),
            other => other.receipt().map_or(&[], |receipt| &receipt.errors),
        }
    }

    /// When a retry makes sense, if the bus states it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.receipt()?.retry_after_ms.map(Duration::from_millis)
    }

    /// Whether a retry may succeed.
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
            Self::Forbidden(_) => "This agent may not send that; ask an operator.",
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
    fn every_refusal_has_its_family() {
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
    fn a_refusal_without_a_reason_still_says_what_to_do() {
        for outcome in Outcome::ALL {
            let error = refused(*outcome);
            assert_eq!(error.outcome(), Some(*outcome));
            assert_eq!(error.retry_after(), Some(Duration::from_millis(7)));
            assert!(error.to_string().ends_with('.'), "{outcome}");
        }
    }
}
