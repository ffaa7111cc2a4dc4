//! Durations of options, before or after now. The grammar is that of [`a2a_gateway::duration`].
//!
//! Options that were seconds from the start (`--wait`, `--duration`) also accept a bare number of
//! seconds; elsewhere `30` could be mistaken for days, so it is refused.

pub(super) use a2a_gateway::duration::parse_or_seconds;

use a2a_gateway::duration::parse;
use chrono::{DateTime, TimeDelta, Utc};

/// Parses a positive duration and adds it to `now`.
pub(super) fn after(now: DateTime<Utc>, text: &str) -> Option<DateTime<Utc>> {
    let duration = parse(text).filter(|duration| !duration.is_zero())?;
    now.checked_add_signed(TimeDelta::from_std(duration).ok()?)
}

/// Parses a duration and subtracts it from `now`.
pub(super) fn ago(now: DateTime<Utc>, text: &str) -> Option<DateTime<Utc>> {
    now.checked_sub_signed(TimeDelta::from_std(parse(text)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_relative_to_now() {
        let now = Utc::now();
        assert_eq!(after(now, "1h30m"), Some(now + TimeDelta::minutes(90)));
        assert_eq!(ago(now, "1h30m"), Some(now - TimeDelta::minutes(90)));
        assert_eq!(after(now, "30"), None);
        assert_eq!(after(now, "0s"), None);
        assert_eq!(after(now, "9999999999w"), None);
        assert_eq!(ago(now, "9999999999w"), None);
    }
}
