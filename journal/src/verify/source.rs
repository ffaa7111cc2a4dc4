//! Sources of lines to verify: segments, the index with the rest of the log, or an open journal.

use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::formats::newer_index;
use crate::index::block_reader::BlockReader;
use crate::index::tail::Slot;
use crate::index::{Index, IndexError};
use crate::record::RemovedForm;
use crate::segment::FOLDER;
use crate::segment::line_reader::LineReader;
use crate::segment::{Segment, find_segment, list_segments};
use crate::verify::head_file::recorded_heads;
use crate::verify::{LinePlace, LineSource, Visit, verify};
use crate::{Head, ReadError, Verified, VerifyError};

/// Verifies the segments of a state folder, plain and compressed.
///
/// Works while a server writes them. The heads in the file of the state folder are checked beside the
/// `known` ones.
///
/// # Errors
/// The first fault, or data that cannot be read.
pub fn verify_log(state_dir: &Path, known: &[Head]) -> Result<Verified, VerifyError> {
    let dir = state_dir.join(FOLDER);
    let known = with_recorded(state_dir, known)?;
    for _ in 0..2 {
        let files = list_segments(&dir).map_err(|source| io_error(&dir, source))?;
        match verify(&SegmentFiles { files: &files, skip: 0 }, &known) {
            // Retention removed a segment meanwhile.
            Err(VerifyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
    }
    let files = list_segments(&dir).map_err(|source| io_error(&dir, source))?;
    verify(&SegmentFiles { files: &files, skip: 0 }, &known)
}

/// How long sled is open at a time, and then closed. A starting server waits longer for its lock than
/// the first and retries more often than the second.
const TURN: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(100);

/// Verifies the records of the index, and then those of the log that it lacks.
///
/// Only while no server runs; otherwise use [`crate::JournalReader::verify`]. A server can start
/// nevertheless, as sled is closed again and again. The result is then [`VerifyError::InUse`].
///
/// # Errors
/// The first fault, or data that cannot be read.
pub fn verify_journal(state_dir: &Path, known: &[Head]) -> Result<Verified, VerifyError> {
    verify_journal_in_turns(state_dir, known, TURN, &|| std::thread::sleep(PAUSE))
}

/// Like [`verify_journal`]: closes sled after `turn`, and calls `meanwhile` before it opens it again.
///
/// # Errors
/// The first fault, or data that cannot be read.
pub fn verify_journal_in_turns(
    state_dir: &Path,
    known: &[Head],
    turn: Duration,
    meanwhile: &dyn Fn(),
) -> Result<Verified, VerifyError> {
    let (dir, path) = (state_dir.join(FOLDER), state_dir.join("data/a2a-journal"));
    let known = with_recorded(state_dir, known)?;
    let open = RefCell::default();
    verify(&IndexInTurns { dir: &dir, path: &path, turn, meanwhile, open }, &known)
}

/// Verifies an open journal: the index, then the tail.
pub(crate) fn verify_open(
    state_dir: &Path,
    index: &Index,
    tail: &[Slot],
    known: &[Head],
) -> Result<Verified, VerifyError> {
    let dir = state_dir.join(FOLDER);
    verify(&IndexBlocks { index, tail, dir: &dir }, known)
}

/// The `known` heads and those in the file.
pub(crate) fn with_recorded(state_dir: &Path, known: &[Head]) -> Result<Vec<Head>, VerifyError> {
    let mut all = recorded_heads(state_dir).map_err(|source| io_error(state_dir, source))?;
    // The last of equal numbers wins: heads from outside have precedence.
    all.extend_from_slice(known);
    Ok(all)
}

fn io_error(path: &Path, source: io::Error) -> VerifyError {
    VerifyError::Io { path: path.to_owned(), source }
}

/// Segments, oldest first.
struct SegmentFiles<'a> {
    files: &'a [Segment],
    /// Bytes of the first segment to skip.
    skip: u64,
}

impl LineSource for SegmentFiles<'_> {
    fn visit_lines(&self, visit: &mut Visit<'_>) -> Result<u64, VerifyError> {
        for (n, file) in self.files.iter().enumerate() {
            let skip = if n == 0 { self.skip } else { 0 };
            let is_last = n + 1 == self.files.len();
            let dir = file.path.parent().map(PathBuf::from).unwrap_or_default();
            let fail = |source| io_error(&file.path, source);
            // It may have been compressed since it was listed.
            let now = find_segment(&dir, file.day).map_err(fail)?;
            let mut lines = LineReader::new(now.read_raw(skip).map_err(fail)?);
            let mut line = 0;
            loop {
                line += 1;
                let place = LinePlace { file: Some(&now.path), line };
                let seen = match lines.next() {
                    Ok(None) => break,
                    Ok(Some(piece)) if !piece.is_whole && is_last && !now.is_compressed => {
                        return Ok(piece.bytes.len() as u64);
                    }
                    Ok(Some(piece)) => visit(place, piece.bytes),
                    // A damaged compressed segment has no line here.
                    Err(error) if now.is_compressed && error.kind() != io::ErrorKind::NotFound => {
                        tracing::error!(%error, file = %now.path.display(), "cannot be unpacked");
                        if visit(place, b"").is_continue() {
                            break;
                        }
                        ControlFlow::Break(())
                    }
                    Err(error) => return Err(fail(error)),
                };
                if seen.is_break() {
                    return Ok(0);
                }
            }
        }
        Ok(0)
    }

    fn has_lost(&self, _: RemovedForm) -> bool {
        true
    }
}

/// The index and the rest of the log, read so that a server can start meanwhile.
struct IndexInTurns<'a> {
    dir: &'a Path,
    path: &'a Path,
    turn: Duration,
    meanwhile: &'a dyn Fn(),
    open: RefCell<Option<OpenIndex>>,
}

struct OpenIndex {
    index: Index,
    since: Instant,
    /// Number of the last removed record when it was opened.
    floor: u64,
}

impl IndexInTurns<'_> {
    /// Runs a read on the index, and opens it first if it was closed.
    fn read<T>(
        &self,
        run: impl FnOnce(&Index) -> Result<T, VerifyError>,
    ) -> Result<T, VerifyError> {
        let mut open = self.open.borrow_mut();
        let mut floor = None;
        if let Some(old) = open.take_if(|open| open.since.elapsed() >= self.turn) {
            floor = Some(old.floor);
            drop(old);
            (self.meanwhile)();
        }
        let open = match &mut *open {
            Some(open) => open,
            closed => closed.insert(self.open(floor)?),
        };
        run(&open.index)
    }

    fn open(&self, expected: Option<u64>) -> Result<OpenIndex, VerifyError> {
        let in_use = || VerifyError::InUse { path: self.path.to_owned() };
        let (index, _) = Index::open(self.path).map_err(|error| match error {
            IndexError::Locked => in_use(),
            IndexError::Io(source) => io_error(self.path, source),
            IndexError::Damaged => ReadError::Damaged { block: 0 }.into(),
            IndexError::Newer(found) => {
                io_error(self.path, io::Error::other(newer_index(self.path, found)))
            }
        })?;
        let floor = index.floor().map_err(ReadError::from)?;
        // A server has run meanwhile and removed records that were not read yet.
        if expected.is_some_and(|expected| expected != floor) {
            return Err(in_use());
        }
        Ok(OpenIndex { index, since: Instant::now(), floor })
    }
}

impl LineSource for IndexInTurns<'_> {
    fn visit_lines(&self, visit: &mut Visit<'_>) -> Result<u64, VerifyError> {
        let mut reader = BlockReader::new().map_err(ReadError::from)?;
        let (mut line, mut above) = (0, 0);
        loop {
            let found = self.read(|index| {
                let Some(meta) = index.block_above(above, |_| true) else { return Ok(None) };
                index.read_block(meta.first, &mut reader)?;
                Ok(Some(meta))
            })?;
            let Some(meta) = found else { break };
            if visit_all(&reader.block.bytes, &mut line, visit).is_break() {
                return Ok(0);
            }
            above = meta.last.seq;
        }
        let end = self.read(|index| Ok(index.last().map(|meta| meta.end)))?;
        // The rest needs no index, and may be long.
        drop(self.open.take());
        let mut files = list_segments(self.dir).map_err(|source| io_error(self.dir, source))?;
        files.retain(|file| end.is_none_or(|end| file.day >= end.day));
        let skip = match (end, files.first()) {
            (Some(end), Some(file)) if file.day == end.day => end.offset,
            _ => 0,
        };
        SegmentFiles { files: &files, skip }.visit_lines(visit)
    }

    fn has_lost(&self, form: RemovedForm) -> bool {
        form == RemovedForm::Records
    }
}

/// Passes each line of `bytes` to `visit`.
fn visit_all(bytes: &[u8], line: &mut u64, visit: &mut Visit<'_>) -> ControlFlow<()> {
    let mut start = 0;
    for newline in memchr::memchr_iter(b'\n', bytes) {
        *line += 1;
        visit(LinePlace { file: None, line: *line }, &bytes[start..newline])?;
        start = newline + 1;
    }
    ControlFlow::Continue(())
}

/// The index and the tail of an open journal.
struct IndexBlocks<'a> {
    index: &'a Index,
    tail: &'a [Slot],
    dir: &'a Path,
}

impl LineSource for IndexBlocks<'_> {
    fn visit_lines(&self, visit: &mut Visit<'_>) -> Result<u64, VerifyError> {
        let mut reader = BlockReader::new().map_err(ReadError::from)?;
        let (mut line, mut above) = (0, 0);
        while let Some(meta) = self.index.block_above(above, |_| true) {
            self.index.read_block(meta.first, &mut reader)?;
            if visit_all(&reader.block.bytes, &mut line, visit).is_break() {
                return Ok(0);
            }
            above = meta.last.seq;
        }
        for slot in self.tail {
            let bytes = slot.bytes(self.dir).map_err(ReadError::from)?;
            let start = slot.batch.entries.iter().find(|entry| entry.seq > above);
            let Some(start) = start.map(|entry| entry.start) else { continue };
            if visit_all(bytes.get(start..).unwrap_or_default(), &mut line, visit).is_break() {
                return Ok(0);
            }
        }
        Ok(0)
    }

    fn has_lost(&self, form: RemovedForm) -> bool {
        form == RemovedForm::Records
    }
}
