//! Frames of a session: parses those of the client, writes those of the server.
//!
//! Each is one JSON object in one text frame. No sockets and no bus here.

use std::borrow::Cow;

use a2a_actors::Delivery;
use a2a_protocol::{AgentId, Body, MessageId, Receipt, TaskId, Trace};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Frame types of a client.
pub(super) const FROM_CLIENTS: [&str; 5] = ["hello", "ack", "nack", "send", "ping"];
/// Longest name that a client gives its own message or ping, in characters.
const NAME: usize = 128;
/// Longest reason, in characters.
const REASON: usize = 2_000;

/// A frame of a client.
#[derive(Debug)]
pub(super) enum ClientFrame<'a> {
    /// Opens the session with its options.
    Hello(Hello),
    /// Acknowledges a message.
    Ack(MessageId),
    /// Nacks a message, with a reason.
    Nack(MessageId, String),
    /// Submits a message.
    Send { name: Option<String>, trace: Option<Trace>, message: &'a str },
    /// Asks whether the server is there.
    Ping { id: Option<String>, answer: bool },
}

/// A client's `hello`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Hello {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    /// Messages in flight.
    pub(super) window: Option<usize>,
    /// How long the session is kept after the connection is lost.
    pub(super) grace_seconds: Option<u64>,
    /// The session to resume.
    pub(super) resume: Option<Uuid>,
    /// The messages of that session which the client still has; the others are redelivered. `None`
    /// for all.
    pub(super) in_hands: Option<Vec<MessageId>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SettleFrame<'a> {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    message_id: MessageId,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendFrame<'a> {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    #[serde(rename = "ref")]
    name: Option<String>,
    #[serde(borrow, default)]
    traceparent: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tracestate: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ping {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    id: Option<String>,
    #[serde(default)]
    answer: bool,
}

/// Parses a frame of a client.
///
/// # Errors
/// A frame that names what is wrong and what is expected.
pub(super) fn read(text: &str) -> Result<ClientFrame<'_>, FrameError> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
    }
    let bad = |why: &dyn std::fmt::Display| {
        let message = format!("A frame is one JSON object with a `type`: {why}.");
        FrameError::new("bad_frame", message).allowing(&FROM_CLIENTS)
    };
    // Serde's own text for an array would name a Rust type.
    if text.trim_start().starts_with('[') {
        return Err(bad(&"this is an array"));
    }
    let typed: Typed<'_> = serde_json::from_str(text).map_err(|error| bad(&error))?;
    let Some(kind) = typed.kind else {
        let fault = FrameError::new("bad_frame", "The frame has no `type`.");
        return Err(fault.allowing(&FROM_CLIENTS));
    };
    let wrong = |allowed: &'static [&'static str]| {
        move |error: serde_json::Error| {
            FrameError::new("bad_frame", format!("The frame cannot be read: {error}."))
                .allowing(allowed)
        }
    };
    match kind.as_ref() {
        "hello" => {
            const FIELDS: [&str; 5] = ["type", "window", "graceSeconds", "resume", "inHands"];
            Ok(ClientFrame::Hello(serde_json::from_str(text).map_err(wrong(&FIELDS))?))
        }
        "ack" => {
            let ack: SettleFrame<'_> =
                serde_json::from_str(text).map_err(wrong(&["type", "messageId"]))?;
            if ack.reason.is_some() {
                let fault = FrameError::new("bad_frame", "An `ack` has no `reason`; a `nack` has.");
                return Err(fault.allowing(&["type", "messageId"]));
            }
            Ok(ClientFrame::Ack(ack.message_id))
        }
        "nack" => {
            let nack: SettleFrame<'_> =
                serde_json::from_str(text).map_err(wrong(&["type", "messageId", "reason"]))?;
            let reason = nack.reason.as_deref().unwrap_or("given back without a reason");
            Ok(ClientFrame::Nack(nack.message_id, reason.chars().take(REASON).collect()))
        }
        "send" => {
            const FIELDS: [&str; 5] = ["type", "ref", "traceparent", "tracestate", "message"];
            let send: SendFrame<'_> = serde_json::from_str(text).map_err(wrong(&FIELDS))?;
            let name = short("ref", send.name)?;
            // An invalid trace is ignored, as in the header of a request.
            let parent = send.traceparent.as_deref();
            let trace = parent.and_then(|parent| Trace::read(parent, send.tracestate.as_deref()));
            Ok(ClientFrame::Send { name, trace, message: send.message.get() })
        }
        "ping" => {
            let ping: Ping =
                serde_json::from_str(text).map_err(wrong(&["type", "id", "answer"]))?;
            Ok(ClientFrame::Ping { id: short("id", ping.id)?, answer: ping.answer })
        }
        other => {
            let other: String = other.chars().take(NAME).collect();
            let error = format!("A client sends no frame of type {other:?}.");
            Err(FrameError::new("bad_frame", error).allowing(&FROM_CLIENTS))
        }
    }
}

fn short(field: &str, text: Option<String>) -> Result<Option<String>, FrameError> {
    match text {
        Some(text) if text.chars().count() > NAME => {
            Err(FrameError::new("bad_frame", format!("`{field}` has at most {NAME} characters.")))
        }
        text => Ok(text),
    }
}

/// A frame of the server.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(super) enum ServerFrame<'a> {
    /// Identity and options of this session.
    Hello {
        protocol: &'static str,
        agent_id: &'a AgentId,
        session_id: Uuid,
        resumed: bool,
        window: usize,
        grace_seconds: u64,
        in_hands: Vec<MessageId>,
        limits: Limits,
    },
    /// A message to handle.
    Deliver {
        seq: u64,
        sender: &'a AgentId,
        attempt: u32,
        traceparent: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        tracestate: Option<&'a str>,
        message: &'a RawValue,
    },
    /// An acknowledgement is durable.
    Ack { message_id: MessageId, durable: bool },
    /// A failure is durable.
    Nack { message_id: MessageId, durable: bool },
    /// The receipt of a submitted message.
    Receipt {
        #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(flatten)]
        receipt: &'a Receipt,
    },
    /// The task of a message in flight was cancelled.
    Cancel {
        message_id: MessageId,
        #[serde(skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
    },
    /// The answer to a ping.
    Ping {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        answer: bool,
    },
    /// An error.
    Error(FrameError),
}

/// The limits of a session.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limits {
    pub(super) frame_bytes: usize,
    pub(super) message_bytes: usize,
    pub(super) window: usize,
    pub(super) grace_seconds: u64,
    /// Lease of a message.
    pub(super) lease_seconds: u64,
    /// How long a connection may be silent, pongs included.
    pub(super) silent_seconds: u64,
}

impl ServerFrame<'_> {
    pub(super) fn to_json(&self) -> String {
        // Serializing a frame cannot fail: every key is text.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The frame that delivers a message.
pub(super) fn deliver(delivery: &Delivery) -> String {
    // An accepted message is JSON.
    let message = serde_json::from_slice::<&RawValue>(&delivery.bytes).unwrap_or(RawValue::NULL);
    let trace = delivery.trace();
    let deliver = ServerFrame::Deliver {
        seq: delivery.seq,
        sender: &delivery.sender,
        attempt: delivery.attempt,
        traceparent: trace.traceparent(),
        tracestate: trace.tracestate(),
        message,
    };
    deliver.to_json()
}

/// The frame that cancels a task.
pub(super) fn cancel(delivery: &Delivery) -> String {
    let task_id = match &delivery.message.body {
        Body::TaskRequest(task) => Some(task.task_id),
        _ => None,
    };
    ServerFrame::Cancel { message_id: delivery.message.message_id, task_id }.to_json()
}

/// A faulty frame, or a request that could not be done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameError {
    code: &'static str,
    message: Cow<'static, str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    allowed: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<MessageId>,
}

impl FrameError {
    pub(super) fn new(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), allowed: &[], message_id: None }
    }

    fn allowing(self, allowed: &'static [&'static str]) -> Self {
        Self { allowed, ..self }
    }

    pub(super) fn about(self, id: MessageId) -> Self {
        Self { message_id: Some(id), ..self }
    }

    pub(super) fn into_json(self) -> String {
        ServerFrame::Error(self).to_json()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "019a1b2c-3d4e-7f60-8a9b-0c1d2e3f4a5b";

    #[test]
    fn every_frame_of_a_client_is_read() {
        let hello = r#"{"type":"hello","window":3,"graceSeconds":9,"inHands":[]}"#;
        assert!(
            matches!(read(hello), Ok(ClientFrame::Hello(hello)) if hello.window == Some(3) && hello.grace_seconds == Some(9))
        );
        let ack = format!(r#"{{"messageId":"{ID}","type":"ack"}}"#);
        assert!(matches!(read(&ack), Ok(ClientFrame::Ack(id)) if id.to_string() == ID));
        let nack = format!(r#"{{"type":"nack","messageId":"{ID}","reason":"a \"b\""}}"#);
        assert!(matches!(read(&nack), Ok(ClientFrame::Nack(_, reason)) if reason == "a \"b\""));
        let send = r#"{"type":"send","ref":"1","message":{"a" : 1}}"#;
        assert!(
            matches!(read(send), Ok(ClientFrame::Send { message, .. }) if message == r#"{"a" : 1}"#)
        );
        let ping = r#"{"type":"ping","id":"x"}"#;
        assert!(matches!(read(ping), Ok(ClientFrame::Ping { answer: false, .. })));
    }

    #[test]
    fn what_cannot_be_read_is_answered_with_what_can() {
        let bad = [
            ("", "one JSON object"),
            ("[]", "one JSON object"),
            ("{}", "no `type`"),
            (r#"{"type":"deliver"}"#, "deliver"),
            (r#"{"type":"ack"}"#, "messageId"),
            (r#"{"type":"ack","messageId":"1"}"#, "UUID"),
            (r#"{"type":"send"}"#, "message"),
            (r#"{"type":"hello","windw":1}"#, "windw"),
            (r#"{"type":"hello","type":"hello"}"#, "duplicate"),
            (r#"{"type":"ping","id":7}"#, "string"),
        ];
        for (text, why) in bad {
            let error = read(text).unwrap_err().into_json();
            assert!(error.contains(why), "{text}: {error}");
            assert!(error.contains("\"allowed\":[\""), "{text}: {error}");
        }
        let long = format!(r#"{{"type":"ping","id":"{}"}}"#, "x".repeat(NAME + 1));
        assert!(read(&long).is_err());
        let reason = format!(r#"{{"type":"ack","messageId":"{ID}","reason":"no"}}"#);
        assert!(read(&reason).is_err());
    }
}
