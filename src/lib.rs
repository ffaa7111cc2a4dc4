//! The message bus that teams of AI agents run on.
//!
//! Agents exchange the seven typed messages of `openclaw.a2a.v1` ([`protocol`]). A message
//! that was accepted is on disk, reaches its recipient, and is never handed out again once
//! the recipient is done with it.
//!
//! ```
//! use openclaw_a2a::{Agent, Bus, Delivery, NewTask, SendError};
//!
//! /// A handler is an async function; when it returns, the message is done.
//! async fn count(tim: Agent, delivery: Delivery) -> Result<(), SendError> {
//!     tim.accept(&delivery).await?;
//!     tim.complete(&delivery, "There are seven.").await?;
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "multi_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bus = Bus::builder().in_memory().start()?;
//! bus.attach("tim", count).await?;
//! let roman = bus.connect("roman").await?;
//!
//! let task = NewTask::new("Count the kinds", "How many kinds of message are there?");
//! let mut work = roman.request_task("tim", task).await?;
//! assert_eq!(work.result().await?.summary(), "There are seven.");
//! bus.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! An agent says things with [`Agent`], one method per kind of message, from drafts such as
//! [`NewTask`]. It hears things through a [`Handler`]: an async function, or [`Handlers`] for
//! one function per kind. Whoever asked for a task watches it with [`TaskHandle`].

mod sdk;

/// The words: messages, their rules, their schemas.
pub use a2a_protocol as protocol;

pub use a2a_actors::{
    AgentView, BusSettings, CancelError, CircuitView, DeadLetterView, Delivery, InboxError,
    Presence, RegisterError, Stopped,
};
pub use a2a_journal::Retention;
pub use a2a_policy::{
    AccessRules, BreakerSettings, Circuit, CircuitKey, CircuitState, Explanation, LedgerRefusal,
    LedgerSettings, Profile, RateSettings, RetryPolicy, Rule, Selector, Task, TripReason,
};
pub use sdk::{
    A2aRequest, Addressee, Agent, Announcement, Answer, AttachError, BuildError, Bus, BusBuilder,
    Draft, Finished, FollowUp, Handler, Handlers, Knowledge, NewReview, NewTask, OpenBusError,
    Operator, ProgressBars, REFERENCE_EXTENSION, ReviewAnswer, SendError, Sent, StatusReport,
    TaskAnswer, TaskError, TaskHandle, TaskUpdate, When, parse_message,
};

/// The words that the drafts and handlers use, so that most programs need only this crate's root.
pub use a2a_protocol::{
    Priority, Progress, ProgressAggregate, ProgressTracker, TrackerStatus,
    body::{
        Broadcast, Complexity, KnowledgeShare, ReviewRequest, ReviewResponse, Scope, Severity,
        Status, StatusUpdate, TaskRequest, TaskResponse, TaskType, Urgency, Verdict,
    },
};

/// Agents, configuration, HTTP, tokens and webhooks: the parts of the `openclaw-a2a` program
/// that need no command line.
#[doc(hidden)]
pub mod agents;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod gateway;
#[doc(hidden)]
pub mod tokens;
#[doc(hidden)]
pub mod webhooks;

/// The Rust in the README and the guides, compiled and where it says so run.
#[cfg(doctest)]
mod shown {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/guides/rust-agent.md")]
    struct RustAgent;
    #[doc = include_str!("../docs/progress.md")]
    struct Progress;
}
