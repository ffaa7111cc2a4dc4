//! The time, as an argument.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// One moment, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The time of day, for people; it may jump.
    pub utc: DateTime<Utc>,
    /// Time since the bus started, for deciding; it never goes back.
    pub uptime: Duration,
}
