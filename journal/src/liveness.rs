//! Liveness registry of the required parts of a program: threads, actors and tasks.
//!
//! Each part holds a guard. Dropping it during a panic, or at the end of an endless part, adds the
//! part to the list of ended ones. The program derives its readiness from that list, and stops at
//! the first entry: a part that ends loses its state, which the next start recovers from the journal.
//! Needs no runtime and no clock.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

/// The registry. All clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Liveness(Arc<Mutex<Register>>);

#[derive(Debug, Default)]
struct Register {
    /// The program is stopping: parts may end.
    stopping: bool,
    ended: Vec<EndedPart>,
    wakers: Vec<Waker>,
}

/// A required part that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedPart {
    /// Its name.
    pub part: &'static str,
    /// Whether it panicked rather than returned.
    pub panicked: bool,
}

impl fmt::Display for EndedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.panicked { "panicked" } else { "ended" };
        write!(f, "the part `{}` of the program {how}", self.part)
    }
}

/// Guard of a running part.
#[derive(Debug)]
#[must_use]
pub struct LivenessGuard {
    part: &'static str,
    liveness: Liveness,
    /// The part may return: only a panic is recorded.
    may_return: bool,
}

impl Liveness {
    /// A guard for a part that runs until the program stops.
    pub fn endless(&self, part: &'static str) -> LivenessGuard {
        LivenessGuard { part, liveness: self.clone(), may_return: false }
    }

    /// A guard for a part that may return, after a stop or when its work is done.
    pub fn returning(&self, part: &'static str) -> LivenessGuard {
        LivenessGuard { part, liveness: self.clone(), may_return: true }
    }

    /// Runs a future that must not end before the program stops.
    pub fn endlessly<F: Future>(
        &self,
        part: &'static str,
        future: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let alive = self.endless(part);
        async move {
            let output = future.await;
            drop(alive);
            output
        }
    }

    /// Marks the program as stopping: parts may end from now on.
    pub fn stop(&self) {
        self.register().stopping = true;
    }

    /// The parts that ended before the program was stopping, in order.
    #[must_use]
    pub fn ended(&self) -> Vec<EndedPart> {
        self.register().ended.clone()
    }

    /// Waits until a required part has ended.
    pub fn first_end(&self) -> impl Future<Output = EndedPart> + use<> {
        let liveness = self.clone();
        poll_fn(move |context| {
            let mut register = liveness.register();
            if let Some(ended) = register.ended.first() {
                return Poll::Ready(*ended);
            }
            if !register.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                register.wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
    }

    fn register(&self) -> MutexGuard<'_, Register> {
        self.0.lock()
    }
}

impl Drop for LivenessGuard {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        let mut register = self.liveness.register();
        if register.stopping || self.may_return && !panicked {
            return;
        }
        register.ended.push(EndedPart { part: self.part, panicked });
        let wakers = std::mem::take(&mut register.wakers);
        drop(register);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::{Context, Wake};

    use super::*;

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn names(liveness: &Liveness) -> Vec<(&'static str, bool)> {
        liveness.ended().iter().map(|ended| (ended.part, ended.panicked)).collect()
    }

    #[test]
    fn panic_and_end_of_an_endless_part_are_recorded() {
        let liveness = Liveness::default();
        let wakes = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut first = pin!(liveness.first_end());
        assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(liveness.returning("worker"));
        assert_eq!((names(&liveness), wakes.0.load(SeqCst)), (vec![], 0));
        let alive = liveness.returning("thread");
        let thread = std::thread::spawn(move || {
            let _alive = alive;
            panic!("panics on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!((names(&liveness), wakes.0.load(SeqCst)), (vec![("thread", true)], 1));
        drop(liveness.endless("loop"));
        assert_eq!(names(&liveness), [("thread", true), ("loop", false)]);
        let ended = first.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(ended, Poll::Ready(EndedPart { part: "thread", panicked: true }));
    }

    #[test]
    fn end_while_stopping_is_not_recorded() {
        let liveness = Liveness::default();
        let alive = liveness.endless("loop");
        liveness.stop();
        drop(alive);
        assert_eq!(names(&liveness), []);
    }
}
