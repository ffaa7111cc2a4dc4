//! Dedup index: message ids that were accepted, for as long as their records are retained.

use std::collections::HashMap;

use a2a_protocol::{Envelope, MessageId};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::Sketch;

/// An accepted message in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DedupRecord {
    /// The sequence number of its record.
    pub seq: u64,
    /// Its content and sender, as [`Fingerprints::message`].
    pub fingerprint: u64,
}

/// The accepted message that has the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupMatch {
    /// The same message: return its first receipt.
    Same {
        /// The sequence number of the first record.
        seq: u64,
    },
    /// Another body or another sender.
    Different {
        /// The sequence number of the first record.
        seq: u64,
    },
}

/// The ids of all messages whose records are retained; 32 bytes each.
#[derive(Debug, Default)]
pub struct DedupIndex {
    ids: HashMap<MessageId, DedupRecord>,
}

impl DedupIndex {
    /// The accepted message with this id, if there is one.
    #[must_use]
    pub fn check(&self, id: &MessageId, fingerprint: u64) -> Option<DedupMatch> {
        self.ids.get(id).map(|entry| {
            if entry.fingerprint == fingerprint {
                DedupMatch::Same { seq: entry.seq }
            } else {
                DedupMatch::Different { seq: entry.seq }
            }
        })
    }

    /// Adds an accepted message.
    pub fn insert(&mut self, id: MessageId, entry: DedupRecord) {
        self.ids.insert(id, entry);
    }

    /// Removes a message that did not become durable.
    pub fn remove(&mut self, id: &MessageId) {
        self.ids.remove(id);
    }

    /// The number of ids.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// Hashes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fingerprints {
    /// Hash of sender, recipient, kind, priority, conversation and payload.
    ///
    /// The timestamp is left out: a sender that rebuilds the message for a retry means the same
    /// message. The hash is written to the journal, so it must never change.
    pub message: u64,
    /// Hash of kind and payload without the task's id: equal text about another task counts as
    /// equal.
    pub content: u64,
    /// Sketch of the payload's text, which finds nearly equal ones.
    pub sketch: Sketch,
}

impl Fingerprints {
    /// Hashes a message.
    #[must_use]
    pub fn of(message: &Envelope) -> Self {
        // Serialising to memory cannot fail; if it did, the header would still distinguish
        // messages.
        Self::with_payload(message, &serde_json::to_vec(&message.body).unwrap_or_default())
    }

    /// Hashes a message that is already serialised, with [`Envelope::to_json`].
    #[must_use]
    pub fn of_json(message: &Envelope, json: &[u8]) -> Self {
        match Envelope::payload_of(json) {
            Some(payload) => Self::with_payload(message, payload),
            None => Self::of(message),
        }
    }

    fn with_payload(message: &Envelope, payload: &[u8]) -> Self {
        let to = message.to.as_ref().map_or("", |to| to.agent_id.as_str());
        // No agent id or enum name contains a space, so no two headers are equal by accident.
        let from = message.from.agent_id.as_str();
        let header = [from, to, message.kind().as_str(), message.priority.as_str()];
        let mut sum = Xxh3::new();
        for (at, word) in header.iter().enumerate() {
            if at > 0 {
                sum.update(b" ");
            }
            sum.update(word.as_bytes());
        }
        sum.update(message.correlation_id.as_uuid().as_bytes());
        sum.update(payload);
        // The id comes first wherever there is one, and always has the same length.
        let ids = if payload.starts_with(TASK_ID) { TASK_ID.len() + 36 } else { 0 };
        let (body, kind) = (payload.get(ids..).unwrap_or(payload), message.kind() as u64);
        let content = xxh3_64_with_seed(body, kind);
        Self { message: sum.digest(), content, sketch: Sketch::of_json(payload) }
    }
}

const TASK_ID: &[u8] = b"{\"taskId\":\"";

#[cfg(test)]
mod tests {
    use super::*;
    use a2a_protocol::Kind;

    #[test]
    fn fingerprint_of_json_equals_fingerprint_of_message() {
        for kind in Kind::ALL {
            let mut message = kind.example_message();
            let is_same = |message: &Envelope| {
                Fingerprints::of_json(message, &message.to_json()) == Fingerprints::of(message)
            };
            assert!(is_same(&message), "{kind}");
            message.from.role = Some("\"payload\":{".to_owned().try_into().unwrap());
            assert_eq!(
                Envelope::payload_of(&message.to_json()),
                serde_json::to_vec(&message.body).ok().as_deref()
            );
            assert!(is_same(&message), "{kind}");
        }
    }

    #[test]
    fn only_the_timestamp_may_differ() {
        let message = Kind::TaskRequest.example_message();
        let sum = Fingerprints::of(&message).message;
        assert_eq!(sum, 1_411_164_219_636_077_369, "written to journals: must never change");
        let mut later = message.clone();
        later.timestamp = "2026-02-21T18:31:00Z".parse().unwrap();
        assert_eq!(Fingerprints::of(&later).message, sum);
        let mut other = message.clone();
        other.priority = a2a_protocol::Priority::High;
        assert_ne!(Fingerprints::of(&other).message, sum);
        other = message.clone();
        other.body = Kind::TaskResponse.example();
        assert_ne!(Fingerprints::of(&other).message, sum);
        other = message.clone();
        other.from.agent_id = "tim".parse().unwrap();
        assert_ne!(Fingerprints::of(&other).message, sum);
    }

    #[test]
    fn equal_text_has_equal_content_hash_whatever_the_ids() {
        for kind in Kind::ALL {
            let message = kind.example_message();
            let content = Fingerprints::of(&message).content;
            let mut json = serde_json::to_value(&message).unwrap();
            json["correlationId"] = "0192a4c8-7e1a-7b3c-9d4e-0000000000ff".into();
            json["from"] = serde_json::json!({ "agentId": "somebody" });
            if json["payload"].get("taskId").is_some() {
                json["payload"]["taskId"] = "0192a4c8-7e1a-7b3c-9d4e-0000000000fe".into();
            }
            let same = Envelope::parse(json.to_string().as_bytes()).unwrap();
            assert_eq!(Fingerprints::of(&same).content, content, "{kind}");
        }
        let [request, response] =
            [Kind::TaskRequest, Kind::TaskResponse].map(Kind::example_message);
        assert_ne!(Fingerprints::of(&request).content, Fingerprints::of(&response).content);
    }

    #[test]
    fn an_id_is_accepted_once() {
        let id = Kind::Broadcast.example_message().message_id;
        let mut entry = DedupIndex::default();
        assert_eq!(entry.check(&id, 7), None);
        entry.insert(id, DedupRecord { seq: 1, fingerprint: 7 });
        assert_eq!(entry.check(&id, 7), Some(DedupMatch::Same { seq: 1 }));
        assert_eq!(entry.check(&id, 8), Some(DedupMatch::Different { seq: 1 }));
        entry.remove(&id);
        assert!(entry.is_empty());
    }
}
