//! Ids that are UUIDs of version 7. Each is its own type, so that they cannot be mixed up.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::{Uuid, Variant};

/// The UUID rule as a regular expression, for the schema: hyphenated, version 7, either case.
pub(crate) const UUID_V7_PATTERN: &str =
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$";

/// The value is not a hyphenated UUID of version 7.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a hyphenated UUID of version 7")]
pub struct BadUuid;

fn check(uuid: Uuid) -> Result<Uuid, BadUuid> {
    let version_7 = uuid.get_version_num() == 7 && uuid.get_variant() == Variant::RFC4122;
    if version_7 { Ok(uuid) } else { Err(BadUuid) }
}

fn parse(text: &str) -> Result<Uuid, BadUuid> {
    // The uuid crate also reads braces, URNs and bare hex; only the hyphenated form has 36 bytes.
    if text.len() != 36 {
        return Err(BadUuid);
    }
    Uuid::try_parse(text).map_err(|_| BadUuid).and_then(check)
}

macro_rules! uuid_v7 {
    ($( #[doc = $doc:literal] $name:ident, $example:literal; )+) => { $(
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// The UUID itself.
            #[must_use]
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl TryFrom<Uuid> for $name {
            type Error = BadUuid;

            fn try_from(uuid: Uuid) -> Result<Self, BadUuid> {
                check(uuid).map(Self)
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadUuid;

            fn from_str(text: &str) -> Result<Self, BadUuid> {
                parse(text).map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(UuidVisitor).map(Self)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "format": "uuid",
                    "pattern": UUID_V7_PATTERN,
                    "description": $doc.trim(),
                    "examples": [$example],
                })
            }
        }
    )+ };
}

uuid_v7! {
    /// Identifies one message: a UUID of version 7, new for every message.
    MessageId, "0192a4c8-7e1a-7b3c-9d4e-000000000001";
    /// Links the messages of one conversation: a UUID of version 7, the same in every reply.
    CorrelationId, "0192a4c8-7e1a-7b3c-9d4e-000000000002";
    /// Identifies one task: a UUID of version 7, chosen by the agent that requests the task.
    TaskId, "0192a4c8-7e1a-7b3c-9d4e-000000000003";
}

struct UuidVisitor;

impl de::Visitor<'_> for UuidVisitor {
    type Value = Uuid;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a hyphenated UUID of version 7")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Uuid, E> {
        parse(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hyphenated_version_7_is_accepted_in_either_case() {
        for good in ["0192a4c8-7e1a-7b3c-9d4e-00000000000a", "0192A4C8-7E1A-7B3C-BD4E-00000000000A"]
        {
            assert!(good.parse::<MessageId>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "0192a4c8-7e1a-4b3c-9d4e-000000000001",
            "0192a4c8-7e1a-7b3c-0d4e-000000000001",
            "0192a4c87e1a7b3c9d4e000000000001",
            "{0192a4c8-7e1a-7b3c-9d4e-000000000001}",
            "urn:uuid:0192a4c8-7e1a-7b3c-9d4e-000000000001",
            "0192a4c8-7e1a-7b3c-9d4e-00000000000g",
            "0192a4c87-e1a-7b3c-9d4e-000000000001",
        ] {
            assert_eq!(bad.parse::<MessageId>(), Err(BadUuid), "{bad}");
        }
    }

    #[test]
    fn uuid_is_written_in_lower_case() {
        let id: TaskId = "0192A4C8-7E1A-7B3C-BD4E-00000000000A".parse().unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"0192a4c8-7e1a-7b3c-bd4e-00000000000a\"");
    }
}
