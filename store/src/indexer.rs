//! The thread that moves committed lines from the tail into sled.
//!
//! It is never waited for, except by `close`. When sled fails it says so, keeps the
//! lines where they are and tries again: the log has them.

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::batch::LogPos;
use crate::block::{Builder, LINES};
use crate::index::Index;
use crate::keeper::Keeper;
use crate::tail::{Shared, Slot, Stop};

/// How much it gives way to threads that somebody waits for. Enough that a busy bus does not
/// feel it, and still a tenth of their share, so that it gets on.
const NICE: i32 = 10;

/// How long it waits after sled has failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Starts the thread. It ends, with the last error if there was one, when told to stop.
pub(crate) fn start(
    shared: Arc<Shared>,
    index: Arc<Index>,
    keeper: Arc<Keeper>,
    sums_up: bool,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let compressor = zstd::bulk::Compressor::new(1)?;
    let builder = Builder::new(sums_up);
    let indexer = Indexer { shared, index, keeper, builder, compressor };
    std::thread::Builder::new().name("a2a-indexer".to_owned()).spawn(move || {
        // On Linux this is about the calling thread alone.
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::debug!(%error, "the indexer does not give way to others");
        }
        indexer.run()
    })
}

struct Indexer {
    shared: Arc<Shared>,
    index: Arc<Index>,
    keeper: Arc<Keeper>,
    builder: Builder,
    compressor: zstd::bulk::Compressor<'static>,
}

/// What one round has to do.
struct Round {
    slots: Vec<Slot>,
    after: u64,
    /// Store the last lines too, though they fill no block.
    drain: bool,
    stop: Option<Stop>,
}

impl Indexer {
    fn run(mut self) -> io::Result<()> {
        loop {
            let round = self.wait();
            if round.stop == Some(Stop::Abandon) {
                return Ok(());
            }
            let more = !round.slots.is_empty();
            let result = self.store(&round).and_then(|()| self.store_checkpoint());
            match (result, round.stop) {
                (Ok(()), Some(Stop::Finish)) if !more => return Ok(()),
                (Ok(()), _) => {}
                (Err(error), Some(_)) => return Err(error),
                (Err(error), None) => {
                    tracing::error!(%error, "sled refused a block; the log has it, trying again");
                    let tail = self.shared.tail();
                    drop(self.shared.wake.wait_timeout(tail, PAUSE_AFTER_FAILURE));
                }
            }
        }
    }

    /// Waits for a full block's worth of lines, a checkpoint or the end.
    fn wait(&self) -> Round {
        let mut tail = self.shared.tail();
        while !tail.has_work() {
            tail = self.shared.wake.wait(tail).unwrap_or_else(PoisonError::into_inner);
        }
        let drain = tail.checkpoint.is_some() || tail.stop.is_some();
        // Slots hold one line at least, so these hold a block at least, if there is one.
        let slots = tail.slots.iter().take(LINES + 1).cloned().collect();
        Round { slots, after: tail.indexed, drain, stop: tail.stop }
    }

    /// Stores a few blocks, so that a checkpoint or the end is noticed soon.
    fn store(&mut self, round: &Round) -> io::Result<()> {
        const ENOUGH: usize = 8 * LINES;
        let mut stored = 0;
        self.builder.clear();
        for slot in &round.slots {
            if stored >= ENOUGH {
                return Ok(());
            }
            let batch = &slot.batch;
            let bytes = slot.bytes(&self.shared.dir)?;
            if !self.builder.takes(batch.at.day) {
                stored += self.store_block()?;
            }
            let mut seen = batch.seen.iter().peekable();
            let mut marks = slot.marks.iter().peekable();
            for entry in &batch.entries {
                let seen = seen.next_if(|seen| seen.seq == entry.seq).copied();
                let mark = marks.next_if(|(mark, _)| mark.seq == entry.seq);
                if entry.seq <= round.after {
                    continue;
                }
                let offset = batch.at.offset + entry.end as u64;
                let end = LogPos { day: batch.at.day, offset };
                let line = bytes.get(entry.start..entry.end).unwrap_or_default();
                self.builder.push_marked(line, entry.seq, entry.kind, seen, end, mark);
                if self.builder.is_full() {
                    stored += self.store_block()?;
                }
            }
        }
        if round.drain {
            self.store_block()?;
        }
        Ok(())
    }

    fn store_block(&mut self) -> io::Result<usize> {
        let lines = self.builder.lines();
        if lines > 0 {
            self.index.write(&mut self.builder, &mut self.compressor)?;
            self.builder.clear();
            self.shared.tail().indexed(self.index.last_seq(), lines);
        }
        Ok(lines)
    }

    /// Stores a waiting checkpoint once every line it covers is in sled.
    fn store_checkpoint(&self) -> io::Result<()> {
        let mut tail = self.shared.tail();
        let indexed = tail.indexed;
        let due = tail.checkpoint.take_if(|checkpoint| checkpoint.seq <= indexed);
        drop(tail);
        let Some(checkpoint) = due else { return Ok(()) };
        self.index.set_checkpoint(checkpoint.value()?)?;
        let before = self.shared.tail().stored.replace((checkpoint.seq, checkpoint.day));
        self.shared.settled.notify_all();
        if before.is_none_or(|(_, day)| day < checkpoint.day) {
            // A day has closed.
            self.keeper.look();
        }
        Ok(())
    }
}
