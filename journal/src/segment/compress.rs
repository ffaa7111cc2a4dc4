//! Packing a closed day with zstd, and unpacking it again.
//!
//! Either way the new form is written aside, made durable and given its name before the
//! old one goes. Stopped anywhere, the day is still there in one form at least.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use chrono::NaiveDate;

use crate::segment::{Segment, compressed_path, plain_path};
use crate::{Disk, LogFile};

/// A day is packed once and kept long, so this is worth more time than sled's level 1.
const LEVEL: i32 = 6;
const CHUNK: usize = 1 << 20;

/// Packs a day. `false` when it was told to stop before it was done.
pub(crate) fn pack(
    dir: &Path,
    day: NaiveDate,
    disk: &dyn Disk,
    stop: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let (plain, packed) = (plain_path(dir, day), compressed_path(dir, day));
    let mut encoder = zstd::Encoder::new(AtomicFile::new(&packed, disk)?, LEVEL)?;
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
    let written = Segment { day, is_compressed: true, path: file.aside.clone() };
    if !are_alike(&plain, &written, stop)? {
        return if stop() { Ok(false) } else { Err(io::Error::other("it did not unpack")) };
    }
    file.finish(dir, disk)?;
    disk.remove(&plain)?;
    disk.sync_dir(dir)?;
    Ok(true)
}

/// Brings a day back to its plain form, so that it can be written to.
pub(crate) fn unpack(dir: &Path, day: NaiveDate, disk: &dyn Disk) -> io::Result<()> {
    let (plain, packed) = (plain_path(dir, day), compressed_path(dir, day));
    let file = Segment { day, is_compressed: true, path: packed.clone() };
    write_atomically(dir, &plain, disk, file.read_raw(0)?)?;
    disk.remove(&packed)?;
    disk.sync_dir(dir)
}

/// Writes a file aside, then gives it its name.
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

/// A file that gets its name once it is whole.
pub(crate) struct AtomicFile {
    file: Box<dyn LogFile>,
    aside: PathBuf,
    path: PathBuf,
    pub len: u64,
}

impl AtomicFile {
    pub fn new(path: &Path, disk: &dyn Disk) -> io::Result<Self> {
        let aside = aside(path);
        let mut file = disk.open(&aside)?;
        file.truncate(0)?;
        Ok(Self { file, aside, path: path.to_owned(), len: 0 })
    }

    pub fn finish(mut self, dir: &Path, disk: &dyn Disk) -> io::Result<()> {
        self.file.sync()?;
        disk.rename(&self.aside, &self.path)?;
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

/// The name of a file that is not finished. No day file has it.
fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Whether the packed file holds what the plain one does.
fn are_alike(plain: &Path, packed: &Segment, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(plain)?, packed.read_raw(0)?);
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

/// Removes what an earlier, unfinished attempt left.
pub(crate) fn clean_up(dir: &Path, disk: &dyn Disk) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(named) = name.strip_suffix(".new") else { continue };
        let day = named.split('.').next().unwrap_or_default();
        if let Ok(day) = NaiveDate::parse_from_str(day, "%Y-%m-%d")
            && [plain_path(dir, day), compressed_path(dir, day)]
                .iter()
                .any(|ours| aside(ours) == path)
        {
            disk.remove(&path)?;
        }
    }
    Ok(())
}
