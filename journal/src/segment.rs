//! Segments of the log: one file for each UTC day.
//!
//! # Constraints
//! - A batch is durable before its senders get receipts, and is never split between segments.
//! - A segment is append-only until its day is over. Then it is immutable and may be compressed.
//! - After a failed fsync nothing is known about the pages, so the journal is poisoned.
//!
//! # On-disk layout
//! ```text
//! a2a-log/2026-02-20.jsonl.zst   closed segment, compressed with zstd
//! a2a-log/2026-02-21.jsonl       newest segment; JSON Lines, one record each
//! a2a-log/torn-<time>.bin        an unfinished write that recovery cut off
//! data/a2a-wal-{0,1}.bin         WAL: the newest batches once more, while a busy server runs
//! data/a2a-watermark.bin         where the last durable batch ends
//! ```
//! Where a crash left both forms of a day, the plain one counts: it is removed only once the other
//! is complete.
//!
//! # Writing
//! [`writer`] appends a batch and makes it durable, by an fsync or in the [`wal`], and then moves
//! the [`watermark`]. All writes go through the trait [`disk::Disk`], so that tests can make each fail.
//!
//! # Reading
//! [`list_segments`] lists the files, [`line_reader`] splits one into lines, without copying.
//!
//! # Deleting
//! The retention worker compresses ([`compress`]) or removes closed segments, never the newest.

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

/// Path of the plain segment of a day.
pub(crate) fn plain_path(dir: &Path, day: NaiveDate) -> PathBuf {
    dir.join(format!("{}{PLAIN}", day.format("%Y-%m-%d")))
}

/// Path of the compressed segment of a day.
pub(crate) fn compressed_path(dir: &Path, day: NaiveDate) -> PathBuf {
    dir.join(format!("{}{COMPRESSED}", day.format("%Y-%m-%d")))
}

/// The file of one UTC day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// The UTC day of its records.
    pub day: NaiveDate,
    /// Whether it is compressed. `false` sorts first, so that the plain form wins over the other.
    pub is_compressed: bool,
    /// Its path.
    pub path: PathBuf,
}

/// Lists the segments, oldest first; other files are ignored.
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
            // chrono also parses `2026-2-1`, which is not a name of a segment.
            if path.file_name().is_some_and(|expected| expected == name) {
                files.push(Segment { day, is_compressed, path });
            }
        }
    }
    files.sort_unstable();
    files.dedup_by_key(|file| file.day);
    Ok(files)
}

/// The segment of one day.
pub(crate) fn find_segment(dir: &Path, day: NaiveDate) -> io::Result<Segment> {
    let plain = plain_path(dir, day);
    if fs::exists(&plain)? {
        return Ok(Segment { day, is_compressed: false, path: plain });
    }
    Ok(Segment { day, is_compressed: true, path: compressed_path(dir, day) })
}

impl Segment {
    /// The segment with its size in bytes. It may have been compressed since it was listed, which
    /// changes its form, or removed: then `None`.
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

    /// A buffered reader of the content from `offset` on, counted in uncompressed bytes.
    pub fn read_from(&self, offset: u64) -> io::Result<impl BufRead + use<>> {
        Ok(BufReader::with_capacity(BUFFER, self.read_raw(offset)?))
    }

    /// Like [`Segment::read_from`], unbuffered.
    pub fn read_raw(&self, offset: u64) -> io::Result<Box<dyn Read>> {
        let mut file = File::open(&self.path)?;
        if !self.is_compressed {
            file.seek(SeekFrom::Start(offset))?;
            return Ok(Box::new(file));
        }
        let mut reader = zstd::Decoder::new(file)?;
        // A compressed file can only be read from its start; this happens after rare crashes.
        io::copy(&mut (&mut reader).take(offset), &mut io::sink())?;
        Ok(Box::new(reader))
    }

    /// Fills `bytes` from `offset` on, counted in uncompressed bytes.
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
    fn segment_compressed_after_listing_is_found_in_its_new_form() {
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
