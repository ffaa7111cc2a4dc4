//! What came of calls, in numbers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What came of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// The receiver took it.
    Delivered,
    /// It is made again.
    Retried,
    /// This notification is not delivered.
    GivenUp,
    /// The receiver is called no more.
    Disabled,
}

impl CallEnd {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Delivered, Self::Retried, Self::GivenUp, Self::Disabled];

    /// In one word.
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

/// How often each came of a call.
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
