//! The message bus that teams of AI agents run on.
//!
//! Agents exchange the seven typed messages of `openclaw.a2a.v1` ([`protocol`]). A message
//! that was accepted is on disk, reaches its recipient, and is never handed out again once
//! the recipient is done with it.
//!
//! ```
//! use openclaw_a2a::protocol::body::Broadcast;
//! use openclaw_a2a::{Bus, Letter};
//!
//! # #[tokio::main(flavor = "multi_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bus = Bus::builder().in_memory().start()?;
//! let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
//! bus.attach("tim", move |letter: Letter| {
//!     let told = told.clone();
//!     async move {
//!         told.send(letter.sender.to_string()).ok();
//!     }
//! })
//! .await?;
//! let roman = bus.attach("roman", |_: Letter| async {}).await?;
//!
//! let freeze: Broadcast = serde_json::from_str(
//!     r#"{"scope": "org", "topic": "freeze", "message": "No merges today", "urgency": "fyi"}"#,
//! )?;
//! let receipt = roman.send(roman.compose(None, freeze)).await;
//! assert!(receipt.outcome.is_accepted());
//! assert_eq!(hears.recv().await.as_deref(), Some("roman"));
//! bus.stop().await;
//! # Ok(())
//! # }
//! ```

mod sdk;

/// The words: messages, their rules, their schemas.
pub use a2a_protocol as protocol;

pub use a2a_actors::{AgentView, BusSettings, DeadLetterView, InboxError, Letter, Stopped};
pub use a2a_policy::{Profile, RateSettings, RetryPolicy};
pub use sdk::{Agent, Answer, AttachError, Bus, BusBuilder, Handler, OpenBusError};

/// Configuration and HTTP: the parts of the `openclaw-a2a` program that need no command line.
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod gateway;

/// The README's Rust example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
