//! Histogram of durations or sizes, updated without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bucket bounds in nanoseconds up to 10 s: from a disk with a write cache to one that hangs.
const SECONDS: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
];

/// Bucket bounds up to the largest commit.
const SIZES: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096];

/// Counts of observed values by bucket.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds of the buckets, inclusive; larger values have a bucket of their own.
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// Observed units per displayed unit (nanoseconds per second, or 1).
    per_unit: f64,
}

/// Values of a histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    /// Sum of all values.
    pub sum: f64,
    /// Number of values.
    pub count: u64,
    /// Upper bound of each bucket and the cumulative count up to it.
    pub buckets: Vec<(f64, u64)>,
}

impl Histogram {
    fn new(bounds: &'static [u64], per_unit: f64) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0), per_unit }
    }

    /// A histogram of durations, displayed in seconds.
    #[must_use]
    pub fn of_seconds() -> Self {
        Self::new(SECONDS, 1e9)
    }

    /// A histogram of sizes.
    #[must_use]
    pub fn of_sizes() -> Self {
        Self::new(SIZES, 1.0)
    }

    /// Records a duration.
    pub fn took(&self, time: Duration) {
        self.note(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Records a size.
    pub fn counted(&self, size: usize) {
        self.note(size as u64);
    }

    fn note(&self, number: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < number);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(number, Relaxed);
    }

    /// Current values. Taken while others record, the sum may differ from the counts by a few
    /// values.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / self.per_unit);
        HistogramSnapshot {
            sum: self.sum.load(Relaxed) as f64 / self.per_unit,
            count: counts.iter().sum(),
            buckets: bounds.chain([f64::INFINITY]).zip(counts).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_counts_in_smallest_fitting_bucket() {
        let histogram = Histogram::of_sizes();
        for size in [0, 1, 2, 3, 4, 4_096, 4_097, 1_000_000] {
            histogram.counted(size);
        }
        let HistogramSnapshot { sum, count, buckets } = histogram.snapshot();
        assert_eq!((sum, count), (1_008_203.0, 8));
        let filled: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(1.0, 2), (2.0, 1), (4.0, 2), (4_096.0, 1), (f64::INFINITY, 2)]);
    }

    #[test]
    fn duration_is_displayed_in_seconds() {
        let histogram = Histogram::of_seconds();
        histogram.took(Duration::from_micros(1_500));
        histogram.took(Duration::from_secs(3_600));
        let HistogramSnapshot { sum, buckets, .. } = histogram.snapshot();
        assert!((sum - 3_600.001_5).abs() < 1e-6, "{sum}");
        let filled: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled.len(), 2);
        assert!((filled[0].0 - 0.0025).abs() < 1e-9, "{filled:?}");
    }
}
