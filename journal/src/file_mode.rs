//! Who may read what is kept: one rule for all of it. Folders are 0700, files 0600.
//!
//! Everything is created so. What an older version, a copy or a person left open is closed at the
//! start ([`close_to_others`]), as far as it is ours: the state folder may be shared with other
//! programs of the same user, whose files are theirs.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Of every file that is made.
pub const FILE: u32 = 0o600;
/// Of every folder that is made.
pub const FOLDER: u32 = 0o700;
/// What others may do.
const OTHERS: u32 = 0o077;
/// Sticky bit: any user may create files in such a folder (`/tmp`), so it is not one server's.
const STICKY: u32 = 0o1000;

/// Options that create a file readable by its owner alone.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Makes a file, or empties it.
///
/// # Errors
/// The disk refused.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Makes a folder and those above it, as far as they are missing.
///
/// # Errors
/// The disk refused.
pub fn create_dir_all(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(dir)
}

/// Something of ours that other users may read, write or look into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed {
    /// Where it lies.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
}

/// What others may get at of a state folder, the folder itself first. Links are not followed, and
/// what belongs to another user is not named: it cannot be changed.
///
/// # Errors
/// When the folder cannot be read. One that is not there has nothing to expose.
pub fn exposed(state_dir: &Path) -> io::Result<Vec<Exposed>> {
    let mut found = ExposureScan { me: rustix::process::geteuid().as_raw(), exposed: Vec::new() };
    let top = match fs::metadata(state_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        top => top?,
    };
    if !found.is_shared(state_dir, &top)? {
        found.look(state_dir, &top);
    }
    for entry in ours(state_dir)? {
        found.below(&entry)?;
    }
    let data = state_dir.join("data");
    if let Ok(metadata) = fs::symlink_metadata(&data)
        && metadata.is_dir()
    {
        found.look(&data, &metadata);
        for entry in ours(&data)? {
            found.below(&entry)?;
        }
    }
    Ok(found.exposed)
}

/// Takes from others what [`exposed`] finds; returns what was changed.
///
/// # Errors
/// The first thing that could not be changed.
pub fn close_to_others(state_dir: &Path) -> io::Result<Vec<Exposed>> {
    let exposed = exposed(state_dir)?;
    for Exposed { path, mode } in &exposed {
        let mut options = OpenOptions::new();
        // What was a file a moment ago and is a link now is left alone, and nothing is waited for.
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

/// The entries of a folder that the program makes: all of their names begin alike.
fn ours(dir: &Path) -> io::Result<Vec<PathBuf>> {
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
    fn look(&mut self, path: &Path, metadata: &Metadata) {
        let mode = metadata.mode() & 0o7777;
        if metadata.uid() == self.me && mode & OTHERS != 0 {
            self.exposed.push(Exposed { path: path.to_owned(), mode });
        }
    }

    /// A file, or a folder with everything in it.
    fn below(&mut self, path: &Path) -> io::Result<()> {
        let metadata = match fs::symlink_metadata(path) {
            // sled and SQLite remove files of theirs while this looks.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            metadata => metadata?,
        };
        if metadata.is_file() {
            self.look(path, &metadata);
        } else if metadata.is_dir() && metadata.uid() == self.me {
            self.look(path, &metadata);
            let mut entries: Vec<PathBuf> =
                fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
            entries.sort_unstable();
            for entry in entries {
                self.below(&entry)?;
            }
        }
        Ok(())
    }

    /// Whether other users have their own things in the folder: closing it would take those away.
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
    fn ours_is_closed_and_what_others_keep_there_is_left_alone() {
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
    fn a_folder_for_everybody_is_no_state_folder_to_close() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        make(&dir.path().join("a2a.addr"), 0o644, false);
        let found = close_to_others(dir.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(mode(dir.path()), 0o777);
    }
}
