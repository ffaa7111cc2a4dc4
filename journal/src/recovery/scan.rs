//! Scan of the log: reads it record by record and checks every hash and link.
//!
//! Classifies each line as valid, torn or damaged, and passes the valid ones to the caller.

use std::fs;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use crate::record::batch::LogPos;
use crate::record::chain::{Hash, Head, check_seal, read_seal};
use crate::record::decode::{Decoded, decode};
use crate::segment::{Segment, find_segment, list_segments};

/// Longer lines are read in parts, none of which is valid: a damaged file without newlines must not
/// exhaust memory.
const MAX_LINE: u64 = 64 << 20;

/// A valid record.
pub(crate) struct ValidRecord<'a> {
    /// With its newline.
    pub bytes: &'a [u8],
    pub decoded: Decoded<'a>,
    /// Its end in the log.
    pub end: LogPos,
}

/// Result of a scan.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub head: Option<(Head, LogPos)>,
    pub lines: u64,
    pub unreadable: u64,
    pub broken_links: u64,
    /// Bytes at the end of the newest non-empty segment that were never durable or are no complete
    /// line.
    pub torn: Option<Torn>,
    /// Bytes missing before the durable end, including those in `torn`.
    pub lost: u64,
}

/// Bytes at the end of the log that recovery sets aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Torn {
    pub path: PathBuf,
    pub from: u64,
    pub len: u64,
    /// How many of its lines were counted as unreadable.
    lines: u64,
}

/// Where a scan begins: behind this record; `None` for the beginning of the log.
pub(crate) type Start = Option<(Head, LogPos)>;

/// Reads everything behind `start` and passes each valid record to `good`.
///
/// `promised` is the end of the durable batches. Before it, every complete but unreadable line is
/// damaged. Behind it at most one batch was being written: everything from the first line that is
/// unreadable or does not follow the one before is torn, later valid lines included. If that end is
/// unknown, only unreadable lines that no valid one follows are torn.
pub(crate) fn scan<E: From<io::Error>>(
    dir: &Path,
    start: Start,
    promised: Option<LogPos>,
    mut good: impl FnMut(&ValidRecord<'_>) -> Result<(), E>,
) -> Result<Scanned, E> {
    let mut scan = Scan {
        expected: start.map(|(head, _)| head.hash),
        found: Scanned::default(),
        doubtful: Vec::new(),
        promised: None,
    };
    scan.found.head = start;
    let files = list_segments(dir)?;
    let mut newest = None;
    for file in files.iter().rev() {
        let len = fs::metadata(&file.path)?.len();
        if len > 0 {
            newest = Some((file, len));
            break;
        }
    }
    for file in &files {
        let from = match start {
            Some((_, at)) if file.day < at.day => continue,
            Some((_, at)) if file.day == at.day => at.offset,
            _ => 0,
        };
        // A newer, non-empty segment implies that everything in this one was durable.
        scan.promised = promised.filter(|_| newest.is_some_and(|(newest, _)| newest == file));
        scan.file(file, from, &mut good)?;
    }
    if let Some(torn) = &scan.found.torn {
        scan.found.unreadable -= torn.lines;
    }
    scan.found.lost = promised.map_or(0, |promised| match newest {
        Some((file, _)) if file.day > promised.day || file.is_compressed => 0,
        Some((file, len)) if file.day == promised.day => {
            let end = scan.found.torn.as_ref().map_or(len, |torn| torn.from);
            promised.offset.saturating_sub(end)
        }
        _ => promised.offset,
    });
    Ok(scan.found)
}

struct Scan {
    /// The expected `prev` of the next record; `None` behind an unreadable line.
    expected: Option<Hash>,
    found: Scanned,
    /// Unreadable lines that may be a torn write, which is not logged as damage.
    doubtful: Vec<(PathBuf, u64)>,
    /// The end of the durable batches, if it is known and this segment is the newest.
    promised: Option<LogPos>,
}

/// How many of them are listed.
const DOUBTFUL: usize = 100;

impl Scan {
    fn file<E: From<io::Error>>(
        &mut self,
        file: &Segment,
        from: u64,
        good: &mut impl FnMut(&ValidRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = &file.path;
        let mut reader = file.read_from(from)?;
        let mut line = Vec::new();
        let mut at = LogPos { day: file.day, offset: from };
        // A newer, non-empty segment implies that unreadable lines before were not torn.
        if reader.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
            self.not_torn();
        }
        loop {
            line.clear();
            let read = match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line) {
                // The index still has the records, so that the bus can start.
                Err(error) if file.is_compressed => {
                    tracing::error!(%error, file = %path.display(), "cannot be unpacked");
                    self.found.unreadable += 1;
                    self.expected = None;
                    return Ok(());
                }
                read => read? as u64,
            };
            if read == 0 {
                return Ok(());
            }
            let start = at.offset;
            let is_behind = self.promised.is_some_and(|end| at >= end);
            let is_cut = is_behind && self.found.torn.is_some();
            at.offset += read;
            if !is_cut && self.line(&line, at, is_behind, good)? {
                self.not_torn();
            } else {
                if self.doubtful.len() < DOUBTFUL {
                    self.doubtful.push((path.to_owned(), start));
                }
                self.found.unreadable += 1;
                self.expected = None;
                if file.is_compressed {
                    // Only closed segments are compressed, so that this is no unfinished write.
                    self.not_torn();
                    continue;
                }
                if self.promised.is_some() && !is_behind && line.ends_with(b"\n") {
                    // It was durable, so it stays and is reported.
                    self.not_torn();
                    continue;
                }
                let torn = self.found.torn.get_or_insert_with(|| Torn {
                    path: path.to_owned(),
                    from: start,
                    len: 0,
                    lines: 0,
                });
                torn.len += read;
                torn.lines += 1;
            }
        }
    }

    /// Unreadable lines so far are not torn but damaged.
    fn not_torn(&mut self) {
        self.found.torn = None;
        for (path, offset) in self.doubtful.drain(..) {
            tracing::error!(file = %path.display(), offset, "a line of the log cannot be read");
        }
    }

    /// Checks a line; returns whether it is valid.
    fn line<E: From<io::Error>>(
        &mut self,
        bytes: &[u8],
        end: LogPos,
        must_follow: bool,
        good: &mut impl FnMut(&ValidRecord<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Some(line) = bytes.strip_suffix(b"\n") else { return Ok(false) };
        let Some(seal) = check_seal(line) else { return Ok(false) };
        let Some(decoded) = decode(line) else { return Ok(false) };
        let seq = decoded.seq;
        if seq <= self.found.head.map_or(0, |(head, _)| head.seq) {
            return Ok(false);
        }
        if self.expected.is_some_and(|expected| expected != seal.prev) {
            if must_follow {
                return Ok(false);
            }
            tracing::error!(seq, "a line of the log does not follow the one before it");
            self.found.broken_links += 1;
        }
        self.expected = Some(seal.hash);
        self.found.head = Some((Head { seq, hash: seal.hash }, end));
        self.found.lines += 1;
        good(&ValidRecord { bytes, decoded, end })?;
        Ok(true)
    }
}

/// Whether a record with the hash of `head` ends at `at` in the log.
pub(crate) fn ends_with(dir: &Path, head: Head, at: LogPos) -> bool {
    // Longer than the seal of a line.
    let mut end = [0; 160];
    let Some(from) = at.offset.checked_sub(end.len() as u64) else { return false };
    let read = find_segment(dir, at.day).and_then(|file| file.read_exact_at(&mut end, from));
    let line = end.strip_suffix(b"\n");
    read.is_ok() && line.and_then(read_seal).is_some_and(|seal| seal.hash == head.hash)
}
