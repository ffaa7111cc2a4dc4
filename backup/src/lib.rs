//! Backup and restore of a state folder, with or without a running server.
//!
//! ```text
//! create:   snapshot of log and tasks ─▶ staging folder ─▶ verify ─▶ manifest ─▶ rename
//! verify:   manifest ─▶ sizes and hashes ─▶ hash chain of the log ─▶ SQLite's check
//! restore:  verify ─▶ staging folder inside the state folder ─▶ rename
//! ```
//!
//! - A backup has the layout of a state folder. It contains the log, the task database, the head
//!   file and the extra files that the caller names.
//! - The index is left out: the next start rebuilds it from the log.
//! - Log and task database are of one moment, so a backup holds what a crash at that moment would
//!   have left, and the next start recovers it in the same way.
//! - Configuration and tokens are the caller's business.

mod create;
mod error;
mod formats;
mod log_snapshot;
mod manifest;
mod restore;
mod staging;
mod verify;

pub use create::{BackupJob, Cause, ExtraFile, create_backup};
pub use error::BackupError;
pub use formats::check_formats;
pub use manifest::{Manifest, ManifestEntry};
pub use restore::restore_backup;
pub use verify::verify_backup;
