//! Group-commit buffer between the bus thread and the journal thread.
//!
//! Router and sessions push records one by one. The buffer flushes them together once the bus
//! thread is idle, so that all work of one turn shares one commit: waking the journal thread for
//! each record would take the processor from the thread that produces the next. On an idle bus a
//! record is flushed at once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use crate::bus::commit::writer::{Append, Job};

/// Number of records that are flushed without waiting for more.
const FLUSH_AT: usize = 256;
/// Longest time that a busy bus keeps records buffered.
const MAX_HOLD: Duration = Duration::from_millis(2);

/// Records in their order.
pub(crate) struct CommitBuffer {
    appends: RefCell<Vec<Append>>,
    /// Queue of the journal thread; `None` once closed.
    jobs: RefCell<Option<Sender<Job>>>,
    /// Notified by the first record of a batch.
    non_empty: Notify,
}

impl CommitBuffer {
    pub(crate) fn new(jobs: Sender<Job>) -> Self {
        Self { appends: RefCell::default(), jobs: Some(jobs).into(), non_empty: Notify::new() }
    }

    /// Buffers a record; `false` when nothing more is written.
    pub(crate) fn push(&self, append: Append) -> bool {
        if self.jobs.borrow().is_none() {
            return false;
        }
        let mut appends = self.appends.borrow_mut();
        appends.push(append);
        let count = appends.len();
        drop(appends);
        match count {
            1 => self.non_empty.notify_one(),
            FLUSH_AT.. => self.flush(),
            _ => {}
        }
        true
    }

    /// Sends all buffered records to the journal thread.
    pub(crate) fn flush(&self) {
        let appends = std::mem::take(&mut *self.appends.borrow_mut());
        if appends.is_empty() {
            return;
        }
        let jobs = self.jobs.borrow();
        if jobs.as_ref().is_none_or(|jobs| jobs.send(Job::Append(appends)).is_err()) {
            // Only during shutdown; the dropped senders notify those who wait.
            tracing::error!("records arrived after the journal closed");
        }
    }

    /// Closes the buffer. `done` is resolved when everything buffered before is written. `false`
    /// when the journal thread has ended.
    pub(crate) fn close(&self, done: oneshot::Sender<()>) -> bool {
        self.flush();
        let jobs = self.jobs.borrow_mut().take();
        jobs.is_some_and(|jobs| jobs.send(Job::Flush(done)).is_ok())
    }

    /// Whether nothing can be written any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.jobs.borrow().is_none()
    }

    /// Flushes whenever the bus thread, on which this runs, has no more records to add.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.non_empty.notified().await;
            let started = Instant::now();
            loop {
                let before = self.appends.borrow().len();
                // All other ready tasks of this thread run now.
                tokio::task::yield_now().await;
                let now = self.appends.borrow().len();
                if now <= before || started.elapsed() >= MAX_HOLD {
                    break self.flush();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use a2a_journal::{EventRecord, Record};
    use a2a_protocol::Event;

    use super::*;
    use crate::bus::commit::effects::OnCommit;

    fn record(seq: u64) -> Append {
        let record =
            Record::Event(EventRecord::new(seq, chrono::DateTime::UNIX_EPOCH, Event::Joined));
        Append { record, on_commit: OnCommit::Nothing }
    }

    fn commit_buffer() -> (Rc<CommitBuffer>, Receiver<Job>) {
        let (jobs, queue) = channel();
        (Rc::new(CommitBuffer::new(jobs)), queue)
    }

    /// Sequence numbers of the records in each job; a flush job has none.
    fn flushed(queue: &Receiver<Job>) -> Vec<Vec<u64>> {
        let numbers = |job| match job {
            Job::Append(appends) => appends.iter().map(|append| append.record.seq()).collect(),
            Job::Flush(_) => Vec::new(),
        };
        queue.try_iter().map(numbers).collect()
    }

    #[tokio::test]
    async fn records_of_one_turn_share_one_flush() {
        let (commit_buffer, queue) = commit_buffer();
        let bus_thread = tokio::task::LocalSet::new();
        bus_thread.spawn_local(Rc::clone(&commit_buffer).run());
        let bus = async {
            // The second record follows from the first, as an answer follows from a request.
            let (first, second) = (Rc::clone(&commit_buffer), Rc::clone(&commit_buffer));
            tokio::task::spawn_local(async move {
                first.push(record(1));
                tokio::task::spawn_local(async move { second.push(record(2)) });
            });
            while flushed(&queue).first().inspect(|appends| assert_eq!(**appends, [1, 2])).is_none()
            {
                tokio::task::yield_now().await;
            }
            commit_buffer.push(record(3));
            while flushed(&queue).first().inspect(|appends| assert_eq!(**appends, [3])).is_none() {
                tokio::task::yield_now().await;
            }
        };
        bus_thread.run_until(bus).await;
    }

    #[test]
    fn full_buffer_flushes_at_once() {
        let (commit_buffer, queue) = commit_buffer();
        for seq in 1..=FLUSH_AT as u64 + 1 {
            assert!(commit_buffer.push(record(seq)));
        }
        let flushed = flushed(&queue);
        assert_eq!(flushed.iter().map(Vec::len).collect::<Vec<_>>(), [FLUSH_AT]);
    }

    #[test]
    fn close_flushes_buffered_records_and_rejects_later_ones() {
        let (commit_buffer, queue) = commit_buffer();
        commit_buffer.push(record(1));
        let (done, _flushed) = oneshot::channel();
        assert!(commit_buffer.close(done));
        assert!(!commit_buffer.push(record(2)));
        commit_buffer.flush();
        assert_eq!(flushed(&queue), [vec![1], vec![]]);
    }
}
