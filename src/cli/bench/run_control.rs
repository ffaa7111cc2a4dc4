//! Run control shared by all threads of a bench: limits, permits and early end by Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde::Serialize;

/// Upper bound of every run.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(600);

/// Requested limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunLimit {
    /// Number of accepted calls.
    Count(u64),
    /// Duration of the run.
    Time(Duration),
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EndReason {
    /// The requested number was accepted.
    Count,
    /// The requested time has passed.
    Duration,
    /// The upper bound of every run has passed.
    Maximum,
    /// Ctrl-C.
    Interrupted,
    /// The server refuses for good, or is gone.
    Refused,
}

/// State of a run, shared by its threads.
pub(super) struct RunControl {
    goal: RunLimit,
    begin: Instant,
    deadline: Instant,
    /// Calls that may still be started.
    left: AtomicU64,
    accepted: AtomicU64,
    interrupted: AtomicBool,
    /// Reason for aborting the run.
    refused: Mutex<Option<String>>,
    /// Permits for messages in flight.
    permits: Mutex<usize>,
    released: Condvar,
}

impl RunControl {
    /// Starts the clock of a run with this many permits.
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

    /// Whether no further call may be started.
    pub(super) fn is_over(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
            || Instant::now() >= self.deadline
            || self.refused.lock().is_some()
    }

    /// Claims one call; `false` when the run is over.
    pub(super) fn try_start(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        !self.is_over()
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Returns the claim on a call that was not accepted.
    pub(super) fn cancel_start(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// Progress in thousandths.
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

    /// Waits for a permit; `false` when the run is over.
    pub(super) fn acquire_permit(&self) -> bool {
        let mut permits = self.permits.lock();
        while *permits == 0 {
            if self.is_over() {
                return false;
            }
            self.released.wait_for(&mut permits, Duration::from_millis(100));
        }
        *permits -= 1;
        true
    }

    pub(super) fn release_permit(&self) {
        *self.permits.lock() += 1;
        self.released.notify_one();
    }

    /// Sleeps until `until`, or until the run is over.
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

    /// Ends the run with a reason.
    pub(super) fn abort(&self, why: String) {
        let mut refused = self.refused.lock();
        refused.get_or_insert(why);
    }

    /// What ended the run, and the reason if it was aborted.
    pub(super) fn ended(&self) -> (EndReason, Option<String>) {
        let refused = self.refused.lock().clone();
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
    fn count_limit_counts_accepted_calls() {
        let control = RunControl::new(RunLimit::Count(2), 1);
        assert!(control.try_start() && control.try_start() && !control.try_start());
        control.cancel_start();
        assert!(control.try_start() && !control.try_start());
        control.count_accepted();
        assert_eq!((control.progress(), control.accepted()), (500, 1));
        assert_eq!(control.ended(), (EndReason::Count, None));
    }

    #[test]
    fn run_that_is_over_starts_nothing() {
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
