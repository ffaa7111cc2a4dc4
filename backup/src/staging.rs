//! A folder that is being filled: it gets its name when it is whole, and is gone if it never is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::{BackedUp, BackupError};
use a2a_journal::{LOG_FOLDER, file_mode};

const CHUNK: usize = 1 << 20;

/// The folder.
pub(super) struct Partial {
    path: PathBuf,
    pub(super) files: Vec<BackedUp>,
    is_done: bool,
}

impl Partial {
    /// Makes it, for its owner's eyes only: it holds secrets.
    pub(super) fn new(path: PathBuf) -> Result<Self, BackupError> {
        match DirBuilder::new().mode(file_mode::FOLDER).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(BackupError::Unfinished { path });
            }
            made => made.map_err(BackupError::at(&path))?,
        }
        let partial = Self { path, files: Vec::new(), is_done: false };
        for folder in [LOG_FOLDER, "data"] {
            let folder = partial.path.join(folder);
            file_mode::create_dir_all(&folder).map_err(BackupError::at(&folder))?;
        }
        Ok(partial)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file with these rights of its owner; how many bytes it has. Others have none,
    /// whatever they had where it comes from.
    pub(super) fn write(
        &mut self,
        name: &str,
        rights: u32,
        from: impl Read,
    ) -> Result<&BackedUp, BackupError> {
        let path = self.path.join(name);
        let (bytes, sha256) = write(&path, rights, from).map_err(BackupError::at(&path))?;
        Ok(self.noted(BackedUp { path: name.to_owned(), bytes, sha256 }))
    }

    /// Copies a file with its rights.
    pub(super) fn copy(&mut self, name: &str, from: &Path) -> Result<&BackedUp, BackupError> {
        let file = File::open(from).map_err(BackupError::at(from))?;
        self.copy_of(name, from, file)
    }

    /// The same of a file that is open.
    pub(super) fn copy_of(
        &mut self,
        name: &str,
        from: &Path,
        file: File,
    ) -> Result<&BackedUp, BackupError> {
        let rights = file.metadata().map_err(BackupError::at(from))?.permissions().mode() & 0o777;
        self.write(name, rights, file)
    }

    /// Notes a file that somebody else has written there.
    pub(super) fn add(&mut self, name: &str) -> Result<(), BackupError> {
        let path = self.path.join(name);
        let (bytes, sha256) = hash(&path).map_err(BackupError::at(&path))?;
        self.noted(BackedUp { path: name.to_owned(), bytes, sha256 });
        Ok(())
    }

    fn noted(&mut self, file: BackedUp) -> &BackedUp {
        let at = self.files.len();
        self.files.push(file);
        &self.files[at]
    }

    /// Takes everything out again.
    pub(super) fn clear(&mut self) -> Result<(), BackupError> {
        for file in self.files.drain(..) {
            let path = self.path.join(file.path);
            fs::remove_file(&path).map_err(BackupError::at(&path))?;
        }
        Ok(())
    }

    /// Makes the names in it durable.
    pub(super) fn sync(&self) -> Result<(), BackupError> {
        for folder in [self.path.join(LOG_FOLDER), self.path.join("data"), self.path.clone()] {
            sync(&folder)?;
        }
        Ok(())
    }

    /// Gives it its name.
    pub(super) fn rename(mut self, target: &Path) -> Result<(), BackupError> {
        self.sync()?;
        fs::rename(&self.path, target).map_err(BackupError::at(target))?;
        self.is_done = true;
        sync(parent(target))
    }

    /// Gives each thing in it its place in `target`, which holds nothing else. What is there of
    /// them is taken away again if one cannot go.
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
        // Only now is the folder one that may be opened.
        drop(self);
        sync(target)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_done
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::error!(%error, folder = %self.path.display(), "cannot be removed");
        }
    }
}

/// The folder that something lies in.
pub(super) fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn sync(folder: &Path) -> Result<(), BackupError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(BackupError::at(folder))
}

fn write(path: &Path, rights: u32, from: impl Read) -> io::Result<(u64, String)> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(rights & file_mode::FOLDER)
        .open(path)?;
    let copied = hash_into(from, &mut file)?;
    file.sync_all()?;
    Ok(copied)
}

/// Size and SHA-256 of a file.
pub(super) fn hash(path: &Path) -> io::Result<(u64, String)> {
    hash_of(File::open(path)?)
}

/// The same of a file that is open.
pub(super) fn hash_of(file: File) -> io::Result<(u64, String)> {
    hash_into(file, &mut io::sink())
}

/// Opens a file of a backup, which must be a regular file in folders that are none but folders: a
/// symbolic link in a backup of others would have us copy any file of this machine.
pub(super) fn open_within(folder: &Path, name: &str) -> Result<File, BackupError> {
    let path = folder.join(name);
    let no_file = |what: &str| BackupError::Damaged { path: path.clone(), what: what.to_owned() };
    let failed = |error: Errno| match error {
        Errno::NOENT => no_file("it is missing"),
        Errno::LOOP | Errno::NOTDIR => no_file("it is a symbolic link, or lies behind one"),
        error => BackupError::at(&path)(error.into()),
    };
    // Not to wait for the other end of a pipe.
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
