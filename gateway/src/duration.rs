//! Durations in queries and on the command line: one grammar for both.

use std::time::Duration;

/// Parses a duration such as `30s`, `500ms`, `2m` or `1h30m`; a bare number means seconds.
///
/// `None` when the text is malformed or out of range.
///
/// ```
/// # use std::time::Duration;
/// use a2a_gateway::duration::parse_or_seconds;
///
/// assert_eq!(parse_or_seconds("1m30s"), parse_or_seconds("90"));
/// assert_eq!(parse_or_seconds("a while"), None);
/// ```
#[must_use]
pub fn parse_or_seconds(text: &str) -> Option<Duration> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
    }
    parse(text)
}

/// Parses a duration in which every number has a unit.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_numbers_with_units_or_bare_seconds() {
        for (text, millis) in [
            ("30s", 30_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("2min", 120_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("1w", 604_800_000),
            ("5", 5_000),
            ("0", 0),
        ] {
            assert_eq!(parse_or_seconds(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "s", "-1s", "1x", "30 bananas", "99999999999999999999s"] {
            assert_eq!(parse_or_seconds(bad), None, "{bad}");
        }
        assert_eq!(parse("5"), None);
    }
}
