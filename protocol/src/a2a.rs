//! A2A domain model: tasks, calls, faults, the agent card and task progress.
//!
//! There is one model for all versions of A2A. Its serde form is that of A2A 1.0; version 0.3
//! exists only in [`crate::wire`]. Nothing here refers to methods, error codes or transports.
//!
//! - `task`, `part`: tasks, messages, artifacts and their parts.
//! - `operation`: what a client can request, the replies and the stream events.
//! - `fault`: every way a call can fail.
//! - `card`: the agent card, for clients of both versions.
//! - `progress`: the task-progress extension.
//! - `extension_filter`: removes an extension's metadata for callers that did not activate it.

pub mod card;
mod extension_filter;
pub mod fault;
pub mod operation;
mod part;
pub(crate) mod progress;
pub mod task;
