//! `manifest.json`: what a backup holds. It is written last, so a folder without one is none.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::BackupError;
use a2a_journal::formats::{PROGRAM, Part};
use a2a_journal::{Head, NewerFormat, Verified};

/// Its name in the folder of the backup.
pub(super) const NAME: &str = "manifest.json";
/// The format of the manifest, and with it of the folder.
const FORMAT: u32 = 1;

/// What a backup holds, and of when it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The format of the backup itself.
    backup: u32,
    /// The version of the program that wrote it.
    pub program: String,
    /// When it was taken.
    pub time: DateTime<Utc>,
    /// The formats of its parts.
    pub formats: BTreeMap<String, u32>,
    /// The last line of the log.
    #[serde(serialize_with = "write_head", deserialize_with = "read_head")]
    pub head: Head,
    /// Records of messages in the log.
    pub records: u64,
    /// Lines in it: records and events.
    pub lines: u64,
    /// Every file, in the order in which they were written.
    pub files: Vec<BackedUp>,
}

/// One file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackedUp {
    /// Where it lies, in the backup and in a state folder.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its content, in hex digits.
    pub sha256: String,
}

fn write_head<S: Serializer>(head: &Head, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(head)
}

fn read_head<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Head, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// Read before the rest, so that a newer format is called that.
#[derive(Deserialize)]
struct Glance {
    backup: u32,
    program: Option<String>,
}

impl Manifest {
    /// Of what was just copied.
    pub(super) fn new(
        time: DateTime<Utc>,
        whole: &Verified,
        tasks: Option<u32>,
        files: Vec<BackedUp>,
    ) -> Self {
        let log = (Part::Log.name().to_owned(), Part::Log.known());
        let tasks = tasks.map(|schema| (Part::Tasks.name().to_owned(), schema));
        Self {
            backup: FORMAT,
            program: PROGRAM.to_owned(),
            time,
            formats: [log].into_iter().chain(tasks).collect(),
            head: whole.head,
            records: whole.records,
            lines: whole.lines,
            files,
        }
    }

    /// That of a backup; no file it names lies anywhere but in the folder.
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
        let Glance { backup: found, program } =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if found > FORMAT {
            let (path, part) = (folder.to_owned(), "backup".to_owned());
            return Err(NewerFormat { path, part, found, known: Some(FORMAT), program }.into());
        }
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        match manifest.files.iter().find(|file| !is_ours(&file.path)) {
            Some(file) => Err(damaged(format!("it names {:?}, which is no part", file.path))),
            None => Ok(manifest),
        }
    }

    /// Its bytes.
    pub(super) fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// How large everything in it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Whether it holds a file.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path)
    }
}

/// Whether a path is of a part of a state folder: nobody who changes a manifest chooses what is
/// read or written elsewhere.
fn is_ours(path: &str) -> bool {
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
    fn a_manifest_names_files_of_a_state_folder_only() {
        for good in ["a2a.toml", "a2a-log/2026-02-21.jsonl.zst", "data/a2a-tasks.db"] {
            assert!(is_ours(good), "{good}");
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
            assert!(!is_ours(bad), "{bad}");
        }
    }
}
