//! Whether a backup is whole: every byte of it, the chain of its log, and its tasks.

use std::path::Path;

use super::BackupError;
use super::manifest::{BackedUp, Manifest};
use super::partial::{hash_of, open_within};
use a2a_journal::formats::refuse_newer;
use a2a_journal::verify_log;
use a2a_taskdb::{self as taskdb, TaskOpenError, TaskStoreError};

/// Checks everything about a backup; nothing in it is changed.
///
/// # Errors
/// The first thing that is wrong, or what cannot be read.
pub fn check_backup(folder: &Path) -> Result<Manifest, BackupError> {
    let manifest = Manifest::read(folder)?;
    for (part, found) in &manifest.formats {
        refuse_newer(folder, part, *found, Some(&manifest.program))?;
    }
    for file in &manifest.files {
        let path = folder.join(&file.path);
        let opened = open_within(folder, &file.path)?;
        let found = hash_of(opened).map_err(BackupError::at(&path))?;
        is_same(&path, file, &found)?;
    }
    let whole = verify_log(folder, &[manifest.head]).map_err(BackupError::Log)?;
    if whole.head != manifest.head {
        let what = format!("its log ends with {}, not with {}", whole.head, manifest.head);
        return Err(BackupError::Damaged { path: folder.to_owned(), what });
    }
    if manifest.holds(taskdb::FILE) {
        tasks(&folder.join(taskdb::FILE))?;
    }
    Ok(manifest)
}

/// Whether size and hash are those that were noted.
pub(super) fn is_same(
    path: &Path,
    noted: &BackedUp,
    (bytes, sha256): &(u64, String),
) -> Result<(), BackupError> {
    let what = if noted.bytes != *bytes {
        format!("it has {bytes} bytes instead of {}", noted.bytes)
    } else if noted.sha256 != *sha256 {
        "it does not fit its hash".to_owned()
    } else {
        return Ok(());
    };
    Err(BackupError::Damaged { path: path.to_owned(), what })
}

/// The schema of a copy of the tasks that is whole.
pub(super) fn tasks(path: &Path) -> Result<u32, BackupError> {
    taskdb::check_copy(path).map_err(|error| match error {
        TaskOpenError::Store(TaskStoreError::Damaged { what }) => {
            BackupError::Damaged { path: path.to_owned(), what }
        }
        error => BackupError::Tasks(error),
    })
}
