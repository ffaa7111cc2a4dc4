//! The log as far as it goes at one moment: its files held open, and how long they are.
//!
//! A file that is open can be packed or removed by a server and is still read to its end. The
//! newest is cut behind its last whole line.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use chrono::NaiveDate;

use super::BackupError;
use super::partial::Partial;
use a2a_journal::{DayFile, HEADS_FILE, LOG_FOLDER, day_files};

/// How often the folder is looked at again when a file of it goes meanwhile.
const LOOKS: usize = 10;
/// Day files are for everybody whom the folders let in.
const RIGHTS: u32 = 0o644;
const CHUNK: usize = 64 << 10;

/// The log at one moment.
pub(super) struct Cut {
    /// The heads that were noted by then, whole lines.
    heads: Vec<u8>,
    days: Vec<Day>,
}

struct Day {
    name: String,
    day: NaiveDate,
    file: File,
    len: u64,
}

impl Cut {
    /// The log of a state folder, now.
    pub(super) fn now(state_dir: &Path) -> Result<Self, BackupError> {
        let dir = state_dir.join(LOG_FOLDER);
        // First: a head that is noted later may be of a line behind the cut.
        let heads = noted(state_dir)?;
        let mut looks = 0;
        loop {
            looks += 1;
            match open(&dir) {
                // Packed or removed since it was listed, or cut back after a write that failed.
                Err(error) if is_passing(&error) && looks < LOOKS => {}
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

    /// Whether a line was ever written: the head of the first is noted.
    pub(super) fn was_written(&self) -> bool {
        !self.heads.is_empty()
    }

    /// Copies all of it. A file that was cut back meanwhile leaves a log that does not fit
    /// together, or fits without lines that were never promised to anyone.
    pub(super) fn copy(self, partial: &mut Partial) -> Result<(), BackupError> {
        for Day { name, file, len, .. } in self.days {
            let name = format!("{}/{name}", LOG_FOLDER);
            partial.write(&name, RIGHTS, file.take(len))?;
        }
        if !self.heads.is_empty() {
            partial.write(HEADS_FILE, RIGHTS, self.heads.as_slice())?;
        }
        Ok(())
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof)
}

fn noted(state_dir: &Path) -> Result<Vec<u8>, BackupError> {
    let path = state_dir.join(HEADS_FILE);
    let mut text = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        read => read.map_err(BackupError::at(&path))?,
    };
    let whole = memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1);
    text.truncate(whole);
    Ok(text)
}

fn open(dir: &Path) -> io::Result<Vec<Day>> {
    let files = day_files(dir)?;
    let newest = files.len().saturating_sub(1);
    let mut days = Vec::with_capacity(files.len());
    for (at, DayFile { day, is_packed, path }) in files.into_iter().enumerate() {
        let file = File::open(&path)?;
        let mut len = file.metadata()?.len();
        if at == newest && !is_packed {
            len = whole_lines(&file, len)?;
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        days.push(Day { name, day, file, len });
    }
    Ok(days)
}

/// How many of the first `len` bytes are whole lines.
fn whole_lines(file: &File, len: u64) -> io::Result<u64> {
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
    fn a_file_is_cut_behind_its_last_whole_line() {
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
            assert_eq!(whole_lines(&file, text.len() as u64).unwrap(), whole);
        }
    }
}
