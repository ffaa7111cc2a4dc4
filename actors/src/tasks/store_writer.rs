//! The store's own thread: takes whatever waits, one transaction for all of it, again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use a2a_journal::Alive;
use a2a_taskdb::{TaskStoreError, TaskWriter, Write};
use actix::Addr;

use super::TaskStats;
use super::service::{Committed, Service};

/// How many changes share a transaction at most.
const BATCH: usize = 1_024;
/// How long to wait before a disk that refused is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// A change, and the number under which its answer comes back.
pub(super) struct WriteJob {
    pub(super) number: u64,
    pub(super) write: Write,
    /// Somebody hears that it failed and can ask again. Everything else happened already and must
    /// be kept.
    pub(super) asks: bool,
}

/// Starts the thread; it ends when every sender is gone and everything is written.
pub(super) fn start(
    store: Box<dyn TaskWriter>,
    service: Addr<Service>,
    stats: Arc<TaskStats>,
    alive: Alive,
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
            // A store that refused is tried again though nothing is to be written.
            let waited = if stats.is_writing() {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(TRY_AGAIN)
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
        // All of it, however much is kept: who asks is answered even while the disk refuses.
        open &= take_waiting(jobs, &mut kept);
        let batch: Vec<&WriteJob> = kept.iter().take(BATCH).collect();
        let (numbers, writes): (Vec<_>, Vec<_>) =
            batch.iter().map(|job| (job.number, job.write.clone())).unzip();
        let begun = Instant::now();
        match timed(stats, || store.commit(writes)) {
            Ok(written) => {
                stats.commit_seconds().took(begun.elapsed());
                stats.commit_changes().counted(numbers.len());
                writes_again(stats);
                kept.drain(..numbers.len());
                let results = numbers.into_iter().zip(written.into_iter().map(Some)).collect();
                service.do_send(Committed(results));
            }
            Err(error) => {
                let changes = kept.len();
                // Once for each time the disk refuses, however often it is tried.
                if stats.is_writing() {
                    tracing::error!(%error, changes, "the task store could not be written; no task is accepted until it can be");
                } else {
                    tracing::debug!(%error, changes, "the task store still cannot be written");
                }
                stats.store.set_writing(false);
                refuse_those_who_ask(&mut kept, service);
                if !open {
                    stats.set_unwritten(kept.len());
                    tracing::error!(
                        changes = kept.len(),
                        "the server ends before the disk took them"
                    );
                    return;
                }
                std::thread::sleep(TRY_AGAIN);
            }
        }
    }
}

/// Notes for the edges how long the disk takes.
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

/// Takes what waits; `false` when nothing more can come.
fn take_waiting(jobs: &Receiver<Vec<WriteJob>>, kept: &mut VecDeque<WriteJob>) -> bool {
    loop {
        match jobs.try_recv() {
            Ok(more) => kept.extend(more),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// Tells those who can ask again that the disk refuses; the rest is kept.
fn refuse_those_who_ask(kept: &mut VecDeque<WriteJob>, service: &Addr<Service>) {
    let (failed, rest): (VecDeque<WriteJob>, VecDeque<WriteJob>) =
        kept.drain(..).partition(|job| job.asks);
    *kept = rest;
    if !failed.is_empty() {
        let results = failed.into_iter().map(|job| (job.number, None)).collect();
        service.do_send(Committed(results));
    }
}
