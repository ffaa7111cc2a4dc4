//! Encodes a [`Reply`] or an event in the form of the caller.
//!
//! [`Encoded`] borrows the reply and is serialized directly into the response, so a task is written
//! only once.

use serde::{Serialize, Serializer};

use super::v0_3::{Shape, V03};
use super::{Dialect, Method, Version, v0_3, v1};
use crate::operation::{Reply, StreamEvent};
use crate::task::Task;

/// A reply or an event in the form of one caller, written by [`Serialize`].
#[derive(Debug, Clone, Copy)]
pub struct Encoded<'a> {
    pub(super) dialect: Dialect,
    pub(super) outgoing: Outgoing<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Outgoing<'a> {
    /// The reply to a method over JSON-RPC.
    Reply(Method, &'a Reply),
    /// The reply to a method over HTTP+JSON, which differs for two methods.
    RestReply(Method, &'a Reply),
    /// An event, and whether it is the last one.
    Event(&'a StreamEvent, bool),
}

/// The `result` of a JSON-RPC call.
#[must_use]
pub const fn reply<'a>(dialect: Dialect, method: Method, reply: &'a Reply) -> Encoded<'a> {
    Encoded { dialect, outgoing: Outgoing::Reply(method, reply) }
}

/// One event of a stream. `last`: the stream ends with it, which 0.3 writes as `final`.
#[must_use]
pub const fn event<'a>(dialect: Dialect, event: &'a StreamEvent, last: bool) -> Encoded<'a> {
    Encoded { dialect, outgoing: Outgoing::Event(event, last) }
}

/// The body of a webhook notification: 0.3 sends the current task, 1.0 the event.
#[must_use]
pub fn push_body(version: Version, event: &StreamEvent, task: &Task) -> String {
    match version {
        Version::V0_3 => json_text(&V03(Shape::Kind, task)),
        Version::V1_0 => json_text(event),
    }
}

impl Encoded<'_> {
    /// The JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        json_text(self)
    }
}

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shape = match self.dialect {
            Dialect::V1_0 => return v1::serialize(&self.outgoing, serializer),
            Dialect::V0_3 => Shape::Kind,
            Dialect::V0_3Proto => Shape::Proto,
        };
        v0_3::serialize(shape, &self.outgoing, serializer)
    }
}

/// The JSON text of a value. Serializing fails only for keys that are not strings, and these values
/// have none.
pub(super) fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
