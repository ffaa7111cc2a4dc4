//! Counters of webhook attempts by result.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The result of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// Accepted by the receiver.
    Delivered,
    /// Scheduled for a retry.
    Retried,
    /// The notification is dropped.
    GivenUp,
    /// The webhook is disabled.
    Disabled,
}

impl CallEnd {
    /// All results.
    pub const ALL: [Self; 4] = [Self::Delivered, Self::Retried, Self::GivenUp, Self::Disabled];

    /// The metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retried => "retried",
            Self::GivenUp => "given_up",
            Self::Disabled => "disabled",
        }
    }
}

/// The number of attempts per result.
#[derive(Debug, Default)]
pub(super) struct Ends([AtomicU64; CallEnd::ALL.len()]);

impl Ends {
    pub(super) fn count(&self, end: CallEnd) {
        self.0[end as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn of(&self, end: CallEnd) -> u64 {
        self.0[end as usize].load(Relaxed)
    }
}
