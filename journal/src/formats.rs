//! Formats of the parts of a state folder, and the refusal to open newer ones.
//!
//! The task database has its version inside (`PRAGMA user_version`), and so has each block of the
//! index. The log has none, as its lines are records only. So one small file lists the formats of all
//! parts, and the version of the program that first wrote them. It is checked before anything is
//! opened, since opening alone changes files. A folder without it predates it, and every program
//! supports those formats.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::index::block;

/// Path of the file in the state folder.
const FILE: &str = "data/a2a-format.json";
/// The version of this program.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// The format of the records of the log.
const LOG: u32 = 1;
/// The schema version of the task database; `a2a-taskdb` checks it at compile time.
pub const TASKS: u32 = 4;
/// Temporary folder of a restore. While it exists, the state folder must not be opened.
pub const RESTORING: &str = ".a2a-restoring";

/// A part of a state folder that has a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The segments.
    Log,
    /// The sled database.
    Index,
    /// The task database.
    Tasks,
}

impl Part {
    const ALL: [Self; 3] = [Self::Log, Self::Index, Self::Tasks];

    /// Its name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::Tasks => "tasks",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// The newest format that this program supports, and the only one that it writes.
    #[must_use]
    pub const fn known(self) -> u32 {
        match self {
            Self::Log => LOG,
            Self::Index => block::FORMAT as u32,
            Self::Tasks => TASKS,
        }
    }

    /// Its path in a state folder.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Log => crate::segment::FOLDER,
            Self::Index => "data/a2a-journal",
            Self::Tasks => "data/a2a-tasks.db",
        }
    }
}

/// A part was written by a later version of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewerFormat {
    /// Its path.
    pub path: PathBuf,
    /// Name of the part, such as `tasks`.
    pub part: String,
    /// Its format.
    pub found: u32,
    /// The newest format that this program supports; `None` for an unknown part.
    pub known: Option<u32>,
    /// The version of the program that wrote it; `None` if unknown.
    pub program: Option<String>,
}

impl std::error::Error for NewerFormat {}

impl std::fmt::Display for NewerFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, part, found, known, program } = self;
        let path = path.display();
        write!(f, "{path} was written by a newer version of this program: its part `{part}` has ")?;
        write!(f, "format {found}, and openclaw-a2a {PROGRAM} knows ")?;
        match known {
            Some(known) => write!(f, "formats up to {known}")?,
            None => f.write_str("no such part")?,
        }
        f.write_str(". Nothing was changed. Use ")?;
        match program {
            Some(program) => write!(f, "openclaw-a2a {program} or newer")?,
            None => f.write_str("the newer version")?,
        }
        f.write_str(", or restore a backup made before the upgrade")
    }
}

/// Why this program must not open a state folder.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A part has a newer format.
    #[error(transparent)]
    Newer(#[from] NewerFormat),
    /// A restore into the folder was interrupted.
    #[error(
        "a restore into {} was cut off; delete everything in that folder and restore again", path.display()
    )]
    Unfinished {
        /// The folder.
        path: PathBuf,
    },
    /// The file with the formats cannot be read.
    #[error(
        "{} cannot be read, and it says which version of the program this folder needs; put a copy back, or delete it if no newer version ever ran here", path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct FormatFile {
    /// The version that first wrote all of these formats.
    program: String,
    parts: BTreeMap<String, u32>,
}

fn read(state_dir: &Path) -> Result<Option<FormatFile>, FormatError> {
    let path = state_dir.join(FILE);
    let unreadable = |source| FormatError::Unreadable { path: path.clone(), source };
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|e| unreadable(e.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error)),
    }
}

/// Checks that this program supports every format listed in a state folder; returns the version of the
/// program that wrote the list. Creates and changes nothing.
///
/// # Errors
/// The first newer part, or an interrupted restore.
pub fn check_listed_formats(state_dir: &Path) -> Result<Option<String>, FormatError> {
    if state_dir.join(RESTORING).exists() {
        return Err(FormatError::Unfinished { path: state_dir.to_owned() });
    }
    let listed = read(state_dir)?.unwrap_or_default();
    let program = Some(listed.program).filter(|program| !program.is_empty());
    for (name, found) in listed.parts {
        refuse_newer(state_dir, &name, found, program.as_deref())?;
    }
    Ok(program)
}

/// Refuses a part with a newer format than this program supports.
///
/// # Errors
/// When the format is newer.
pub fn refuse_newer(
    folder: &Path,
    name: &str,
    found: u32,
    program: Option<&str>,
) -> Result<(), NewerFormat> {
    let part = Part::named(name);
    let path = part.map_or_else(|| folder.to_owned(), |part| folder.join(part.path()));
    // A part that was deleted on purpose, to be rebuilt, has no format.
    let is_there = part.is_none() || path.exists();
    if !is_there || part.is_some_and(|part| found <= part.known()) {
        return Ok(());
    }
    let (part, known) = (name.to_owned(), part.map(Part::known));
    Err(NewerFormat { path, part, found, known, program: program.map(str::to_owned) })
}

/// The error for an index whose own version is newer.
pub(crate) fn newer_index(path: &Path, found: u8) -> NewerFormat {
    NewerFormat {
        path: path.to_owned(),
        part: Part::Index.name().to_owned(),
        found: found.into(),
        known: Some(Part::Index.known()),
        program: None,
    }
}

/// Records that these parts have the current format from now on. Called before the first write in that
/// format, so that an older program always finds it listed.
///
/// # Errors
/// When the disk fails.
pub fn register(state_dir: &Path, parts: &[Part]) -> io::Result<()> {
    // Checked before. An unreadable file is not overwritten.
    let Ok(listed) = read(state_dir) else { return Ok(()) };
    let mut listed = listed.unwrap_or_default();
    let before = listed.parts.clone();
    listed.parts.extend(parts.iter().map(|part| (part.name().to_owned(), part.known())));
    if listed.parts == before {
        return Ok(());
    }
    listed.program = PROGRAM.to_owned();
    let path = state_dir.join(FILE);
    let temporary = path.with_extension("json.new");
    let mut text = serde_json::to_vec(&listed)?;
    text.push(b'\n');
    let mut file = crate::file_mode::create(&temporary)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&temporary, &path)?;
    File::open(state_dir.join("data"))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for part in ["a2a-log", "data/a2a-journal"] {
            fs::create_dir_all(folder.path().join(part)).unwrap();
        }
        fs::write(folder.path().join(FILE), text).unwrap();
        folder
    }

    #[test]
    fn newer_part_is_named_with_what_to_do() {
        let listed = |part: &str| format!("{{\"program\":\"9.1.0\",\"parts\":{{{part}}}}}");
        for (part, expected) in [
            ("\"log\":2", "part `log` has format 2, and openclaw-a2a"),
            ("\"log\":1,\"index\":9", "part `index` has format 9"),
            ("\"blobs\":1", "part `blobs` has format 1, and openclaw-a2a 0.1.0 knows no such part"),
        ] {
            let folder = with(&listed(part));
            let error = check_listed_formats(folder.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(
                error.contains("Use openclaw-a2a 9.1.0 or newer, or restore a backup"),
                "{error}"
            );
        }
        // A missing part has no format: deleting the index allows a downgrade.
        let folder = with(&listed("\"log\":1,\"index\":9"));
        fs::remove_dir(folder.path().join("data/a2a-journal")).unwrap();
        assert!(check_listed_formats(folder.path()).is_ok());
    }

    #[test]
    fn formats_are_recorded_once_and_old_folders_have_none() {
        let folder = with("");
        let path = folder.path().join(FILE);
        let error = check_listed_formats(folder.path()).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(check_listed_formats(folder.path()).is_ok());
        register(folder.path(), &[Part::Log, Part::Index]).unwrap();
        let first = fs::read_to_string(&path).unwrap();
        assert_eq!(first, "{\"program\":\"0.1.0\",\"parts\":{\"index\":3,\"log\":1}}\n");
        // An older version that supports all formats changes nothing.
        let other = first.replace("0.1.0", "0.0.9");
        fs::write(&path, &other).unwrap();
        register(folder.path(), &[Part::Log]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), other);
        register(folder.path(), &[Part::Tasks]).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("\"tasks\":4"));
        assert!(check_listed_formats(folder.path()).is_ok());
    }

    #[test]
    fn interrupted_restore_is_refused() {
        let folder = with("{\"program\":\"0.1.0\",\"parts\":{}}");
        fs::create_dir(folder.path().join(RESTORING)).unwrap();
        let error = check_listed_formats(folder.path()).unwrap_err().to_string();
        assert!(error.contains("was cut off"), "{error}");
    }
}
