//! What the bus writes down: a message with its outcome, or an event that followed.

use std::sync::Arc;

use a2a_protocol::{
    AgentId, Envelope, Event, MessageId, Outcome, RecipientOutcome, Trace, Violation,
};
use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::Hash;

/// The bytes somebody sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// One JSON text, already parsed by the caller. The journal copies it as it is:
    /// bytes that are no JSON belong in [`Received::Raw`].
    Json(Arc<[u8]>),
    /// Anything else; the journal keeps its beginning.
    Raw(Arc<[u8]>),
    /// One JSON text of a message that was not accepted: the journal keeps its short fields and the
    /// hash of all of it.
    JsonHead(Arc<[u8]>),
    /// The same for anything else: the journal keeps less of its beginning, and its hash.
    RawHead(Arc<[u8]>),
}

/// The record of one attempt to send a message, accepted or refused.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageLine {
    /// Number of the line, above every earlier one.
    pub seq: u64,
    /// When the router answered.
    pub time: DateTime<Utc>,
    /// What it answered.
    pub outcome: Outcome,
    /// The message's id, when it could be read. An accepted message must have one:
    /// without it nobody can be owed a delivery after a restart.
    pub message_id: Option<MessageId>,
    /// Who sent it, when that is known. An accepted message must have a sender.
    pub by: Option<AgentId>,
    /// Which person sent it in the sender's name, when one did.
    pub via: Option<Arc<str>>,
    /// The trace it belongs to, where that is not the one of its conversation.
    pub trace: Option<Arc<Trace>>,
    /// The message itself.
    pub received: Received,
    /// What `received` says, as it was read; `None` where it could not be. It is not written: the
    /// record is found by it without being read again.
    pub message: Option<Arc<Envelope>>,
    /// How large it was as it came, also where less of it is kept.
    pub bytes: u64,
    /// Microseconds from when the bus had the bytes in hand to the router's decision.
    pub took_us: u64,
    /// Fingerprint of the body, by which a repeat is told from a conflict.
    pub fingerprint: Option<u64>,
    /// Whom it went to.
    pub recipients: Arc<[RecipientOutcome]>,
    /// Why, in a sentence.
    pub reason: Option<String>,
    /// When trying again makes sense.
    pub retry_after_ms: Option<u64>,
    /// Everything wrong with an invalid message.
    pub errors: Vec<Violation>,
    /// What the message changed that must be known after a restart.
    pub facts: Vec<Fact>,
}

/// Something that must be known again after a restart, under a key of its own.
///
/// The journal remembers the latest value of each key and knows nothing of what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What the fact is about, such as `task:0192…`.
    pub key: Arc<str>,
    /// One JSON text without line breaks; `None` to forget the key.
    pub value: Option<Arc<str>>,
}

/// Something that happened to an accepted message, or to the bus, later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLine {
    /// Number of the line, above every earlier one.
    pub seq: u64,
    /// When it happened.
    pub time: DateTime<Utc>,
    /// What happened.
    pub event: Event,
    /// Number of the message's record.
    pub of: Option<u64>,
    /// The message's id.
    pub message_id: Option<MessageId>,
    /// The recipient it happened at, or the agent that joined.
    pub agent_id: Option<AgentId>,
    /// Which attempt it was, from 1.
    pub attempt: Option<u32>,
    /// How many of them, where there were several.
    pub count: Option<u64>,
    /// Why, in a sentence.
    pub reason: Option<String>,
    /// What it changed that must be known after a restart.
    pub facts: Vec<Fact>,
    /// Agents that are known still; the journal alone fills this in, before a removal of which
    /// one line cannot say everything. See [`crate::Commit::commit`].
    pub agents: Vec<AgentId>,
    /// What the journal removed; it alone fills this in.
    pub removed: Vec<Removed>,
}

/// Which copy of some lines is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RemovedForm {
    /// Both: the records are no longer there.
    Records,
    /// The day files; sled has the lines.
    Files,
}

/// What was removed from the journal because it was old, or too much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// Which copy is gone.
    pub what: RemovedForm,
    /// The first day of it.
    pub from_day: NaiveDate,
    /// The last day of it.
    pub to_day: NaiveDate,
    /// Number of the first line.
    pub first: u64,
    /// Number of the last line.
    pub last: u64,
    /// How many lines there were.
    pub lines: u64,
    /// Hash of the last line: the `prev` of the first that is left.
    pub hash: Hash,
    /// The agents that had joined in these lines, so that the log still says so. What else
    /// must be known stands in the line's facts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentId>,
}

impl EventLine {
    /// An event about nothing in particular yet.
    #[must_use]
    pub const fn new(seq: u64, time: DateTime<Utc>, event: Event) -> Self {
        Self {
            seq,
            time,
            event,
            of: None,
            message_id: None,
            agent_id: None,
            attempt: None,
            count: None,
            reason: None,
            facts: Vec::new(),
            agents: Vec::new(),
            removed: Vec::new(),
        }
    }
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// The record of a message.
    Message(MessageLine),
    /// An event.
    Event(EventLine),
}

impl Line {
    /// Number of the line.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        match self {
            Self::Message(line) => line.seq,
            Self::Event(line) => line.seq,
        }
    }

    /// Whether it only offers a place to say what is removed.
    pub(crate) fn is_offer(&self) -> bool {
        let Self::Event(line) = self else { return false };
        line.event == Event::Removed && line.of.is_none() && line.removed.is_empty()
    }

    /// When it was written or happened.
    #[must_use]
    pub const fn time(&self) -> DateTime<Utc> {
        match self {
            Self::Message(line) => line.time,
            Self::Event(line) => line.time,
        }
    }
}
