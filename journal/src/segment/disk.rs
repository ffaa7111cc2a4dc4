//! The few things the log asks of a disk, as a trait, so that a test can make each of them fail.
//!
//! Writing goes through here, because what fails while writing decides whether a promise was
//! kept. Reading back uses the file system directly, that is, the page cache: what it shows is
//! on the disk only after [`Disk::reread`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::file_mode;

/// A sync reports an earlier writeback's error once. This many in a row say that the disk
/// refuses now.
const SYNCS: usize = 3;
/// The page cache drops only whole folios. No page size of Linux makes larger ones.
#[cfg(target_os = "linux")]
const LARGEST_FOLIO: u64 = 128 << 20;

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

    /// Makes a file of this size, full of zeros and on the disk, to be written over.
    ///
    /// # Errors
    /// What the file system says.
    fn open_fixed(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn FixedFile>> {
        let mut file = file_mode::create(path)?;
        // Written, not only reserved: a block that was never written costs its first sync more.
        io::copy(&mut io::repeat(0).take(bytes), &mut file)?;
        file.sync_all()?;
        Ok(Box::new(file))
    }

    /// Opens a file that is there to write over what it holds.
    ///
    /// # Errors
    /// What the file system says.
    fn open_over(&self, path: &Path) -> io::Result<Box<dyn FixedFile>> {
        Ok(Box::new(OpenOptions::new().write(true).open(path)?))
    }

    /// Writes back what is dirty of a file and drops it from the page cache from byte `from` on,
    /// so that what is read next is what the disk has.
    ///
    /// After a failed writeback Linux marks the pages clean and goes on showing them, so neither
    /// reading nor a sync that succeeds tells whether they are on the disk. An error of an
    /// earlier writeback is none here: what it lost is seen by reading.
    ///
    /// # Errors
    /// When the disk refuses now. What the file shows then says nothing about the disk.
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

/// One open file that keeps its size.
pub trait FixedFile: Send {
    /// Writes all bytes at `at`, over what is there.
    ///
    /// # Errors
    /// What the file system says.
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Makes the content durable (`fdatasync`).
    ///
    /// # Errors
    /// What the file system says.
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

/// The file system.
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
