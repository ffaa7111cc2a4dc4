//! Counters of webhook calls, by outcome.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The outcome of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The receiver answered with success.
    Delivered,
    /// It is retried after a pause.
    Retried,
    /// The notification is dropped.
    GivenUp,
    /// The push config is disabled.
    Disabled,
}

impl DeliveryOutcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Delivered, Self::Retried, Self::GivenUp, Self::Disabled];

    /// The label in metrics.
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

/// One counter per outcome.
#[derive(Debug, Default)]
pub(super) struct EndCounters([AtomicU64; DeliveryOutcome::ALL.len()]);

impl EndCounters {
    pub(super) fn count(&self, end: DeliveryOutcome) {
        self.0[end as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn of(&self, end: DeliveryOutcome) -> u64 {
        self.0[end as usize].load(Relaxed)
    }
}
