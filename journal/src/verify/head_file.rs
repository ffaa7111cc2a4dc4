//! File of heads outside of the log, which detects a log that was cut off or replaced.
//!
//! The chain proves that a log is complete from its first record to its last, but not that its last
//! record is the last that ever existed. An earlier head does.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::file_mode;
use crate::record::chain::{Hash, Head};

/// Path of the file in the state folder.
pub const FILE: &str = "data/a2a-heads.jsonl";
/// Time between two heads, by the times of the records.
const INTERVAL: TimeDelta = TimeDelta::minutes(1);
/// Maximum number of heads, a week of minutes. Above it, the older half is thinned out.
const MOST: usize = 10_000;

/// A text that is not a head.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a head is written as a line's number, a colon and its hash of 64 hex digits")]
pub struct BadHead;

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl FromStr for Head {
    type Err = BadHead;

    fn from_str(text: &str) -> Result<Self, BadHead> {
        let (seq, hash) = text.trim().split_once(':').ok_or(BadHead)?;
        let hash = Hash::from_hex(hash.to_ascii_lowercase().as_bytes()).ok_or(BadHead)?;
        Ok(Self { seq: seq.parse().map_err(|_| BadHead)?, hash })
    }
}

#[derive(Serialize, Deserialize)]
struct HeadEntry {
    seq: u64,
    hash: String,
    time: DateTime<Utc>,
}

/// Returns the heads in the file of a state folder, oldest first. Unreadable lines are skipped: the
/// last may be unfinished.
///
/// # Errors
/// When the file exists but cannot be read.
pub fn recorded_heads(state_dir: &Path) -> io::Result<Vec<Head>> {
    Ok(read(&state_dir.join(FILE))?.into_iter().map(|(head, _)| head).collect())
}

fn read(path: &Path) -> io::Result<Vec<(Head, DateTime<Utc>)>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let heads = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let HeadEntry { seq, hash, time } = serde_json::from_slice(line).ok()?;
        Some((Head { seq, hash: Hash::from_hex(hash.as_bytes())? }, time))
    });
    Ok(heads.collect())
}

/// Whether a crash left the last line unfinished, so that the file must not be appended to.
fn ends_torn(path: &Path) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Writer of the file.
pub(crate) struct HeadFile {
    path: PathBuf,
    known: VecDeque<(Head, DateTime<Utc>)>,
}

impl HeadFile {
    pub fn open(state_dir: &Path) -> io::Result<Self> {
        let path = state_dir.join(FILE);
        let mut heads = Self { known: read(&path)?.into(), path };
        let is_torn = ends_torn(&heads.path)?;
        if is_torn || heads.known.len() > MOST {
            heads.thin_out();
            heads.rewrite()?;
        }
        Ok(heads)
    }

    /// Appends a head if the last one is a minute old by the times of the records, or if `in_any_case`.
    /// A failure is only logged: the log is durable without it.
    pub fn append(&mut self, head: Head, time: DateTime<Utc>, in_any_case: bool) {
        if head.seq == 0 {
            return;
        }
        if let Some((last, appended)) = self.known.back()
            && (last.seq == head.seq || !in_any_case && (time - *appended).abs() < INTERVAL)
        {
            return;
        }
        self.known.push_back((head, time));
        let appended = if self.known.len() > MOST {
            self.thin_out();
            self.rewrite()
        } else {
            let file = file_mode::options().append(true).create(true).open(&self.path);
            file.and_then(|mut file| file.write_all(&line(head, time)))
        };
        if let Err(error) = appended {
            tracing::warn!(%error, "a head of the log could not be noted");
        }
    }

    /// Removes every other head of the older half.
    fn thin_out(&mut self) {
        while self.known.len() > MOST {
            let newer = self.known.split_off(self.known.len() - MOST / 2);
            let older = self.known.drain(..).step_by(2);
            self.known = older.chain(newer).collect();
        }
    }

    fn rewrite(&self) -> io::Result<()> {
        let aside = self.path.with_extension("jsonl.new");
        let bytes: Vec<u8> =
            self.known.iter().flat_map(|(head, time)| line(*head, *time)).collect();
        let mut file = file_mode::create(&aside)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&aside, &self.path)
    }
}

fn line(head: Head, time: DateTime<Utc>) -> Vec<u8> {
    let appended = HeadEntry { seq: head.seq, hash: head.hash.to_string(), time };
    // Numbers and strings always serialise.
    let mut line = serde_json::to_vec(&appended).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seq: u64) -> Head {
        Head { seq, hash: Hash::from_bytes([seq as u8; 32]) }
    }

    fn minute(n: u64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_771_698_600 + n as i64 * 60, 0).unwrap()
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        folder
    }

    #[test]
    fn head_round_trips_as_text() {
        let text = head(7).to_string();
        assert_eq!(text, format!("7:{}", "07".repeat(32)));
        assert_eq!(text.parse(), Ok(head(7)));
        for bad in ["", "7", "7:", ":07", "x:00", &text[..text.len() - 1], &format!("{text}0")] {
            assert_eq!(bad.parse::<Head>(), Err(BadHead), "{bad}");
        }
    }

    #[test]
    fn heads_are_written_once_a_minute_and_survive_a_torn_line() {
        let folder = folder();
        let mut heads = HeadFile::open(folder.path()).unwrap();
        heads.append(Head::START, minute(0), true);
        heads.append(head(1), minute(0), false);
        heads.append(head(2), minute(0), false);
        heads.append(head(3), minute(1), false);
        heads.append(head(4), minute(1), true);
        heads.append(head(4), minute(9), true);
        let path = folder.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        let mut heads = HeadFile::open(folder.path()).unwrap();
        heads.append(head(5), minute(5), false);
        assert_eq!(recorded_heads(folder.path()).unwrap(), [head(1), head(3), head(5)]);
    }

    #[test]
    fn file_stays_short_and_keeps_old_heads_too() {
        let folder = folder();
        let path = folder.path().join(FILE);
        let all: Vec<u8> = (1..=30_000).flat_map(|n| line(head(n), minute(n))).collect();
        fs::write(&path, all).unwrap();
        let mut heads = HeadFile::open(folder.path()).unwrap();
        for n in 30_001..30_010 {
            heads.append(head(n), minute(n), false);
        }
        let appended = recorded_heads(folder.path()).unwrap();
        assert!(appended.len() <= MOST, "{}", appended.len());
        assert_eq!((appended[0], appended[appended.len() - 1]), (head(1), head(30_009)));
        let newest: Vec<u64> =
            appended[appended.len() - 1_000..].iter().map(|head| head.seq).collect();
        assert!(newest.windows(2).all(|pair| pair[1] == pair[0] + 1));
    }
}
