//! Indexer thread: moves committed records from the tail into sled.
//!
//! Only `close` waits for it. When sled fails or panics, the records stay in the tail (the log has
//! them) and sled is opened again (`reopen`), after a pause that grows with every attempt. The begin
//! and the end of an outage are logged.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::LivenessGuard;
use crate::index::Index;
use crate::index::block::{BlockBuilder, LINES};
use crate::index::reopen::{Backoff, reopen};
use crate::index::tail::{SharedJournal, Slot, Stop};
use crate::record::batch::LogPos;
use crate::retention::worker::RetentionWorker;

/// Nice value of the thread: low enough priority not to slow down commits, and still a tenth of
/// their share of the CPU.
const NICE: i32 = 10;

/// Starts the thread. It ends on [`Stop`], with the last error if there was one. `pause` is the
/// first pause before a failed index is opened again.
pub(crate) fn start(
    alive: LivenessGuard,
    shared: Arc<SharedJournal>,
    worker: Arc<RetentionWorker>,
    has_summaries: bool,
    pause: Duration,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let compressor = zstd::bulk::Compressor::new(1)?;
    let (builder, backoff) = (BlockBuilder::new(has_summaries), Backoff::new(pause));
    let indexer = Indexer { shared, worker, builder, compressor, backoff, tried_at_close: false };
    std::thread::Builder::new().name("a2a-indexer".to_owned()).spawn(move || {
        let _alive = alive;
        // On Linux this applies to the calling thread alone.
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
    /// The one attempt to reopen the index during `close` was made.
    tried_at_close: bool,
}

/// The work of one round.
struct Round {
    slots: Vec<Slot>,
    after: u64,
    /// Store the last records too, although they do not fill a block.
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

    /// One round: stores blocks, and the checkpoint if it is due.
    fn work(&mut self, round: &Round) -> io::Result<()> {
        let index = self.shared.index().map_err(io::Error::other)?;
        self.store(&index, round)?;
        self.store_checkpoint(&index)?;
        if self.shared.fault().is_some() {
            index.check_writable()?;
            self.shared.set_fault(None);
            self.backoff.reset();
            tracing::info!("the index can be written again; it gets from the log what it lacks");
            self.worker.wake();
        }
        Ok(())
    }

    /// Reopens the index, with pauses between the attempts. Returns the error on [`Stop`]: the next
    /// start adds the missing records from the log.
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

    /// Waits before the next attempt; a closing journal makes its last one at once.
    fn pause(&mut self) -> Option<Stop> {
        let deadline = Instant::now() + self.backoff.pause();
        let mut tail = self.shared.tail();
        while tail.stop.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.shared.wake.wait_for(&mut tail, left);
        }
        tail.stop
    }

    /// Waits for a full block, a checkpoint or [`Stop`].
    fn wait(&self) -> Round {
        // An index that was just opened again must check_writable itself at once.
        let is_doubtful = self.shared.fault().is_some();
        let mut tail = self.shared.tail();
        while !is_doubtful && !tail.has_work() {
            self.shared.wake.wait(&mut tail);
        }
        let drain = is_doubtful || tail.checkpoint.is_some() || tail.stop.is_some();
        // A slot has at least one record, so that these contain a full block if there is one.
        let slots = tail.slots.iter().take(LINES + 1).cloned().collect();
        Round { slots, after: tail.indexed, drain, stop: tail.stop }
    }

    /// Stores a few blocks, so that a checkpoint or [`Stop`] is handled soon.
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
            let mut all_terms = slot.terms.iter().peekable();
            for entry in &batch.entries {
                let seen = seen.next_if(|seen| seen.seq == entry.seq).copied();
                let terms = all_terms.next_if(|(record, _)| record.seq == entry.seq);
                if entry.seq <= round.after {
                    continue;
                }
                let offset = batch.at.offset + entry.end as u64;
                let end = LogPos { day: batch.at.day, offset };
                let line = bytes.get(entry.start..entry.end).unwrap_or_default();
                self.builder.push_with_terms(line, entry.seq, entry.kind, seen, end, terms);
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
            self.shared.tail().remove_indexed(index.last_seq(), lines);
        }
        Ok(lines)
    }

    /// Stores the pending checkpoint once every record that it covers is in sled.
    fn store_checkpoint(&self, index: &Index) -> io::Result<()> {
        let mut tail = self.shared.tail();
        let indexed = tail.indexed;
        let due = tail.checkpoint.take_if(|checkpoint| checkpoint.seq <= indexed);
        drop(tail);
        let Some(checkpoint) = due else { return Ok(()) };
        if let Err(error) = checkpoint.value().and_then(|value| index.set_checkpoint(value)) {
            // A later one, if there is one by now, replaces it.
            self.shared.tail().checkpoint.get_or_insert(checkpoint);
            return Err(error);
        }
        let before = self.shared.tail().stored.replace((checkpoint.seq, checkpoint.day));
        self.shared.settled.notify_all();
        if before.is_none_or(|(_, day)| day < checkpoint.day) {
            // A segment was closed.
            self.worker.wake();
        }
        Ok(())
    }
}

/// Converts a panic of sled into an error.
fn catch_panic<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let panicked = |_| Err(io::Error::other("the index panicked"));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}
