//! RFC 3339 timestamp that keeps the sender's offset.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, FixedOffset, SecondsFormat, Timelike, Utc};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An RFC 3339 timestamp with `T` and an offset, such as `2026-02-21T18:30:00.000Z`.
///
/// Two timestamps are equal if they denote the same point in time, whatever their offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(DateTime<FixedOffset>);

/// The text is not a timestamp in the form that this protocol allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 timestamp with `T` and an offset")]
pub struct BadTimestamp;

/// Formats a time as `2026-02-21T18:30:00.007Z`; `None` if the year does not have four digits. A
/// leap second is written as the last millisecond before it.
///
/// Written by hand: log records and tasks contain many timestamps, and chrono's formatter costs more
/// than hashing a whole record.
#[must_use]
pub fn in_milliseconds(time: DateTime<Utc>) -> Option<[u8; 24]> {
    let year = u32::try_from(time.year()).ok().filter(|year| *year <= 9_999)?;
    let mut text = *b"0000-00-00T00:00:00.000Z";
    for (at, width, mut number) in [
        (0, 4, year),
        (5, 2, time.month()),
        (8, 2, time.day()),
        (11, 2, time.hour()),
        (14, 2, time.minute()),
        (17, 2, time.second()),
        (20, 3, time.timestamp_subsec_millis().min(999)),
    ] {
        for digit in text[at..at + width].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    Some(text)
}

impl Timestamp {
    /// The rule as a regular expression, for the schema: many validators skip `format: date-time`.
    ///
    /// It includes the length of every month and leap years, so it agrees with the parser.
    pub(crate) const PATTERN: &'static str = concat!(
        "^([0-9]{4}-(((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))|((0[469]|11)-(0[1-9]|[12][0-9]|30))|(02-(0[1-9]|1[0-9]|2[0-8])))",
        "|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)",
        "T((([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))",
        "|(23:59:60(\\.[0-9]+)?([Zz]|[+-]00:00)))$",
    );

    /// Pattern for timestamps of extensions, whose schemas allow any RFC 3339.
    pub(crate) const ANY_PATTERN: &'static str = concat!(
        "^([0-9]{4}-(((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))|((0[469]|11)-(0[1-9]|[12][0-9]|30))|(02-(0[1-9]|1[0-9]|2[0-8])))",
        "|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)",
        "[Tt]((([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))",
        "|(23:59:60(\\.[0-9]+)?([Zz]|[+-]00:00)))$",
    );

    /// The timestamp in UTC.
    #[must_use]
    pub fn to_utc(&self) -> DateTime<Utc> {
        self.0.to_utc()
    }
}

impl FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        // chrono accepts three things that RFC 3339 does not: another separator, the sign U+2212
        // and a leap second in any minute. Here a leap second must end a UTC day.
        if !text.is_ascii() || text.as_bytes().get(10) != Some(&b'T') {
            return Err(BadTimestamp);
        }
        let moment = DateTime::parse_from_rfc3339(text).map_err(|_| BadTimestamp)?;
        let leap = moment.nanosecond() >= 1_000_000_000;
        let end_of_utc_day = moment.offset().local_minus_utc() == 0
            && (moment.hour(), moment.minute(), moment.second()) == (23, 59, 59);
        if leap && !end_of_utc_day {
            return Err(BadTimestamp);
        }
        Ok(Self(moment))
    }
}

/// Reads an optional timestamp of an extension: any RFC 3339, including a lower-case `t`.
pub(crate) fn any_rfc3339<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text = String::deserialize(deserializer)?.replace('t', "T");
    text.parse().map(Some).map_err(de::Error::custom)
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(moment: DateTime<Utc>) -> Self {
        Self(moment.fixed_offset())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimestampVisitor;
        impl de::Visitor<'_> for TimestampVisitor {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 timestamp")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(TimestampVisitor)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "date-time",
            "pattern": Self::PATTERN,
            "description": "An RFC 3339 timestamp with `T` and an offset.",
            "examples": ["2026-02-21T18:30:00.000Z"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rfc_3339_with_t_and_offset_is_accepted() {
        for good in [
            "2026-02-21T18:30:00Z",
            "2026-02-21T18:30:00.123456789+05:30",
            "2024-02-29T00:00:00-00:00",
            "2016-12-31T23:59:60Z",
            "2016-12-31T23:59:60.5-00:00",
            "2026-02-21T18:30:00z",
        ] {
            assert!(good.parse::<Timestamp>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "2026-02-21",
            "2026-02-21T18:30:00",
            "2026-02-21 18:30:00Z",
            "2026-02-21t18:30:00Z",
            "2026-02-30T18:30:00Z",
            "2025-02-29T18:30:00Z",
            "2026-02-21T24:00:00Z",
            "2026-02-21T18:30Z",
            "2026-02-21T18:30:00.Z",
            "2026-02-21T18:30:00+0100",
            "2026-02-21T18:30:00+24:00",
            "2026-02-21T18:30:00\u{2212}01:00",
            "2026-02-21T18:30:60Z",
            "2017-01-01T00:59:60+01:00",
            "1900-02-29T00:00:00Z",
            "+02026-02-21T18:30:00Z",
            " 2026-02-21T18:30:00Z",
            "2026-02-21T18:30:00Z ",
        ] {
            assert_eq!(bad.parse::<Timestamp>(), Err(BadTimestamp), "{bad}");
        }
    }

    #[test]
    fn utc_offset_is_written_as_z() {
        let moment: Timestamp = "2026-02-21T18:30:00.000+00:00".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-02-21T18:30:00Z");
    }
}
