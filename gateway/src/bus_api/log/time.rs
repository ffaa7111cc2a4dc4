//! Points in time as people write them: a timestamp, a day, or how long ago.
//!
//! The log is kept in UTC, so days begin at midnight UTC.

use chrono::{DateTime, Days, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};

/// The text is not a point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a time; write a timestamp (2026-02-21T18:30:00Z), a day (2026-02-21, today, yesterday), or how long ago (90s, 15m, 2h, 3d, 1w)"
)]
pub struct BadTime;

/// Parses a point in time, relative to `now`. Without an offset it is UTC.
///
/// # Errors
/// When the text is not one.
pub fn read_time(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, BadTime> {
    let text = text.trim();
    // An unencoded plus sign arrives as a space.
    let stamp = if text.contains('T') { text.replace(' ', "+") } else { text.to_owned() };
    if let Ok(moment) = DateTime::parse_from_rfc3339(&stamp) {
        return Ok(moment.to_utc());
    }
    for form in ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"] {
        if let Ok(moment) = NaiveDateTime::parse_from_str(&text.replace(' ', "T"), form) {
            return Ok(moment.and_utc());
        }
    }
    let day = match text.to_ascii_lowercase().as_str() {
        "now" => return Ok(now),
        "today" => Some(now.date_naive()),
        "yesterday" => now.date_naive().checked_sub_days(Days::new(1)),
        _ => NaiveDate::parse_from_str(text, "%Y-%m-%d").ok(),
    };
    if let Some(day) = day {
        return Ok(day.and_time(NaiveTime::MIN).and_utc());
    }
    ago(text).and_then(|ago| now.checked_sub_signed(ago)).ok_or(BadTime)
}

/// `2h`, `1h30m`, `3d`.
fn ago(text: &str) -> Option<TimeDelta> {
    let text = text.strip_suffix(" ago").unwrap_or(text);
    let (mut rest, mut total) = (text, TimeDelta::zero());
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        let part = match &unit[..end] {
            "s" => TimeDelta::try_seconds(number),
            "m" | "min" => TimeDelta::try_minutes(number),
            "h" => TimeDelta::try_hours(number),
            "d" => TimeDelta::try_days(number),
            "w" => TimeDelta::try_weeks(number),
            _ => None,
        };
        total = total.checked_add(&part?)?;
        rest = &unit[end..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_days_and_how_long_ago() {
        let now: DateTime<Utc> = "2026-02-21T18:30:00Z".parse().unwrap();
        for (text, expected) in [
            ("2026-02-20T10:00:00Z", "2026-02-20T10:00:00Z"),
            ("2026-02-20T10:00:00+01:00", "2026-02-20T09:00:00Z"),
            ("2026-02-20T10:00:00 01:00", "2026-02-20T09:00:00Z"),
            ("2026-02-20T10:00:00.250Z", "2026-02-20T10:00:00.250Z"),
            ("2026-02-20T10:00", "2026-02-20T10:00:00Z"),
            ("2026-02-20 10:00:01", "2026-02-20T10:00:01Z"),
            ("2026-02-20", "2026-02-20T00:00:00Z"),
            ("today", "2026-02-21T00:00:00Z"),
            ("Yesterday", "2026-02-20T00:00:00Z"),
            ("now", "2026-02-21T18:30:00Z"),
            ("90s", "2026-02-21T18:28:30Z"),
            ("15m", "2026-02-21T18:15:00Z"),
            ("2h", "2026-02-21T16:30:00Z"),
            ("1h30m ago", "2026-02-21T17:00:00Z"),
            ("3d", "2026-02-18T18:30:00Z"),
            ("1w", "2026-02-14T18:30:00Z"),
        ] {
            assert_eq!(read_time(text, now), Ok(expected.parse().unwrap()), "{text}");
        }
        for bad in
            ["", "h", "2", "2x", "-2h", "tomorrow", "2026-13-01", "99999999999999999999d", "2h5"]
        {
            assert_eq!(read_time(bad, now), Err(BadTime), "{bad}");
        }
        assert_eq!(read_time("9999999999w", now), Err(BadTime), "before time began");
    }
}
