//! [`Now`]: uptime and UTC time, passed to every decision.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// One point in time on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, for people and persistent state; it may jump.
    pub utc: DateTime<Utc>,
    /// Time since the bus started, for decisions; monotonic.
    pub uptime: Duration,
}
