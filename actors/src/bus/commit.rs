//! Commit path: group commit of records, and their effects once they are durable.
//!
//! ```text
//! Router, Session ──append──▶ CommitBuffer ──Job──▶ journal thread ──▶ CommitEffects
//!                             (bus thread,          (batch, fsync)    Committed or
//!                              2 ms at most)                          CommitFailed
//! ```
//!
//! - `buffer` collects the records of one turn of the bus thread, so that they share one commit.
//! - `writer` runs the journal thread: it commits all that waits in one batch.
//! - `effects` sends receipts, delivers messages and resolves acknowledgements after a commit.
//!   After a failed one it reverts the admissions and answers `unavailable`. Nothing is visible
//!   before it is durable.
//! - `write_state` publishes whether the journal can be written, for readiness.

pub(crate) mod buffer;
pub(crate) mod effects;
pub(crate) mod write_state;
pub(crate) mod writer;
