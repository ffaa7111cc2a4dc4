//! Message ids of callers with a content hash, for dedup.

use a2a_protocol::task::{Message, OpaqueId};
use xxhash_rust::xxh3::Xxh3Default;

/// A message of a caller. Its id is unique per owner and agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// The message id that the caller chose.
    pub id: OpaqueId,
    /// A hash of its content that does not depend on the order of keys; `None` when the content is
    /// unknown. The same id with another hash is a conflict, not a repeat.
    pub fingerprint: Option<u64>,
    /// Its size as JSON; 0 when the content is unknown.
    pub bytes: usize,
}

impl SentMessage {
    /// Hashes a message as its caller sent it, before defaults are filled in.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let measured = fingerprint(message);
        Self {
            id: message.message_id.clone(),
            fingerprint: measured.map(|(fingerprint, _)| fingerprint),
            bytes: measured.map_or(usize::MAX, |(_, bytes)| bytes),
        }
    }

    /// Whether a message with the same id and this fingerprint has other content.
    #[must_use]
    pub fn differs_from(&self, other: Option<u64>) -> bool {
        self.fingerprint.zip(other).is_some_and(|(this, other)| this != other)
    }
}

impl From<OpaqueId> for SentMessage {
    /// A message of which only the id is known.
    fn from(id: OpaqueId) -> Self {
        Self { id, fingerprint: None, bytes: 0 }
    }
}

/// The fingerprint and the number of bytes hashed.
fn fingerprint(message: &Message) -> Option<(u64, usize)> {
    let mut value = serde_json::to_value(message).ok()?;
    // A client that rebuilds its message for a retry may write the keys in another order.
    value.sort_all_objects();
    let mut hasher = Hashing(Xxh3Default::new(), 0);
    serde_json::to_writer(&mut hasher, &value).ok()?;
    Some((hasher.0.digest(), hasher.1))
}

struct Hashing(Xxh3Default, usize);

impl std::io::Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        self.1 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sent(fields: &Value) -> SentMessage {
        let mut message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]});
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        SentMessage::of(&serde_json::from_value(message).unwrap())
    }

    #[test]
    fn fingerprint_depends_on_content_and_not_on_key_order() {
        let plain = sent(&json!({}));
        for other in [
            json!({"parts": [{"text": "b"}]}),
            json!({"parts": [{"text": "a"}, {"text": "a"}]}),
            json!({"contextId": "c"}),
            json!({"taskId": "t"}),
            json!({"metadata": {"k": 1}}),
            json!({"referenceTaskIds": ["t"]}),
        ] {
            assert!(sent(&other).differs_from(plain.fingerprint), "{other}");
        }
        let [one, two] = [r#"{"a":{"x":1,"y":2},"b":1}"#, r#"{"b":1,"a":{"y":2,"x":1}}"#]
            .map(|text| sent(&json!({"metadata": serde_json::from_str::<Value>(text).unwrap()})));
        assert_eq!(one, two);
        assert!(!plain.differs_from(None) && !plain.differs_from(plain.fingerprint));
        assert!(!SentMessage::from(plain.id.clone()).differs_from(plain.fingerprint));
    }
}
