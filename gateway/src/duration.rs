//! Durations in queries and on the command line: one grammar for both.

use std::time::Duration;

const UNITS: [&str; 7] = ["ms", "s", "m", "min", "h", "d", "w"];
const MAX_DIGITS: usize = 12;
const MAX_LENGTH: usize = 32;

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
    let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_bare {
        return text.parse().ok().map(Duration::from_secs);
    }
    parse(text)
}

/// Parses a duration in which every number has a unit: `ms`, `s`, `m` or `min`, `h`, `d`, `w`.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let is_digit = |c: char| c.is_ascii_digit();
    // humantime knows more units (`M` is a month), and overflows at the end of its range.
    let is_in_grammar = text.len() <= MAX_LENGTH
        && text.starts_with(is_digit)
        && !text.ends_with(is_digit)
        && text.split(|c| !is_digit(c)).all(|number| number.len() <= MAX_DIGITS)
        && text.split(is_digit).all(|unit| unit.is_empty() || UNITS.contains(&unit));
    if is_in_grammar { humantime::parse_duration(text).ok() } else { None }
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
        for bad in [
            "",
            "s",
            "-1s",
            "1x",
            "1M",
            "1.5s",
            "1 h",
            "2h5",
            "30 bananas",
            "99999999999999999999s",
            "18446744073709551615s1000ms",
        ] {
            assert_eq!(parse_or_seconds(bad), None, "{bad}");
            assert_eq!(parse(bad), None, "{bad}");
        }
        for bare in ["5", "0"] {
            assert_eq!(parse(bare), None, "{bare}");
        }
    }
}
