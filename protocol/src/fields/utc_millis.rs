//! UTC timestamp with millisecond precision, in the form that A2A prescribes.

use std::borrow::Cow;
use std::fmt;

use chrono::{DateTime, SecondsFormat, SubsecRound, Utc};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::fields::timestamp::in_milliseconds;
use crate::{BadTimestamp, Timestamp};

/// A point in time in UTC, truncated to milliseconds; written as `2026-02-21T18:30:00.123Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UtcMillis(DateTime<Utc>);

impl UtcMillis {
    /// The timestamp as chrono's type.
    #[must_use]
    pub const fn to_utc(self) -> DateTime<Utc> {
        self.0
    }
}

impl From<DateTime<Utc>> for UtcMillis {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time.trunc_subsecs(3))
    }
}

impl std::str::FromStr for UtcMillis {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        text.parse::<Timestamp>().map(|time| time.to_utc().into())
    }
}

impl fmt::Display for UtcMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match in_milliseconds(self.0).filter(|_| self.0.timestamp_subsec_millis() < 1_000) {
            Some(text) => f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?),
            None => f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true)),
        }
    }
}

impl JsonSchema for UtcMillis {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "UtcMillis".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Timestamp::json_schema(generator)
    }
}

impl Serialize for UtcMillis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UtcMillis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_is_written_in_utc_with_milliseconds() {
        let moment: UtcMillis = "2026-02-21T19:30:00.1239+01:00".parse().unwrap();
        assert_eq!(serde_json::to_string(&moment).unwrap(), "\"2026-02-21T18:30:00.123Z\"");
        assert!("yesterday".parse::<UtcMillis>().is_err());
    }
}
