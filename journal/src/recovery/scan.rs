//! Reading the log back, line by line, checking every hash and every link.
//!
//! Decides what is a good line, what is torn and what is damaged; what to do with
//! good lines is the caller's business.

use std::fs;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use crate::record::batch::LogPos;
use crate::record::chain::{Hash, Head, check_seal, read_seal};
use crate::record::decode::{Decoded, decode};
use crate::segment::{Segment, find_segment, list_segments};

/// Longer lines are read in pieces, none of which is a good line: a damaged file
/// without newlines must not exhaust memory.
const MAX_LINE: u64 = 64 << 20;

/// A good line.
pub(crate) struct GoodLine<'a> {
    /// With its newline.
    pub bytes: &'a [u8],
    pub decoded: Decoded<'a>,
    /// Where it ends.
    pub end: LogPos,
}

/// What a scan found.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub head: Option<(Head, LogPos)>,
    pub lines: u64,
    pub unreadable: u64,
    pub broken_links: u64,
    /// Bytes at the end of the newest file that holds any, which were never promised or are no
    /// whole line.
    pub torn: Option<Torn>,
    /// Bytes in front of the promised end that the log has not any more, those in `torn` included.
    pub lost: u64,
}

/// Bytes at the end of the log that are to be set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Torn {
    pub path: PathBuf,
    pub from: u64,
    pub len: u64,
    /// How many pieces of it were counted as unreadable.
    pieces: u64,
}

/// Where a scan begins: behind this line, or at the very start.
pub(crate) type Start = Option<(Head, LogPos)>;

/// Reads everything behind `start` and gives each good line to `good`.
///
/// `promised` is where what was promised ends. In front of it every whole line that cannot be
/// read was damaged. Behind it one batch at most was being written: from the first line that
/// cannot be read, or does not follow the one before, it is torn, whole lines further on
/// included. Where that end is not known, only what no good line follows is torn.
pub(crate) fn scan<E: From<io::Error>>(
    dir: &Path,
    start: Start,
    promised: Option<LogPos>,
    mut good: impl FnMut(&GoodLine<'_>) -> Result<(), E>,
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
        // A newer file with anything in it means that everything in this one was promised.
        scan.promised = promised.filter(|_| newest.is_some_and(|(newest, _)| newest == file));
        scan.file(file, from, &mut good)?;
    }
    if let Some(torn) = &scan.found.torn {
        scan.found.unreadable -= torn.pieces;
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
    /// What the next line's `prev` must be; `None` where that cannot be known.
    expected: Option<Hash>,
    found: Scanned,
    /// Lines that cannot be read and may yet turn out to be the end of a write that a crash cut
    /// short, which is nothing to be alarmed about.
    doubtful: Vec<(PathBuf, u64)>,
    /// Where what was promised ends, if that is known and this file is the newest.
    promised: Option<LogPos>,
}

/// How many of them are remembered one by one.
const DOUBTFUL: usize = 100;

impl Scan {
    fn file<E: From<io::Error>>(
        &mut self,
        file: &Segment,
        from: u64,
        good: &mut impl FnMut(&GoodLine<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = &file.path;
        let mut reader = file.read_from(from)?;
        let mut line = Vec::new();
        let mut at = LogPos { day: file.day, offset: from };
        // A newer file with anything in it means that what came before was no torn end.
        if reader.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
            self.not_torn();
        }
        loop {
            line.clear();
            let read = match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line) {
                // What sled has of a packed day is still there; the bus must not stay down.
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
                    // A day is packed only when it is closed, so this is no unfinished write.
                    self.not_torn();
                    continue;
                }
                if self.promised.is_some() && !is_behind && line.ends_with(b"\n") {
                    // It was promised, so it stays where it is, and is reported.
                    self.not_torn();
                    continue;
                }
                let torn = self.found.torn.get_or_insert_with(|| Torn {
                    path: path.to_owned(),
                    from: start,
                    len: 0,
                    pieces: 0,
                });
                torn.len += read;
                torn.pieces += 1;
            }
        }
    }

    /// What could not be read is no torn end: something was damaged.
    fn not_torn(&mut self) {
        self.found.torn = None;
        for (path, offset) in self.doubtful.drain(..) {
            tracing::error!(file = %path.display(), offset, "a line of the log cannot be read");
        }
    }

    /// Whether it is a good line.
    fn line<E: From<io::Error>>(
        &mut self,
        bytes: &[u8],
        end: LogPos,
        must_follow: bool,
        good: &mut impl FnMut(&GoodLine<'_>) -> Result<(), E>,
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
        good(&GoodLine { bytes, decoded, end })?;
        Ok(true)
    }
}

/// Whether the log holds a line with `head`'s hash that ends at `at`.
pub(crate) fn ends_with(dir: &Path, head: Head, at: LogPos) -> bool {
    // Longer than the sealed end of any line.
    let mut end = [0; 160];
    let Some(from) = at.offset.checked_sub(end.len() as u64) else { return false };
    let read = find_segment(dir, at.day).and_then(|file| file.read_exact_at(&mut end, from));
    let line = end.strip_suffix(b"\n");
    read.is_ok() && line.and_then(read_seal).is_some_and(|seal| seal.hash == head.hash)
}
