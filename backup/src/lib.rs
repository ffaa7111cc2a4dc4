//! A copy of a state folder that a server can go on from: taken while one runs, checked, put back.
//!
//! ```text
//! take:     moment (tasks held still, lengths of the day files) ─▶ partial folder ─▶ verify ─▶ manifest ─▶ its name
//! check:    manifest ─▶ sizes and hashes ─▶ the chain of the log ─▶ SQLite's own check
//! restore:  check ─▶ aside in the state folder ─▶ moved to its place
//! ```
//!
//! What is copied is the log, the tasks, the heads that were noted and whatever files the caller
//! names. sled is left out: it is built from the log at the next start. Log and tasks are of one
//! moment, so what a backup holds is what a crash in that moment would have left, and the
//! next start deals with it in the same way.
//!
//! It has the layout of a state folder. Nothing here knows of configuration or tokens.

mod check;
mod cut;
mod error;
mod formats;
mod manifest;
mod partial;
mod restore;
mod take;

pub use check::check_backup;
pub use error::BackupError;
pub use formats::check_formats;
pub use manifest::{BackedUp, Manifest};
pub use restore::restore_backup;
pub use take::{Also, BackupJob, Cause, take_backup};
