//! Replay of the WAL: writes batches back into the segments that lack them.
//!
//! After a failed writeback the page cache shows a batch that the disk does not have. Every segment
//! with frames is therefore read from the disk before the comparison. A missing batch is first
//! written in place. That may not reach the disk although the sync succeeds: where a writeback
//! failed, ext4 may have lost the mapping from pages to blocks. So the segment is read from the
//! disk once more, and if the batch is still missing, it is rewritten as a new file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use chrono::NaiveDate;

use super::frame::{Frame, frames};
use crate::index::Index;
use crate::record::chain::{Hash, Head, check_seal, read_seal};
use crate::record::decode::peek;
use crate::recovery::scan::ends_with;
use crate::segment::compress::AtomicFile;
use crate::segment::{Segment, compressed_path, plain_path};
use crate::{Disk, OpenError};

const CHUNK: u64 = 1 << 20;

/// Outcome of a replay.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Bytes that only the WAL had.
    pub brought_back: u64,
    /// Frames that are not in the log and do not fit into it.
    pub left_out: u64,
}

/// Writes into the segments of `dir` what only the WAL files in `data` have. When it returns, every
/// frame that was not left out is durable in its segment.
pub(crate) fn replay(
    dir: &Path,
    data: &Path,
    index: &Index,
    disk: &dyn Disk,
) -> Result<Replayed, OpenError> {
    super::rename_old(data, disk)?;
    let runs = super::read_runs(data)?;
    let mut replayed = Replayed::default();
    for (day, frames) in runs.iter().flat_map(|files| by_day(files)) {
        let path = plain_path(dir, day);
        if !fs::exists(&path)? {
            replayed.left_out += count_lost(dir, day, &frames, index)?;
            continue;
        }
        let unsettled = |source| OpenError::Unsettled { path: path.clone(), source };
        let from = frames.iter().map(|frame| frame.at.offset).min().unwrap_or(0);
        disk.reread(&path, from).map_err(unsettled)?;
        let Compared { missing, left_out } = compare(dir, &path, &frames)?;
        replayed.left_out += left_out;
        if missing.is_empty() {
            continue;
        }
        put_back(dir, &path, missing.clone(), disk).map_err(unsettled)?;
        replayed.brought_back += missing.iter().map(|frame| frame.bytes.len() as u64).sum::<u64>();
    }
    Ok(replayed)
}

/// How many bytes of the log only the WAL has. 0 while a server writes: each batch is written to
/// its segment first, though not durably.
///
/// # Errors
/// The files cannot be read.
pub fn lacking(dir: &Path, data: &Path) -> io::Result<u64> {
    let runs = super::read_runs(data)?;
    let mut lacking = 0;
    for (day, frames) in runs.iter().flat_map(|files| by_day(files)) {
        let path = plain_path(dir, day);
        if fs::exists(&path)? {
            let missing = compare(dir, &path, &frames)?.missing;
            lacking += missing.iter().map(|frame| frame.bytes.len() as u64).sum::<u64>();
        }
    }
    Ok(lacking)
}

/// The frames of each day in the order in which they were written.
fn by_day(files: &[Vec<u8>]) -> BTreeMap<NaiveDate, Vec<Frame<'_>>> {
    let mut all: Vec<Frame<'_>> = files.iter().flat_map(|file| frames(file)).collect();
    all.sort_by_key(|frame| (frame.generation, frame.at));
    let mut days: BTreeMap<NaiveDate, Vec<Frame<'_>>> = BTreeMap::new();
    for frame in all {
        days.entry(frame.at.day).or_default().push(frame);
    }
    days
}

/// Frames that are missing in a segment.
struct Compared<'a> {
    missing: Vec<Frame<'a>>,
    left_out: u64,
}

fn compare<'a>(dir: &Path, path: &Path, frames: &[Frame<'a>]) -> io::Result<Compared<'a>> {
    let file = File::open(path)?;
    let mut compared = Compared { missing: Vec::new(), left_out: 0 };
    // End of the frame before, and the hash of its last record.
    let mut before: Option<(u64, Hash)> = None;
    for frame in frames {
        let there = read_up_to(&file, frame.at.offset, frame.bytes.len())?;
        if there != frame.bytes {
            if !fits(dir, frame, before, &there) {
                tracing::error!(
                    day = %frame.at.day, offset = frame.at.offset,
                    "a batch that was written ahead does not follow what is in the log; it is left out"
                );
                compared.left_out += 1;
                continue;
            }
            compared.missing.push(*frame);
        }
        let last = frame.bytes.strip_suffix(b"\n").and_then(read_seal);
        before = last.map(|seal| (frame.end().offset, seal.hash));
    }
    Ok(compared)
}

/// Whether a batch belongs where `there` is; `false` for a batch of another log.
fn fits(dir: &Path, frame: &Frame<'_>, before: Option<(u64, Hash)>, there: &[u8]) -> bool {
    let first = first_line(frame.bytes);
    let Some(seal) = read_seal(first) else { return false };
    let follows = frame.at.offset == 0
        || before == Some((frame.at.offset, seal.prev))
        || ends_with(dir, Head { seq: 0, hash: seal.prev }, frame.at);
    // A power cut leaves zeros or garbage where data is missing, never another valid record.
    let other = first_line(there);
    follows && (other == first || check_seal(other).is_none())
}

fn first_line(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(b'\n', bytes).unwrap_or(bytes.len())]
}

/// Reads `len` bytes, or as many as the file has.
fn read_up_to(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let there = file.metadata()?.len().saturating_sub(offset);
    let mut bytes = vec![0; len.min(usize::try_from(there).unwrap_or(usize::MAX))];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// How many frames of a day without a plain segment are lost. A segment is compressed or removed
/// only when it was complete, so that its frames are in the compressed segment, in the index, or
/// were removed with it.
fn count_lost(
    dir: &Path,
    day: NaiveDate,
    frames: &[Frame<'_>],
    index: &Index,
) -> Result<u64, OpenError> {
    let path = compressed_path(dir, day);
    let compressed = Segment { day, is_compressed: true, path };
    let is_compressed =
        fs::exists(&compressed.path)? && has_frames(&compressed, frames).unwrap_or(false);
    if is_compressed {
        return Ok(0);
    }
    let floor = index.floor().map_err(io::Error::from)?;
    let is_lost = |frame: &&Frame<'_>| {
        let line = frame.bytes.strip_suffix(b"\n").unwrap_or(frame.bytes);
        let last = &line[memchr::memrchr(b'\n', line).map_or(0, |newline| newline + 1)..];
        let is_known = peek(last)
            .is_some_and(|(seq, _)| seq <= floor || index_has(index, seq, last).unwrap_or(false));
        !is_known
    };
    let lost = frames.iter().filter(is_lost).count();
    if lost > 0 {
        tracing::error!(%day, frames = lost, "batches were written ahead of a day file that is missing");
    }
    Ok(lost as u64)
}

fn has_frames(segment: &Segment, frames: &[Frame<'_>]) -> io::Result<bool> {
    let mut frames = frames.to_vec();
    frames.sort_by_key(|frame| frame.at);
    let mut at = frames.first().map_or(0, |frame| frame.at.offset);
    let mut reader = segment.read_from(at)?;
    let mut there = Vec::new();
    for frame in frames {
        let Some(gap) = frame.at.offset.checked_sub(at) else { return Ok(false) };
        io::copy(&mut (&mut reader).take(gap), &mut io::sink())?;
        there.resize(frame.bytes.len(), 0);
        reader.read_exact(&mut there)?;
        if there != frame.bytes {
            return Ok(false);
        }
        at = frame.end().offset;
    }
    Ok(true)
}

fn index_has(index: &Index, seq: u64, line: &[u8]) -> Result<bool, crate::ReadError> {
    let Some(meta) = index.block_of(seq) else { return Ok(false) };
    let block = index.block(meta.first)?;
    Ok(block.line(seq).is_some_and(|entry| entry.of(&block.bytes) == line))
}

/// Writes missing frames into the segment and verifies that the disk has them.
fn put_back(
    dir: &Path,
    path: &Path,
    mut frames: Vec<Frame<'_>>,
    disk: &dyn Disk,
) -> io::Result<()> {
    frames.sort_by_key(|frame| frame.at);
    match in_place(path, &frames, disk) {
        Ok(true) => return Ok(()),
        Ok(false) => tracing::warn!(
            file = %path.display(),
            "the disk did not keep what was written in place; the day is written to a new file"
        ),
        Err(error) => tracing::warn!(
            %error, file = %path.display(),
            "the day file cannot be mended in place; it is written to a new file"
        ),
    }
    rewrite(dir, path, &frames, disk)?;
    if has_all(path, &frames, disk)? {
        return Ok(());
    }
    Err(io::Error::other("the disk does not keep what is written to it"))
}

fn in_place(path: &Path, frames: &[Frame<'_>], disk: &dyn Disk) -> io::Result<bool> {
    let mut file = disk.open_over(path)?;
    for frame in frames {
        file.write_at(frame.bytes, frame.at.offset)?;
    }
    file.sync()?;
    drop(file);
    has_all(path, frames, disk)
}

fn has_all(path: &Path, frames: &[Frame<'_>], disk: &dyn Disk) -> io::Result<bool> {
    disk.reread(path, frames.first().map_or(0, |frame| frame.at.offset))?;
    let file = File::open(path)?;
    for frame in frames {
        if read_up_to(&file, frame.at.offset, frame.bytes.len())? != frame.bytes {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Replaces the segment by a copy that contains the frames.
fn rewrite(dir: &Path, path: &Path, frames: &[Frame<'_>], disk: &dyn Disk) -> io::Result<()> {
    let mut old = OpenOptions::new().read(true).open(path)?;
    let len = old.metadata()?.len();
    let mut new = AtomicFile::new(path, disk)?;
    let mut at = 0;
    for frame in frames {
        copy(&mut old, at, frame.at.offset, &mut new)?;
        new.write_all(frame.bytes)?;
        at = frame.end().offset;
    }
    copy(&mut old, at, len, &mut new)?;
    new.finish(dir, disk)
}

fn copy(from: &mut File, mut at: u64, end: u64, to: &mut AtomicFile) -> io::Result<()> {
    let mut chunk = Vec::new();
    from.seek(SeekFrom::Start(at))?;
    while at < end {
        let len = CHUNK.min(end - at);
        chunk.resize(usize::try_from(len).unwrap_or(0), 0);
        from.read_exact(&mut chunk)?;
        to.write_all(&chunk)?;
        at += len;
    }
    Ok(())
}
