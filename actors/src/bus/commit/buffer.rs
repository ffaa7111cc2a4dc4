//! The tray: lines on their way to the journal's thread.
//!
//! Router and sessions lay lines there, one by one. They are carried over together when the thread
//! of the bus has nothing else to do, so that whatever it is asked in one go shares one commit: a
//! thread that is woken for every line takes the processor from the one that makes the next. An
//! idle bus carries a line over at once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use crate::bus::commit::writer::{Append, Job};

/// So many lines do not wait for more.
const FLUSH_AT: usize = 256;
/// How long a bus that has always something to do keeps lines at most.
const MAX_HOLD: Duration = Duration::from_millis(2);

/// Lines in their order.
pub(crate) struct CommitBuffer {
    lines: RefCell<Vec<Append>>,
    /// The queue of the journal's thread; gone when the bus ends.
    jobs: RefCell<Option<Sender<Job>>>,
    /// There is a first line.
    first_line: Notify,
}

impl CommitBuffer {
    pub(crate) fn new(jobs: Sender<Job>) -> Self {
        Self { lines: RefCell::default(), jobs: Some(jobs).into(), first_line: Notify::new() }
    }

    /// Takes a line; `false` when nothing more is written.
    pub(crate) fn push(&self, append: Append) -> bool {
        if self.jobs.borrow().is_none() {
            return false;
        }
        let mut lines = self.lines.borrow_mut();
        lines.push(append);
        let count = lines.len();
        drop(lines);
        match count {
            1 => self.first_line.notify_one(),
            FLUSH_AT.. => self.flush(),
            _ => {}
        }
        true
    }

    /// Gives the journal's thread all that lies here.
    pub(crate) fn flush(&self) {
        let lines = std::mem::take(&mut *self.lines.borrow_mut());
        if lines.is_empty() {
            return;
        }
        let jobs = self.jobs.borrow();
        if jobs.as_ref().is_none_or(|jobs| jobs.send(Job::Append(lines)).is_err()) {
            // Only while the system goes down: whoever waits hears that by the dropped answer.
            tracing::error!("lines came too late to be written");
        }
    }

    /// Nothing comes after this; what was laid here before is written, and `done` told then.
    /// `false` when nobody writes any more.
    pub(crate) fn close(&self, done: oneshot::Sender<()>) -> bool {
        self.flush();
        let jobs = self.jobs.borrow_mut().take();
        jobs.is_some_and(|jobs| jobs.send(Job::Flush(done)).is_ok())
    }

    /// Whether nothing can be written any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.jobs.borrow().is_none()
    }

    /// Carries lines over whenever the thread of the bus, on which this runs, has nothing to add.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.first_line.notified().await;
            let first_line = Instant::now();
            loop {
                let before = self.lines.borrow().len();
                // Everybody else on this thread who has something to do does it now.
                tokio::task::yield_now().await;
                let now = self.lines.borrow().len();
                if now <= before || first_line.elapsed() >= MAX_HOLD {
                    break self.flush();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use a2a_journal::{EventLine, Line};
    use a2a_protocol::Event;

    use super::*;
    use crate::bus::commit::effects::OnCommit;

    fn line(seq: u64) -> Append {
        let line = Line::Event(EventLine::new(seq, chrono::DateTime::UNIX_EPOCH, Event::Joined));
        Append { line, on_commit: OnCommit::Nothing }
    }

    fn commit_buffer() -> (Rc<CommitBuffer>, Receiver<Job>) {
        let (jobs, queue) = channel();
        (Rc::new(CommitBuffer::new(jobs)), queue)
    }

    /// The numbers of the lines in each job; a flush has none.
    fn flushed(queue: &Receiver<Job>) -> Vec<Vec<u64>> {
        let numbers = |job| match job {
            Job::Append(lines) => lines.iter().map(|append| append.line.seq()).collect(),
            Job::Flush(_) => Vec::new(),
        };
        queue.try_iter().map(numbers).collect()
    }

    #[tokio::test]
    async fn what_is_laid_in_one_go_is_carried_over_together_and_at_once() {
        let (commit_buffer, queue) = commit_buffer();
        let bus_thread = tokio::task::LocalSet::new();
        bus_thread.spawn_local(Rc::clone(&commit_buffer).run());
        let bus = async {
            // The second line is there because of the first, as an answer is there because of a
            // request.
            let (first, second) = (Rc::clone(&commit_buffer), Rc::clone(&commit_buffer));
            tokio::task::spawn_local(async move {
                first.push(line(1));
                tokio::task::spawn_local(async move { second.push(line(2)) });
            });
            while flushed(&queue).first().inspect(|lines| assert_eq!(**lines, [1, 2])).is_none() {
                tokio::task::yield_now().await;
            }
            commit_buffer.push(line(3));
            while flushed(&queue).first().inspect(|lines| assert_eq!(**lines, [3])).is_none() {
                tokio::task::yield_now().await;
            }
        };
        bus_thread.run_until(bus).await;
    }

    #[test]
    fn many_lines_wait_for_nobody() {
        let (commit_buffer, queue) = commit_buffer();
        for seq in 1..=FLUSH_AT as u64 + 1 {
            assert!(commit_buffer.push(line(seq)));
        }
        let flushed = flushed(&queue);
        assert_eq!(flushed.iter().map(Vec::len).collect::<Vec<_>>(), [FLUSH_AT]);
    }

    #[test]
    fn the_last_lines_come_before_the_end_and_none_after_it() {
        let (commit_buffer, queue) = commit_buffer();
        commit_buffer.push(line(1));
        let (done, _flushed) = oneshot::channel();
        assert!(commit_buffer.close(done));
        assert!(!commit_buffer.push(line(2)));
        commit_buffer.flush();
        assert_eq!(flushed(&queue), [vec![1], vec![]]);
    }
}
