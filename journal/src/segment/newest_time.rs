//! Time of the newest record of the log, to compare it with the clock.

use std::io;
use std::path::Path;

use chrono::{DateTime, Utc};

use crate::index::facets::time_of;
use crate::segment::FOLDER;
use crate::segment::line_reader::LineReader;
use crate::segment::list_segments;

/// Bytes read from the end of a segment: more than one line has.
const END: u64 = 4 << 20;

/// Returns the time of the newest readable record in the segments of a state folder, or `None` if
/// there is none. Works while a server writes them.
///
/// # Errors
/// When the folder of the log exists but cannot be read.
pub fn newest_time(state_dir: &Path) -> io::Result<Option<DateTime<Utc>>> {
    let dir = state_dir.join(FOLDER);
    let files = match list_segments(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        files => files?,
    };
    // A segment whose first write failed is empty.
    for file in files.iter().rev() {
        let skip = match file.is_compressed {
            true => 0,
            false => std::fs::metadata(&file.path)?.len().saturating_sub(END),
        };
        let mut lines = LineReader::new(file.read_raw(skip)?);
        let mut newest = None;
        while let Some(piece) = lines.next()? {
            let line = str::from_utf8(piece.bytes).ok().filter(|_| piece.is_whole);
            newest = line.and_then(time_of).or(newest);
        }
        if newest.is_some() {
            return Ok(newest);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_complete_line_counts() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest_time(folder.path()).unwrap(), None);
        let dir = folder.path().join(FOLDER);
        std::fs::create_dir(&dir).unwrap();
        assert_eq!(newest_time(folder.path()).unwrap(), None);
        let line = |day: u32| {
            format!("{{\"seq\":{day},\"time\":\"2026-02-{day}T18:30:00.000Z\",\"event\":\"x\"}}\n")
        };
        std::fs::write(dir.join("2026-02-21.jsonl"), line(21) + "{\"seq\":7,\"time\":\"20")
            .unwrap();
        std::fs::write(dir.join("2026-02-22.jsonl"), "").unwrap();
        let newest = newest_time(folder.path()).unwrap().unwrap();
        assert_eq!(newest.to_rfc3339(), "2026-02-21T18:30:00+00:00");
        std::fs::write(dir.join("2026-02-23.jsonl"), line(22) + &line(23)).unwrap();
        let newest = newest_time(folder.path()).unwrap().unwrap();
        assert_eq!(newest.to_rfc3339(), "2026-02-23T18:30:00+00:00");
    }
}
