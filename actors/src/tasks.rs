//! The task service: A2A tasks live outside sessions, and reach them over the bus.
//!
//! ```text
//!  edge ─ TaskSystem ─▶ Service ──write──▶ writer thread (SQLite, one commit for all that waits)
//!             │            ▲  ▲                   │
//!             │ assess     │  └─────Committed─────┘  ─▶ waiters, watchers, webhooks
//!             ▼            │ Hear                       then: task_request to the agent's session
//!          the bus ──▶ Clerk (takes the answers to the service's own requests)
//! ```
//!
//! [`TaskSystem`] is what edges hold. The service is one actor and the only one that changes
//! tasks; nothing is told to anybody before it is durable. It knows the bus as any agent does.

mod ahead;
mod clerk;
mod compose;
mod made;
mod objectives;
mod rebuilt;
mod refused;
mod service;
mod settings;
mod stats;
mod system;
mod watch;
mod writer;

pub use settings::{AfterRestart, LiveTaskSettings, TaskSettings};
pub use stats::{TaskEnd, TaskLoad, TaskStats};
pub use system::{Sent, StartTasksError, TaskCaller, TaskSystem, TaskWork};
pub use watch::{Happened, TaskStream};
