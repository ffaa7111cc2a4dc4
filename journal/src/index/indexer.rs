//! The thread that moves committed lines from the tail into sled.
//!
//! It is never waited for, except by `close`. When sled fails or panics, the lines stay where they
//! are (the log has them) and sled is opened anew (`reopen`), after a pause that grows with every
//! attempt. An outage is logged when it begins and when it is over.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Alive;
use crate::index::Index;
use crate::index::block::{BlockBuilder, LINES};
use crate::index::reopen::{Backoff, reopen};
use crate::index::tail::{SharedJournal, Slot, Stop};
use crate::record::batch::LogPos;
use crate::retention::worker::RetentionWorker;

/// How much it gives way to threads that somebody waits for. Enough that a busy bus does not
/// feel it, and still a tenth of their share, so that it gets on.
const NICE: i32 = 10;

/// Starts the thread. It ends, with the last error if there was one, when told to stop. `pause` is
/// the first one before an index that failed is opened again.
pub(crate) fn start(
    alive: Alive,
    shared: Arc<SharedJournal>,
    worker: Arc<RetentionWorker>,
    sums_up: bool,
    pause: Duration,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let compressor = zstd::bulk::Compressor::new(1)?;
    let (builder, backoff) = (BlockBuilder::new(sums_up), Backoff::new(pause));
    let indexer = Indexer { shared, worker, builder, compressor, backoff, tried_at_close: false };
    std::thread::Builder::new().name("a2a-indexer".to_owned()).spawn(move || {
        let _alive = alive;
        // On Linux this is about the calling thread alone.
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::debug!(%error, "the indexer does not give way to others");
        }
        indexer.run()
    })
}

struct Indexer {
    shared: Arc<SharedJournal>,
    worker: Arc<RetentionWorker>,
    builder: BlockBuilder,
    compressor: zstd::bulk::Compressor<'static>,
    backoff: Backoff,
    /// A journal that closes has had its one attempt to reopen the index.
    tried_at_close: bool,
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
            match catch_panic(|| self.work(&round)) {
                Ok(()) if round.stop == Some(Stop::Finish) && !more => return Ok(()),
                Ok(()) => {}
                Err(error) => self.reopen_after(error)?,
            }
        }
    }

    /// One round: blocks, and the checkpoint if it is due.
    fn work(&mut self, round: &Round) -> io::Result<()> {
        let index = self.shared.index().map_err(io::Error::other)?;
        self.store(&index, round)?;
        self.store_checkpoint(&index)?;
        if self.shared.fault().is_some() {
            index.check_writable()?;
            self.shared.set_fault(None);
            self.backoff.reset();
            tracing::info!("the index can be written again; it gets from the log what it lacks");
            self.worker.look();
        }
        Ok(())
    }

    /// Waits until a new index is open. Ends with the error when told to stop: what the index lacks
    /// it gets from the log at the next start.
    fn reopen_after(&mut self, error: io::Error) -> io::Result<()> {
        let mut error = error;
        loop {
            let text: Arc<str> = error.to_string().into();
            if self.shared.set_fault(Some(Arc::clone(&text))) {
                tracing::debug!(error = &*text, "the index still cannot be written");
            } else {
                tracing::error!(
                    error = &*text,
                    "the index cannot be written; messages are accepted all the same. It is opened again when the disk allows, tried after pauses of up to a minute"
                );
            }
            // Wakes callers that wait for the index.
            self.shared.settled.notify_all();
            let stop = self.pause();
            if stop == Some(Stop::Abandon) || self.tried_at_close {
                return Err(error);
            }
            self.tried_at_close = stop.is_some();
            let (shared, builder) = (&self.shared, &mut self.builder);
            match catch_panic(|| reopen(shared, builder).map_err(io::Error::other)) {
                Ok(index) => {
                    self.shared.publish_index(index);
                    return Ok(());
                }
                Err(again) if stop.is_some() => return Err(again),
                Err(again) => error = again,
            }
        }
    }

    /// Waits before the next attempt; a journal that closes makes its last one at once.
    fn pause(&mut self) -> Option<Stop> {
        let deadline = Instant::now() + self.backoff.pause();
        let mut tail = self.shared.tail();
        while tail.stop.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.wake.wait_timeout(tail, left);
            tail = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        tail.stop
    }

    /// Waits for a full block's worth of lines, a checkpoint or the end.
    fn wait(&self) -> Round {
        // An index that was just opened again must check_writable itself at once.
        let is_doubtful = self.shared.fault().is_some();
        let mut tail = self.shared.tail();
        while !is_doubtful && !tail.has_work() {
            tail = self.shared.wake.wait(tail).unwrap_or_else(PoisonError::into_inner);
        }
        let drain = is_doubtful || tail.checkpoint.is_some() || tail.stop.is_some();
        // Slots hold one line at least, so these hold a block at least, if there is one.
        let slots = tail.slots.iter().take(LINES + 1).cloned().collect();
        Round { slots, after: tail.indexed, drain, stop: tail.stop }
    }

    /// Stores a few blocks, so that a checkpoint or the end is noticed soon.
    fn store(&mut self, index: &Index, round: &Round) -> io::Result<()> {
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
                stored += self.store_block(index)?;
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
                self.builder.push_with_terms(line, entry.seq, entry.kind, seen, end, mark);
                if self.builder.is_full() {
                    stored += self.store_block(index)?;
                }
            }
        }
        if round.drain {
            self.store_block(index)?;
        }
        Ok(())
    }

    fn store_block(&mut self, index: &Index) -> io::Result<usize> {
        let lines = self.builder.lines();
        if lines > 0 {
            index.write(&mut self.builder, &mut self.compressor)?;
            self.builder.clear();
            self.shared.tail().indexed(index.last_seq(), lines);
        }
        Ok(lines)
    }

    /// Stores a waiting checkpoint once every line it covers is in sled.
    fn store_checkpoint(&self, index: &Index) -> io::Result<()> {
        let mut tail = self.shared.tail();
        let indexed = tail.indexed;
        let due = tail.checkpoint.take_if(|checkpoint| checkpoint.seq <= indexed);
        drop(tail);
        let Some(checkpoint) = due else { return Ok(()) };
        if let Err(error) = checkpoint.value().and_then(|value| index.set_checkpoint(value)) {
            // A later one, if there is one by now, is as good.
            self.shared.tail().checkpoint.get_or_insert(checkpoint);
            return Err(error);
        }
        let before = self.shared.tail().stored.replace((checkpoint.seq, checkpoint.day));
        self.shared.settled.notify_all();
        if before.is_none_or(|(_, day)| day < checkpoint.day) {
            // A day has closed.
            self.worker.look();
        }
        Ok(())
    }
}

/// A panic of sled is a failure of sled.
fn catch_panic<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let panicked = |_| Err(io::Error::other("the index panicked"));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}
