//! The bus and the task service: actors that ask `policy`, write through `store` and deliver.
//!
//! ```text
//!  edge ──Route──▶ Router ──line──▶ tray ──▶ writer thread (fsync) ──Written──▶ Audit
//!                    ▲                  ┌───────────────────────────────────────┘
//!                    │ GaveUp           ├── receipt to the edge
//!                    └────── Session ◀──┘ the message lies on its desk
//!                              │ as many messages at once as it takes
//!                              ▼
//!                            Runtime (agents' code, on threads of its own)
//! ```
//!
//! Router, sessions and the front of the audit live on one thread and share plain cells;
//! agents' code and the disk have threads of their own, so neither can hold the bus up.
//! `system` alone knows everyone, wires them and stops them in order. Nothing public here
//! names actix.

mod bus;
pub mod tasks;

pub use a2a_journal::{EndedPart, Parts};
pub use bus::agent_runtime::{AgentRuntime, Failed, Handled, HandlerFuture};
pub use bus::commit::write_state::{STALLED, Writing};
pub use bus::histogram::{Histogram, HistogramSnapshot};
pub use bus::mailbox::AckHandle;
pub use bus::message::{Delivery, Submission};
pub use bus::router::{
    AgentView, BusLoad, CircuitView, DeadLetterView, DeliveryView, InboxError, InboxView, Presence,
    Reach, RegisterError, RemoveError, TaskFilter, TaskPlace, circuit_fact,
};
pub use bus::settings::{BusSettings, LiveSettings};
pub use bus::stats::Stats;
pub use bus::system::{BusSystem, BusThread, CancelError, RouterEnded, StartError, Stopped};
