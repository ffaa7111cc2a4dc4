//! Exponential backoff between the attempts of a delivery.

use std::time::Duration;

/// How often a delivery is attempted, and the backoff between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts before a message becomes a dead letter.
    pub attempts: u32,
    /// The backoff after the first failed attempt; each further one is four times as long.
    pub initial_backoff: Duration,
    /// The longest backoff.
    pub max_backoff: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            initial_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// The backoff after a failed attempt, counted from 1.
    pub(super) fn backoff_after(&self, attempt: u32) -> Duration {
        let factor = 4u32.saturating_pow(attempt.saturating_sub(1));
        self.initial_backoff.saturating_mul(factor).min(self.max_backoff)
    }
}
