//! Records of the log: a message with its outcome, or a later event.
//!
//! # Constraints
//! - A record is one line of JSON, so that standard tools can read the log.
//! - A received message is stored byte for byte; only line breaks between its tokens become spaces.
//! - A record starts with its number and time and ends with two hashes, at fixed offsets, so that
//!   scanning and verifying need no JSON parser.
//!
//! # Layout
//! ```text
//! {"seq":7,"time":"…","outcome":"delivered", … ,"prev":"<64 hex>","hash":"<64 hex>"}    message record
//! {"seq":8,"time":"…","event":"acknowledged","of":7, … ,"prev":"…","hash":"…"}          event record
//! ```
//! `prev` is the hash of the record before, `hash` covers everything before it in the line.
//!
//! # Modules
//! `encode` writes batches, `decode` reads what recovery needs, `chain` computes and checks the
//! hashes, `excerpt` shortens refused messages, `batch` holds the positions of encoded records.

pub(crate) mod batch;
pub(crate) mod chain;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod excerpt;

use std::sync::Arc;

use a2a_protocol::{
    AgentId, Envelope, Event, MessageId, Outcome, RecipientOutcome, Trace, Violation,
};
use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::Hash;

/// The bytes of a message as they were received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// One JSON text, already parsed by the caller. The journal copies it verbatim; bytes that are
    /// not JSON belong in [`Received::Raw`].
    Json(Arc<[u8]>),
    /// Bytes that are not JSON; the journal keeps the first 4 KiB.
    Raw(Arc<[u8]>),
    /// One JSON text of a refused message: the journal keeps its short fields and the hash of the
    /// whole text.
    JsonExcerpt(Arc<[u8]>),
    /// Refused bytes that are not JSON: the journal keeps the first KiB and the hash of all.
    RawExcerpt(Arc<[u8]>),
}

/// One attempt to send a message, accepted or refused.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRecord {
    /// Sequence number, above every earlier one.
    pub seq: u64,
    /// When the router decided.
    pub time: DateTime<Utc>,
    /// The decision.
    pub outcome: Outcome,
    /// The message's id; `None` if it could not be read. An accepted message must have one, or its
    /// deliveries could not be restored after a restart.
    pub message_id: Option<MessageId>,
    /// The sender; `None` if unknown. An accepted message must have one.
    pub by: Option<AgentId>,
    /// The operator that sent it on behalf of `by`; `None` if the agent itself did.
    pub via: Option<Arc<str>>,
    /// Its trace; `None` for the trace of its conversation.
    pub trace: Option<Arc<Trace>>,
    /// The message.
    pub received: Received,
    /// The parsed form of `received`; `None` if it could not be parsed. It is not written: the
    /// index takes its terms from it instead of parsing the line.
    pub message: Option<Arc<Envelope>>,
    /// Size in bytes as received, also where the journal keeps less.
    pub bytes: u64,
    /// Microseconds from receiving the bytes to the router's decision.
    pub took_us: u64,
    /// Fingerprint of the body, which distinguishes a repeat from a conflict.
    pub fingerprint: Option<u64>,
    /// The outcome for each recipient.
    pub recipients: Arc<[RecipientOutcome]>,
    /// The reason, as a sentence.
    pub reason: Option<String>,
    /// Milliseconds after which a retry makes sense.
    pub retry_after_ms: Option<u64>,
    /// All violations of an invalid message.
    pub errors: Vec<Violation>,
    /// State changes to restore after a restart.
    pub facts: Vec<Fact>,
}

/// A key-value pair of state, such as `task:<id>`, restored after a restart.
///
/// The journal keeps the latest value of each key and does not interpret it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The key, such as `task:0192…`.
    pub key: Arc<str>,
    /// One JSON text without line breaks; `None` removes the key.
    pub value: Option<Arc<str>>,
}

/// An event in the life of an accepted message, or of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Sequence number, above every earlier one.
    pub seq: u64,
    /// When it happened.
    pub time: DateTime<Utc>,
    /// The event.
    pub event: Event,
    /// Sequence number of the message record; `None` for an event of the bus.
    pub of: Option<u64>,
    /// The message's id.
    pub message_id: Option<MessageId>,
    /// The recipient concerned, or the agent that joined or left.
    pub agent_id: Option<AgentId>,
    /// Number of the delivery attempt, from 1.
    pub attempt: Option<u32>,
    /// Number of items, where the event covers several.
    pub count: Option<u64>,
    /// The reason, as a sentence.
    pub reason: Option<String>,
    /// State changes to restore after a restart.
    pub facts: Vec<Fact>,
    /// Agents to keep beyond a removal. Only the journal sets this, when one record cannot list
    /// everything that a removal must preserve. See [`crate::Commit::commit`].
    pub agents: Vec<AgentId>,
    /// Removed ranges. Only the journal sets this.
    pub removed: Vec<Removed>,
}

/// Which copy of some records was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RemovedForm {
    /// Both copies: the records are gone.
    Records,
    /// The segments; the index has the records.
    Files,
}

/// A range of records that retention removed, by age or by size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// Which copy was removed.
    pub what: RemovedForm,
    /// The first day of the range.
    pub from_day: NaiveDate,
    /// The last day of the range.
    pub to_day: NaiveDate,
    /// Sequence number of the first record.
    pub first: u64,
    /// Sequence number of the last record.
    pub last: u64,
    /// Number of records.
    pub lines: u64,
    /// Hash of the last record: the `prev` of the first remaining one.
    pub hash: Hash,
    /// Agents that joined in this range and are still present, so that the log keeps them. Facts of
    /// the range are repeated in the facts of the event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentId>,
}

impl EventRecord {
    /// An event with all optional fields empty.
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

/// One record of the log: one line.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A message with its outcome.
    Message(MessageRecord),
    /// An event.
    Event(EventRecord),
}

impl Record {
    /// Its sequence number.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        match self {
            Self::Message(line) => line.seq,
            Self::Event(line) => line.seq,
        }
    }

    /// Whether it offers its number for a record of removals. See [`crate::Commit::commit`].
    pub(crate) fn is_removal_slot(&self) -> bool {
        let Self::Event(line) = self else { return false };
        line.event == Event::Removed && line.of.is_none() && line.removed.is_empty()
    }

    /// Its time.
    #[must_use]
    pub const fn time(&self) -> DateTime<Utc> {
        match self {
            Self::Message(line) => line.time,
            Self::Event(line) => line.time,
        }
    }
}
