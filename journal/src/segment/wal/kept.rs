//! Keeps WAL files with frames that could not be replayed, under another name.
//!
//! Such a frame may be the only copy of accepted messages. Whether the log or the WAL file is the
//! right one cannot be decided here, so neither is removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Disk, OpenError};

/// Kept copies of each file: a server that restarts in a loop must not fill the disk.
const MOST: usize = 8;

/// Renames the WAL files and returns the new names. The same content is kept once.
///
/// # Errors
/// [`OpenError::TooManyKept`] when the limit is reached: no kept file is removed for another.
pub(crate) fn keep_aside(data: &Path, disk: &dyn Disk) -> Result<Vec<PathBuf>, OpenError> {
    let mut kept = Vec::new();
    for path in super::existing(data)? {
        let bytes = fs::read(&path)?;
        let Some(kept_path) = kept_path(&path, &bytes)? else {
            return Err(OpenError::TooManyKept { folder: data.into() });
        };
        disk.rename(&path, &kept_path)?;
        tracing::error!(
            file = %kept_path.display(),
            "kept, since it holds batches that are not in the log"
        );
        kept.push(kept_path);
    }
    disk.sync_dir(data)?;
    Ok(kept)
}

/// The first name that is free, or whose file has the same content.
fn kept_path(file: &Path, bytes: &[u8]) -> io::Result<Option<PathBuf>> {
    for n in 1..=MOST {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".kept-{n}"));
        let path = PathBuf::from(name);
        match fs::read(&path) {
            Ok(other) if other != bytes => {}
            Ok(_) => return Ok(Some(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(path)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
