//! What lies before the first line of the day files, for a start that has no checkpoint.
//!
//! Usually nothing does, or only what was removed for its age, whose facts a line further on
//! repeats. But where files of closed days are not kept, sled alone has their lines: they are
//! folded from its blocks. If they cannot be, a bus that started all the same would have
//! forgotten agents, tasks and messages without a word, so it does not start.

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

/// The state behind which the first day file goes on.
///
/// # Errors
/// [`OpenError::Incomplete`] when lines are missing that only the index had.
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
    // What does not lead up to the files says nothing about them.
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

/// Whether lines before the first of the day files are in the index alone: their files went
/// because it had them.
///
/// # Errors
/// The folder or a file cannot be read.
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

/// A line's number, and the line it follows.
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

    /// Whether it may be the first, as what came before was removed. A crash may have cut the
    /// removal short.
    fn is_explained_by(&self, removed: &Removed) -> bool {
        removed.hash == self.prev || self.seq <= removed.last
    }
}

/// Lines of sled's blocks, folded.
#[derive(Default)]
struct IndexFold {
    state: DeliveryState,
    start: Option<Link>,
    head: Hash,
    removed: Vec<Removed>,
}

impl IndexFold {
    /// All lines below a number.
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

/// Shows the whole lines of the day files, oldest first, as long as more are wanted.
fn each_line(dir: &Path, mut visit: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    for file in list_segments(dir)? {
        let mut lines = LineReader::new(file.read_raw(0)?);
        loop {
            match lines.next() {
                Ok(Some(piece)) if visit(piece.bytes) => {}
                Ok(Some(_)) => return Ok(()),
                // What is damaged in a packed day is reported when it is read for its lines.
                Err(error) if !file.is_compressed => return Err(error),
                Ok(None) | Err(_) => break,
            }
        }
    }
    Ok(())
}
