//! Reopens the index after a failure, and restores the lost records from the log.
//!
//! sled keeps its first write error until it is closed, even if the disk recovers. Reopened, it has
//! the data that reached its file, which may be less than it had accepted. Everything here runs on
//! the indexer thread.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::index::Index;
use crate::index::block::BlockBuilder;
use crate::index::tail::{SharedJournal, Stop};
use crate::record::decode::peek;
use crate::recovery::prefix_state::state_before_files;
use crate::recovery::scan::{ends_with, scan};
use crate::recovery::set_aside;
use crate::{OpenError, ReadError, file_mode};

/// Bytes of the write test: sled extends its file by half of this at once.
const PROBE_BYTES: usize = 1 << 20;
const PROBE: &str = "a2a-journal.probe";

/// Exponential backoff between two attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
}

/// The longest pause. Opening a large index takes seconds, so that retries must be rare.
const LONGEST: Duration = Duration::from_secs(60);

impl Backoff {
    pub fn new(first: Duration) -> Self {
        Self { first, next: first }
    }

    /// The pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }

    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Opens the index again and restores the records that it held before. The failed index stays open
/// for reads until the disk accepts writes.
pub(crate) fn reopen(
    shared: &SharedJournal,
    builder: &mut BlockBuilder,
) -> Result<Index, OpenError> {
    let data = shared.state_dir.join("data");
    probe(&data.join(PROBE))?;
    shared.retire_index();
    let path = data.join("a2a-journal");
    let index = match open(shared, &path) {
        Err(OpenError::Read(ReadError::Damaged { .. })) => {
            // Fails if the segments alone are not enough, before anything is moved.
            state_before_files(&shared.dir, &path, None)?;
            set_aside(&path)?;
            open(shared, &path)?
        }
        opened => opened?,
    };
    catch_up(shared, &index, builder)?;
    index.flush()?;
    Ok(index)
}

/// Tests whether the disk accepts as many bytes as sled writes at once.
fn probe(path: &Path) -> io::Result<()> {
    let mut file = file_mode::create(path)?;
    let written = file.write_all(&vec![0x5a; PROBE_BYTES]).and_then(|()| file.sync_all());
    fs::remove_file(path)?;
    written
}

fn open(shared: &SharedJournal, path: &Path) -> Result<Index, OpenError> {
    let (index, _) = Index::open(path).map_err(|error| error.at(path))?;
    if let Some(meta) = index.last()
        && !ends_with(&shared.dir, meta.last, meta.end)
    {
        return Err(ReadError::Damaged { block: meta.first }.into());
    }
    index.remove_stale_blocks()?;
    Ok(index)
}

/// Why a scan ends early.
enum Halt {
    /// All missing records were read.
    Done,
    Failed(io::Error),
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Adds every record from the log that the index held before. Those behind them are in the tail.
fn catch_up(shared: &SharedJournal, index: &Index, builder: &mut BlockBuilder) -> io::Result<()> {
    let (held, after) = (shared.tail().indexed, index.last_seq());
    builder.clear();
    if after >= held {
        return Ok(());
    }
    let mut compressor = zstd::bulk::Compressor::new(1)?;
    let mut store = |builder: &mut BlockBuilder| {
        if shared.tail().stop == Some(Stop::Abandon) {
            return Err(io::Error::other("the journal is closing"));
        }
        index.write(builder, &mut compressor)?;
        builder.clear();
        Ok(())
    };
    let start = index.last().map(|meta| (meta.last, meta.end));
    let scanned = scan::<Halt>(&shared.dir, start, None, |good| {
        let Some((seq, kind)) = peek(good.bytes) else { return Ok(()) };
        if seq > held {
            return Err(Halt::Done);
        }
        if !builder.takes(good.end.day) {
            store(builder)?;
        }
        builder.push(good.bytes, seq, kind, good.decoded.seen(), good.end);
        if builder.is_full() {
            store(builder)?;
        }
        Ok(())
    });
    match scanned {
        Ok(_) | Err(Halt::Done) => store(builder),
        Err(Halt::Failed(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_a_minute_and_resets() {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        let pauses: Vec<u64> = (0..8).map(|_| backoff.pause().as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.reset();
        assert_eq!(backoff.pause().as_secs(), 1);
    }
}
