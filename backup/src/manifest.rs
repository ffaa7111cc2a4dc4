//! `manifest.json`: the files of a backup with sizes and hashes. It is written last, so a folder
//! without one is no complete backup.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::BackupError;
use a2a_journal::formats::{PROGRAM, Part};
use a2a_journal::{Head, NewerFormat, Verified};

/// File name in the backup folder.
pub(super) const NAME: &str = "manifest.json";
/// Format version of the manifest and the backup folder.
const FORMAT: u32 = 1;

/// Content and time of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Format version of the backup.
    backup: u32,
    /// Version of the program that created it.
    pub program: String,
    /// When it was created.
    pub time: DateTime<Utc>,
    /// Format versions of its parts.
    pub formats: BTreeMap<String, u32>,
    /// Head of the log: number and hash of its last line.
    #[serde(serialize_with = "write_head", deserialize_with = "read_head")]
    pub head: Head,
    /// Message records in the log.
    pub records: u64,
    /// Lines in the log: records and events.
    pub lines: u64,
    /// All files, in the order they were written.
    pub files: Vec<ManifestEntry>,
}

/// One file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// Path, relative to the backup and to a state folder.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
}

fn write_head<S: Serializer>(head: &Head, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(head)
}

fn read_head<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Head, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// Read before the other fields, so that a newer format is reported as such.
#[derive(Deserialize)]
struct ManifestVersion {
    backup: u32,
    program: Option<String>,
}

impl Manifest {
    /// The manifest of a verified copy.
    pub(super) fn new(
        time: DateTime<Utc>,
        verified: &Verified,
        tasks: Option<u32>,
        files: Vec<ManifestEntry>,
    ) -> Self {
        let log = (Part::Log.name().to_owned(), Part::Log.known());
        let tasks = tasks.map(|schema| (Part::Tasks.name().to_owned(), schema));
        Self {
            backup: FORMAT,
            program: PROGRAM.to_owned(),
            time,
            formats: [log].into_iter().chain(tasks).collect(),
            head: verified.head,
            records: verified.records,
            lines: verified.lines,
            files,
        }
    }

    /// Reads the manifest of a backup. All paths in it are inside the folder.
    pub(super) fn read(folder: &Path) -> Result<Self, BackupError> {
        let path = folder.join(NAME);
        let text = match fs::read(&path) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Err(BackupError::NoBackup { path: folder.to_owned() });
            }
            read => read.map_err(BackupError::at(&path))?,
        };
        let damaged = |what: String| BackupError::Damaged { path: path.clone(), what };
        let ManifestVersion { backup: found, program } =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if found > FORMAT {
            let (path, part) = (folder.to_owned(), "backup".to_owned());
            return Err(NewerFormat { path, part, found, known: Some(FORMAT), program }.into());
        }
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        match manifest.files.iter().find(|file| !is_state_path(&file.path)) {
            Some(file) => Err(damaged(format!("it names {:?}, which is no part", file.path))),
            None => Ok(manifest),
        }
    }

    /// The content of the file.
    pub(super) fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// Total size of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Whether the backup contains a file.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path)
    }
}

/// Whether a path is a file of a state folder. A forged manifest must not make a restore read or
/// write elsewhere.
fn is_state_path(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    let first = parts.next();
    let plain = |part: &Component<'_>| matches!(part, Component::Normal(_));
    match first {
        Some(Component::Normal(name)) if name == "a2a-log" || name == "data" => {
            parts.next().as_ref().is_some_and(plain) && parts.next().is_none()
        }
        Some(Component::Normal(name)) => name == "a2a.toml" && parts.next().is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_paths_are_limited_to_state_files() {
        for good in ["a2a.toml", "a2a-log/2026-02-21.jsonl.zst", "data/a2a-tasks.db"] {
            assert!(is_state_path(good), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "data",
            "data/../../x",
            "data/a/b",
            "./data/x",
            "a2a.addr",
            "a2a.toml/x",
            "data/..",
            "a2a-log/",
        ] {
            assert!(!is_state_path(bad), "{bad}");
        }
    }
}
