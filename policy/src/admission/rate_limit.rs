//! How much one agent may say, and to whom.
//!
//! Token buckets (governor's GCRA): per agent, per pair, for `urgent`, and for the bytes that a
//! caller of A2A sends. A message is
//! first tried against all of them and only then charged to all, so that a refusal costs
//! nothing and the time it names is exact.

mod limiter;

use std::num::NonZeroU32;
use std::time::Duration;

use a2a_protocol::{AgentId, Priority};
use governor::Quota;

use crate::{Audience, Now};
pub(crate) use limiter::Limiter;

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
    /// Messages a minute from one agent that may be refused before they are charged, such as those
    /// to nobody; more are answered `rate_limited`.
    pub refusals_per_minute: NonZeroU32,
    /// How many of those may come at once.
    pub refusal_burst: NonZeroU32,
    /// Bytes a minute from one caller of A2A.
    pub a2a_bytes_per_minute: NonZeroU32,
    /// How many of those may come at once.
    pub a2a_byte_burst: NonZeroU32,
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
            refusals_per_minute: n(600),
            refusal_burst: n(1_000),
            a2a_bytes_per_minute: n(60_000_000),
            a2a_byte_burst: n(60_000_000),
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
            refusals_per_minute: far,
            refusal_burst: far,
            a2a_bytes_per_minute: far,
            a2a_byte_burst: far,
            ..Self::default()
        }
    }

    /// Of one agent, of a pair, of what is urgent, of refusals, of bytes.
    fn quotas(&self) -> [Quota; 5] {
        let quota = |rate, burst| Quota::per_minute(rate).allow_burst(burst);
        [
            quota(self.per_agent_per_minute, self.agent_burst),
            quota(self.per_pair_per_minute, self.pair_burst),
            Quota::per_minute(self.urgent_per_minute),
            quota(self.refusals_per_minute, self.refusal_burst),
            quota(self.a2a_bytes_per_minute, self.a2a_byte_burst),
        ]
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

/// The buckets of everyone who sends.
pub struct RateLimits {
    settings: RateSettings,
    agents: Limiter<AgentId>,
    pairs: Limiter<(AgentId, AgentId)>,
    urgent: Limiter<AgentId>,
    refusals: Limiter<AgentId>,
    bytes: Limiter<AgentId>,
}

impl RateLimits {
    /// Full buckets for everyone.
    #[must_use]
    pub fn new(settings: RateSettings) -> Self {
        let [agents, pairs, urgent, refusals, bytes] = settings.quotas();
        Self {
            settings,
            agents: Limiter::new(agents),
            pairs: Limiter::new(pairs),
            urgent: Limiter::new(urgent),
            refusals: Limiter::new(refusals),
            bytes: Limiter::new(bytes),
        }
    }

    /// The limits in force.
    #[must_use]
    pub const fn settings(&self) -> &RateSettings {
        &self.settings
    }

    /// Other limits from now on. Nobody gets a fresh burst by it: what was used stays used.
    pub fn reconfigure(&mut self, settings: RateSettings, now: Now) {
        let [agents, pairs, urgent, refusals, bytes] = settings.quotas();
        self.bytes.reconfigure(bytes, now);
        self.agents.reconfigure(agents, now);
        self.pairs.reconfigure(pairs, now);
        self.urgent.reconfigure(urgent, now);
        self.refusals.reconfigure(refusals, now);
        self.settings = settings;
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
        self.evict_idle(now);
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

    /// Charges `from` for a message that is refused before [`RateLimits::charge`], or says that it
    /// was refused too often.
    ///
    /// # Errors
    /// [`Limited`]; nothing is charged then.
    pub fn charge_refusal(&mut self, from: &AgentId, now: Now) -> Result<(), Limited> {
        self.refusals.evict_idle(self.settings.max_keys, now);
        if let Some(retry_after) = self.wait_after_refusals(from, now) {
            let most = self.settings.refusals_per_minute;
            let limit = format!("{from} may send {most} messages a minute that are refused");
            return Err(Limited { limit, retry_after });
        }
        self.refusals.take(from, NonZeroU32::MIN, now);
        Ok(())
    }

    /// How long until `from` is told again why a message of it is refused; `None` when it is now.
    #[must_use]
    pub fn wait_after_refusals(&self, from: &AgentId, now: Now) -> Option<Duration> {
        self.refusals.wait(from, NonZeroU32::MIN, now)
    }

    /// Charges so many bytes of a call of A2A from `from`. More than the burst counts as the burst.
    ///
    /// # Errors
    /// [`Limited`]; nothing is charged then.
    pub fn charge_bytes(&mut self, from: &AgentId, bytes: usize, now: Now) -> Result<(), Limited> {
        let Some(cost) = self.byte_cost(bytes) else { return Ok(()) };
        self.may_send_bytes(from, bytes, now)?;
        self.bytes.take(from, cost, now);
        Ok(())
    }

    /// Whether so many bytes would be taken; nothing is charged.
    ///
    /// # Errors
    /// [`Limited`].
    pub fn may_send_bytes(
        &mut self,
        from: &AgentId,
        bytes: usize,
        now: Now,
    ) -> Result<(), Limited> {
        self.evict_idle(now);
        let wait = self.byte_cost(bytes).and_then(|cost| self.bytes.wait(from, cost, now));
        wait.map_or(Ok(()), |retry_after| {
            let most = self.settings.a2a_bytes_per_minute;
            Err(Limited {
                limit: format!("{from} may send {most} bytes a minute over A2A"),
                retry_after,
            })
        })
    }

    fn byte_cost(&self, bytes: usize) -> Option<NonZeroU32> {
        let bytes = NonZeroU32::new(u32::try_from(bytes).unwrap_or(u32::MAX))?;
        Some(bytes.min(self.settings.a2a_byte_burst))
    }

    fn cost(&self, recipients: usize) -> NonZeroU32 {
        let share = u32::try_from(recipients.div_ceil(100)).unwrap_or(u32::MAX);
        NonZeroU32::MIN.saturating_add(share).min(self.settings.agent_burst)
    }

    /// Keys come from senders, so their number is bounded: a bucket that is full again is
    /// forgotten, and beyond the limit the fullest go first.
    fn evict_idle(&mut self, now: Now) {
        let max = self.settings.max_keys;
        self.agents.evict_idle(max, now);
        self.pairs.evict_idle(max, now);
        self.urgent.evict_idle(max, now);
        self.refusals.evict_idle(max, now);
        self.bytes.evict_idle(max, now);
    }

    /// How many buckets are remembered.
    #[must_use]
    pub fn keys(&self) -> usize {
        let messages = self.agents.len() + self.pairs.len() + self.urgent.len();
        messages + self.refusals.len() + self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Audience::{Many, One};
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
    fn refusals_are_limited_by_themselves() {
        let mut limits = RateLimits::new(RateSettings::default());
        let (roman, tim) = (id("roman"), id("tim"));
        for _ in 0..1_000 {
            limits.charge_refusal(&roman, at(0)).unwrap();
        }
        let limited = limits.charge_refusal(&roman, at(0)).unwrap_err();
        assert_eq!(limited.retry_after, Duration::from_millis(100));
        assert!(limits.wait_after_refusals(&roman, at(99)).is_some());
        limits.charge_refusal(&roman, at(100)).unwrap();
        limits.charge_refusal(&tim, at(0)).unwrap();
        limits.charge(&roman, One(&tim), Normal, at(0)).unwrap();
    }

    #[test]
    fn bytes_have_a_bucket_of_their_own() {
        let n = |n| NonZeroU32::new(n).unwrap();
        let settings = RateSettings {
            a2a_bytes_per_minute: n(60_000),
            a2a_byte_burst: n(10_000),
            ..RateSettings::default()
        };
        let mut limits = RateLimits::new(settings);
        let roman = id("roman");
        limits.charge_bytes(&roman, 0, at(0)).unwrap();
        limits.charge_bytes(&roman, 4_000, at(0)).unwrap();
        limits.charge_bytes(&roman, 6_000, at(0)).unwrap();
        let refused = limits.charge_bytes(&roman, 2_000, at(0)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(2));
        assert!(refused.limit.contains("60000 bytes a minute"), "{refused}");
        // A refusal costs nothing, and others are not limited.
        limits.charge_bytes(&roman, 2_000, at(2_000)).unwrap();
        limits.charge_bytes(&id("tony"), 10_000, at(0)).unwrap();
        // What is larger than the burst passes when the bucket is full.
        assert!(limits.charge_bytes(&roman, usize::MAX, at(11_999)).is_err());
        limits.charge_bytes(&roman, usize::MAX, at(12_000)).unwrap();
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

    #[test]
    fn other_limits_forgive_nobody_and_take_nothing_from_those_who_were_silent() {
        let n = |n: u32| NonZeroU32::new(n).unwrap();
        let before = RateSettings::default();
        // After 15 of 20 to one agent, so many more go at once under the new limits.
        for (after, left) in [
            (before, 5),
            (RateSettings { pair_burst: n(30), ..before }, 15),
            (RateSettings { pair_burst: n(10), ..before }, 0),
            (RateSettings { per_pair_per_minute: n(6), ..before }, 5),
            (RateSettings { per_pair_per_minute: n(600), ..before }, 5),
        ] {
            let mut limits = RateLimits::new(before);
            let tim = id("tim");
            let send = |limits: &mut RateLimits, from: &str| {
                limits.charge(&id(from), One(&tim), Normal, at(1_000)).is_ok()
            };
            assert_eq!((0..15).filter(|_| send(&mut limits, "roman")).count(), 15);
            limits.reconfigure(after, at(1_000));
            assert_eq!((0..40).filter(|_| send(&mut limits, "roman")).count(), left, "{after:?}");
            let fresh = after.pair_burst.get() as usize;
            assert_eq!((0..40).filter(|_| send(&mut limits, "main")).count(), fresh, "{after:?}");
        }
    }

    #[test]
    fn a_bucket_that_became_smaller_is_empty_and_no_more_than_that() {
        let n = |n: u32| NonZeroU32::new(n).unwrap();
        let mut limits = RateLimits::new(RateSettings::default());
        let (roman, tim) = (id("roman"), id("tim"));
        for _ in 0..20 {
            limits.charge(&roman, One(&tim), Normal, at(0)).unwrap();
        }
        let slow = RateSettings {
            pair_burst: n(2),
            per_pair_per_minute: n(30),
            ..RateSettings::default()
        };
        limits.reconfigure(slow, at(0));
        let refused = limits.charge(&roman, One(&tim), Normal, at(0)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(2));
        assert!(refused.limit.contains("30 messages"), "{refused}");
    }
}
