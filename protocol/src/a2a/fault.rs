//! Faults: the closed set of reasons why an A2A call fails. [`crate::wire`] maps them to codes.

use crate::Violation;

/// Why a call failed. Its text is returned to the caller and never contains internal causes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The task does not exist, or belongs to another caller.
    #[error("task {task} not found")]
    TaskNotFound {
        /// The value as the caller wrote it.
        task: String,
    },
    /// The objective does not exist, or belongs to another caller.
    #[error("objective {objective} not found")]
    ObjectiveNotFound {
        /// The value as the caller wrote it.
        objective: String,
    },
    /// The plan does not exist, or belongs to another caller.
    #[error("plan {plan} not found")]
    PlanNotFound {
        /// The value as the caller wrote it.
        plan: String,
    },
    /// The task has ended.
    #[error("task {task} is {state} and cannot be cancelled any more")]
    TaskNotCancelable {
        /// The task's id.
        task: String,
        /// Name of its state.
        state: &'static str,
    },
    /// Push notifications are disabled, or this one is not possible.
    #[error("push notifications are not supported by this agent")]
    PushNotSupported,
    /// The push notification configuration does not exist.
    #[error("task {task} has no push notification configuration {id}")]
    PushNotFound {
        /// The task's id.
        task: String,
        /// The configuration's id.
        id: String,
    },
    /// The agent or the task does not support the operation, at least not now.
    #[error("{reason}")]
    Unsupported {
        /// The reason, and what to do instead.
        reason: String,
    },
    /// The agent accepts or produces none of the media types.
    #[error("{reason}")]
    ContentType {
        /// The media types, and those that it accepts.
        reason: String,
    },
    /// The agent's response is invalid.
    #[error("{reason}")]
    InvalidAgentResponse {
        /// The reason.
        reason: String,
    },
    /// The agent has no extended card.
    #[error("this agent has no extended card")]
    NoExtendedCard,
    /// An extension that the agent requires is not activated.
    #[error("the extension {uri} must be activated: send it in the A2A-Extensions header")]
    ExtensionRequired {
        /// The extension's URI.
        uri: String,
    },
    /// The A2A version is not supported.
    #[error("A2A-Version {version} is not supported; this server speaks 0.3 and 1.0")]
    VersionNotSupported {
        /// The value as the caller wrote it.
        version: String,
    },
    /// The agent does not exist, or is not visible to the caller.
    #[error("{reason}")]
    NoSuchAgent {
        /// The value as the caller wrote it.
        agent: String,
        /// A sentence that may suggest a similar name.
        reason: String,
    },
    /// The parameters are invalid.
    #[error("{}", first_of(.0))]
    InvalidParams(Vec<Violation>),
    /// The message's id was used before for a message with other content.
    #[error(
        "the message {message} was sent before with other content; give every new message an id \
         of its own, and repeat a message as it was"
    )]
    MessageConflict {
        /// The message's id.
        message: String,
    },
    /// The queue of the conversation is full.
    #[error("{limit} tasks wait in this context already; try again when some are done")]
    QueueFull {
        /// Maximum number of waiting tasks.
        limit: usize,
        /// Milliseconds to wait before a retry.
        retry_after_ms: u64,
    },
    /// The caller exceeds a rate limit.
    #[error("{reason}")]
    RateLimited {
        /// The limit.
        reason: String,
        /// Milliseconds to wait before a retry.
        retry_after_ms: u64,
    },
    /// The circuit breaker has stopped the conversation because it was looping.
    #[error("{reason}")]
    CircuitOpen {
        /// What the breaker detected.
        reason: String,
        /// Milliseconds to wait before a retry.
        retry_after_ms: Option<u64>,
    },
    /// A rule of access forbids the call.
    #[error("{reason}")]
    Forbidden {
        /// The rule.
        reason: String,
    },
    /// The server is shutting down, or cannot write to its disk.
    #[error("{reason}")]
    Unavailable {
        /// The reason.
        reason: String,
        /// Milliseconds to wait before a retry.
        retry_after_ms: u64,
    },
    /// Internal error; the log has the details.
    #[error("something went wrong inside the server; its log says what")]
    Internal,
}

impl Fault {
    /// The fault for an unknown agent, without a suggestion.
    #[must_use]
    pub fn no_such_agent(agent: &str) -> Self {
        // The name comes from the caller and is repeated in the reply, so its length is limited.
        let agent: String = agent.chars().take(100).collect();
        Self::NoSuchAgent { reason: format!("there is no agent {agent}"), agent }
    }
}

fn first_of(violations: &[Violation]) -> String {
    match violations {
        [] => "the parameters break a rule".into(),
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}
