//! The ids of a message that is refused, read as far as they can be: whoever sent it must be able to
//! tell which of its messages the answer is about.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::{CorrelationId, MessageId};

/// The ids at the top of a message, whatever else is wrong with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageIds {
    /// Its `messageId`, if there is exactly one and it is a UUID.
    pub message_id: Option<MessageId>,
    /// Its `correlationId`, on the same terms.
    pub correlation_id: Option<CorrelationId>,
}

impl MessageIds {
    /// Reads bytes that may be no message, or only the beginning of one.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let mut texts = Texts::default();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        // What stands before an error counts.
        let _ = texts.deserialize(&mut reader);
        let only = |found: &[Option<String>]| match found {
            [only] => only.clone(),
            _ => None,
        };
        Self {
            message_id: only(&texts.message).and_then(|text| text.parse().ok()),
            correlation_id: only(&texts.correlation).and_then(|text| text.parse().ok()),
        }
    }
}

/// What stands under each name, once for every time the name is there.
#[derive(Default)]
struct Texts {
    message: Vec<Option<String>>,
    correlation: Vec<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for &mut Texts {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Texts {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let texts = match name.as_str() {
                "messageId" => &mut self.message,
                "correlationId" => &mut self.correlation,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let value = map.next_value::<Value>()?;
            // Two are enough to know that it is not clear which counts.
            texts.truncate(1);
            texts.push(value.as_str().map(str::to_owned));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000001";

    #[test]
    fn ids_are_read_out_of_what_is_no_message() {
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
