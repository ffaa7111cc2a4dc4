//! The message bus: router, mailboxes and the commit path, on one thread.

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
