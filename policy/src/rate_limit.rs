//! How much one agent may say, and to whom.
//!
//! Three token buckets (governor's GCRA): per agent, per pair, and for `urgent`. A message is
//! first tried against all of them and only then charged to all, so that a refusal costs
//! nothing and the time it names is exact.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::ops::Add;
use std::rc::Rc;
use std::time::Duration;

use a2a_protocol::{AgentId, Priority};
use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter};

use crate::Now;

/// The limits, as configuration says them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSettings {
    /// Messages a minute from one agent.
    pub per_agent_per_minute: NonZeroU32,
    /// How many of those may come at once.
    pub agent_burst: NonZeroU32,
    /// Messages a minute from one agent to another.
    pub per_pair_per_minute: NonZeroU32,
    /// How many of those may come at once.
    pub pair_burst: NonZeroU32,
    /// Messages a minute with priority `urgent` from one agent; the burst is the same.
    pub urgent_per_minute: NonZeroU32,
    /// How many agents and pairs are remembered at most.
    pub max_keys: usize,
}

impl Default for RateSettings {
    fn default() -> Self {
        let n = |n: u32| NonZeroU32::MIN.saturating_add(n - 1);
        Self {
            per_agent_per_minute: n(120),
            agent_burst: n(40),
            per_pair_per_minute: n(60),
            pair_burst: n(20),
            urgent_per_minute: n(12),
            max_keys: 1_000_000,
        }
    }
}

impl RateSettings {
    /// Limits so far away that nobody reaches them.
    #[must_use]
    pub fn far_away() -> Self {
        let far = NonZeroU32::MAX;
        Self {
            per_agent_per_minute: far,
            agent_burst: far,
            per_pair_per_minute: far,
            pair_burst: far,
            urgent_per_minute: far,
            ..Self::default()
        }
    }
}

/// Which limit was reached, and when the same message would pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{limit}; try again in {} ms", retry_after.as_millis())]
pub struct Limited {
    /// The limit, in words.
    pub limit: String,
    /// How long to wait; rounded up to a millisecond.
    pub retry_after: Duration,
}

/// Whom a message goes to, as far as its price depends on it.
#[derive(Debug, Clone, Copy)]
pub enum Audience<'a> {
    /// One agent: the pair has a limit of its own.
    One(&'a AgentId),
    /// So many: charged to the sender only, in proportion.
    Many(usize),
}

/// The buckets of everyone who sends.
pub struct RateLimits {
    settings: RateSettings,
    agents: Limiter<AgentId>,
    pairs: Limiter<(AgentId, AgentId)>,
    urgent: Limiter<AgentId>,
}

impl RateLimits {
    /// Full buckets for everyone.
    #[must_use]
    pub fn new(settings: RateSettings) -> Self {
        let quota = |rate, burst| Quota::per_minute(rate).allow_burst(burst);
        Self {
            settings,
            agents: Limiter::new(quota(settings.per_agent_per_minute, settings.agent_burst)),
            pairs: Limiter::new(quota(settings.per_pair_per_minute, settings.pair_burst)),
            urgent: Limiter::new(Quota::per_minute(settings.urgent_per_minute)),
        }
    }

    /// Charges one message from `from` to `to`, or says when it would pass.
    ///
    /// A message to several recipients is charged to the sender only, in proportion:
    /// `min(burst, 1 + ⌈n / 100⌉)`.
    ///
    /// # Errors
    /// [`Limited`] with the limit that takes longest; nothing is charged then.
    pub fn charge(
        &mut self,
        from: &AgentId,
        to: Audience<'_>,
        priority: Priority,
        now: Now,
    ) -> Result<(), Limited> {
        self.forget_the_idle(now);
        let (cost, pair) = match to {
            Audience::One(agent) => (NonZeroU32::MIN, Some((from.clone(), agent.clone()))),
            Audience::Many(count) => (self.cost(count), None),
        };
        let urgent = priority == Priority::Urgent;
        let s = &self.settings;
        let waits = [
            self.agents.wait(from, cost, now).map(|w| {
                (w, format!("{from} may send {} messages a minute", s.per_agent_per_minute))
            }),
            pair.as_ref().and_then(|pair| self.pairs.wait(pair, NonZeroU32::MIN, now)).map(|w| {
                (
                    w,
                    format!(
                        "{from} may send one agent {} messages a minute",
                        s.per_pair_per_minute
                    ),
                )
            }),
            urgent.then(|| self.urgent.wait(from, NonZeroU32::MIN, now)).flatten().map(|w| {
                (w, format!("{from} may send {} urgent messages a minute", s.urgent_per_minute))
            }),
        ];
        if let Some((retry_after, limit)) =
            waits.into_iter().flatten().max_by_key(|(wait, _)| *wait)
        {
            return Err(Limited { limit, retry_after });
        }
        self.agents.take(from, cost, now);
        if let Some(pair) = &pair {
            self.pairs.take(pair, NonZeroU32::MIN, now);
        }
        if urgent {
            self.urgent.take(from, NonZeroU32::MIN, now);
        }
        Ok(())
    }

    fn cost(&self, recipients: usize) -> NonZeroU32 {
        let share = u32::try_from(recipients.div_ceil(100)).unwrap_or(u32::MAX);
        NonZeroU32::MIN.saturating_add(share).min(self.settings.agent_burst)
    }

    /// Keys come from senders, so their number is bounded: a bucket that is full again is
    /// forgotten, and beyond the limit the fullest go first.
    fn forget_the_idle(&mut self, now: Now) {
        let max = self.settings.max_keys;
        self.agents.forget_the_idle(max, now);
        self.pairs.forget_the_idle(max, now);
        self.urgent.forget_the_idle(max, now);
    }

    /// How many buckets are remembered.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.agents.governor.len() + self.pairs.governor.len() + self.urgent.governor.len()
    }
}

/// One governor limiter whose clock is set from outside and that can try without charging.
pub(crate) struct Limiter<K: Hash + Eq + Clone> {
    governor: RateLimiter<K, Buckets<K>, SetClock, NoOpMiddleware<Moment>>,
    buckets: Buckets<K>,
    /// The number of keys at which to look for idle ones next.
    sweep_at: usize,
}

impl<K: Hash + Eq + Clone> Limiter<K> {
    const FIRST_SWEEP: usize = 4_096;

    pub(crate) fn new(quota: Quota) -> Self {
        let buckets = Buckets::default();
        let governor = RateLimiter::new(quota, buckets.clone(), SetClock::default());
        Self { governor, buckets, sweep_at: Self::FIRST_SWEEP }
    }

    /// How long until `cost` would pass; `None` when it would now.
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
            Ok(Err(not_until)) => Some(round_up(not_until.wait_time_from(Moment(now.uptime)))),
            // The cost is at most the burst, so the bucket can always hold it.
            Err(_) => Some(Duration::from_secs(60)),
        }
    }

    pub(crate) fn forget_the_idle(&mut self, max: usize, now: Now) {
        if self.governor.len() < self.sweep_at.min(max) {
            return;
        }
        self.governor.clock().0.set(now.uptime);
        self.governor.retain_recent();
        if self.governor.len() >= max {
            self.buckets.drop_the_fullest(max / 2);
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
    /// Answer without remembering.
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
    /// Keeps the `keep` buckets that are fullest of debt: forgetting them would forgive the most.
    fn drop_the_fullest(&self, keep: usize) {
        let mut states = self.0.states.borrow_mut();
        if states.len() <= keep {
            return;
        }
        let mut debts: Vec<u64> = states.values().map(|state| state.as_u64()).collect();
        let cut = debts.len() - keep.max(1);
        let (_, threshold, deeper) = debts.select_nth_unstable(cut);
        let threshold = *threshold;
        let deeper = deeper.iter().filter(|debt| **debt > threshold).count();
        // Of those exactly at the threshold none is better kept than another.
        let mut room = keep.saturating_sub(deeper);
        states.retain(|_, state| match state.as_u64().cmp(&threshold) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => {
                let kept = room > 0;
                room = room.saturating_sub(1);
                kept
            }
        });
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

/// A clock that stands where it was set.
#[derive(Default)]
struct SetClock(Cell<Duration>);

/// A moment since the bus started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(Duration);

impl Add<Nanos> for Moment {
    type Output = Self;

    fn add(self, nanos: Nanos) -> Self {
        Self(self.0 + Duration::from(nanos))
    }
}

impl Reference for Moment {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_sub(earlier.0).into()
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.checked_sub(duration.into()).unwrap_or(self.0))
    }
}

impl Clock for SetClock {
    type Instant = Moment;

    fn now(&self) -> Moment {
        Moment(self.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::Audience::{Many, One};
    use super::*;
    use a2a_protocol::Priority::{Normal, Urgent};

    fn at(ms: u64) -> Now {
        Now { utc: chrono::DateTime::UNIX_EPOCH, uptime: Duration::from_millis(ms) }
    }

    fn id(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    #[test]
    fn the_time_it_names_is_exact_and_a_refusal_costs_nothing() {
        let mut limits = RateLimits::new(RateSettings::default());
        let (roman, tim) = (id("roman"), id("tim"));
        let tim = One(&tim);
        for _ in 0..20 {
            limits.charge(&roman, tim, Normal, at(0)).unwrap();
        }
        let refused = limits.charge(&roman, tim, Normal, at(0)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(1));
        for _ in 0..1_000 {
            assert!(limits.charge(&roman, tim, Normal, at(999)).is_err());
        }
        limits.charge(&roman, tim, Normal, at(1_000)).unwrap();
        assert!(limits.charge(&roman, tim, Normal, at(1_000)).is_err());
    }

    #[test]
    fn the_longest_wait_of_all_limits_is_told() {
        let mut limits = RateLimits::new(RateSettings::default());
        let roman = id("roman");
        for i in 0..12 {
            limits.charge(&roman, One(&id(&format!("a{i}"))), Urgent, at(0)).unwrap();
        }
        let refused = limits.charge(&roman, One(&id("tim")), Urgent, at(0)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(5));
        assert!(refused.limit.contains("urgent"), "{refused}");
        limits.charge(&roman, One(&id("tim")), Normal, at(0)).unwrap();
    }

    #[test]
    fn one_agent_is_limited_whomever_it_writes_to_and_others_are_not() {
        let mut limits = RateLimits::new(RateSettings::default());
        for i in 0..40 {
            limits.charge(&id("roman"), One(&id(&format!("a{i}"))), Normal, at(0)).unwrap();
        }
        let refused = limits.charge(&id("roman"), One(&id("tim")), Normal, at(0)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_millis(500));
        limits.charge(&id("tony"), One(&id("tim")), Normal, at(0)).unwrap();
    }

    #[test]
    fn a_fan_out_costs_in_proportion_and_never_more_than_the_burst() {
        let mut limits = RateLimits::new(RateSettings::default());
        let many = Many(1_000);
        limits.charge(&id("roman"), many, Normal, at(0)).unwrap(); // 11 of 40
        limits.charge(&id("roman"), many, Normal, at(0)).unwrap();
        limits.charge(&id("roman"), many, Normal, at(0)).unwrap();
        assert!(limits.charge(&id("roman"), many, Normal, at(0)).is_err());
        let crowd = Many(10_000);
        limits.charge(&id("tony"), crowd, Normal, at(0)).unwrap();
        assert!(limits.charge(&id("tony"), One(&id("tim")), Normal, at(0)).is_err());
    }

    #[test]
    fn memory_stays_bounded_after_millions_of_keys() {
        let settings = RateSettings { max_keys: 10_000, ..RateSettings::default() };
        let mut limits = RateLimits::new(settings);
        for i in 0..1_000_000u64 {
            limits.charge(&id(&format!("a{i}")), One(&id("tim")), Normal, at(i / 100)).unwrap();
            assert!(limits.keys() <= 2 * 10_000, "{i}");
        }
    }

    #[test]
    fn forgetting_keeps_those_who_owe_most() {
        let settings = RateSettings { max_keys: 4_096, ..RateSettings::default() };
        let mut limits = RateLimits::new(settings);
        for _ in 0..20 {
            limits.charge(&id("flooder"), One(&id("tim")), Normal, at(0)).unwrap();
        }
        for i in 0..20_000u64 {
            limits.charge(&id(&format!("a{i}")), One(&id("tim")), Normal, at(1)).unwrap();
        }
        assert!(limits.charge(&id("flooder"), One(&id("tim")), Normal, at(1)).is_err());
    }
}
