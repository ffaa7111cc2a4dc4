//! Head of a refused message: what its record keeps of one that is too large to be kept whole.
//!
//! The head of a JSON object is a JSON object: the short fields of the envelope, and the short ones
//! of its payload as far as there is room, so that the record is found by sender, recipient,
//! conversation and task as any other. Long values are left out, never cut.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How much of a refused message is kept.
pub(crate) const HEAD: usize = 1_024;
/// A value that is longer is left out.
const SHORT: usize = 256;

/// The head of a JSON text, itself JSON; `None` when it is no object.
pub(crate) fn head_of(json: &[u8]) -> Option<Vec<u8>> {
    let whole: Members<'_> = serde_json::from_slice(json).ok()?;
    let mut head = Head { text: Vec::with_capacity(HEAD), room: HEAD };
    head.text.push(b'{');
    let mut payload = None;
    for (name, value) in &whole.0 {
        match name.as_str() {
            "payload" => payload = Some(*value),
            name => head.push(name, value),
        }
    }
    let payload = payload.and_then(|value| serde_json::from_str::<Members<'_>>(value.get()).ok());
    if let Some(payload) = payload {
        head.comma();
        head.text.extend_from_slice(b"\"payload\":{");
        payload.0.iter().for_each(|(name, value)| head.push(name, value));
        head.text.push(b'}');
    }
    head.text.push(b'}');
    Some(head.text)
}

struct Head {
    text: Vec<u8>,
    room: usize,
}

impl Head {
    fn comma(&mut self) {
        if self.text.last() != Some(&b'{') {
            self.text.push(b',');
        }
    }

    /// Adds a field, unless it is long or there is no more room.
    fn push(&mut self, name: &str, value: &RawValue) {
        let value = value.get();
        let Ok(name) = serde_json::to_string(name) else { return };
        let size = name.len() + value.len() + 2;
        if value.len() > SHORT || size > self.room {
            return;
        }
        self.room -= size;
        self.comma();
        self.text.extend_from_slice(name.as_bytes());
        self.text.push(b':');
        self.text.extend_from_slice(value.as_bytes());
    }
}

/// The fields of an object in their order.
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
    fn short_fields_are_kept_and_long_ones_left_out() {
        let long = "x".repeat(5_000);
        let message = json!({
            "messageId": "1", "from": { "agentId": "roman" }, "odd\n": [1], "extra": long,
            "payload": { "taskId": "2", "description": long, "title": "t" },
        });
        let head: Value =
            serde_json::from_slice(&head_of(message.to_string().as_bytes()).unwrap()).unwrap();
        assert_eq!(
            head,
            json!({
                "messageId": "1", "from": { "agentId": "roman" }, "odd\n": [1],
                "payload": { "taskId": "2", "title": "t" },
            })
        );
    }

    #[test]
    fn a_head_is_bounded_and_always_json() {
        let many: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("k{n}"), json!(n))).collect();
        for message in
            [json!({}), json!({ "payload": many.clone() }), json!(many), json!({ "payload": 7 })]
        {
            let head = head_of(message.to_string().as_bytes()).unwrap();
            assert!(head.len() <= HEAD + 32, "{}", head.len());
            assert!(serde_json::from_slice::<Value>(&head).unwrap().is_object());
        }
        for other in ["[1]", "\"text\"", "7", "not json"] {
            assert_eq!(head_of(other.as_bytes()), None, "{other}");
        }
    }
}
