//! Counters and latency histograms of a run. Every thread has its own; they are merged at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Upper bound of the histograms in microseconds (ten minutes, three digits).
const LONGEST_US: u64 = 600_000_000;

/// Latency histogram.
pub(super) struct Latencies(Histogram<u64>);

/// Reported quantiles.
pub(super) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

impl Latencies {
    pub(super) fn new() -> anyhow::Result<Self> {
        let times = Histogram::new_with_bounds(1, LONGEST_US, 3);
        Ok(Self(times.context("nothing can be measured")?))
    }

    pub(super) fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST_US).max(1));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each quantile with its name in milliseconds, the maximum last.
    pub(super) fn figures(&self) -> Vec<(&'static str, f64)> {
        let ms = |us: u64| us as f64 / 1_000.0;
        let quantiles = QUANTILES.map(|(name, part)| (name, ms(self.0.value_at_quantile(part))));
        quantiles.into_iter().chain([("max", ms(self.0.max()))]).collect()
    }

    pub(super) fn json(&self) -> Value {
        self.figures().into_iter().map(|(name, ms)| (name.to_owned(), json!(ms))).collect()
    }

    fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.0.add(&other.0).context("the figures do not fit together")
    }
}

/// Counters of a run.
pub(super) struct Counters {
    /// Calls made.
    pub(super) sent: u64,
    pub(super) accepted: u64,
    /// Calls without an answer; the server may have processed them.
    pub(super) unanswered: u64,
    /// Refused calls by code.
    pub(super) refused: BTreeMap<String, u64>,
    /// Last reason for each code.
    pub(super) reasons: BTreeMap<String, String>,
    /// Messages taken and acknowledged.
    pub(super) acknowledged: u64,
    /// Number of tasks by final state.
    pub(super) ended: BTreeMap<String, u64>,
    /// Total time that senders waited because of a limit.
    pub(super) held_up: Duration,
    /// Latency of the answer to a call.
    pub(super) answer: Latencies,
    /// Latency until the recipient has taken the message.
    pub(super) end_to_end: Latencies,
}

impl Counters {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            sent: 0,
            accepted: 0,
            unanswered: 0,
            refused: BTreeMap::new(),
            reasons: BTreeMap::new(),
            acknowledged: 0,
            ended: BTreeMap::new(),
            held_up: Duration::ZERO,
            answer: Latencies::new()?,
            end_to_end: Latencies::new()?,
        })
    }

    pub(super) fn refuse(&mut self, code: String, reason: String) {
        *self.refused.entry(code.clone()).or_default() += 1;
        self.reasons.insert(code, reason);
    }

    pub(super) fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.sent += other.sent;
        self.accepted += other.accepted;
        self.unanswered += other.unanswered;
        self.acknowledged += other.acknowledged;
        self.held_up += other.held_up;
        for (word, count) in other.refused {
            *self.refused.entry(word).or_default() += count;
        }
        for (word, count) in other.ended {
            *self.ended.entry(word).or_default() += count;
        }
        self.reasons.extend(other.reasons);
        self.answer.add(&other.answer)?;
        self.end_to_end.add(&other.end_to_end)
    }

    pub(super) fn all_refused(&self) -> u64 {
        self.refused.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_several_threads_are_merged() {
        let (mut whole, mut part) = (Counters::new().unwrap(), Counters::new().unwrap());
        for ms in 1..=1_000 {
            part.answer.record(Duration::from_millis(ms));
        }
        part.refuse("rate_limited".into(), "Wait.".into());
        whole.refuse("rate_limited".into(), "Wait longer.".into());
        whole.add(part).unwrap();
        assert_eq!(whole.refused["rate_limited"], 2);
        assert_eq!(whole.reasons["rate_limited"], "Wait.");
        let figures: Vec<_> = whole.answer.figures();
        for ((name, ms), expected) in figures.iter().zip([500.0, 900.0, 990.0, 999.0, 1_000.0]) {
            assert!((ms / expected - 1.0).abs() < 0.01, "{name}: {ms}");
        }
        assert_eq!(whole.answer.json()["max"].as_f64().map(f64::round), Some(1_000.0));
        assert!(whole.end_to_end.is_empty());
    }
}
