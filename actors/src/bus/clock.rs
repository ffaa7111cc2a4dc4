//! The only place of the bus that reads a clock; when a message came is told by whoever took it.

use std::time::{Duration, Instant};

use a2a_policy::Now;
use chrono::{SubsecRound, Utc};

/// Both clocks of the machine, read together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// For what the bus itself sends: it has the bytes in hand from the start.
    pub(crate) fn instant() -> Instant {
        Instant::now()
    }

    /// How long ago something was.
    pub(crate) fn since(then: Instant) -> Duration {
        then.elapsed()
    }

    pub(crate) fn now(&self) -> Now {
        // Milliseconds are what the log and the receipts show; more would make them differ.
        Now { utc: Utc::now().trunc_subsecs(3), uptime: self.started.elapsed() }
    }
}
