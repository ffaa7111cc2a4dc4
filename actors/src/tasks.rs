//! Task service: A2A tasks, kept in a database and executed by agents over the bus.
//!
//! ```text
//!  gateway ─ TaskSystem ─▶ Service ──write──▶ store thread (SQLite, group commit)
//!                │          ▲  ▲                   │
//!                │ assess   │  └────Committed──────┘  ─▶ replies, events, webhooks
//!                ▼          │ AgentReply                then: task_request to the agent
//!             the bus ──▶ ReplyInterceptor
//! ```
//!
//! - `system`: [`TaskSystem`], the handle that gateways call; reads the store itself.
//! - `service`: the one actor that changes tasks. A change is committed before a caller, a
//!   subscriber or the agent gets it.
//! - `objectives`: plans whose steps are tasks.
//! - `reply_interceptor`: takes the agents' answers from the bus before any session gets them.
//! - `store_writer`: the store thread. `recovery`: the start after a stop or a crash.
//! - `new_task`, `outgoing`: build tasks and the bus messages about them.
//!
//! The service uses the bus like any agent, in the name of the caller.

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

pub use service::subscribers::TaskEvent;
pub use settings::{AfterRestart, LiveTaskSettings, TaskSettings};
pub use stats::{TaskEnd, TaskLoad, TaskStats};
pub use system::subscribe::TaskStream;
pub use system::{SendOutcome, StartTasksError, TaskCaller, TaskJoinHandle, TaskSystem};
