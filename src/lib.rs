//! The message bus that teams of AI agents run on.
//!
//! Agents exchange the seven typed messages of `openclaw.a2a.v1` ([`protocol`]). A message
//! that was accepted is on disk, reaches its recipient, and is never redelivered after the
//! recipient acknowledged it.
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
//! All of that is the crate `a2a-sdk`, re-exported here. This package also contains the
//! `openclaw-a2a` program; a program of your own that needs only the bus depends on `a2a-sdk`
//! and compiles no HTTP and no command line.

pub use a2a_sdk::*;

pub mod agents;
pub mod config;

/// The Rust of the README and the guides, compiled, and run unless marked `no_run`.
#[cfg(doctest)]
mod shown {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/guides/rust-agent.md")]
    struct RustAgent;
    #[doc = include_str!("../docs/progress.md")]
    struct Progress;
}
