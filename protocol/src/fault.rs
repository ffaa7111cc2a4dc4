//! Everything that can go wrong with an A2A call, as data; [`crate::wire`] alone knows the codes.

use crate::Violation;

/// Why a call was not done. Its text goes to the caller and never carries a cause from inside.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// There is no such task, or it is not the caller's.
    #[error("task {task} not found")]
    TaskNotFound {
        /// As the caller wrote it.
        task: String,
    },
    /// There is no such objective, or it is not the caller's.
    #[error("objective {objective} not found")]
    ObjectiveNotFound {
        /// As the caller wrote it.
        objective: String,
    },
    /// There is no such plan, or it is not the caller's.
    #[error("plan {plan} not found")]
    PlanNotFound {
        /// As the caller wrote it.
        plan: String,
    },
    /// It has ended.
    #[error("task {task} is {state} and cannot be cancelled any more")]
    TaskNotCancelable {
        /// Which.
        task: String,
        /// The word for its state.
        state: &'static str,
    },
    /// Push notifications are switched off, or this one is not possible.
    #[error("push notifications are not supported by this agent")]
    PushNotSupported,
    /// There is no such wish to be told.
    #[error("task {task} has no push notification configuration {id}")]
    PushNotFound {
        /// The task.
        task: String,
        /// The name.
        id: String,
    },
    /// The agent or the task does not do that (now).
    #[error("{reason}")]
    Unsupported {
        /// Why, and what to do instead.
        reason: String,
    },
    /// The agent takes or gives none of these media types.
    #[error("{reason}")]
    ContentType {
        /// Which, and which it takes.
        reason: String,
    },
    /// The agent answered something that makes no sense.
    #[error("{reason}")]
    InvalidAgentResponse {
        /// What.
        reason: String,
    },
    /// There is no extended card.
    #[error("this agent has no extended card")]
    NoExtendedCard,
    /// An extension that the agent requires is not activated.
    #[error("the extension {uri} must be activated: send it in the A2A-Extensions header")]
    ExtensionRequired {
        /// Which.
        uri: String,
    },
    /// A version nobody here speaks.
    #[error("A2A-Version {version} is not supported; this server speaks 0.3 and 1.0")]
    VersionNotSupported {
        /// As the caller wrote it.
        version: String,
    },
    /// There is no such agent, or the caller may not know it.
    #[error("{reason}")]
    NoSuchAgent {
        /// As the caller wrote it.
        agent: String,
        /// That, and what may have been meant.
        reason: String,
    },
    /// The parameters break rules.
    #[error("{}", first_of(.0))]
    InvalidParams(Vec<Violation>),
    /// The message's id was used before, for a message that says something else.
    #[error(
        "the message {message} was sent before with other content; give every new message an id \
         of its own, and repeat a message as it was"
    )]
    MessageConflict {
        /// Its id.
        message: String,
    },
    /// As many tasks wait in this conversation as may.
    #[error("{limit} tasks wait in this context already; try again when some are done")]
    QueueFull {
        /// How many may.
        limit: usize,
        /// When trying again makes sense.
        retry_after_ms: u64,
    },
    /// The caller asks too often.
    #[error("{reason}")]
    RateLimited {
        /// Which limit.
        reason: String,
        /// When trying again makes sense.
        retry_after_ms: u64,
    },
    /// What the caller says goes in circles and was stopped.
    #[error("{reason}")]
    CircuitOpen {
        /// What was seen.
        reason: String,
        /// When trying again makes sense.
        retry_after_ms: Option<u64>,
    },
    /// A rule of access.
    #[error("{reason}")]
    Forbidden {
        /// Which.
        reason: String,
    },
    /// Stopping, or the disk is full.
    #[error("{reason}")]
    Unavailable {
        /// What.
        reason: String,
        /// When trying again makes sense.
        retry_after_ms: u64,
    },
    /// Something broke inside; the log says what.
    #[error("something went wrong inside the server; its log says what")]
    Internal,
}

impl Fault {
    /// For an agent of which nothing more can be said.
    #[must_use]
    pub fn no_such_agent(agent: &str) -> Self {
        // As long as any name may be, and no longer.
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
