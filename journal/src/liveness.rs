//! Registry of the parts a running program cannot do without: threads, actors and tasks.
//!
//! Each part holds a guard. A guard that is dropped by a panic, or that of a part which runs for
//! ever and ends, puts the part on the list of those that ended. The program reads the list to say
//! whether it is ready, and waits for the first entry to end itself: a part that is gone takes its
//! state with it, and the next start recovers that from the journal. Needs no runtime and no clock.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

/// The registry. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Parts(Arc<Mutex<Register>>);

#[derive(Debug, Default)]
struct Register {
    /// The program stops: parts may end.
    stopping: bool,
    ended: Vec<EndedPart>,
    wakers: Vec<Waker>,
}

/// A part that ended though it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedPart {
    /// Its name.
    pub part: &'static str,
    /// It ended by a panic; it returned otherwise.
    pub panicked: bool,
}

impl fmt::Display for EndedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.panicked { "panicked" } else { "ended" };
        write!(f, "the part `{}` of the program {how}", self.part)
    }
}

/// As long as this is held, the part runs.
#[derive(Debug)]
#[must_use]
pub struct Alive {
    part: &'static str,
    parts: Parts,
    /// It may return by itself: only a panic is noted.
    may_return: bool,
}

impl Parts {
    /// A guard for a part that runs until the program stops.
    pub fn endless(&self, part: &'static str) -> Alive {
        Alive { part, parts: self.clone(), may_return: false }
    }

    /// A guard for a part that returns when it was told to, or when its work is done.
    pub fn returning(&self, part: &'static str) -> Alive {
        Alive { part, parts: self.clone(), may_return: true }
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

    /// From now on parts may end.
    pub fn stop(&self) {
        self.register().stopping = true;
    }

    /// The parts that ended before the program was told to stop, the first one first.
    #[must_use]
    pub fn ended(&self) -> Vec<EndedPart> {
        self.register().ended.clone()
    }

    /// Waits until a part has ended that should not have.
    pub fn first_end(&self) -> impl Future<Output = EndedPart> + use<> {
        let parts = self.clone();
        poll_fn(move |context| {
            let mut register = parts.register();
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

impl Drop for Alive {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        let mut register = self.parts.register();
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
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn names(parts: &Parts) -> Vec<(&'static str, bool)> {
        parts.ended().iter().map(|ended| (ended.part, ended.panicked)).collect()
    }

    #[test]
    fn a_panic_is_noted_and_so_is_an_end_of_what_runs_for_ever() {
        let parts = Parts::default();
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut first = pin!(parts.first_end());
        assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(parts.returning("worker"));
        assert_eq!((names(&parts), bell.0.load(SeqCst)), (vec![], 0));
        let alive = parts.returning("thread");
        let thread = std::thread::spawn(move || {
            let _alive = alive;
            panic!("told to panic");
        });
        assert!(thread.join().is_err());
        assert_eq!((names(&parts), bell.0.load(SeqCst)), (vec![("thread", true)], 1));
        drop(parts.endless("loop"));
        assert_eq!(names(&parts), [("thread", true), ("loop", false)]);
        let ended = first.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(ended, Poll::Ready(EndedPart { part: "thread", panicked: true }));
    }

    #[test]
    fn whatever_ends_while_the_program_stops_is_no_fault() {
        let parts = Parts::default();
        let alive = parts.endless("loop");
        parts.stop();
        drop(alive);
        assert_eq!(names(&parts), []);
    }
}
