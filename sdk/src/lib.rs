//! The library for authors of agents: a bus in this process, agents attached to it, messages
//! sent and handled.
//!
//! Agents exchange the seven typed messages of `openclaw.a2a.v1` ([`protocol`]). The bus sends the
//! receipt once the message is durable (with [`in_memory`](BusBuilder::in_memory): stored in
//! memory). It redelivers until the recipient acknowledges, and makes the message a dead letter
//! after the last attempt.
//!
//! ```
//! use a2a_sdk::{Agent, Bus, Delivery, NewTask, SendError};
//!
//! /// A handler is an async function; returning acknowledges the message.
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
//! [`Agent`] sends, with one method per kind of message, drafts such as [`NewTask`]. A [`Handler`]
//! receives: an async function, or [`Handlers`] for one function per kind. The requester of a task
//! watches it with [`TaskHandle`].

mod a2a;
mod agent;
mod bus;
mod draft;
mod handler;
mod handlers;
mod oversight;
mod progress;
mod send;
mod sent;
mod task_handle;
mod task_watch;
mod trace;

pub use a2a::{A2aRequest, REFERENCE_EXTENSION};
pub use agent::Agent;
pub use bus::{AttachError, Bus, BusBuilder, OpenBusError};
pub use draft::{
    Addressee, Announcement, BuildError, Draft, FollowUp, Knowledge, NewReview, NewTask,
    ReviewAnswer, StatusReport, TaskAnswer, When,
};
pub use handler::{Handler, HandlerResult, InlineAnswer};
pub use handlers::Handlers;
pub use oversight::Operator;
pub use progress::ProgressBars;
pub use send::parse_message;
pub use sent::{SendError, Sent};
pub use task_handle::{Finished, TaskError, TaskHandle, TaskUpdate};

/// Message types, their validation and their JSON Schemas.
pub use a2a_protocol as protocol;

pub use a2a_actors::{
    AgentView, BusSettings, CancelError, CircuitView, DeadLetterView, Delivery, InboxError,
    Presence, RegisterError, Stopped,
};
pub use a2a_journal::Retention;
pub use a2a_policy::{
    AccessRules, Assignment, BreakerSettings, Circuit, CircuitKey, CircuitState, Explanation,
    LedgerRefusal, LedgerSettings, Profile, RateSettings, RetryPolicy, Rule, Selector, TripReason,
};

/// Types that drafts and handlers use, so that most programs need only the root of this crate.
pub use a2a_protocol::{
    Priority, Progress, ProgressAggregate, ProgressTracker, TrackerStatus,
    body::{
        Broadcast, Complexity, KnowledgeShare, ReviewRequest, ReviewResponse, Scope, Severity,
        Status, StatusUpdate, TaskRequest, TaskResponse, TaskType, Urgency, Verdict,
    },
};
