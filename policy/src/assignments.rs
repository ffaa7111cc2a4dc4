//! The task ledger: assignments between two agents on the bus, and the state of each.
//!
//! ```text
//! check        does a message match the ledger, and what would it change
//! ledger       applies changes, undoes those that did not become durable, tracks deadlines
//! transitions  which transition is allowed in which state: two tables
//! assignment   one assignment, as JSON for people and for the journal
//! ```
//!
//! An assignment is a task that one agent requests from another with a `task_request`; an A2A task
//! of a client is in `crate::tasks`. [`Ledger::check`] runs during admission and changes nothing.
//! [`Ledger::apply`] runs when the message is admitted, and [`Ledger::undo`] when the journal did
//! not make it durable.

mod assignment;
mod check;
mod ledger;
#[cfg(test)]
mod tests;
mod transitions;

pub use assignment::{Assignment, Proposal, Review};
pub use check::LedgerRefusal;
pub use ledger::{Change, Ledger, LedgerSettings, Undo};
pub use transitions::{REVIEW_TRANSITIONS, TRANSITIONS, Transition};
