//! The few things the log asks of a disk, as a trait, so that a test can make each of them fail.
//!
//! Only writing goes through here: what fails while writing decides whether a
//! promise was kept. Reading back uses the file system directly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Where log files live.
pub trait Disk: Send + Sync {
    /// Creates a folder and its parents, if they are missing.
    ///
    /// # Errors
    /// What the file system says.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Opens a file for appending, creating it if it is missing.
    ///
    /// # Errors
    /// What the file system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// What the file system says.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Gives a file another name, replacing what had it.
    ///
    /// # Errors
    /// What the file system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// What the file system says.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// One open log file.
pub trait LogFile: Send {
    /// Length in bytes.
    ///
    /// # Errors
    /// What the file system says.
    fn size(&self) -> io::Result<u64>;

    /// Writes all bytes at the end. After an error any part of them may be there.
    ///
    /// # Errors
    /// What the file system says.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the content durable (`fdatasync`).
    ///
    /// # Errors
    /// What the file system says.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file to `len` bytes.
    ///
    /// # Errors
    /// What the file system says.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// The file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        // Readable by the owner alone would be better still, but people tail these files.
        Ok(Box::new(OpenOptions::new().append(true).create(true).open(path)?))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl LogFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}
