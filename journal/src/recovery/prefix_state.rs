//! State before the first record of the segments, for a start without a checkpoint.
//!
//! Usually there is none: the segments start at the first record, or a later record repeats the
//! facts of the records that retention removed. With `keep_jsonl = false` only the index has the
//! closed days, and their state is replayed from its blocks. If that fails, the start fails;
//! otherwise the bus would silently lose agents, tasks and messages.

use std::io;
use std::path::Path;

use crate::index::Index;
use crate::index::block_reader::BlockReader;
use crate::record::RemovedForm;
use crate::record::chain::{Hash, check_seal};
use crate::record::decode::decode;
use crate::recovery::delivery_state::DeliveryState;
use crate::segment::line_reader::LineReader;
use crate::segment::list_segments;
use crate::verify::removed_by;
use crate::{OpenError, ReadError, Removed};

/// Returns the state before the first record of the segments.
///
/// # Errors
/// [`OpenError::Incomplete`] when records are missing that only the index had.
pub(crate) fn state_before_files(
    dir: &Path,
    index_path: &Path,
    index: Option<&Index>,
) -> Result<DeliveryState, OpenError> {
    let mut first = None;
    each_line(dir, |line| {
        first = Link::of(line);
        first.is_none()
    })?;
    let Some(first) = first.filter(|first| first.prev != Hash::ZERO) else {
        return Ok(DeliveryState::default());
    };
    let folded = match index.map(|index| IndexFold::of(index, first.seq)).transpose() {
        Err(ReadError::Damaged { .. }) => None,
        folded => folded?,
    };
    // Blocks that do not end where the segments begin are of another log.
    let folded = folded.filter(|fold| fold.head == first.prev).unwrap_or_default();
    let start = folded.start.unwrap_or(first);
    if start.prev == Hash::ZERO {
        return Ok(folded.state);
    }
    let mut removed = folded.removed;
    each_line(dir, |line| {
        removed.extend(removed_by(line));
        true
    })?;
    let is_gone = |what| removed.iter().any(|r| r.what == what && start.is_explained_by(r));
    if !is_gone(RemovedForm::Records) {
        if is_gone(RemovedForm::Files) {
            return Err(OpenError::Incomplete { path: index_path.to_owned(), before: start.seq });
        }
        tracing::error!(seq = start.seq, "lines before this one are missing, and no line says why");
    }
    Ok(folded.state)
}

/// Whether the index alone has the records before the first segment: retention removed their
/// segments because the index has them.
///
/// # Errors
/// When the folder or a file cannot be read.
pub fn is_continued_in_index(dir: &Path) -> io::Result<bool> {
    let mut first = None;
    each_line(dir, |line| {
        first = Link::of(line);
        first.is_none()
    })?;
    let Some(first) = first.filter(|first| first.prev != Hash::ZERO) else { return Ok(false) };
    let mut removed = Vec::new();
    each_line(dir, |line| {
        removed.extend(removed_by(line));
        true
    })?;
    let is_gone = |what| removed.iter().any(|r| r.what == what && first.is_explained_by(r));
    Ok(!is_gone(RemovedForm::Records) && is_gone(RemovedForm::Files))
}

/// Number of a record, and the hash of the one before.
#[derive(Debug, Clone, Copy)]
struct Link {
    seq: u64,
    prev: Hash,
}

impl Link {
    fn of(line: &[u8]) -> Option<Self> {
        let seal = check_seal(line)?;
        Some(Self { seq: decode(line)?.seq, prev: seal.prev })
    }

    /// Whether a removal explains that this is the first record. A crash may have interrupted the
    /// removal.
    fn is_explained_by(&self, removed: &Removed) -> bool {
        removed.hash == self.prev || self.seq <= removed.last
    }
}

/// The fold over the blocks of the index.
#[derive(Default)]
struct IndexFold {
    state: DeliveryState,
    start: Option<Link>,
    head: Hash,
    removed: Vec<Removed>,
}

impl IndexFold {
    /// Folds all records below a number.
    fn of(index: &Index, below: u64) -> Result<Self, ReadError> {
        let (mut fold, mut reader, mut above) = (Self::default(), BlockReader::new()?, 0);
        while let Some(meta) = index.block_above(above, |_| true)
            && meta.first < below
        {
            index.read_block(meta.first, &mut reader)?;
            let block = &reader.block;
            for entry in block.entries.iter().filter(|entry| entry.seq < below) {
                let line = entry.of(&block.bytes);
                fold.line(line).ok_or(ReadError::Damaged { block: meta.first })?;
            }
            above = meta.last.seq;
        }
        Ok(fold)
    }

    fn line(&mut self, line: &[u8]) -> Option<()> {
        let (seal, decoded) = (check_seal(line)?, decode(line)?);
        self.state.apply_decoded(&decoded);
        self.removed.extend(decoded.removed());
        self.start.get_or_insert(Link { seq: decoded.seq, prev: seal.prev });
        self.head = seal.hash;
        Some(())
    }
}

/// Passes each line of the segments to `visit`, oldest first, until it returns `false`.
fn each_line(dir: &Path, mut visit: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    for file in list_segments(dir)? {
        let mut lines = LineReader::new(file.read_raw(0)?);
        loop {
            match lines.next() {
                Ok(Some(piece)) if visit(piece.bytes) => {}
                Ok(Some(_)) => return Ok(()),
                // The scan reports damage in a compressed segment.
                Err(error) if !file.is_compressed => return Err(error),
                Ok(None) | Err(_) => break,
            }
        }
    }
    Ok(())
}
