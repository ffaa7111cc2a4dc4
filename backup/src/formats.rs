//! Refuses a state folder of which any part has a newer format than this program knows.

use std::path::Path;

use a2a_journal::FormatError;
use a2a_journal::formats::{Part, check_noted, refuse_newer};

/// Makes sure that this program knows the format of every part of a state folder. Nothing is
/// opened for writing, and nothing is made.
///
/// # Errors
/// The part that is newer, or a restore that was cut off.
pub fn check_formats(state_dir: &Path) -> Result<(), FormatError> {
    let program = check_noted(state_dir)?;
    // What was put there by hand is not noted.
    if let Some(found) = a2a_taskdb::schema_of(state_dir) {
        refuse_newer(state_dir, Part::Tasks.name(), found, program.as_deref())?;
    }
    Ok(())
}
