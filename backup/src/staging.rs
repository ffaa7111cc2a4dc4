//! Staging folder: files are written into it, and it is renamed when it is complete or removed on
//! failure.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::{BackupError, ManifestEntry};
use a2a_journal::{LOG_FOLDER, file_mode};

const CHUNK: usize = 1 << 20;

/// A folder that is removed on drop unless it was renamed.
pub(super) struct StagingFolder {
    path: PathBuf,
    pub(super) files: Vec<ManifestEntry>,
    is_renamed: bool,
}

impl StagingFolder {
    /// Creates the folder, readable for its owner only: its files hold secrets.
    pub(super) fn new(path: PathBuf) -> Result<Self, BackupError> {
        match DirBuilder::new().mode(file_mode::FOLDER).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(BackupError::Unfinished { path });
            }
            made => made.map_err(BackupError::at(&path))?,
        }
        let staging = Self { path, files: Vec::new(), is_renamed: false };
        for folder in [LOG_FOLDER, "data"] {
            let folder = staging.path.join(folder);
            file_mode::create_dir_all(&folder).map_err(BackupError::at(&folder))?;
        }
        Ok(staging)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file with these permissions of its owner; group and others get none.
    pub(super) fn write(
        &mut self,
        name: &str,
        mode: u32,
        from: impl Read,
    ) -> Result<&ManifestEntry, BackupError> {
        let path = self.path.join(name);
        let (bytes, sha256) = write(&path, mode, from).map_err(BackupError::at(&path))?;
        Ok(self.push_entry(ManifestEntry { path: name.to_owned(), bytes, sha256 }))
    }

    /// Copies a file with its owner's permissions.
    pub(super) fn copy(&mut self, name: &str, from: &Path) -> Result<&ManifestEntry, BackupError> {
        let file = File::open(from).map_err(BackupError::at(from))?;
        self.copy_of(name, from, file)
    }

    /// Copies an open file.
    pub(super) fn copy_of(
        &mut self,
        name: &str,
        from: &Path,
        file: File,
    ) -> Result<&ManifestEntry, BackupError> {
        let mode = file.metadata().map_err(BackupError::at(from))?.permissions().mode() & 0o777;
        self.write(name, mode, file)
    }

    /// Adds a file that was written there by other means.
    pub(super) fn add(&mut self, name: &str) -> Result<(), BackupError> {
        let path = self.path.join(name);
        let (bytes, sha256) = hash(&path).map_err(BackupError::at(&path))?;
        self.push_entry(ManifestEntry { path: name.to_owned(), bytes, sha256 });
        Ok(())
    }

    fn push_entry(&mut self, file: ManifestEntry) -> &ManifestEntry {
        let at = self.files.len();
        self.files.push(file);
        &self.files[at]
    }

    /// Removes all files.
    pub(super) fn clear(&mut self) -> Result<(), BackupError> {
        for file in self.files.drain(..) {
            let path = self.path.join(file.path);
            fs::remove_file(&path).map_err(BackupError::at(&path))?;
        }
        Ok(())
    }

    /// Makes the names of its files durable.
    pub(super) fn sync(&self) -> Result<(), BackupError> {
        for folder in [self.path.join(LOG_FOLDER), self.path.join("data"), self.path.clone()] {
            sync(&folder)?;
        }
        Ok(())
    }

    /// Renames the complete folder to `target`.
    pub(super) fn rename(mut self, target: &Path) -> Result<(), BackupError> {
        self.sync()?;
        fs::rename(&self.path, target).map_err(BackupError::at(target))?;
        self.is_renamed = true;
        sync(parent(target))
    }

    /// Moves its entries into `target`, which holds nothing else. Removes those already moved when
    /// one of them fails.
    pub(super) fn move_into(self, target: &Path) -> Result<(), BackupError> {
        self.sync()?;
        let mut moved = Vec::new();
        let result = (|| {
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                let to = target.join(entry.file_name());
                fs::rename(entry.path(), &to)?;
                moved.push(to);
            }
            File::open(target)?.sync_all()
        })();
        if let Err(error) = result {
            for path in moved {
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            }
            return Err(BackupError::at(target)(error));
        }
        // Removes the staging folder; from now on a server may start here.
        drop(self);
        sync(target)
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        if !self.is_renamed
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::error!(%error, folder = %self.path.display(), "cannot be removed");
        }
    }
}

/// The parent folder of a path.
pub(super) fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn sync(folder: &Path) -> Result<(), BackupError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(BackupError::at(folder))
}

fn write(path: &Path, mode: u32, from: impl Read) -> io::Result<(u64, String)> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode & file_mode::FOLDER)
        .open(path)?;
    let copied = hash_into(from, &mut file)?;
    file.sync_all()?;
    Ok(copied)
}

/// Size and SHA-256 of a file.
pub(super) fn hash(path: &Path) -> io::Result<(u64, String)> {
    hash_of(File::open(path)?)
}

/// Size and SHA-256 of an open file.
pub(super) fn hash_of(file: File) -> io::Result<(u64, String)> {
    hash_into(file, &mut io::sink())
}

/// Opens a regular file of a backup without following symbolic links: a link in a foreign backup
/// could make a restore copy any file of this machine.
pub(super) fn open_within(folder: &Path, name: &str) -> Result<File, BackupError> {
    let path = folder.join(name);
    let no_file = |what: &str| BackupError::Damaged { path: path.clone(), what: what.to_owned() };
    let failed = |error: Errno| match error {
        Errno::NOENT => no_file("it is missing"),
        Errno::LOOP | Errno::NOTDIR => no_file("it is a symbolic link, or lies behind one"),
        error => BackupError::at(&path)(error.into()),
    };
    // NONBLOCK: opening a named pipe must not wait for its writer.
    let common = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut at: OwnedFd = File::open(folder).map_err(BackupError::at(folder))?.into();
    let mut parts = Path::new(name).components().peekable();
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { OFlags::DIRECTORY } else { OFlags::empty() };
        let flags = OFlags::RDONLY | common | kind;
        at = openat(&at, part.as_os_str(), flags, Mode::empty()).map_err(failed)?;
    }
    let file = File::from(at);
    if file.metadata().map_err(BackupError::at(&path))?.is_file() {
        Ok(file)
    } else {
        Err(no_file("it is no regular file"))
    }
}

fn hash_into(mut from: impl Read, to: &mut dyn Write) -> io::Result<(u64, String)> {
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        let read = match from.read(&mut chunk) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
        to.write_all(&chunk[..read])?;
        bytes += read as u64;
    }
    Ok((bytes, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}
