//! How often something took how long, or was how large: counted where it happens, without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Up to 10 s, in nanoseconds: from what a disk with a battery takes to one that is stuck.
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

/// Up to the most lines a commit has.
const SIZES: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096];

/// Numbers by their size.
#[derive(Debug)]
pub struct Histogram {
    /// What each class holds at most; what is larger has a class of its own.
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// How many of them make one of the unit that is shown.
    per_unit: f64,
}

/// What a histogram held at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    /// What all numbers are together.
    pub sum: f64,
    /// How many there are.
    pub count: u64,
    /// What each class holds at most, and how many are in it and in no smaller one.
    pub buckets: Vec<(f64, u64)>,
}

impl Histogram {
    fn new(bounds: &'static [u64], per_unit: f64) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0), per_unit }
    }

    /// For times, shown in seconds.
    #[must_use]
    pub fn of_seconds() -> Self {
        Self::new(SECONDS, 1e9)
    }

    /// For how many of something came at once.
    #[must_use]
    pub fn of_sizes() -> Self {
        Self::new(SIZES, 1.0)
    }

    /// It took so long once more.
    pub fn took(&self, time: Duration) {
        self.note(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// There were so many once more.
    pub fn counted(&self, size: usize) {
        self.note(size as u64);
    }

    fn note(&self, number: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < number);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(number, Relaxed);
    }

    /// What it holds now. Taken while others count, the sum may be a few numbers ahead or behind.
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
    fn every_number_is_in_the_smallest_class_that_takes_it() {
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
    fn times_are_shown_in_seconds() {
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
