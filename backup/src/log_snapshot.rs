//! Snapshot of the log: its day files, held open, and their lengths at one moment.
//!
//! A server may compress or delete a day file meanwhile; an open handle still reads all of it. The
//! newest file counts up to its last complete line.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use chrono::NaiveDate;

use super::BackupError;
use super::staging::StagingFolder;
use a2a_journal::{HEADS_FILE, LOG_FOLDER, Segment, list_segments};

/// Attempts to list and open the day files when one of them disappears meanwhile.
const ATTEMPTS: usize = 10;
/// Permissions of the copies. The folders above restrict access.
const MODE: u32 = 0o644;
const CHUNK: usize = 64 << 10;

/// The day files and heads at one moment.
pub(super) struct LogSnapshot {
    /// Content of the head file, complete lines.
    heads: Vec<u8>,
    days: Vec<Day>,
}

struct Day {
    name: String,
    day: NaiveDate,
    file: File,
    len: u64,
}

impl LogSnapshot {
    /// Opens the log of a state folder.
    pub(super) fn open(state_dir: &Path) -> Result<Self, BackupError> {
        let dir = state_dir.join(LOG_FOLDER);
        // Read first: a head that is added later may belong to a line beyond the snapshot.
        let heads = read_heads(state_dir)?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            match open_days(&dir) {
                // Compressed, deleted or truncated since it was listed.
                Err(error) if is_transient(&error) && attempts < ATTEMPTS => {}
                days => {
                    let days = days.map_err(BackupError::at(&dir))?;
                    return Ok(Self { heads, days });
                }
            }
        }
    }

    /// The first day that has a file.
    pub(super) fn first_day(&self) -> Option<NaiveDate> {
        self.days.first().map(|day| day.day)
    }

    /// Whether a line was ever written: the first one adds a head.
    pub(super) fn was_written(&self) -> bool {
        !self.heads.is_empty()
    }

    /// Copies the snapshot. When a file is truncated meanwhile, the copy either fails verification
    /// or lacks only lines that were never acknowledged.
    pub(super) fn copy_to(self, staging: &mut StagingFolder) -> Result<(), BackupError> {
        for Day { name, file, len, .. } in self.days {
            let name = format!("{}/{name}", LOG_FOLDER);
            staging.write(&name, MODE, file.take(len))?;
        }
        if !self.heads.is_empty() {
            staging.write(HEADS_FILE, MODE, self.heads.as_slice())?;
        }
        Ok(())
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof)
}

fn read_heads(state_dir: &Path) -> Result<Vec<u8>, BackupError> {
    let path = state_dir.join(HEADS_FILE);
    let mut text = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        read => read.map_err(BackupError::at(&path))?,
    };
    let complete = memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1);
    text.truncate(complete);
    Ok(text)
}

fn open_days(dir: &Path) -> io::Result<Vec<Day>> {
    let files = list_segments(dir)?;
    let newest = files.len().saturating_sub(1);
    let mut days = Vec::with_capacity(files.len());
    for (at, Segment { day, is_compressed, path }) in files.into_iter().enumerate() {
        let file = File::open(&path)?;
        let mut len = file.metadata()?.len();
        if at == newest && !is_compressed {
            len = complete_lines(&file, len)?;
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        days.push(Day { name, day, file, len });
    }
    Ok(days)
}

/// Length of the complete lines within the first `len` bytes.
fn complete_lines(file: &File, len: u64) -> io::Result<u64> {
    let (mut end, mut chunk) = (len, vec![0; CHUNK]);
    while end > 0 {
        let size = usize::try_from(end).unwrap_or(usize::MAX).min(CHUNK);
        let start = end - size as u64;
        file.read_exact_at(&mut chunk[..size], start)?;
        if let Some(at) = memchr::memrchr(b'\n', &chunk[..size]) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn newest_file_ends_at_last_complete_line() {
        for (text, whole) in [
            (String::new(), 0),
            ("torn".to_owned(), 0),
            ("one\n".to_owned(), 4),
            ("one\ntwo\nthr".to_owned(), 8),
            (format!("one\n{}", "x".repeat(3 * CHUNK)), 4),
            (format!("{}\nx", "x".repeat(CHUNK)), CHUNK as u64 + 1),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert_eq!(complete_lines(&file, text.len() as u64).unwrap(), whole);
        }
    }
}
