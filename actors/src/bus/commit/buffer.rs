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
const ENOUGH: usize = 256;
/// How long a bus that has always something to do keeps lines at most.
const LONGEST: Duration = Duration::from_millis(2);

/// Lines in their order.
pub(crate) struct Tray {
    lines: RefCell<Vec<Append>>,
    /// The queue of the journal's thread; gone when the bus ends.
    jobs: RefCell<Option<Sender<Job>>>,
    /// There is a first line.
    begun: Notify,
}

impl Tray {
    pub(crate) fn new(jobs: Sender<Job>) -> Self {
        Self { lines: RefCell::default(), jobs: Some(jobs).into(), begun: Notify::new() }
    }

    /// Takes a line; `false` when nothing more is written.
    pub(crate) fn lay(&self, append: Append) -> bool {
        if self.jobs.borrow().is_none() {
            return false;
        }
        let mut lines = self.lines.borrow_mut();
        lines.push(append);
        let count = lines.len();
        drop(lines);
        match count {
            1 => self.begun.notify_one(),
            ENOUGH.. => self.carry_over(),
            _ => {}
        }
        true
    }

    /// Gives the journal's thread all that lies here.
    pub(crate) fn carry_over(&self) {
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
        self.carry_over();
        let jobs = self.jobs.borrow_mut().take();
        jobs.is_some_and(|jobs| jobs.send(Job::Flush(done)).is_ok())
    }

    /// Whether nothing can be written any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.jobs.borrow().is_none()
    }

    /// Carries lines over whenever the thread of the bus, on which this runs, has nothing to add.
    pub(crate) async fn attend(self: Rc<Self>) {
        loop {
            self.begun.notified().await;
            let begun = Instant::now();
            loop {
                let before = self.lines.borrow().len();
                // Everybody else on this thread who has something to do does it now.
                tokio::task::yield_now().await;
                let now = self.lines.borrow().len();
                if now <= before || begun.elapsed() >= LONGEST {
                    break self.carry_over();
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
    use crate::bus::commit::effects::Then;

    fn line(seq: u64) -> Append {
        let line = Line::Event(EventLine::new(seq, chrono::DateTime::UNIX_EPOCH, Event::Joined));
        Append { line, then: Then::Nothing }
    }

    fn tray() -> (Rc<Tray>, Receiver<Job>) {
        let (jobs, queue) = channel();
        (Rc::new(Tray::new(jobs)), queue)
    }

    /// The numbers of the lines in each job; a flush has none.
    fn carried(queue: &Receiver<Job>) -> Vec<Vec<u64>> {
        let numbers = |job| match job {
            Job::Append(lines) => lines.iter().map(|append| append.line.seq()).collect(),
            Job::Flush(_) => Vec::new(),
        };
        queue.try_iter().map(numbers).collect()
    }

    #[tokio::test]
    async fn what_is_laid_in_one_go_is_carried_over_together_and_at_once() {
        let (tray, queue) = tray();
        let everybody = tokio::task::LocalSet::new();
        everybody.spawn_local(Rc::clone(&tray).attend());
        let bus = async {
            // The second line is there because of the first, as an answer is there because of a
            // request.
            let (first, second) = (Rc::clone(&tray), Rc::clone(&tray));
            tokio::task::spawn_local(async move {
                first.lay(line(1));
                tokio::task::spawn_local(async move { second.lay(line(2)) });
            });
            while carried(&queue).first().inspect(|lines| assert_eq!(**lines, [1, 2])).is_none() {
                tokio::task::yield_now().await;
            }
            tray.lay(line(3));
            while carried(&queue).first().inspect(|lines| assert_eq!(**lines, [3])).is_none() {
                tokio::task::yield_now().await;
            }
        };
        everybody.run_until(bus).await;
    }

    #[test]
    fn many_lines_wait_for_nobody() {
        let (tray, queue) = tray();
        for seq in 1..=ENOUGH as u64 + 1 {
            assert!(tray.lay(line(seq)));
        }
        let carried = carried(&queue);
        assert_eq!(carried.iter().map(Vec::len).collect::<Vec<_>>(), [ENOUGH]);
    }

    #[test]
    fn the_last_lines_come_before_the_end_and_none_after_it() {
        let (tray, queue) = tray();
        tray.lay(line(1));
        let (done, _heard) = oneshot::channel();
        assert!(tray.close(done));
        assert!(!tray.lay(line(2)));
        tray.carry_over();
        assert_eq!(carried(&queue), [vec![1], vec![]]);
    }
}
