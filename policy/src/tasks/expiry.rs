//! Expiry of A2A tasks that wait for their caller.

use std::time::Duration;

use a2a_protocol::task::{TaskState, UtcMillis};
use chrono::{DateTime, TimeDelta, Utc};

/// Whether a task that waits for its caller has expired: unchanged since `changed` for longer than
/// `ttl`. It then ends, and is removed only after another `ttl`, so that a late caller can still
/// read the reason.
#[must_use]
pub fn is_expired(state: TaskState, changed: UtcMillis, now: DateTime<Utc>, ttl: Duration) -> bool {
    let ttl = TimeDelta::from_std(ttl).unwrap_or(TimeDelta::MAX);
    state.is_interrupted() && now.signed_duration_since(changed.to_utc()) > ttl
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_expires_only_when_it_waits_for_its_caller_past_ttl() {
        let changed = "2026-02-21T18:30:00.000Z";
        let week = Duration::from_secs(7 * 24 * 60 * 60);
        for (state, now, expired) in [
            (TaskState::InputRequired, "2026-02-28T18:30:00.001Z", true),
            (TaskState::AuthRequired, "2026-02-28T18:30:00.001Z", true),
            (TaskState::InputRequired, "2026-02-28T18:30:00.000Z", false),
            // The clock was set back.
            (TaskState::InputRequired, "2026-02-20T18:30:00.000Z", false),
            // These have a timeout of their own, wait for others, or are removed at once.
            (TaskState::Working, "2027-02-21T18:30:00.000Z", false),
            (TaskState::Submitted, "2027-02-21T18:30:00.000Z", false),
            (TaskState::Completed, "2027-02-21T18:30:00.000Z", false),
        ] {
            let (changed, now) = (changed.parse().unwrap(), now.parse().unwrap());
            assert_eq!(is_expired(state, changed, now, week), expired, "{state} {now}");
            assert!(!is_expired(state, changed, now, Duration::MAX), "for ever is for ever");
        }
    }
}
