//! Rate of progress updates.
//!
//! Each update is a complete snapshot, so one that follows too soon is delayed: a newer one
//! replaces it, and the latest is sent when the interval is over.

use std::time::Duration;

use a2a_protocol::limits::PROGRESS_UPDATES_PER_SECOND;

/// The minimum interval between two progress updates of one task, as the agent card declares it.
pub const PROGRESS_INTERVAL: Duration =
    Duration::from_millis(1_000 / PROGRESS_UPDATES_PER_SECOND as u64);

/// When to send an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Immediately.
    Now,
    /// At this time, or with the next other event of the task.
    Until(Duration),
}

impl Pace {
    /// The time for an update at `now`, after the previous one at `last`.
    #[must_use]
    pub fn of(last: Option<Duration>, now: Duration, interval: Duration) -> Self {
        match last.map(|last| last.saturating_add(interval)) {
            Some(next) if next > now => Self::Until(next),
            _ => Self::Now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_update_is_sent_and_next_waits_for_interval() {
        let ms = Duration::from_millis;
        assert_eq!(PROGRESS_INTERVAL, ms(500));
        let cases = [
            (None, 0, Pace::Now),
            (None, 10_000, Pace::Now),
            (Some(0), 0, Pace::Until(ms(500))),
            (Some(1_000), 1_001, Pace::Until(ms(1_500))),
            (Some(1_000), 1_499, Pace::Until(ms(1_500))),
            (Some(1_000), 1_500, Pace::Now),
            (Some(1_000), 90_000, Pace::Now),
        ];
        for (last, now, expected) in cases {
            let pace = Pace::of(last.map(ms), ms(now), PROGRESS_INTERVAL);
            assert_eq!(pace, expected, "{last:?} {now}");
        }
        assert_eq!(Pace::of(Some(ms(7)), ms(7), Duration::ZERO), Pace::Now);
        // A thousand a second for ten seconds.
        let (mut last, mut out) = (None, 0);
        for now in (0..10_000).map(ms) {
            if Pace::of(last, now, PROGRESS_INTERVAL) == Pace::Now {
                (last, out) = (Some(now), out + 1);
            }
        }
        assert_eq!(out, 20);
    }
}
