//! Rooms of which a frame was left out: they are kept, under another name.
//!
//! What was left out may be the only copy of messages that were accepted. Whether the log or the
//! room is the right one cannot be decided here, so neither is removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Disk, OpenError};

/// Of each room, so that a server that starts again and again does not fill the disk.
const MOST: usize = 8;

/// Gives both rooms other names; returns these. The same content is kept once.
///
/// # Errors
/// When as many are kept as may be: nothing is removed to make room for more.
pub(crate) fn keep_aside(data: &Path, disk: &dyn Disk) -> Result<Vec<PathBuf>, OpenError> {
    let mut kept = Vec::new();
    for room in super::rooms(data) {
        if !fs::exists(&room)? {
            continue;
        }
        let bytes = fs::read(&room)?;
        let place = place(&room, &bytes)?;
        let Some(place) = place else { return Err(OpenError::TooManyKept { folder: data.into() }) };
        disk.rename(&room, &place)?;
        tracing::error!(
            file = %place.display(),
            "kept, since it holds batches that are not in the log"
        );
        kept.push(place);
    }
    disk.sync_dir(data)?;
    Ok(kept)
}

/// The first name that is free, or has the same content.
fn place(room: &Path, bytes: &[u8]) -> io::Result<Option<PathBuf>> {
    for n in 1..=MOST {
        let mut name = room.as_os_str().to_owned();
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
