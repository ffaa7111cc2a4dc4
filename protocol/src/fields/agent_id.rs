//! Agent id: the name of an agent, safe in a path, a subject or a log line.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An agent's id: 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit.
///
/// Cloning shares the text: the bus copies ids far more often than it parses new ones.
///
/// ```
/// use a2a_protocol::AgentId;
/// assert_eq!("roman".parse::<AgentId>().unwrap().as_str(), "roman");
/// assert!("../etc".parse::<AgentId>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(Arc<str>);

/// The text is not an agent id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an agent id is 1 to 64 of the characters A-Z a-z 0-9 . _ - and starts with a letter or a digit"
)]
pub struct BadAgentId;

impl AgentId {
    /// The rule as a regular expression, for the schema; [`AgentId::is_valid`] is the same in code.
    pub const PATTERN: &'static str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

    /// Whether `text` is a valid agent id.
    #[must_use]
    pub fn is_valid(text: &str) -> bool {
        let bytes = text.as_bytes();
        bytes.len() <= 64
            && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AgentId {
    type Err = BadAgentId;

    fn from_str(text: &str) -> Result<Self, BadAgentId> {
        if Self::is_valid(text) { Ok(Self(text.into())) } else { Err(BadAgentId) }
    }
}

impl TryFrom<&str> for AgentId {
    type Error = BadAgentId;

    fn try_from(text: &str) -> Result<Self, BadAgentId> {
        text.parse()
    }
}

impl AsRef<str> for AgentId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl std::borrow::Borrow<str> for AgentId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentId({})", self.as_str())
    }
}

impl Serialize for AgentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AgentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AgentIdVisitor;
        impl de::Visitor<'_> for AgentIdVisitor {
            type Value = AgentId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an agent id")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<AgentId, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(AgentIdVisitor)
    }
}

impl JsonSchema for AgentId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AgentId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": Self::PATTERN,
            "description": "The id of an agent.",
            "examples": ["roman"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_id_that_could_escape_a_path_or_a_line_is_refused() {
        let longest = "a".repeat(64);
        for good in ["roman", "R2-D2", "0", "a.b_c-d", &longest] {
            assert!(AgentId::is_valid(good), "{good:?}");
        }
        let too_long = "a".repeat(65);
        for bad in
            ["", "..", ".a", "-a", "_a", "a/b", "a b", "a*", "a>", "a\n", "é", "a\0", &too_long]
        {
            assert!(!AgentId::is_valid(bad), "{bad:?}");
        }
    }
}
