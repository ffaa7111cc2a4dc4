//! Store thread: commits all queued writes in one transaction at a time (group commit).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use a2a_journal::LivenessGuard;
use a2a_taskdb::{TaskStoreError, TaskWriter, Write};
use actix::Addr;

use super::TaskStats;
use super::service::{Committed, Service};

/// Writes per transaction.
const BATCH: usize = 1_024;
/// Delay before a failed commit is retried.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// A write, and the number of its result.
pub(super) struct WriteJob {
    pub(super) number: u64,
    pub(super) write: Write,
    /// Returned as failed while the store is unavailable: its caller can retry. Every other write
    /// records what has happened already and is retried here.
    pub(super) fail_fast: bool,
}

/// Spawns the thread. It ends when every sender is dropped and everything is written.
pub(super) fn start(
    store: Box<dyn TaskWriter>,
    service: Addr<Service>,
    stats: Arc<TaskStats>,
    alive: LivenessGuard,
) -> std::io::Result<(Sender<Vec<WriteJob>>, JoinHandle<()>)> {
    let (sender, jobs) = channel();
    let thread = std::thread::Builder::new().name("a2a-task-store".into()).spawn(move || {
        let _alive = alive;
        run(store, &jobs, &service, &stats);
    })?;
    Ok((sender, thread))
}

fn run(
    mut store: Box<dyn TaskWriter>,
    jobs: &Receiver<Vec<WriteJob>>,
    service: &Addr<Service>,
    stats: &TaskStats,
) {
    let mut kept: VecDeque<WriteJob> = VecDeque::new();
    let mut open = true;
    loop {
        if kept.is_empty() {
            // A failed store is probed even when there is nothing to write.
            let waited = if stats.is_writing() {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(RETRY_DELAY)
            };
            match waited {
                Ok(more) => kept.extend(more),
                Err(RecvTimeoutError::Timeout) => {
                    if timed(stats, || store.probe()).is_ok() {
                        writes_again(stats);
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        // Unbounded, so that fail-fast writes get their result while the store is unavailable.
        open &= take_waiting(jobs, &mut kept);
        let batch: Vec<&WriteJob> = kept.iter().take(BATCH).collect();
        let (numbers, writes): (Vec<_>, Vec<_>) =
            batch.iter().map(|job| (job.number, job.write.clone())).unzip();
        let started = Instant::now();
        match timed(stats, || store.commit(writes)) {
            Ok(written) => {
                stats.commit_seconds().took(started.elapsed());
                stats.commit_changes().counted(numbers.len());
                writes_again(stats);
                kept.drain(..numbers.len());
                let results = numbers.into_iter().zip(written.into_iter().map(Some)).collect();
                service.do_send(Committed(results));
            }
            Err(error) => {
                let changes = kept.len();
                // One error per outage, not per retry.
                if stats.is_writing() {
                    tracing::error!(%error, changes, "the task store could not be written; no task is accepted until it can be");
                } else {
                    tracing::debug!(%error, changes, "the task store still cannot be written");
                }
                stats.store.set_writing(false);
                fail_fast(&mut kept, service);
                if !open {
                    stats.set_unwritten(kept.len());
                    tracing::error!(
                        changes = kept.len(),
                        "the server ends before the disk took them"
                    );
                    return;
                }
                std::thread::sleep(RETRY_DELAY);
            }
        }
    }
}

/// Measures the duration of a write for the readiness check.
fn timed<T>(
    stats: &TaskStats,
    write: impl FnOnce() -> Result<T, TaskStoreError>,
) -> Result<T, TaskStoreError> {
    stats.store.begin();
    let result = write();
    stats.store.end();
    result
}

fn writes_again(stats: &TaskStats) {
    if !stats.is_writing() {
        tracing::info!("the task store can be written again");
        stats.store.set_writing(true);
    }
}

/// Receives all queued writes; `false` when every sender is dropped.
fn take_waiting(jobs: &Receiver<Vec<WriteJob>>, kept: &mut VecDeque<WriteJob>) -> bool {
    loop {
        match jobs.try_recv() {
            Ok(more) => kept.extend(more),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// Returns the fail-fast writes as failed; keeps the others.
fn fail_fast(kept: &mut VecDeque<WriteJob>, service: &Addr<Service>) {
    let (failed, rest): (VecDeque<WriteJob>, VecDeque<WriteJob>) =
        kept.drain(..).partition(|job| job.fail_fast);
    *kept = rest;
    if !failed.is_empty() {
        let results = failed.into_iter().map(|job| (job.number, None)).collect();
        service.do_send(Committed(results));
    }
}
