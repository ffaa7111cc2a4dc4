//! Excerpt of a refused message: the part that its record keeps.
//!
//! The excerpt of a JSON object is a JSON object with the short fields of the envelope and then of
//! the payload, up to a size limit. The record can thus be found by sender, recipient, conversation
//! and task. Long values are omitted, never cut.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Bytes of a refused message that are kept.
pub(crate) const EXCERPT_BYTES: usize = 1_024;
/// Longer values are omitted.
const SHORT: usize = 256;

/// The excerpt of a JSON text, itself JSON; `None` if the text is not an object.
pub(crate) fn excerpt_of(json: &[u8]) -> Option<Vec<u8>> {
    let whole: Members<'_> = serde_json::from_slice(json).ok()?;
    let mut excerpt =
        ExcerptBuilder { text: Vec::with_capacity(EXCERPT_BYTES), remaining: EXCERPT_BYTES };
    excerpt.text.push(b'{');
    let mut payload = None;
    for (name, value) in &whole.0 {
        match name.as_str() {
            "payload" => payload = Some(*value),
            name => excerpt.push(name, value),
        }
    }
    let payload = payload.and_then(|value| serde_json::from_str::<Members<'_>>(value.get()).ok());
    if let Some(payload) = payload {
        excerpt.comma();
        excerpt.text.extend_from_slice(b"\"payload\":{");
        payload.0.iter().for_each(|(name, value)| excerpt.push(name, value));
        excerpt.text.push(b'}');
    }
    excerpt.text.push(b'}');
    Some(excerpt.text)
}

struct ExcerptBuilder {
    text: Vec<u8>,
    remaining: usize,
}

impl ExcerptBuilder {
    fn comma(&mut self) {
        if self.text.last() != Some(&b'{') {
            self.text.push(b',');
        }
    }

    /// Adds a field, unless it is long or exceeds the remaining bytes.
    fn push(&mut self, name: &str, value: &RawValue) {
        let value = value.get();
        let Ok(name) = serde_json::to_string(name) else { return };
        let size = name.len() + value.len() + 2;
        if value.len() > SHORT || size > self.remaining {
            return;
        }
        self.remaining -= size;
        self.comma();
        self.text.extend_from_slice(name.as_bytes());
        self.text.push(b':');
        self.text.extend_from_slice(value.as_bytes());
    }
}

/// The fields of an object, in order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn short_fields_are_kept_and_long_ones_omitted() {
        let long = "x".repeat(5_000);
        let message = json!({
            "messageId": "1", "from": { "agentId": "roman" }, "odd\n": [1], "extra": long,
            "payload": { "taskId": "2", "description": long, "title": "t" },
        });
        let head: Value =
            serde_json::from_slice(&excerpt_of(message.to_string().as_bytes()).unwrap()).unwrap();
        assert_eq!(
            head,
            json!({
                "messageId": "1", "from": { "agentId": "roman" }, "odd\n": [1],
                "payload": { "taskId": "2", "title": "t" },
            })
        );
    }

    #[test]
    fn excerpt_is_bounded_and_always_json() {
        let many: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("k{n}"), json!(n))).collect();
        for message in
            [json!({}), json!({ "payload": many.clone() }), json!(many), json!({ "payload": 7 })]
        {
            let head = excerpt_of(message.to_string().as_bytes()).unwrap();
            assert!(head.len() <= EXCERPT_BYTES + 32, "{}", head.len());
            assert!(serde_json::from_slice::<Value>(&head).unwrap().is_object());
        }
        for other in ["[1]", "\"text\"", "7", "not json"] {
            assert_eq!(excerpt_of(other.as_bytes()), None, "{other}");
        }
    }
}
