//! When nobody will come back to a task that waits for its caller.

use std::time::Duration;

use a2a_protocol::task::{Moment, TaskState};
use chrono::{DateTime, TimeDelta, Utc};

/// Whether a task that waits for its caller has waited for as long as tasks are kept: nothing has
/// happened to it since `changed`. It is ended then, and removed as every other after that, so
/// whoever comes late still finds why.
#[must_use]
pub fn is_expired(state: TaskState, changed: Moment, now: DateTime<Utc>, ttl: Duration) -> bool {
    let ttl = TimeDelta::from_std(ttl).unwrap_or(TimeDelta::MAX);
    state.is_interrupted() && now.signed_duration_since(changed.to_utc()) > ttl
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_waits_for_its_caller_is_given_up_and_only_after_its_time() {
        let changed = "2026-02-21T18:30:00.000Z";
        let week = Duration::from_secs(7 * 24 * 60 * 60);
        for (state, now, expired) in [
            (TaskState::InputRequired, "2026-02-28T18:30:00.001Z", true),
            (TaskState::AuthRequired, "2026-02-28T18:30:00.001Z", true),
            (TaskState::InputRequired, "2026-02-28T18:30:00.000Z", false),
            // The clock was set back.
            (TaskState::InputRequired, "2026-02-20T18:30:00.000Z", false),
            // These have a limit of their own, wait for others, or are removed at once.
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
