//! The day files, whether plain or packed: which there are, and how to read one.
//!
//! A closed day is packed with zstd; the names say which form a file has. Where a
//! crash left both, the plain one counts: it is removed only once the other is whole.

pub(crate) mod compress;
pub(crate) mod disk;
pub(crate) mod line_reader;
pub(crate) mod newest_time;
pub(crate) mod wal;
pub(crate) mod watermark;
pub(crate) mod writer;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;

/// Name of the folder of segments in the state folder.
pub const FOLDER: &str = "a2a-log";

const BUFFER: usize = 1 << 20;
const PLAIN: &str = ".jsonl";
const COMPRESSED: &str = ".jsonl.zst";

/// The plain file of a day.
pub(crate) fn plain_path(dir: &Path, day: NaiveDate) -> PathBuf {
    dir.join(format!("{}{PLAIN}", day.format("%Y-%m-%d")))
}

/// The packed file of a day.
pub(crate) fn compressed_path(dir: &Path, day: NaiveDate) -> PathBuf {
    dir.join(format!("{}{COMPRESSED}", day.format("%Y-%m-%d")))
}

/// One day's file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// The UTC day of its lines.
    pub day: NaiveDate,
    /// `false` sorts first, so that of both forms the plain one is kept.
    pub is_compressed: bool,
    /// Its path.
    pub path: PathBuf,
}

/// The days that have a file, oldest first. Other files are none of our business.
///
/// # Errors
/// The folder cannot be read.
pub fn list_segments(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(day) = name.split('.').next() else { continue };
        let Ok(day) = NaiveDate::parse_from_str(day, "%Y-%m-%d") else { continue };
        for (is_compressed, path) in
            [(false, plain_path(dir, day)), (true, compressed_path(dir, day))]
        {
            // chrono also reads `2026-2-1`; only the name we would write is ours.
            if path.file_name().is_some_and(|ours| ours == name) {
                files.push(Segment { day, is_compressed, path });
            }
        }
    }
    files.sort_unstable();
    files.dedup_by_key(|file| file.day);
    Ok(files)
}

/// The file of one day.
pub(crate) fn find_segment(dir: &Path, day: NaiveDate) -> io::Result<Segment> {
    let plain = plain_path(dir, day);
    if fs::exists(&plain)? {
        return Ok(Segment { day, is_compressed: false, path: plain });
    }
    Ok(Segment { day, is_compressed: true, path: compressed_path(dir, day) })
}

impl Segment {
    /// The file with its size. It may have been packed or removed since it was listed: then the
    /// form that is there now counts, and `None` when there is none any more.
    pub fn sized(self, dir: &Path) -> io::Result<Option<(Self, u64)>> {
        let packed = Self { is_compressed: true, path: compressed_path(dir, self.day), ..self };
        for file in [self, packed] {
            match fs::metadata(&file.path) {
                Ok(metadata) => return Ok(Some((file, metadata.len()))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The content from `offset` on, counted in plain bytes.
    pub fn read_from(&self, offset: u64) -> io::Result<impl BufRead + use<>> {
        Ok(BufReader::with_capacity(BUFFER, self.read_raw(offset)?))
    }

    /// The same for those who have a buffer of their own.
    pub fn read_raw(&self, offset: u64) -> io::Result<Box<dyn Read>> {
        let mut file = File::open(&self.path)?;
        if !self.is_compressed {
            file.seek(SeekFrom::Start(offset))?;
            return Ok(Box::new(file));
        }
        let mut reader = zstd::Decoder::new(file)?;
        // A packed file can only be read from its start; this happens after rare crashes.
        io::copy(&mut (&mut reader).take(offset), &mut io::sink())?;
        Ok(Box::new(reader))
    }

    /// Fills `bytes` from `offset` on, counted in plain bytes.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        if self.is_compressed {
            return self.read_from(offset)?.read_exact(bytes);
        }
        File::open(&self.path)?.read_exact_at(bytes, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_that_is_packed_after_it_was_listed_keeps_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let day = NaiveDate::from_ymd_opt(2026, 2, 21).unwrap();
        fs::write(plain_path(dir.path(), day), b"a line\n").unwrap();
        let listed = || list_segments(dir.path()).unwrap().pop().unwrap();
        let before = listed();
        let (file, size) = before.clone().sized(dir.path()).unwrap().unwrap();
        assert_eq!((file.is_compressed, size), (false, 7));
        fs::write(compressed_path(dir.path(), day), b"zst").unwrap();
        fs::remove_file(plain_path(dir.path(), day)).unwrap();
        let (file, size) = before.clone().sized(dir.path()).unwrap().unwrap();
        assert_eq!((file, size), (listed(), 3));
        fs::remove_file(compressed_path(dir.path(), day)).unwrap();
        assert_eq!(before.sized(dir.path()).unwrap(), None);
    }
}
