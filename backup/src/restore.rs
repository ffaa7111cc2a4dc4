//! Putting a backup back into a folder that is empty or not there.
//!
//! Everything was checked before. It is put together inside the folder, under a name that
//! keeps every server out (`format`), since the folder itself may be the root of a disk and
//! could not be moved to its place. The last step is a few renames.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::check::is_same;
use super::manifest::Manifest;
use super::partial::{Partial, open_within};
use super::take::must_have_room;
use super::{BackupError, partial};
use a2a_journal::formats::RESTORING;
use a2a_journal::{FormatError, file_mode};

/// Restores a backup that [`super::check_backup`] found whole, as it was then. The index is built
/// from the log when a server is started there.
///
/// # Errors
/// What is wrong with the folder, or has changed in the backup. Nothing is left behind.
pub fn restore_backup(
    from: &Path,
    manifest: &Manifest,
    state_dir: &Path,
) -> Result<(), BackupError> {
    let is_new = !must_be_empty(state_dir)?;
    if is_new {
        let made = DirBuilder::new().recursive(true).mode(file_mode::FOLDER).create(state_dir);
        made.map_err(BackupError::at(state_dir))?;
    }
    let restored = put(from, state_dir, manifest);
    if restored.is_err() && is_new {
        // It was not there before; if something is in it by now, it stays.
        let _ = fs::remove_dir(state_dir);
    }
    restored.map_err(|error| error.needing(manifest.bytes(), state_dir))
}

/// Whether the folder is there; what is in it must not be lost or mixed with something else.
fn must_be_empty(state_dir: &Path) -> Result<bool, BackupError> {
    let entries = match fs::read_dir(state_dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(BackupError::at(state_dir))?,
    };
    for entry in entries {
        let name = entry.map_err(BackupError::at(state_dir))?.file_name();
        let path = state_dir.to_owned();
        if name == RESTORING {
            return Err(BackupError::Format(FormatError::Unfinished { path }));
        }
        // Every new disk has one.
        if name != "lost+found" {
            return Err(BackupError::NotEmpty { path });
        }
    }
    Ok(true)
}

fn put(from: &Path, state_dir: &Path, manifest: &Manifest) -> Result<(), BackupError> {
    must_have_room(state_dir, manifest.bytes())?;
    let mut partial = Partial::new(state_dir.join(RESTORING))?;
    for file in &manifest.files {
        let path = from.join(&file.path);
        // Once more: it may have changed since it was checked.
        let opened = open_within(from, &file.path)?;
        let copied = partial.copy_of(&file.path, &path, opened)?;
        is_same(&path, file, &(copied.bytes, copied.sha256.clone()))?;
    }
    partial.move_into(state_dir)?;
    let above = partial::parent(state_dir);
    // The folder itself may be new.
    fs::File::open(above).and_then(|above| above.sync_all()).map_err(BackupError::at(above))
}
