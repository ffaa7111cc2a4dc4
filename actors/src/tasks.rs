//! The task service: A2A tasks live outside sessions, and reach them over the bus.
//!
//! ```text
//!  edge ─ TaskSystem ─▶ Service ──write──▶ writer thread (SQLite, one commit for all that waits)
//!             │            ▲  ▲                   │
//!             │ assess     │  └─────Committed─────┘  ─▶ waiters, watchers, webhooks
//!             ▼            │ AgentReply                       then: task_request to the agent's session
//!          the bus ──▶ ReplyInterceptor (takes the answers to the service's own requests)
//! ```
//!
//! [`TaskSystem`] is what edges hold. The service is one actor and the only one that changes
//! tasks; nothing is told to anybody before it is durable. It knows the bus as any agent does.

mod new_task;
mod objectives;
mod outgoing;
mod recovery;
mod reply_interceptor;
mod service;
mod settings;
mod stats;
mod store_writer;
mod system;
mod watch;

pub use settings::{AfterRestart, LiveTaskSettings, TaskSettings};
pub use stats::{TaskEnd, TaskLoad, TaskStats};
pub use system::{SendOutcome, StartTasksError, TaskCaller, TaskJoinHandle, TaskSystem};
pub use watch::{TaskEvent, TaskStream};
