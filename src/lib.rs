//! The message bus that teams of AI agents run on.
//!
//! Today this library holds the words agents speak: the seven typed messages of
//! `openclaw.a2a.v1`, their strict validation and their JSON Schemas, all in
//! [`protocol`]. The `openclaw-a2a` program validates messages and prints schemas.
//!
//! ```
//! use openclaw_a2a::protocol::{Envelope, Kind};
//!
//! let message = Kind::TaskRequest.example_message();
//! let bytes = serde_json::to_vec(&message).unwrap();
//! assert_eq!(Envelope::parse(&bytes), Ok(message));
//! ```

/// The words: messages, their rules, their schemas.
pub use a2a_protocol as protocol;

/// The README's Rust example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
