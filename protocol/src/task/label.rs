//! Names that others choose: any text, but not blank, not endless, and harmless in a log.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The longest name, in code points.
const LONGEST: usize = 256;

/// What [`check`] wants, as a schema says it: no control character, and something that is not
/// white space.
const PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$";

/// The text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {LONGEST} characters, not all blank, none of them a control character")]
pub struct BadLabel;

fn check(text: &str) -> Result<(), BadLabel> {
    let good = !text.trim().is_empty()
        && text.chars().count() <= LONGEST
        && !text.chars().any(char::is_control);
    if good { Ok(()) } else { Err(BadLabel) }
}

macro_rules! label {
    ($( #[doc = $doc:literal] $name:ident; )+) => { $(
        #[doc = $doc]
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = BadLabel;

            fn try_from(text: &str) -> Result<Self, BadLabel> {
                check(text).map(|()| Self(text.into()))
            }
        }

        impl From<uuid::Uuid> for $name {
            fn from(id: uuid::Uuid) -> Self {
                let mut buffer = uuid::Uuid::encode_buffer();
                let text: &str = id.hyphenated().encode_lower(&mut buffer);
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
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
                    "minLength": 1,
                    "maxLength": LONGEST,
                    "pattern": PATTERN,
                    "description": $doc.trim(),
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text).map(Self)
            }
        }
    )+ };
}

label! {
    /// A name that somebody else chose: of a message, an artifact, a push configuration.
    Label;
    /// A conversation with an agent: chosen by the caller, or made by the server.
    ContextId;
    /// A plan of an objective, made by the server.
    PlanId;
    /// A task of a plan, made by the server. Not that of the A2A task that does it.
    PlanTaskId;
}

struct Text;

impl de::Visitor<'_> for Text {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text of 1 to {LONGEST} characters")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Arc<str>, E> {
        check(text).map_err(E::custom)?;
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_of_one_line() {
        for good in ["a", "tck-complete-task-1", "ünï", &"é".repeat(256)] {
            assert!(Label::try_from(good).is_ok(), "{good}");
        }
        for bad in ["", "  ", "a\nb", "\u{7f}", &"é".repeat(257)] {
            assert_eq!(Label::try_from(bad), Err(BadLabel), "{bad:?}");
        }
    }
}
