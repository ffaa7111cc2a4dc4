//! Disk operations of the log as a trait, so that a test can make each of them fail.
//!
//! All writes go through it, because a failed write decides whether a batch is durable. Reads use
//! the file system directly, that is, the page cache, which matches the disk only after
//! [`Disk::reread`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::file_mode;

/// Failed syncs in a row that count as a failing disk. One alone may report the error of an
/// earlier writeback, which Linux reports once.
const SYNCS: usize = 3;
/// The page cache drops only whole folios. None is larger, with any page size of Linux.
#[cfg(target_os = "linux")]
const LARGEST_FOLIO: u64 = 128 << 20;

/// The file system of the log, as the journal uses it.
pub trait Disk: Send + Sync {
    /// Creates a folder and its parents, if they are missing.
    ///
    /// # Errors
    /// An error of the file system.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Opens a file for appending, creating it if it is missing.
    ///
    /// # Errors
    /// An error of the file system.
    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;

    /// Creates a durable file of this size, filled with zeros, to be overwritten.
    ///
    /// # Errors
    /// An error of the file system.
    fn open_fixed(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn FixedFile>> {
        let mut file = file_mode::create(path)?;
        // Written, not only reserved: the first sync of an unwritten block costs more.
        io::copy(&mut io::repeat(0).take(bytes), &mut file)?;
        file.sync_all()?;
        Ok(Box::new(file))
    }

    /// Opens an existing file to overwrite its content.
    ///
    /// # Errors
    /// An error of the file system.
    fn open_over(&self, path: &Path) -> io::Result<Box<dyn FixedFile>> {
        Ok(Box::new(OpenOptions::new().write(true).open(path)?))
    }

    /// Writes back the dirty pages of a file and drops it from the page cache from byte `from` on,
    /// so that the next read returns what the disk has.
    ///
    /// After a failed writeback Linux marks the pages clean and keeps showing them, so that neither
    /// a read nor a successful sync proves that they are on the disk. The error of an earlier
    /// writeback is ignored here: the read shows what it lost.
    ///
    /// # Errors
    /// When the disk fails now. The visible content then proves nothing about the disk.
    fn reread(&self, path: &Path, from: u64) -> io::Result<()> {
        let file = File::open(path)?;
        let mut syncs = 1;
        while let Err(error) = file.sync_all() {
            if syncs == SYNCS {
                return Err(error);
            }
            syncs += 1;
        }
        #[cfg(target_os = "linux")]
        {
            let from = from / LARGEST_FOLIO * LARGEST_FOLIO;
            rustix::fs::fadvise(&file, from, None, rustix::fs::Advice::DontNeed)?;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = from;
        Ok(())
    }

    /// Makes the names in a folder durable (`fsync` of the folder).
    ///
    /// # Errors
    /// An error of the file system.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Renames a file, replacing a file with the new name.
    ///
    /// # Errors
    /// An error of the file system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// An error of the file system.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// One open log file.
pub trait LogFile: Send {
    /// Length in bytes.
    ///
    /// # Errors
    /// An error of the file system.
    fn size(&self) -> io::Result<u64>;

    /// Appends all bytes. After an error any part of them may have been written.
    ///
    /// # Errors
    /// An error of the file system.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the content durable (`fdatasync`).
    ///
    /// # Errors
    /// An error of the file system.
    fn sync(&mut self) -> io::Result<()>;

    /// Truncates the file to `len` bytes.
    ///
    /// # Errors
    /// An error of the file system.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// One open file of fixed size.
pub trait FixedFile: Send {
    /// Overwrites the bytes at `at`.
    ///
    /// # Errors
    /// An error of the file system.
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Makes the content durable (`fdatasync`).
    ///
    /// # Errors
    /// An error of the file system.
    fn sync(&mut self) -> io::Result<()>;
}

impl FixedFile for File {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The file system of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        file_mode::create_dir_all(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(file_mode::options().append(true).create(true).open(path)?))
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
