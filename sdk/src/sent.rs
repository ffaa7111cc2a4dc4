//! What comes back from sending: a message that is on its way, or why it is not.

use std::fmt::{self, Write as _};
use std::time::Duration;

use a2a_protocol::{
    CorrelationId, Envelope, MessageId, Outcome, Receipt, RecipientOutcome, TaskId, Violation,
};

use super::draft::BuildError;

/// A message that the bus has taken: it is on disk and reaches its recipients.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    message_id: MessageId,
    correlation_id: CorrelationId,
    task_id: Option<TaskId>,
    receipt: Receipt,
}

impl Sent {
    /// What the ids of a message are, before it is given away.
    pub(super) fn ids(message: &Envelope) -> (MessageId, CorrelationId, Option<TaskId>) {
        (message.message_id, message.correlation_id, message.body.task_id())
    }

    /// Reads the router's answer to the message with these ids.
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

    /// `delivered`, `queued` for a busy or absent recipient, or `duplicate` for a message that
    /// was taken before.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.receipt.outcome
    }

    /// The number of its record in the log.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        self.receipt.seq
    }

    /// The message.
    #[must_use]
    pub fn message_id(&self) -> MessageId {
        self.message_id
    }

    /// Its conversation.
    #[must_use]
    pub fn correlation_id(&self) -> CorrelationId {
        self.correlation_id
    }

    /// The task it is about, if there is one.
    #[must_use]
    pub fn task_id(&self) -> Option<TaskId> {
        self.task_id
    }

    /// Whom it went to.
    #[must_use]
    pub fn recipients(&self) -> &[RecipientOutcome] {
        &self.receipt.recipients
    }

    /// The router's whole answer.
    #[must_use]
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// A message that the bus has not taken; nobody gets it.
///
/// Its text says why and what to do. Only three kinds are worth trying again as they are:
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
    /// The draft was no message; the bus never saw it. Correct what its violations say.
    Build(BuildError),
    /// The message breaks rules, listed in the receipt's `errors`.
    Invalid(Box<Receipt>),
    /// This agent may not say this, or not to this recipient (`forbidden`, `unauthorized`).
    Forbidden(Box<Receipt>),
    /// There is no such agent.
    UnknownRecipient(Box<Receipt>),
    /// The task is unknown, another agent's, or cannot change in this way (`unknown_task`,
    /// `not_assignee`, `illegal_transition`).
    Task(Box<Receipt>),
    /// Too many messages; wait and send again.
    RateLimited {
        /// When the same message would pass.
        retry_after: Option<Duration>,
        /// The router's whole answer.
        receipt: Box<Receipt>,
    },
    /// The recipient's inbox is at its limit; wait and send again.
    QueueFull {
        /// When trying again makes sense.
        retry_after: Option<Duration>,
        /// The router's whole answer.
        receipt: Box<Receipt>,
    },
    /// The bus is stopping, or cannot write; wait and send again.
    Unavailable {
        /// When trying again makes sense.
        retry_after: Option<Duration>,
        /// The router's whole answer.
        receipt: Box<Receipt>,
    },
    /// The conversation was stopped because it went in circles.
    CircuitOpen(Box<Receipt>),
    /// The message's id was used before with another text or by another sender.
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
            // Accepted ones never come here.
            Outcome::Unavailable | Outcome::Delivered | Outcome::Queued | Outcome::Duplicate => {
                Self::Unavailable { retry_after, receipt }
            }
        }
    }

    /// The router's whole answer; `None` when the draft never became a message.
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

    /// What the router answered; `None` when the draft never became a message.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.receipt().map(|receipt| receipt.outcome)
    }

    /// Everything wrong with the draft or the message; empty for other refusals.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Build(error) => error.violations(),
            other => other.receipt().map_or(&[], |receipt| &receipt.errors),
        }
    }

    /// When trying again makes sense, if the bus said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.receipt()?.retry_after_ms.map(Duration::from_millis)
    }

    /// Whether the same message may pass later.
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
    /// What to do when the router gave no reason.
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
