//! Best-effort reader for the ids of a refused message, so that the sender can match the receipt to
//! the message.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::{CorrelationId, MessageId};

/// The ids of a message that may be invalid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageIds {
    /// The `messageId`; `None` unless there is exactly one and it is a UUID.
    pub message_id: Option<MessageId>,
    /// The `correlationId`; `None` under the same conditions.
    pub correlation_id: Option<CorrelationId>,
}

impl MessageIds {
    /// Reads bytes that may be invalid or truncated.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let mut raw_ids = RawIds::default();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        // Ids before a syntax error are used.
        let _ = raw_ids.deserialize(&mut reader);
        let only = |found: &[Option<String>]| match found {
            [only] => only.clone(),
            _ => None,
        };
        Self {
            message_id: only(&raw_ids.message).and_then(|text| text.parse().ok()),
            correlation_id: only(&raw_ids.correlation).and_then(|text| text.parse().ok()),
        }
    }
}

/// The values of each id field, one for each occurrence of the field.
#[derive(Default)]
struct RawIds {
    message: Vec<Option<String>>,
    correlation: Vec<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for &mut RawIds {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut RawIds {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let raw_ids = match name.as_str() {
                "messageId" => &mut self.message,
                "correlationId" => &mut self.correlation,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let value = map.next_value::<Value>()?;
            // Two occurrences are enough to make the field ambiguous.
            raw_ids.truncate(1);
            raw_ids.push(value.as_str().map(str::to_owned));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000001";

    #[test]
    fn ids_of_an_invalid_message_are_read() {
        let read = |text: &str| MessageIds::read(text.as_bytes());
        let id = Some(ID.parse().unwrap());
        assert_eq!(read(&format!(r#"{{"x":[1],"messageId":"{ID}"}}"#)).message_id, id);
        let cut = format!(r#"{{"messageId":"{ID}","payload":{{"text":"and the rest is missi"#);
        assert_eq!(read(&cut).message_id, id);
        let both = read(&format!(r#"{{"correlationId":"{ID}","messageId":7}}"#));
        assert_eq!((both.message_id, both.correlation_id.is_some()), (None, true));
        for none in [
            String::new(),
            "[]".into(),
            "no json".into(),
            format!(r#"{{"messageId":"{ID}","messageId":"{ID}"}}"#),
            format!(r#"{{"payload":{{"messageId":"{ID}"}}}}"#),
            r#"{"messageId":"not an id"}"#.into(),
        ] {
            assert_eq!(read(&none), MessageIds::default(), "{none}");
        }
    }
}
