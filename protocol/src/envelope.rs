//! Message envelope: sender, recipient, priority, conversation and payload.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::body::example;
use crate::fields::object::{ReadMap, present, read_object};
use crate::limits::MESSAGE_BYTES;
use crate::{AgentId, Body, CorrelationId, Kind, MessageId, Report, Text, Timestamp};

closed_set! {
    /// The protocol and its version.
    pub enum Protocol {
        /// The first version.
        V1 = "openclaw.a2a.v1",
    }
}

closed_set! {
    /// How soon the message should be handled.
    #[derive(PartialOrd, Ord)]
    pub enum Priority {
        /// When there is nothing else to do.
        Low = "low",
        /// In turn.
        Normal = "normal",
        /// Before ordinary messages.
        High = "high",
        /// Before everything else; only a few a minute are allowed.
        Urgent = "urgent",
    }
}

/// The sender, as the message claims it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct Sender {
    /// The sender's own agent id.
    pub agent_id: AgentId,
    /// The sender's role, such as `Staff Engineer`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub role: Option<Text>,
    /// The session that speaks. A key of the form `agent:<id>:…` must name the same agent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub session_key: Option<Text>,
}

/// The one agent a message is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct Recipient {
    /// The recipient's agent id.
    #[schemars(extend("examples" = ["tim"]))]
    pub agent_id: AgentId,
    /// The recipient's role.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub role: Option<Text>,
}

object_only!(Sender, Recipient);

/// Whether a session key may belong to `agent`. A key of another form does not name an agent.
pub(crate) fn session_key_fits(agent: &str, key: &str) -> bool {
    let named = key.strip_prefix("agent:").and_then(|rest| rest.split_once(':'));
    named.is_none_or(|(id, _)| id == agent)
}

/// One message of `openclaw.a2a.v1`.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The protocol and its version.
    pub protocol: Protocol,
    /// Identifies this message.
    pub message_id: MessageId,
    /// When the sender wrote it.
    pub timestamp: Timestamp,
    /// Who sends it.
    pub from: Sender,
    /// Whom it is for.
    pub to: Option<Recipient>,
    /// How soon it should be handled.
    pub priority: Priority,
    /// The conversation it belongs to.
    pub correlation_id: CorrelationId,
    /// The payload; its kind is the message's `type`.
    pub body: Body,
}

impl Envelope {
    /// Reads one message, or lists everything that is wrong with it.
    ///
    /// A valid message costs one pass; the report is computed only for an invalid one.
    ///
    /// # Errors
    /// A [`Report`] with every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Report> {
        if bytes.len() > MESSAGE_BYTES {
            return Err(Report::too_large(bytes.len()));
        }
        match Self::read(bytes) {
            Ok(envelope) if envelope.is_consistent() => Ok(envelope),
            _ => Err(crate::validate::report::explain(bytes)),
        }
    }

    fn read(bytes: &[u8]) -> serde_json::Result<Self> {
        let frame: Frame<&RawValue> = serde_json::from_slice(bytes)?;
        let body = Body::read(frame.kind, frame.payload.get())?;
        Ok(Self {
            protocol: frame.protocol,
            message_id: frame.message_id,
            timestamp: frame.timestamp,
            from: frame.from,
            to: frame.to,
            priority: frame.priority,
            correlation_id: frame.correlation_id,
            body,
        })
    }

    /// The message as JSON text.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Large enough for most messages, so that the buffer does not grow.
        let mut json = Vec::with_capacity(1_024);
        // Every field serializes: strings, numbers, lists and objects with string keys.
        serde_json::to_writer(&mut json, self)
            .unwrap_or_else(|error| unreachable!("always writable: {error}"));
        json
    }

    /// The payload's bytes within the output of [`to_json`](Self::to_json), where it is the last field.
    #[must_use]
    pub fn payload_of(json: &[u8]) -> Option<&[u8]> {
        const KEY: &[u8] = b"\"payload\":";
        // A quote inside a string is escaped, and nothing before the payload has such a key.
        let at = memchr::memmem::find(json, KEY)? + KEY.len();
        json.get(at..)?.strip_suffix(b"}")
    }

    pub(crate) fn example(body: Body) -> Self {
        #[derive(Deserialize)]
        struct Header {
            id: MessageId,
            time: Timestamp,
            correlation: CorrelationId,
            from: Sender,
            to: Recipient,
        }
        let header: Header = example!({
            "id": "0192a4c8-7e1a-7b3c-9d4e-000000000001",
            "time": "2026-02-21T18:30:00Z",
            "correlation": "0192a4c8-7e1a-7b3c-9d4e-000000000002",
            "from": {"agentId": "roman", "role": "Staff Engineer", "sessionKey": "agent:roman:main"},
            "to": {"agentId": "tim", "role": "VP Architecture"}
        });
        Self {
            protocol: Protocol::V1,
            message_id: header.id,
            timestamp: header.time,
            from: header.from,
            to: body.kind().needs_recipient().then_some(header.to),
            priority: Priority::Normal,
            correlation_id: header.correlation,
            body,
        }
    }

    /// The message's `type`.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.body.kind()
    }

    /// Whether the fields agree with each other. Each single field is checked by its type.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let key = self.from.session_key.as_deref();
        key.is_none_or(|key| session_key_fits(self.from.agent_id.as_str(), key))
            && (self.to.is_some() || !self.kind().needs_recipient())
            && self.body.is_consistent()
    }
}

impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            protocol: Protocol,
            message_id: MessageId,
            timestamp: Timestamp,
            from: &'a Sender,
            #[serde(skip_serializing_if = "Option::is_none")]
            to: &'a Option<Recipient>,
            r#type: Kind,
            priority: Priority,
            correlation_id: CorrelationId,
            payload: &'a Body,
        }
        Wire {
            protocol: self.protocol,
            message_id: self.message_id,
            timestamp: self.timestamp,
            from: &self.from,
            to: &self.to,
            r#type: self.kind(),
            priority: self.priority,
            correlation_id: self.correlation_id,
            payload: &self.body,
        }
        .serialize(serializer)
    }
}

/// The message in its wire form. The payload is not parsed yet, because `type` may follow it.
#[derive(Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(description = "One message between agents: who says what to whom.")]
pub(crate) struct Frame<P> {
    /// Always `openclaw.a2a.v1`.
    protocol: Protocol,
    /// A new UUID of version 7 for this message.
    message_id: MessageId,
    /// When the message was written: RFC 3339 with `T` and an offset.
    timestamp: Timestamp,
    /// Who sends the message.
    from: Sender,
    /// Whom the message is for.
    #[serde(default, deserialize_with = "present")]
    to: Option<Recipient>,
    /// What the message is; it decides the shape of `payload`.
    #[serde(rename = "type")]
    kind: Kind,
    /// How soon the message should be handled.
    priority: Priority,
    /// A UUID of version 7 that links the messages of one conversation; a reply repeats it.
    correlation_id: CorrelationId,
    /// The content of the message, in the shape of its `type`.
    payload: P,
}

impl<'de, P: Deserialize<'de>> Deserialize<'de> for Frame<P> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Derived<P>(PhantomData<P>);
        impl<'de, P: Deserialize<'de>> ReadMap<'de, Frame<P>> for Derived<P> {
            fn read<A: serde::de::MapAccess<'de>>(
                self,
                map: serde::de::value::MapAccessDeserializer<A>,
            ) -> Result<Frame<P>, A::Error> {
                Frame::<P>::deserialize(map)
            }
        }
        read_object(deserializer, Derived(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_key_of_another_agent_does_not_fit() {
        for fits in ["agent:roman:main", "agent:roman:", "agent:roman", "cron:1", ""] {
            assert!(session_key_fits("roman", fits), "{fits}");
        }
        for other in ["agent:tim:main", "agent::main", "agent:Roman:main"] {
            assert!(!session_key_fits("roman", other), "{other}");
        }
    }
}
