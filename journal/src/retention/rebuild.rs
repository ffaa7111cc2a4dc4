//! Rebuilds missing segments from the index, byte for byte.
//!
//! The opposite direction is part of recovery: a missing index is rebuilt from the log at open.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::NaiveDate;

use crate::formats::check_listed_formats;
use crate::index::Index;
use crate::index::block_reader::BlockReader;
use crate::index::facets::time_and_outcome;
use crate::record::batch::Entry;
use crate::record::chain::{Hash, check_seal};
use crate::record::encode::day_of;
use crate::segment::compress::AtomicFile;
use crate::segment::{FOLDER, list_segments, plain_path};
use crate::{Disk, OpenError, ReadError, RealDisk};

/// Writes the missing segments of a state folder from the index, and returns their paths. The hash
/// and the link of every record are verified first.
///
/// Only while no server runs. Existing segments, in either form, stay unchanged; days that retention
/// removed are not restored.
///
/// # Errors
/// When the index cannot be opened or does not contain a chain, or the disk fails. A day that is
/// incomplete in the index is [`ReadError::Damaged`], and its segment is not written.
pub fn rebuild_log(state_dir: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let dir = state_dir.join(FOLDER);
    let index = open_index(state_dir)?;
    RealDisk.create_dir_all(&dir)?;
    let there: Vec<NaiveDate> = list_segments(&dir)?.into_iter().map(|file| file.day).collect();
    Ok(rebuild(&index, &dir, |day| !there.contains(&day))?)
}

/// Where segments are written for a backup, in the state folder. The path is fixed: a client cannot
/// choose where the server writes, and needs read access to the folder to use the result.
pub const REBUILT: &str = "data/a2a-rebuilt";

/// Writes the segments of the days before `before` from the index to [`REBUILT`], for a backup, and
/// returns their paths. Only while no server runs; otherwise use
/// [`crate::JournalReader::rebuild_before`].
///
/// # Errors
/// When the index cannot be opened or does not contain a chain, or the disk fails.
pub fn rebuild_before(state_dir: &Path, before: NaiveDate) -> Result<Vec<PathBuf>, OpenError> {
    Ok(rebuild_aside(&open_index(state_dir)?, state_dir, before)?)
}

/// Like [`rebuild_before`], with an open index.
pub(crate) fn rebuild_aside(
    index: &Index,
    state_dir: &Path,
    before: NaiveDate,
) -> Result<Vec<PathBuf>, ReadError> {
    let dir = state_dir.join(REBUILT);
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    RealDisk.create_dir_all(&dir)?;
    rebuild(index, &dir, |day| day < before)
}

fn open_index(state_dir: &Path) -> Result<Index, OpenError> {
    check_listed_formats(state_dir)?;
    let path = state_dir.join("data/a2a-journal");
    let opened = Index::open(&path).map_err(|error| error.at(&path))?;
    Ok(opened.0)
}

/// Writes the wanted days into a folder.
fn rebuild(
    index: &Index,
    dir: &Path,
    wanted: impl Fn(NaiveDate) -> bool,
) -> Result<Vec<PathBuf>, ReadError> {
    let mut rebuild = Rebuild { dir, wanted, day: None, file: None, written: Vec::new() };
    let (mut reader, mut above, mut prev) = (BlockReader::new()?, 0, None);
    while let Some(meta) = index.block_above(above, |_| true) {
        index.read_block(meta.first, &mut reader)?;
        let block = &reader.block;
        check(&block.entries, &block.bytes, &mut prev)
            .ok_or(ReadError::Damaged { block: meta.first })?;
        let mut days: BTreeMap<NaiveDate, (usize, usize)> = BTreeMap::new();
        // Only blocks of older versions span two days.
        let earlier = block.bytes.len().saturating_sub(meta.end.offset as usize);
        days.insert(meta.end.day, (earlier, block.bytes.len()));
        for entry in block.entries.iter().take_while(|entry| entry.start < earlier) {
            let time = time_and_outcome(entry.of(&block.bytes)).map(|(time, _)| time);
            let day = time.map_or(meta.end.day, day_of).max(rebuild.day.unwrap_or(NaiveDate::MIN));
            let part = days.entry(day).or_insert((entry.start, entry.end));
            *part = (part.0.min(entry.start), part.1.max(entry.end));
        }
        for (day, (start, end)) in days {
            rebuild.add(day, block.bytes.get(start..end).unwrap_or_default())?;
        }
        if rebuild.file.as_ref().is_some_and(|(_, file)| file.len != meta.end.offset) {
            return Err(ReadError::Damaged { block: meta.first });
        }
        above = meta.last.seq;
    }
    rebuild.finish()?;
    Ok(rebuild.written)
}

/// Verifies the hash and the link of each record.
fn check(entries: &[Entry], bytes: &[u8], prev: &mut Option<Hash>) -> Option<()> {
    for entry in entries {
        let seal = check_seal(entry.of(bytes))?;
        if prev.is_some_and(|prev| prev != seal.prev) {
            return None;
        }
        *prev = Some(seal.hash);
    }
    Some(())
}

/// The segment being written.
struct Rebuild<'a, Wanted> {
    dir: &'a Path,
    wanted: Wanted,
    day: Option<NaiveDate>,
    /// Its file; `None` if the day is not wanted.
    file: Option<(PathBuf, AtomicFile)>,
    written: Vec<PathBuf>,
}

impl<Wanted: Fn(NaiveDate) -> bool> Rebuild<'_, Wanted> {
    fn add(&mut self, day: NaiveDate, bytes: &[u8]) -> io::Result<()> {
        if self.day != Some(day) {
            self.finish()?;
            self.day = Some(day);
            if (self.wanted)(day) {
                let path = plain_path(self.dir, day);
                let file = AtomicFile::new(&path, &RealDisk)?;
                self.file = Some((path, file));
            }
        }
        self.file.as_mut().map_or(Ok(()), |(_, file)| file.write_all(bytes))
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some((path, file)) = self.file.take() {
            file.finish(self.dir, &RealDisk)?;
            self.written.push(path);
        }
        Ok(())
    }
}
