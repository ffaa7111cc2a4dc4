//! Message bus: router, mailboxes and the commit path, on one thread.
//!
//! ```text
//!  system     BusSystem: the handle of a running bus; start and stop in order
//!  router/    admits each message once: verdict of `policy`, receipt, record
//!  commit/    group commit: buffer, journal thread, effects of a commit
//!  mailbox/   durable messages per session: attempts, polls, acknowledgement, redelivery
//! ```
//!
//! A message takes this path: `BusSystem::send` ▶ `Router` ▶ `CommitBuffer` ▶ journal thread ▶
//! `CommitEffects` ▶ `Mailbox` ▶ `Session` ▶ agent ▶ `mailbox/acknowledge.rs`. The files beside the
//! folders are shared: `context` (state on the bus thread), `message` (submission, stored message
//! and delivery), `agent_runtime` (trait through which a session calls an agent's handler),
//! `settings`, `stats`, `histogram`, `notice`.

pub(crate) mod agent_runtime;
pub(crate) mod commit;
pub(crate) mod context;
pub(crate) mod histogram;
pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod notice;
pub(crate) mod router;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod system;
