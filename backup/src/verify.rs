//! Verifies a backup: sizes and hashes of its files, the hash chain of its log, its task database.

use std::path::Path;

use super::BackupError;
use super::manifest::{Manifest, ManifestEntry};
use super::staging::{hash_of, open_within};
use a2a_journal::formats::refuse_newer;
use a2a_journal::verify_log;
use a2a_taskdb::{self as taskdb, TaskOpenError, TaskStoreError};

/// Verifies a backup without changing it.
///
/// # Errors
/// The first fault found, or a file that cannot be read.
pub fn verify_backup(folder: &Path) -> Result<Manifest, BackupError> {
    let manifest = Manifest::read(folder)?;
    for (part, found) in &manifest.formats {
        refuse_newer(folder, part, *found, Some(&manifest.program))?;
    }
    for file in &manifest.files {
        let path = folder.join(&file.path);
        let opened = open_within(folder, &file.path)?;
        let found = hash_of(opened).map_err(BackupError::at(&path))?;
        compare(&path, file, &found)?;
    }
    let verified = verify_log(folder, &[manifest.head]).map_err(BackupError::Log)?;
    if verified.head != manifest.head {
        let what = format!("its log ends with {}, not with {}", verified.head, manifest.head);
        return Err(BackupError::Damaged { path: folder.to_owned(), what });
    }
    if manifest.holds(taskdb::FILE) {
        check_tasks(&folder.join(taskdb::FILE))?;
    }
    Ok(manifest)
}

/// Compares size and hash with the manifest entry.
pub(super) fn compare(
    path: &Path,
    expected: &ManifestEntry,
    (bytes, sha256): &(u64, String),
) -> Result<(), BackupError> {
    let what = if expected.bytes != *bytes {
        format!("it has {bytes} bytes instead of {}", expected.bytes)
    } else if expected.sha256 != *sha256 {
        "it does not fit its hash".to_owned()
    } else {
        return Ok(());
    };
    Err(BackupError::Damaged { path: path.to_owned(), what })
}

/// Checks a copy of the task database and returns its schema version.
pub(super) fn check_tasks(path: &Path) -> Result<u32, BackupError> {
    taskdb::check_snapshot(path).map_err(|error| match error {
        TaskOpenError::Store(TaskStoreError::Damaged { what }) => {
            BackupError::Damaged { path: path.to_owned(), what }
        }
        error => BackupError::Tasks(error),
    })
}
