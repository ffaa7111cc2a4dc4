//! The store's own thread: takes whatever waits, one transaction for all of it, again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use a2a_store::tasks::{TaskWriter, Write};
use actix::Addr;

use super::TaskStats;
use super::service::{Committed, Service};

/// How many changes share a transaction at most.
const BATCH: usize = 1_024;
/// How long to wait before a disk that refused is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// A change, and the number under which its answer comes back.
pub(super) struct Job {
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
) -> std::io::Result<(Sender<Vec<Job>>, JoinHandle<()>)> {
    let (sender, jobs) = channel();
    let thread = std::thread::Builder::new()
        .name("a2a-task-store".into())
        .spawn(move || run(store, &jobs, &service, &stats))?;
    Ok((sender, thread))
}

fn run(
    mut store: Box<dyn TaskWriter>,
    jobs: &Receiver<Vec<Job>>,
    service: &Addr<Service>,
    stats: &TaskStats,
) {
    let mut kept: VecDeque<Job> = VecDeque::new();
    let mut open = true;
    loop {
        if kept.is_empty() {
            match jobs.recv() {
                Ok(more) => kept.extend(more),
                Err(_) => return,
            }
        }
        // All of it, however much is kept: who asks is answered even while the disk refuses.
        open &= take_waiting(jobs, &mut kept);
        let batch: Vec<&Job> = kept.iter().take(BATCH).collect();
        let (numbers, writes): (Vec<_>, Vec<_>) =
            batch.iter().map(|job| (job.number, job.write.clone())).unzip();
        let begun = Instant::now();
        match store.commit(writes) {
            Ok(written) => {
                stats.commit_seconds().took(begun.elapsed());
                stats.commit_changes().counted(numbers.len());
                stats.set_writing(true);
                kept.drain(..numbers.len());
                let results = numbers.into_iter().zip(written.into_iter().map(Some)).collect();
                service.do_send(Committed(results));
            }
            Err(error) => {
                stats.set_writing(false);
                tracing::error!(%error, changes = kept.len(), "the task store could not be written");
                refuse_those_who_ask(&mut kept, service);
                if !open {
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

/// Takes what waits; `false` when nothing more can come.
fn take_waiting(jobs: &Receiver<Vec<Job>>, kept: &mut VecDeque<Job>) -> bool {
    loop {
        match jobs.try_recv() {
            Ok(more) => kept.extend(more),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// Tells those who can ask again that the disk refuses; the rest is kept.
fn refuse_those_who_ask(kept: &mut VecDeque<Job>, service: &Addr<Service>) {
    let (failed, rest): (VecDeque<Job>, VecDeque<Job>) = kept.drain(..).partition(|job| job.asks);
    *kept = rest;
    if !failed.is_empty() {
        let results = failed.into_iter().map(|job| (job.number, None)).collect();
        service.do_send(Committed(results));
    }
}
