//! Where lines to be verified come from: the day files, or sled and what it lacks.

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
use crate::verify::head_file::noted_heads;
use crate::verify::{LinePlace, LineSource, Visit, verify};
use crate::{Head, ReadError, Verified, VerifyError};

/// Verifies the day files, plain and packed, of a state folder.
///
/// It works while a server writes them. Besides the `known` heads those count that the
/// server noted in this folder.
///
/// # Errors
/// The first thing that is wrong, or what cannot be read.
pub fn verify_log(state_dir: &Path, known: &[Head]) -> Result<Verified, VerifyError> {
    let dir = state_dir.join(FOLDER);
    let known = with_noted(state_dir, known)?;
    for _ in 0..2 {
        let files = list_segments(&dir).map_err(|source| io_error(&dir, source))?;
        match verify(&SegmentFiles { files: &files, skip: 0 }, &known) {
            // A day was removed for its age while we read.
            Err(VerifyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
    }
    let files = list_segments(&dir).map_err(|source| io_error(&dir, source))?;
    verify(&SegmentFiles { files: &files, skip: 0 }, &known)
}

/// How long sled is kept open at a time, and then left alone: a server that starts waits longer
/// than the one and looks more often than the other.
const TURN: Duration = Duration::from_millis(500);
const GIVE_WAY: Duration = Duration::from_millis(100);

/// Verifies what sled holds, and behind it the lines of the log that it does not hold yet.
///
/// Only while no server runs: with one, ask [`crate::JournalReader::verify`]. A server can start all the
/// same, as sled is let go again and again; the answer is [`VerifyError::InUse`] then.
///
/// # Errors
/// The first thing that is wrong, or what cannot be read.
pub fn verify_journal(state_dir: &Path, known: &[Head]) -> Result<Verified, VerifyError> {
    verify_journal_in_turns(state_dir, known, TURN, &|| std::thread::sleep(GIVE_WAY))
}

/// The same, letting sled go when it was open for `turn`, and doing `meanwhile` before it is
/// opened again.
///
/// # Errors
/// The first thing that is wrong, or what cannot be read.
pub fn verify_journal_in_turns(
    state_dir: &Path,
    known: &[Head],
    turn: Duration,
    meanwhile: &dyn Fn(),
) -> Result<Verified, VerifyError> {
    let (dir, path) = (state_dir.join(FOLDER), state_dir.join("data/a2a-journal"));
    let known = with_noted(state_dir, known)?;
    let open = RefCell::default();
    verify(&IndexInTurns { dir: &dir, path: &path, turn, meanwhile, open }, &known)
}

/// Verifies what an open journal holds: sled, then its tail.
pub(crate) fn verify_open(
    state_dir: &Path,
    index: &Index,
    tail: &[Slot],
    known: &[Head],
) -> Result<Verified, VerifyError> {
    let dir = state_dir.join(FOLDER);
    verify(&IndexBlocks { index, tail, dir: &dir }, known)
}

/// The heads someone knows and those the server noted.
pub(crate) fn with_noted(state_dir: &Path, known: &[Head]) -> Result<Vec<Head>, VerifyError> {
    let mut all = noted_heads(state_dir).map_err(|source| io_error(state_dir, source))?;
    // Later ones win where two have one number: what somebody kept elsewhere counts more.
    all.extend_from_slice(known);
    Ok(all)
}

fn io_error(path: &Path, source: io::Error) -> VerifyError {
    VerifyError::Io { path: path.to_owned(), source }
}

/// Day files, oldest first.
struct SegmentFiles<'a> {
    files: &'a [Segment],
    /// Bytes of the first file that are left out.
    skip: u64,
}

impl LineSource for SegmentFiles<'_> {
    fn visit_lines(&self, visit: &mut Visit<'_>) -> Result<u64, VerifyError> {
        for (n, file) in self.files.iter().enumerate() {
            let skip = if n == 0 { self.skip } else { 0 };
            let is_last = n + 1 == self.files.len();
            let dir = file.path.parent().map(PathBuf::from).unwrap_or_default();
            let fail = |source| io_error(&file.path, source);
            // It may have been packed since it was listed.
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
                    // A packed file that does not unpack has no line here.
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

/// sled's blocks and the lines behind them, read while a server may want to start.
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
    /// What was removed for its age by then.
    floor: u64,
}

impl IndexInTurns<'_> {
    /// Asks the index, opening it first when it was let go.
    fn ask<T>(
        &self,
        question: impl FnOnce(&Index) -> Result<T, VerifyError>,
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
        question(&open.index)
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
        // A server was there and is gone again, and with it lines that were not read yet.
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
            let found = self.ask(|index| {
                let Some(meta) = index.block_above(above, |_| true) else { return Ok(None) };
                index.read_block(meta.first, &mut reader)?;
                Ok(Some(meta))
            })?;
            let Some(meta) = found else { break };
            if show(&reader.block.bytes, &mut line, visit).is_break() {
                return Ok(0);
            }
            above = meta.last.seq;
        }
        let end = self.ask(|index| Ok(index.last().map(|meta| meta.end)))?;
        // The rest needs no index, and may be much.
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

/// Shows each line of `bytes`.
fn show(bytes: &[u8], line: &mut u64, visit: &mut Visit<'_>) -> ControlFlow<()> {
    let mut start = 0;
    for newline in memchr::memchr_iter(b'\n', bytes) {
        *line += 1;
        visit(LinePlace { file: None, line: *line }, &bytes[start..newline])?;
        start = newline + 1;
    }
    ControlFlow::Continue(())
}

/// sled's blocks, and what it does not hold yet.
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
            if show(&reader.block.bytes, &mut line, visit).is_break() {
                return Ok(0);
            }
            above = meta.last.seq;
        }
        for slot in self.tail {
            let bytes = slot.bytes(self.dir).map_err(ReadError::from)?;
            let start = slot.batch.entries.iter().find(|entry| entry.seq > above);
            let Some(start) = start.map(|entry| entry.start) else { continue };
            if show(bytes.get(start..).unwrap_or_default(), &mut line, visit).is_break() {
                return Ok(0);
            }
        }
        Ok(0)
    }

    fn has_lost(&self, form: RemovedForm) -> bool {
        form == RemovedForm::Records
    }
}
