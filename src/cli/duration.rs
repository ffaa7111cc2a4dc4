//! Durations as options take them: one grammar for every verb.
//!
//! A duration is one or more whole numbers, each with a unit: `500ms`, `90s`, `15m`, `2h`, `3d`,
//! `1w`, `1h30m`. Options that were seconds from the start (`--wait`, `--duration`) also accept a
//! bare number of seconds; elsewhere `30` could be mistaken for days, so it is refused.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

/// Parses a duration; `None` when it is malformed or out of range.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, Duration::ZERO);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        let part = match &unit[..end] {
            "ms" => Duration::from_millis(number),
            unit => Duration::from_secs(number.checked_mul(seconds(unit)?)?),
        };
        total = total.checked_add(part)?;
        rest = &unit[end..];
    }
    Some(total)
}

/// Length of a unit in seconds.
fn seconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    })
}

/// Parses a duration, where a bare number means seconds.
pub(super) fn parse_or_seconds(text: &str) -> Option<Duration> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
    }
    parse(text)
}

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
    fn duration_is_numbers_with_units() {
        for (text, seconds) in [
            ("0s", 0.0),
            ("500ms", 0.5),
            ("90s", 90.0),
            ("15m", 900.0),
            ("15min", 900.0),
            ("2h", 7_200.0),
            ("3d", 259_200.0),
            ("1w", 604_800.0),
            ("1h30m", 5_400.0),
            ("1m500ms", 60.5),
        ] {
            assert_eq!(parse(text), Some(Duration::from_secs_f64(seconds)), "{text}");
            assert_eq!(parse_or_seconds(text), parse(text), "{text}");
        }
        assert_eq!(parse_or_seconds("30"), Some(Duration::from_secs(30)));
    }

    #[test]
    fn malformed_duration_is_refused() {
        for text in ["", "s", "-1s", "1.5h", "1x", "2h5", "h2", "1 h", "99999999999999999999s"] {
            assert_eq!(parse(text), None, "{text}");
            assert_eq!(parse_or_seconds(text), None, "{text}");
        }
        assert_eq!(parse("30"), None);
        assert_eq!(parse("99999999999999999d"), None);
    }

    #[test]
    fn duration_is_relative_to_now() {
        let now = Utc::now();
        assert_eq!(after(now, "1h30m"), Some(now + TimeDelta::minutes(90)));
        assert_eq!(ago(now, "1h30m"), Some(now - TimeDelta::minutes(90)));
        assert_eq!(after(now, "0s"), None);
        assert_eq!(after(now, "9999999999w"), None);
        assert_eq!(ago(now, "9999999999w"), None);
    }
}
