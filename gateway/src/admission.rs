//! Admission of requests: middleware that every request passes before its handler, and quotas of
//! streams, waiting calls and unread bytes.
//!
//! ```text
//! connections   one entry per TCP connection: eviction, idle and stalled deadlines
//! guard         middleware: permit, head size, Host, Origin, body deadline
//!   permits     semaphores of working requests, with reserves for health checks and operators
//!   origins     which names and pages are the server's own
//!   body        request bodies with a deadline, response bodies that track their reader
//! quota         streams, waiting calls and unread bytes, per caller and in all
//! waiting_call  a call that waits for an event: holds a share instead of a permit
//! ```

pub(crate) mod body;
mod connection;
pub(crate) mod connections;
pub(crate) mod guard;
mod origins;
mod permits;
pub(crate) mod quota;
pub(crate) mod waiting_call;
