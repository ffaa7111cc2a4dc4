//! Compresses closed segments with zstd, and decompresses one that is written to again.
//!
//! The new form is written to a temporary file, synced and renamed before the old form is removed.
//! After a stop at any step at least one complete form exists.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use chrono::NaiveDate;

use crate::segment::{Segment, compressed_path, plain_path};
use crate::{Disk, LogFile};

/// A segment is compressed once and kept long, which justifies a higher level than the 1 of blocks.
const LEVEL: i32 = 6;
const CHUNK: usize = 1 << 20;

/// Compresses the segment of a day. Returns `false` if `stop` returned `true` before the end.
pub(crate) fn compress(
    dir: &Path,
    day: NaiveDate,
    disk: &dyn Disk,
    stop: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let (plain, compressed) = (plain_path(dir, day), compressed_path(dir, day));
    let mut encoder = zstd::Encoder::new(AtomicFile::new(&compressed, disk)?, LEVEL)?;
    encoder.include_checksum(true)?;
    let mut from = File::open(&plain)?;
    let mut chunk = vec![0; CHUNK];
    loop {
        if stop() {
            return Ok(false);
        }
        match from.read(&mut chunk)? {
            0 => break,
            read => encoder.write_all(&chunk[..read])?,
        }
    }
    let mut file = encoder.finish()?;
    file.file.sync()?;
    let written = Segment { day, is_compressed: true, path: file.temporary.clone() };
    if !have_same_content(&plain, &written, stop)? {
        return if stop() { Ok(false) } else { Err(io::Error::other("it did not unpack")) };
    }
    file.finish(dir, disk)?;
    disk.remove(&plain)?;
    disk.sync_dir(dir)?;
    Ok(true)
}

/// Restores the plain form of a segment, so that it can be appended to.
pub(crate) fn decompress(dir: &Path, day: NaiveDate, disk: &dyn Disk) -> io::Result<()> {
    let (plain, compressed) = (plain_path(dir, day), compressed_path(dir, day));
    let file = Segment { day, is_compressed: true, path: compressed.clone() };
    write_atomically(dir, &plain, disk, file.read_raw(0)?)?;
    disk.remove(&compressed)?;
    disk.sync_dir(dir)
}

/// Writes a file atomically: to a temporary file that is renamed at the end.
fn write_atomically(
    dir: &Path,
    path: &Path,
    disk: &dyn Disk,
    mut content: impl Read,
) -> io::Result<()> {
    let mut file = AtomicFile::new(path, disk)?;
    io::copy(&mut content, &mut file)?;
    file.finish(dir, disk)
}

/// A file that gets its name once it is complete and durable.
pub(crate) struct AtomicFile {
    file: Box<dyn LogFile>,
    temporary: PathBuf,
    path: PathBuf,
    /// Bytes written so far.
    pub len: u64,
}

impl AtomicFile {
    pub fn new(path: &Path, disk: &dyn Disk) -> io::Result<Self> {
        let temporary = temporary(path);
        let mut file = disk.open(&temporary)?;
        file.truncate(0)?;
        Ok(Self { file, temporary, path: path.to_owned(), len: 0 })
    }

    pub fn finish(mut self, dir: &Path, disk: &dyn Disk) -> io::Result<()> {
        self.file.sync()?;
        disk.rename(&self.temporary, &self.path)?;
        disk.sync_dir(dir)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.append(bytes)?;
        self.len += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The name of an unfinished file, which no segment has.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Whether both files have the same uncompressed content.
fn have_same_content(
    plain: &Path,
    compressed: &Segment,
    stop: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(plain)?, compressed.read_raw(0)?);
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let read = one.read(&mut left)?;
        if read == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        let same = other.read_exact(&mut right[..read]).is_ok() && left[..read] == right[..read];
        if !same || stop() {
            return Ok(false);
        }
    }
}

/// Removes the temporary files of interrupted attempts.
pub(crate) fn clean_up(dir: &Path, disk: &dyn Disk) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(named) = name.strip_suffix(".new") else { continue };
        let day = named.split('.').next().unwrap_or_default();
        if let Ok(day) = NaiveDate::parse_from_str(day, "%Y-%m-%d")
            && [plain_path(dir, day), compressed_path(dir, day)]
                .iter()
                .any(|target| temporary(target) == path)
        {
            disk.remove(&path)?;
        }
    }
    Ok(())
}
