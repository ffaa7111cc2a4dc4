//! File modes of the state folder: folders are 0700, files 0600.
//!
//! Everything is created so. Modes that an older version, a copy or a person left open are restricted
//! at the start ([`close_to_others`]). Only files of this program are changed: other programs of the
//! same user may share the state folder.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Mode of every created file.
pub const FILE: u32 = 0o600;
/// Mode of every created folder.
pub const FOLDER: u32 = 0o700;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
/// Sticky bit: any user may create files in such a folder (`/tmp`), so that it is shared.
const STICKY: u32 = 0o1000;

/// Options that create a file readable by its owner alone.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Creates a file, or truncates it.
///
/// # Errors
/// When the disk fails.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Creates a folder and its missing parents.
///
/// # Errors
/// When the disk fails.
pub fn create_dir_all(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(dir)
}

/// A file or folder of this program that other users can access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed {
    /// Its path.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
}

/// Lists what other users can access in a state folder, the folder itself first. Links are not
/// followed, and entries of other users are not listed, as they cannot be changed.
///
/// # Errors
/// When the folder cannot be read. A missing folder exposes nothing.
pub fn exposed(state_dir: &Path) -> io::Result<Vec<Exposed>> {
    let mut found = ExposureScan { me: rustix::process::geteuid().as_raw(), exposed: Vec::new() };
    let top = match fs::metadata(state_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        top => top?,
    };
    if !found.is_shared(state_dir, &top)? {
        found.check(state_dir, &top);
    }
    for entry in own_entries(state_dir)? {
        found.check_tree(&entry)?;
    }
    let data = state_dir.join("data");
    if let Ok(metadata) = fs::symlink_metadata(&data)
        && metadata.is_dir()
    {
        found.check(&data, &metadata);
        for entry in own_entries(&data)? {
            found.check_tree(&entry)?;
        }
    }
    Ok(found.exposed)
}

/// Removes the permissions that [`exposed`] finds; returns the changed entries.
///
/// # Errors
/// The first entry that could not be changed.
pub fn close_to_others(state_dir: &Path) -> io::Result<Vec<Exposed>> {
    let exposed = exposed(state_dir)?;
    for Exposed { path, mode } in &exposed {
        let mut options = OpenOptions::new();
        // A file that was replaced by a link meanwhile is skipped, and opening a pipe does not block.
        let mut flags = OFlags::NONBLOCK;
        if path != state_dir {
            flags |= OFlags::NOFOLLOW;
        }
        options.read(true).custom_flags(flags.bits() as i32);
        match options.open(path) {
            Ok(file) => file.set_permissions(Permissions::from_mode(mode & !OTHERS & 0o777))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(exposed)
}

/// The entries of a folder that this program creates: their names have a common prefix.
fn own_entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("a2a") {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}

struct ExposureScan {
    me: u32,
    exposed: Vec<Exposed>,
}

impl ExposureScan {
    fn check(&mut self, path: &Path, metadata: &Metadata) {
        let mode = metadata.mode() & 0o7777;
        if metadata.uid() == self.me && mode & OTHERS != 0 {
            self.exposed.push(Exposed { path: path.to_owned(), mode });
        }
    }

    /// Checks a file, or a folder recursively.
    fn check_tree(&mut self, path: &Path) -> io::Result<()> {
        let metadata = match fs::symlink_metadata(path) {
            // sled and SQLite may remove files meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            metadata => metadata?,
        };
        if metadata.is_file() {
            self.check(path, &metadata);
        } else if metadata.is_dir() && metadata.uid() == self.me {
            self.check(path, &metadata);
            let mut entries: Vec<PathBuf> =
                fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
            entries.sort_unstable();
            for entry in entries {
                self.check_tree(&entry)?;
            }
        }
        Ok(())
    }

    /// Whether other users have entries in the folder: restricting it would lock them out.
    fn is_shared(&self, dir: &Path, metadata: &Metadata) -> io::Result<bool> {
        if metadata.mode() & STICKY != 0 {
            return Ok(true);
        }
        for entry in fs::read_dir(dir)? {
            if entry?.metadata().is_ok_and(|metadata| metadata.uid() != self.me) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    fn make(path: &Path, mode: u32, is_dir: bool) {
        if is_dir {
            fs::create_dir(path).unwrap();
        } else {
            fs::write(path, "x").unwrap();
        }
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn own_entries_are_restricted_and_others_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let outside = dir.path().join("outside");
        make(&outside, 0o644, false);
        make(&state, 0o755, true);
        let at = |name: &str| state.join(name);
        make(&at("a2a-log"), 0o755, true);
        make(&at("a2a-log/2026-02-21.jsonl"), 0o644, false);
        make(&at("a2a-log/torn-1.bin"), 0o400, false);
        make(&at("data"), 0o775, true);
        make(&at("data/a2a-tasks.lock"), 0o666, false);
        make(&at("data/other.db"), 0o644, false);
        make(&at("a2a.toml"), 0o640, false);
        make(&at("openclaw.json"), 0o644, false);
        make(&at("workspace"), 0o755, true);
        std::os::unix::fs::symlink(&outside, at("a2a-link")).unwrap();
        std::os::unix::fs::symlink(dir.path(), at("a2a-folder-link")).unwrap();

        let names = |found: &[Exposed]| -> Vec<String> {
            let name = |e: &Exposed| e.path.strip_prefix(&state).unwrap().display().to_string();
            found.iter().map(name).collect()
        };
        let expected =
            ["", "a2a-log", "a2a-log/2026-02-21.jsonl", "a2a.toml", "data", "data/a2a-tasks.lock"];
        assert_eq!(names(&exposed(&state).unwrap()), expected);
        assert_eq!(names(&close_to_others(&state).unwrap()), expected);
        for (name, closed) in [
            ("", 0o700),
            ("a2a-log", 0o700),
            ("a2a-log/2026-02-21.jsonl", 0o600),
            ("a2a-log/torn-1.bin", 0o400),
            ("data", 0o700),
            ("data/a2a-tasks.lock", 0o600),
            ("data/other.db", 0o644),
            ("a2a.toml", 0o600),
            ("openclaw.json", 0o644),
            ("workspace", 0o755),
        ] {
            assert_eq!(mode(&at(name)), closed, "{name}");
        }
        assert_eq!(mode(&outside), 0o644, "no link was followed");
        assert_eq!(exposed(&state).unwrap(), []);
        assert_eq!(close_to_others(&state).unwrap(), []);
        assert_eq!(exposed(&state.join("absent")).unwrap(), []);
    }

    #[test]
    fn shared_folder_is_not_restricted() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        make(&dir.path().join("a2a.addr"), 0o644, false);
        let found = close_to_others(dir.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(mode(dir.path()), 0o777);
    }
}
