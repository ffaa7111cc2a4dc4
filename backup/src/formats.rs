//! Format check of a state folder: refuses one that a newer version wrote.

use std::path::Path;

use a2a_journal::FormatError;
use a2a_journal::formats::{Part, check_listed_formats, refuse_newer};

/// Checks that this program supports the format of every part of a state folder. Creates no files
/// and opens none for writing.
///
/// # Errors
/// A part with a newer format, or an interrupted restore.
pub fn check_formats(state_dir: &Path) -> Result<(), FormatError> {
    let program = check_listed_formats(state_dir)?;
    // A file copied there by hand is not in the list of formats.
    if let Some(found) = a2a_taskdb::schema_of(state_dir) {
        refuse_newer(state_dir, Part::Tasks.name(), found, program.as_deref())?;
    }
    Ok(())
}
