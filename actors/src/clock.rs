//! The only place that reads a clock.

use std::time::Instant;

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

    pub(crate) fn now(&self) -> Now {
        // Milliseconds are what the log and the receipts show; more would make them differ.
        Now { utc: Utc::now().trunc_subsecs(3), uptime: self.started.elapsed() }
    }
}
