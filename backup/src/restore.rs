//! Restores a verified backup into an empty or missing state folder.
//!
//! The staging folder is inside the state folder, which may be a mount point and could not be
//! renamed. While it exists, servers refuse to start there. The last step renames its entries.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::create::check_free_space;
use super::manifest::Manifest;
use super::staging::{StagingFolder, open_within};
use super::verify::compare;
use super::{BackupError, staging};
use a2a_journal::formats::RESTORING;
use a2a_journal::{FormatError, file_mode};

/// Restores a backup that [`super::verify_backup`] accepted. The next start of a server rebuilds
/// the index from the log.
///
/// # Errors
/// The folder is not empty, the disk fails, or the backup changed since it was verified. Nothing is
/// left behind.
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
    let restored = restore_files(from, state_dir, manifest);
    if restored.is_err() && is_new {
        // Only when it is empty.
        let _ = fs::remove_dir(state_dir);
    }
    restored.map_err(|error| error.needing(manifest.bytes(), state_dir))
}

/// Whether the folder exists; an error when it is not empty.
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
        // A new file system has this folder.
        if name != "lost+found" {
            return Err(BackupError::NotEmpty { path });
        }
    }
    Ok(true)
}

fn restore_files(from: &Path, state_dir: &Path, manifest: &Manifest) -> Result<(), BackupError> {
    check_free_space(state_dir, manifest.bytes())?;
    let mut staging = StagingFolder::new(state_dir.join(RESTORING))?;
    for file in &manifest.files {
        let path = from.join(&file.path);
        // Compared again: it may have changed since it was verified.
        let opened = open_within(from, &file.path)?;
        let copied = staging.copy_of(&file.path, &path, opened)?;
        compare(&path, file, &(copied.bytes, copied.sha256.clone()))?;
    }
    staging.move_into(state_dir)?;
    let parent = staging::parent(state_dir);
    // Makes the name of the state folder durable, too.
    fs::File::open(parent).and_then(|folder| folder.sync_all()).map_err(BackupError::at(parent))
}
