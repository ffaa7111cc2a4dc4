//! Refusal sampling: which refusals are logged one by one, and which are only counted.
//!
//! Duplicates count like refusals. At normal rates every refusal is logged. A flood is logged as
//! its beginning, a sample, and a count.

use std::collections::HashMap;
use std::num::NonZeroU32;

use a2a_protocol::{AgentId, Outcome};
use governor::Quota;

use crate::Now;
use crate::admission::rate_limit::Limiter;

/// Refusals of one sender and outcome that are logged in full at once; ten a second after that.
const BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);
/// Limit of [`BURST`] for all senders together, because sender names can be invented.
const BURST_OF_ALL: NonZeroU32 = NonZeroU32::MIN.saturating_add(9_999);
const A_SECOND: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
const A_SECOND_OF_ALL: NonZeroU32 = NonZeroU32::MIN.saturating_add(99);
/// The cost of a refusal that needs no token to cause: ten at once, one in ten seconds after that,
/// and ten times as many in all.
const WITHOUT_TOKEN: NonZeroU32 = NonZeroU32::MIN.saturating_add(99);
/// Kilobytes of refusals of one sender that are logged at once, whatever the outcome.
const KB_BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(4_095);
const KB_A_SECOND: NonZeroU32 = NonZeroU32::MIN.saturating_add(31);
/// Limit of [`KB_BURST`] for all senders together.
const KB_BURST_OF_ALL: NonZeroU32 = NonZeroU32::MIN.saturating_add(32_767);
const KB_A_SECOND_OF_ALL: NonZeroU32 = NonZeroU32::MIN.saturating_add(255);
/// The number of senders with a counter of their own.
const MAX_KEYS: usize = 10_000;

/// The refused sender and the outcome.
type RefusalKey = (Option<AgentId>, Outcome);

/// Refusals that were counted and not logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppressed {
    /// The sender; `None` for several senders together, or when it could not be read.
    pub sender: Option<AgentId>,
    /// The outcome.
    pub outcome: Outcome,
    /// How many.
    pub count: u64,
}

/// Token buckets that sample refusals, and the counters of those left out.
pub struct RefusalSampler {
    each: Limiter<RefusalKey>,
    all: Limiter<Outcome>,
    kb_each: Limiter<Option<AgentId>>,
    kb_all: Limiter<()>,
    counted: HashMap<RefusalKey, u64>,
}

impl Default for RefusalSampler {
    fn default() -> Self {
        const fn quota(rate: NonZeroU32, burst: NonZeroU32) -> Quota {
            Quota::per_second(rate).allow_burst(burst)
        }
        Self {
            each: Limiter::new(quota(A_SECOND, BURST)),
            all: Limiter::new(quota(A_SECOND_OF_ALL, BURST_OF_ALL)),
            kb_each: Limiter::new(quota(KB_A_SECOND, KB_BURST)),
            kb_all: Limiter::new(quota(KB_A_SECOND_OF_ALL, KB_BURST_OF_ALL)),
            counted: HashMap::new(),
        }
    }
}

impl RefusalSampler {
    /// Whether to log this refusal, whose record takes about `bytes`; otherwise it is counted.
    pub fn is_written(
        &mut self,
        sender: Option<&AgentId>,
        outcome: Outcome,
        bytes: usize,
        now: Now,
    ) -> bool {
        let one = match outcome {
            Outcome::Unauthorized => WITHOUT_TOKEN,
            _ => NonZeroU32::MIN,
        };
        let kb = u32::try_from(bytes.div_ceil(1_024)).ok().and_then(NonZeroU32::new);
        let kb = kb.unwrap_or(NonZeroU32::MIN).min(KB_BURST);
        self.each.evict_idle(MAX_KEYS, now);
        self.kb_each.evict_idle(MAX_KEYS, now);
        let key = (sender.cloned(), outcome);
        let waits = [
            self.each.wait(&key, one, now),
            self.all.wait(&outcome, one, now),
            self.kb_each.wait(&key.0, kb, now),
            self.kb_all.wait(&(), kb, now),
        ];
        if waits.iter().all(Option::is_none) {
            self.each.take(&key, one, now);
            self.all.take(&outcome, one, now);
            self.kb_each.take(&key.0, kb, now);
            self.kb_all.take(&(), kb, now);
            return true;
        }
        let has_slot = self.counted.len() < MAX_KEYS || self.counted.contains_key(&key);
        *self.counted.entry(if has_slot { key } else { (None, outcome) }).or_default() += 1;
        false
    }

    /// Returns and resets the counters.
    pub fn take_counted(&mut self) -> Vec<Suppressed> {
        let counted = self.counted.drain();
        let mut counted: Vec<_> = counted
            .map(|((sender, outcome), count)| Suppressed { sender, outcome, count })
            .collect();
        counted.sort_by(|a, b| a.sender.cmp(&b.sender));
        counted
    }

    /// Whether a counter is not zero.
    #[must_use]
    pub fn has_counted(&self) -> bool {
        !self.counted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn flood_is_logged_as_beginning_sample_and_count() {
        let mut refusals = RefusalSampler::default();
        let roman: AgentId = "roman".parse().unwrap();
        let at = |ms| Now { utc: chrono::DateTime::UNIX_EPOCH, uptime: Duration::from_millis(ms) };
        let mut written = 0;
        for i in 0..10_000 {
            // A thousand a second, for ten seconds.
            written +=
                u32::from(refusals.is_written(Some(&roman), Outcome::RateLimited, 700, at(i)));
        }
        assert!((1_080..=1_110).contains(&written), "{written}");
        let tim: AgentId = "tim".parse().unwrap();
        assert!(
            refusals.is_written(Some(&tim), Outcome::RateLimited, 700, at(10_000)),
            "others are seen"
        );
        assert!(refusals.has_counted());
        let counted = refusals.take_counted();
        assert_eq!(counted.len(), 1);
        assert_eq!(
            (counted[0].sender.as_ref(), counted[0].outcome),
            (Some(&roman), Outcome::RateLimited)
        );
        assert_eq!(counted[0].count, 10_000 - u64::from(written));
        assert!(!refusals.has_counted());
    }

    #[test]
    fn large_refusals_are_logged_up_to_the_byte_limit() {
        let mut refusals = RefusalSampler::default();
        let (roman, tim): (AgentId, AgentId) = ("roman".parse().unwrap(), "tim".parse().unwrap());
        let at = |ms| Now { utc: chrono::DateTime::UNIX_EPOCH, uptime: Duration::from_millis(ms) };
        let mut written = |by: &AgentId, outcome, ms: u64| {
            let large = |_: &i32| refusals.is_written(Some(by), outcome, 400 * 1_024, at(ms));
            (0..100).filter(large).count()
        };
        assert_eq!(written(&roman, Outcome::QueueFull, 0), 10, "4 MiB");
        assert_eq!(written(&roman, Outcome::Invalid, 0), 0, "of whatever kind");
        assert_eq!(written(&tim, Outcome::QueueFull, 0), 10);
        assert_eq!(written(&roman, Outcome::QueueFull, 25_000), 2);
        assert_eq!(refusals.take_counted().iter().map(|s| s.count).sum::<u64>(), 400 - 22);
    }

    #[test]
    fn refusals_without_token_are_logged_less() {
        let mut refusals = RefusalSampler::default();
        let at = |ms| Now { utc: chrono::DateTime::UNIX_EPOCH, uptime: Duration::from_millis(ms) };
        let mut written = |from: u64, until: u64| {
            (from..until)
                .filter(|ms| refusals.is_written(None, Outcome::Unauthorized, 100, at(*ms)))
                .count()
        };
        assert_eq!(written(0, 1_000), 10);
        assert_eq!(written(1_000, 61_000), 6);
        assert_eq!(refusals.take_counted()[0].count, 61_000 - 16);
    }

    #[test]
    fn refusals_of_invented_names_are_bounded() {
        let mut refusals = RefusalSampler::default();
        let now = Now { utc: chrono::DateTime::UNIX_EPOCH, uptime: Duration::ZERO };
        let names = (0..50_000).map(|n| format!("agent-{n}").parse::<AgentId>().unwrap());
        let written = names
            .filter(|name| refusals.is_written(Some(name), Outcome::UnknownRecipient, 700, now))
            .count();
        assert_eq!(written, 10_000);
        let counted = refusals.take_counted();
        assert!(counted.len() <= MAX_KEYS + 1, "{}", counted.len());
        assert_eq!(counted.iter().map(|s| s.count).sum::<u64>(), 40_000);
    }
}
