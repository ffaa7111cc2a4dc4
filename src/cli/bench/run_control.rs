//! How far a run goes: so many, or so long, and never longer than the hard maximum; Ctrl-C ends it
//! early. Its threads ask here before they begin anything.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// No run lasts longer, whatever is asked for.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(600);

/// What ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunLimit {
    /// So many were accepted.
    Count(u64),
    /// So long.
    Time(Duration),
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EndReason {
    /// As many as were asked for.
    Count,
    /// The time that was asked for.
    Duration,
    /// The time no run may exceed.
    Maximum,
    /// Ctrl-C.
    Interrupted,
    /// The server refuses what waiting does not help, or is gone.
    Refused,
}

/// A run as its threads see it.
pub(super) struct RunControl {
    goal: RunLimit,
    begin: Instant,
    deadline: Instant,
    /// How many may still be begun.
    left: AtomicU64,
    accepted: AtomicU64,
    interrupted: AtomicBool,
    /// Why going on makes no sense.
    refused: Mutex<Option<String>>,
    /// Places for what was sent and not yet dealt with.
    permits: Mutex<usize>,
    released: Condvar,
}

impl RunControl {
    /// A run that begins now, with permits for so many on the way.
    pub(super) fn new(goal: RunLimit, permits: usize) -> Arc<Self> {
        let (longest, left) = match goal {
            RunLimit::Count(count) => (MAX_DURATION, count),
            RunLimit::Time(time) => (time.min(MAX_DURATION), u64::MAX),
        };
        let begin = Instant::now();
        Arc::new(Self {
            goal,
            begin,
            deadline: begin + longest,
            left: AtomicU64::new(left),
            accepted: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
            refused: Mutex::new(None),
            permits: Mutex::new(permits),
            released: Condvar::new(),
        })
    }

    pub(super) fn started(&self) -> Instant {
        self.begin
    }

    /// Whether nothing more may be begun.
    pub(super) fn is_over(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
            || Instant::now() >= self.deadline
            || self.refused.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Leave to begin one; `false` when the run is over.
    pub(super) fn try_start(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        !self.is_over()
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// One that was begun was not accepted: somebody else may.
    pub(super) fn cancel_start(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// How far it is, of a thousand.
    pub(super) fn progress(&self) -> u64 {
        let done = match self.goal {
            RunLimit::Count(count) => self.accepted.load(Ordering::Relaxed) as f64 / count as f64,
            RunLimit::Time(_) => {
                let whole = self.deadline - self.begin;
                self.begin.elapsed().as_secs_f64() / whole.as_secs_f64()
            }
        };
        (done.clamp(0.0, 1.0) * 1_000.0) as u64
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Waits for a place for one more; `false` when the run is over.
    pub(super) fn acquire_permit(&self) -> bool {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        while *permits == 0 {
            if self.is_over() {
                return false;
            }
            let woken = self.released.wait_timeout(permits, Duration::from_millis(100));
            permits = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *permits -= 1;
        true
    }

    pub(super) fn release_permit(&self) {
        *self.permits.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.released.notify_one();
    }

    /// Waits, but not longer than the run lasts.
    pub(super) fn pause(&self, until: Instant) {
        while !self.is_over() {
            let now = Instant::now();
            if now >= until {
                return;
            }
            std::thread::sleep((until - now).min(Duration::from_millis(50)));
        }
    }

    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    /// Ends the run, because everything else would be refused like this.
    pub(super) fn abort(&self, why: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get_or_insert(why);
    }

    /// What ended it, and why if it was refused.
    pub(super) fn ended(&self) -> (EndReason, Option<String>) {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ended = match self.goal {
            _ if refused.is_some() => EndReason::Refused,
            RunLimit::Count(_) if self.left.load(Ordering::Relaxed) == 0 => EndReason::Count,
            _ if self.interrupted.load(Ordering::Relaxed) => EndReason::Interrupted,
            RunLimit::Time(time) if time <= MAX_DURATION => EndReason::Duration,
            _ => EndReason::Maximum,
        };
        (ended, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_what_was_accepted() {
        let control = RunControl::new(RunLimit::Count(2), 1);
        assert!(control.try_start() && control.try_start() && !control.try_start());
        control.cancel_start();
        assert!(control.try_start() && !control.try_start());
        control.count_accepted();
        assert_eq!((control.progress(), control.accepted()), (500, 1));
        assert_eq!(control.ended(), (EndReason::Count, None));
    }

    #[test]
    fn nothing_begins_after_the_end() {
        let control = RunControl::new(RunLimit::Time(Duration::ZERO), 1);
        assert!(!control.try_start());
        assert_eq!(control.ended().0, EndReason::Duration);
        let control = RunControl::new(RunLimit::Time(MAX_DURATION), 0);
        control.interrupt();
        assert!(!control.try_start() && !control.acquire_permit());
        assert_eq!(control.ended().0, EndReason::Interrupted);
        let control = RunControl::new(RunLimit::Count(9), 1);
        assert!(control.acquire_permit());
        control.release_permit();
        control.abort("no".into());
        control.abort("later".into());
        assert!(!control.try_start());
        assert_eq!(control.ended(), (EndReason::Refused, Some("no".into())));
    }
}
