//! Which message ids were accepted: once, for as long as their records are kept.

use std::collections::HashMap;

use a2a_protocol::{Envelope, MessageId};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// What is remembered of an accepted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DedupEntry {
    /// The number of its record.
    pub seq: u64,
    /// What it said and who said it, as [`Fingerprints::message`] sums it up.
    pub fingerprint: u64,
}

/// An id that was accepted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupMatch {
    /// The same message: answer with its first receipt.
    Same {
        /// The number of the first record.
        seq: u64,
    },
    /// Another body or another sender.
    Different {
        /// The number of the first record.
        seq: u64,
    },
}

/// The ids of all messages whose records are kept; 32 bytes each.
#[derive(Debug, Default)]
pub struct DedupIndex {
    ids: HashMap<MessageId, DedupEntry>,
}

impl DedupIndex {
    /// Whether `id` was accepted before.
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

    /// Remembers an accepted message.
    pub fn insert(&mut self, id: MessageId, entry: DedupEntry) {
        self.ids.insert(id, entry);
    }

    /// Forgets a message that could not be made durable after all.
    pub fn remove(&mut self, id: &MessageId) {
        self.ids.remove(id);
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// What a message says, summed up twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fingerprints {
    /// Sender, recipient, kind, priority, conversation and payload.
    ///
    /// The timestamp is left out: a sender that builds the message anew for a retry still
    /// means the same message. The sum is written to the journal, so it must never change.
    pub message: u64,
    /// Kind and payload without the task's id: the same words about another task are still
    /// the same words.
    pub content: u64,
}

impl Fingerprints {
    /// Sums a message up.
    #[must_use]
    pub fn of(message: &Envelope) -> Self {
        // Writing a message to memory cannot fail; if it did, the header would still tell it apart.
        Self::with_payload(message, &serde_json::to_vec(&message.body).unwrap_or_default())
    }

    /// The same for one who has written it already, with [`Envelope::to_json`].
    #[must_use]
    pub fn of_json(message: &Envelope, json: &[u8]) -> Self {
        match Envelope::payload_of(json) {
            Some(payload) => Self::with_payload(message, payload),
            None => Self::of(message),
        }
    }

    fn with_payload(message: &Envelope, payload: &[u8]) -> Self {
        let to = message.to.as_ref().map_or("", |to| to.agent_id.as_str());
        // No agent id or word holds a space, so no two headers can read the same.
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
        let (said, kind) = (payload.get(ids..).unwrap_or(payload), message.kind() as u64);
        Self { message: sum.digest(), content: xxh3_64_with_seed(said, kind) }
    }
}

const TASK_ID: &[u8] = b"{\"taskId\":\"";

#[cfg(test)]
mod tests {
    use super::*;
    use a2a_protocol::Kind;

    #[test]
    fn it_is_the_same_for_one_who_has_written_it() {
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
    fn the_same_words_have_the_same_content_whatever_their_ids() {
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
        entry.insert(id, DedupEntry { seq: 1, fingerprint: 7 });
        assert_eq!(entry.check(&id, 7), Some(DedupMatch::Same { seq: 1 }));
        assert_eq!(entry.check(&id, 8), Some(DedupMatch::Different { seq: 1 }));
        entry.remove(&id);
        assert!(entry.is_empty());
    }
}
