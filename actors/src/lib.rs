//! The bus: actors that ask `policy`, write through `store` and hand messages over.
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

mod audit;
mod clock;
mod desk;
mod histogram;
mod letter;
mod lodging;
mod notice;
mod reply;
mod router;
mod runtime;
mod session;
mod settings;
mod shared;
mod stats;
mod system;
pub mod tasks;
mod tray;
mod write_state;
mod writer;

pub use a2a_store::{EndedPart, Parts};
pub use histogram::{Classes, Histogram};
pub use letter::{Letter, Parcel};
pub use router::{
    AgentView, BusLoad, CircuitView, DeadLetterView, InboxError, InboxView, LetterView, Presence,
    Reach, RegisterError, RemoveError, TaskFilter, TaskPlace, circuit_fact,
};
pub use runtime::{Failed, Handled, HandlerFuture, Runtime};
pub use session::Ticket;
pub use settings::{BusSettings, LiveSettings};
pub use stats::Stats;
pub use system::{BusSystem, BusThread, CancelError, RouterEnded, StartError, Stopped};
pub use write_state::{STALLED, Writing};
