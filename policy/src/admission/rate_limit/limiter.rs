//! Keyed token buckets: governor's GCRA with an external clock, trials that do not charge, and a
//! quota that can change without refunds.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::ops::Add;
use std::rc::Rc;
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter};

use crate::Now;

/// A governor limiter with an external clock and trials that do not charge.
pub(crate) struct Limiter<K: Hash + Eq + Clone> {
    governor: RateLimiter<K, Buckets<K>, SetClock, NoOpMiddleware<Uptime>>,
    buckets: Buckets<K>,
    quota: Quota,
    /// The number of keys at which to evict idle ones next.
    sweep_at: usize,
}

impl<K: Hash + Eq + Clone> Limiter<K> {
    const FIRST_SWEEP: usize = 4_096;

    pub(crate) fn new(quota: Quota) -> Self {
        let buckets = Buckets::default();
        let governor = RateLimiter::new(quota, buckets.clone(), SetClock::default());
        Self { governor, buckets, quota, sweep_at: Self::FIRST_SWEEP }
    }

    /// Applies a new quota. What was used stays used: a bucket that lacked ten tokens lacks ten of
    /// the new size, or all of them if that is fewer.
    pub(crate) fn reconfigure(&mut self, quota: Quota, now: Now) {
        if quota == self.quota {
            return;
        }
        self.buckets.rescale(&self.quota, &quota, now.uptime);
        // Both clocks start with the bus, so the states keep their meaning.
        self.governor = RateLimiter::new(quota, self.buckets.clone(), SetClock::default());
        self.quota = quota;
    }

    pub(crate) fn len(&self) -> usize {
        self.governor.len()
    }

    /// The time until `cost` would pass; `None` when it passes now.
    pub(crate) fn wait(&self, key: &K, cost: NonZeroU32, now: Now) -> Option<Duration> {
        self.buckets.0.trial.set(true);
        let wait = self.ask(key, cost, now);
        self.buckets.0.trial.set(false);
        wait
    }

    pub(crate) fn take(&self, key: &K, cost: NonZeroU32, now: Now) {
        self.ask(key, cost, now);
    }

    fn ask(&self, key: &K, cost: NonZeroU32, now: Now) -> Option<Duration> {
        self.governor.clock().0.set(now.uptime);
        match self.governor.check_key_n(key, cost) {
            Ok(Ok(())) => None,
            Ok(Err(not_until)) => Some(round_up(not_until.wait_time_from(Uptime(now.uptime)))),
            // The cost is at most the burst, so the bucket can always hold it.
            Err(_) => Some(Duration::from_secs(60)),
        }
    }

    pub(crate) fn evict_idle(&mut self, max: usize, now: Now) {
        if self.governor.len() < self.sweep_at.min(max) {
            return;
        }
        self.governor.clock().0.set(now.uptime);
        self.governor.retain_recent();
        if self.governor.len() >= max {
            self.buckets.keep_most_indebted(max / 2);
        }
        self.governor.shrink_to_fit();
        self.sweep_at = (self.governor.len() * 2).max(Self::FIRST_SWEEP);
    }
}

fn round_up(wait: Duration) -> Duration {
    let ms = wait.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}

/// governor's state, one number per key, owned by one thread.
struct Buckets<K>(Rc<Inner<K>>);

struct Inner<K> {
    states: RefCell<HashMap<K, Nanos>>,
    /// Whether to answer without storing the new state.
    trial: Cell<bool>,
}

impl<K> Clone for Buckets<K> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self(Rc::new(Inner { states: RefCell::default(), trial: Cell::new(false) }))
    }
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    /// Keeps the `keep` buckets that owe most: evicting them would refund most.
    fn keep_most_indebted(&self, keep: usize) {
        let mut states = self.0.states.borrow_mut();
        if states.len() <= keep {
            return;
        }
        let mut debts: Vec<u64> = states.values().map(|state| state.as_u64()).collect();
        let cut = debts.len() - keep.max(1);
        let (_, threshold, deeper) = debts.select_nth_unstable(cut);
        let threshold = *threshold;
        let deeper = deeper.iter().filter(|debt| **debt > threshold).count();
        // Those exactly at the threshold are equivalent.
        let mut spare = keep.saturating_sub(deeper);
        states.retain(|_, state| match state.as_u64().cmp(&threshold) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => {
                let kept = spare > 0;
                spare = spare.saturating_sub(1);
                kept
            }
        });
    }
}

impl<K> Buckets<K> {
    /// A state is the time at which the bucket is full again: the distance from now is what was
    /// used.
    fn rescale(&self, old: &Quota, new: &Quota, now: Duration) {
        let each = |quota: &Quota| quota.replenish_interval().as_nanos().max(1);
        let (was, is) = (each(old), each(new));
        let most = is * u128::from(new.burst_size().get());
        let now = now.as_nanos();
        for state in self.0.states.borrow_mut().values_mut() {
            let taken = u128::from(state.as_u64()).saturating_sub(now) * is / was;
            *state = u64::try_from(now + taken.min(most)).unwrap_or(u64::MAX).into();
        }
    }
}

impl<K: Hash + Eq + Clone> StateStore for Buckets<K> {
    type Key = K;

    fn measure_and_replace<T, F, E>(&self, key: &K, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut states = self.0.states.borrow_mut();
        let known = states.get_mut(key);
        let (answer, next) = f(known.as_deref().copied())?;
        if !self.0.trial.get() {
            match known {
                Some(state) => *state = next,
                None => drop(states.insert(key.clone(), next)),
            }
        }
        Ok(answer)
    }
}

impl<K: Hash + Eq + Clone> ShrinkableKeyedStateStore<K> for Buckets<K> {
    fn retain_recent(&self, drop_below: Nanos) {
        self.0.states.borrow_mut().retain(|_, state| *state > drop_below);
    }

    fn shrink_to_fit(&self) {
        self.0.states.borrow_mut().shrink_to_fit();
    }

    fn len(&self) -> usize {
        self.0.states.borrow().len()
    }

    fn is_empty(&self) -> bool {
        self.0.states.borrow().is_empty()
    }
}

/// A clock that shows the time it was set to.
#[derive(Default)]
struct SetClock(Cell<Duration>);

/// Time since the bus started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Uptime(Duration);

impl Add<Nanos> for Uptime {
    type Output = Self;

    fn add(self, nanos: Nanos) -> Self {
        Self(self.0 + Duration::from(nanos))
    }
}

impl Reference for Uptime {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_sub(earlier.0).into()
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.checked_sub(duration.into()).unwrap_or(self.0))
    }
}

impl Clock for SetClock {
    type Instant = Uptime;

    fn now(&self) -> Uptime {
        Uptime(self.0.get())
    }
}
