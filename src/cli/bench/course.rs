//! How far a run goes: so many, or so long, and never longer than the hard maximum; Ctrl-C ends it
//! early. Its threads ask here before they begin anything.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// No run lasts longer, whatever is asked for.
pub(super) const LONGEST: Duration = Duration::from_secs(600);

/// What ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// So many were accepted.
    Count(u64),
    /// So long.
    Time(Duration),
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Ended {
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
pub(super) struct Course {
    goal: Goal,
    begin: Instant,
    deadline: Instant,
    /// How many may still be begun.
    left: AtomicU64,
    accepted: AtomicU64,
    interrupted: AtomicBool,
    /// Why going on makes no sense.
    refused: Mutex<Option<String>>,
    /// Places for what was sent and not yet dealt with.
    room: Mutex<usize>,
    freed: Condvar,
}

impl Course {
    /// A run that begins now, with room for so many on the way.
    pub(super) fn new(goal: Goal, room: usize) -> Arc<Self> {
        let (longest, left) = match goal {
            Goal::Count(count) => (LONGEST, count),
            Goal::Time(time) => (time.min(LONGEST), u64::MAX),
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
            room: Mutex::new(room),
            freed: Condvar::new(),
        })
    }

    pub(super) fn begin(&self) -> Instant {
        self.begin
    }

    /// Whether nothing more may be begun.
    pub(super) fn is_over(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
            || Instant::now() >= self.deadline
            || self.refused.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Leave to begin one; `false` when the run is over.
    pub(super) fn begin_one(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        !self.is_over()
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// One that was begun was not accepted: somebody else may.
    pub(super) fn give_back(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn accept_one(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// How far it is, of a thousand.
    pub(super) fn progress(&self) -> u64 {
        let done = match self.goal {
            Goal::Count(count) => self.accepted.load(Ordering::Relaxed) as f64 / count as f64,
            Goal::Time(_) => {
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
    pub(super) fn take_room(&self) -> bool {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        while *room == 0 {
            if self.is_over() {
                return false;
            }
            let woken = self.freed.wait_timeout(room, Duration::from_millis(100));
            room = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *room -= 1;
        true
    }

    pub(super) fn free_room(&self) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
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
    pub(super) fn refuse(&self, why: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get_or_insert(why);
    }

    /// What ended it, and why if it was refused.
    pub(super) fn ended(&self) -> (Ended, Option<String>) {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ended = match self.goal {
            _ if refused.is_some() => Ended::Refused,
            Goal::Count(_) if self.left.load(Ordering::Relaxed) == 0 => Ended::Count,
            _ if self.interrupted.load(Ordering::Relaxed) => Ended::Interrupted,
            Goal::Time(time) if time <= LONGEST => Ended::Duration,
            _ => Ended::Maximum,
        };
        (ended, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_what_was_accepted() {
        let course = Course::new(Goal::Count(2), 1);
        assert!(course.begin_one() && course.begin_one() && !course.begin_one());
        course.give_back();
        assert!(course.begin_one() && !course.begin_one());
        course.accept_one();
        assert_eq!((course.progress(), course.accepted()), (500, 1));
        assert_eq!(course.ended(), (Ended::Count, None));
    }

    #[test]
    fn nothing_begins_after_the_end() {
        let course = Course::new(Goal::Time(Duration::ZERO), 1);
        assert!(!course.begin_one());
        assert_eq!(course.ended().0, Ended::Duration);
        let course = Course::new(Goal::Time(LONGEST), 0);
        course.interrupt();
        assert!(!course.begin_one() && !course.take_room());
        assert_eq!(course.ended().0, Ended::Interrupted);
        let course = Course::new(Goal::Count(9), 1);
        assert!(course.take_room());
        course.free_room();
        course.refuse("no".into());
        course.refuse("later".into());
        assert!(!course.begin_one());
        assert_eq!(course.ended(), (Ended::Refused, Some("no".into())));
    }
}
