//! Rate limits per sender, per pair of agents, for `urgent`, for refusals, and for A2A bytes.
//!
//! Token buckets (governor's GCRA). A message is first tried against all buckets and then charged
//! to all of them. So a refusal costs nothing, and the reported wait is exact.

mod limiter;

use std::num::NonZeroU32;
use std::time::Duration;

use a2a_protocol::{AgentId, Priority};
use governor::Quota;

use crate::{Audience, Now};
pub(crate) use limiter::Limiter;

/// The limits, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSettings {
    /// Messages a minute from one agent.
    pub per_agent_per_minute: NonZeroU32,
    /// The burst of that.
    pub agent_burst: NonZeroU32,
    /// Messages a minute from one agent to another.
    pub per_pair_per_minute: NonZeroU32,
    /// The burst of that.
    pub pair_burst: NonZeroU32,
    /// Messages a minute with priority `urgent` from one agent; the burst is the same.
    pub urgent_per_minute: NonZeroU32,
    /// Messages a minute from one agent that may be refused before they are charged, such as those
    /// to unknown recipients; more are refused as `rate_limited`.
    pub refusals_per_minute: NonZeroU32,
    /// The burst of that.
    pub refusal_burst: NonZeroU32,
    /// Bytes a minute from one A2A client.
    pub a2a_bytes_per_minute: NonZeroU32,
    /// The burst of that.
    pub a2a_byte_burst: NonZeroU32,
    /// The maximum number of buckets for agents and for pairs.
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
    /// Limits too high to be reached.
    #[must_use]
    pub fn unlimited() -> Self {
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

    /// For one agent, a pair, urgent messages, refusals, bytes.
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

/// The limit that was exceeded, and when the same message would pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{limit}; try again in {} ms", retry_after.as_millis())]
pub struct Limited {
    /// The limit, as a phrase.
    pub limit: String,
    /// The time to wait, rounded up to a millisecond.
    pub retry_after: Duration,
}

/// The token buckets of all senders.
pub struct RateLimits {
    settings: RateSettings,
    agents: Limiter<AgentId>,
    pairs: Limiter<(AgentId, AgentId)>,
    urgent: Limiter<AgentId>,
    refusals: Limiter<AgentId>,
    bytes: Limiter<AgentId>,
}

impl RateLimits {
    /// Full buckets for all senders.
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

    /// Applies new limits. No sender gets a fresh burst: what was used stays used.
    pub fn reconfigure(&mut self, settings: RateSettings, now: Now) {
        let [agents, pairs, urgent, refusals, bytes] = settings.quotas();
        self.bytes.reconfigure(bytes, now);
        self.agents.reconfigure(agents, now);
        self.pairs.reconfigure(pairs, now);
        self.urgent.reconfigure(urgent, now);
        self.refusals.reconfigure(refusals, now);
        self.settings = settings;
    }

    /// Charges one message from `from` to `to`.
    ///
    /// A fan-out is charged to the sender only, in proportion: `min(burst, 1 + ⌈n / 100⌉)`.
    ///
    /// # Errors
    /// [`Limited`] with the longest wait; nothing is charged then.
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

    /// Charges `from` for a message that is refused before [`RateLimits::charge`].
    ///
    /// # Errors
    /// [`Limited`] when too many were refused; nothing is charged then.
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

    /// The time until `from` gets reasons for refusals again; `None` when it gets them now.
    #[must_use]
    pub fn wait_after_refusals(&self, from: &AgentId, now: Now) -> Option<Duration> {
        self.refusals.wait(from, NonZeroU32::MIN, now)
    }

    /// Charges `bytes` of an A2A call of `from`. More than the burst counts as the burst.
    ///
    /// # Errors
    /// [`Limited`]; nothing is charged then.
    pub fn charge_bytes(&mut self, from: &AgentId, bytes: usize, now: Now) -> Result<(), Limited> {
        let Some(cost) = self.byte_cost(bytes) else { return Ok(()) };
        self.may_send_bytes(from, bytes, now)?;
        self.bytes.take(from, cost, now);
        Ok(())
    }

    /// Checks whether `bytes` would pass; charges nothing.
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

    /// Keys come from senders, so their number is bounded: full buckets are evicted, and beyond the
    /// limit those that owe least.
    fn evict_idle(&mut self, now: Now) {
        let max = self.settings.max_keys;
        self.agents.evict_idle(max, now);
        self.pairs.evict_idle(max, now);
        self.urgent.evict_idle(max, now);
        self.refusals.evict_idle(max, now);
        self.bytes.evict_idle(max, now);
    }

    /// The number of buckets.
    #[must_use]
    pub fn keys(&self) -> usize {
        let messages = self.agents.len() + self.pairs.len() + self.urgent.len();
        messages + self.refusals.len() + self.bytes.len()
    }
}

#[cfg(test)]
mod tests;
