//! Actors of the bus and of the task service: apply the decisions of `policy`, commit records to
//! the journal, deliver messages.
//!
//! ```text
//! caller ──Route──▶ Router ──record──▶ CommitBuffer ──▶ journal thread (fsync)
//!                     ▲                                        │ Committed
//!                     │ AttemptsExhausted                      ▼
//!                     │                ┌──────────────── CommitEffects
//!                     │                ├── receipt to the caller
//!                     └───── Session ◀─┘ delivery into the mailbox
//!                              │ up to `max_in_flight` messages at once
//!                              ▼
//!                            AgentRuntime (agents' code, on threads of its own)
//! ```
//!
//! Router, sessions and commit effects run on one thread and share plain cells. Agents' code and
//! the journal have threads of their own, so neither blocks the bus. `bus::system` wires the actors
//! and stops them in order. Nothing public here names actix.

mod bus;
pub mod tasks;

pub use a2a_journal::{EndedPart, Liveness};
pub use bus::agent_runtime::{AgentRuntime, Failed, Handled, HandlerFuture};
pub use bus::commit::write_state::{STALLED, Writing};
pub use bus::histogram::{Histogram, HistogramSnapshot};
pub use bus::mailbox::AckHandle;
pub use bus::message::{Delivery, Submission};
pub use bus::router::{
    AgentView, BusLoad, CircuitView, DeadLetterView, DeliveryView, InboxError, InboxView, Presence,
    ReachableAgents, RegisterError, RemoveError, TaskCursor, TaskFilter, circuit_fact,
};
pub use bus::settings::{BusSettings, LiveSettings};
pub use bus::stats::Stats;
pub use bus::system::{BusSystem, BusThread, CancelError, RouterEnded, StartError, Stopped};
