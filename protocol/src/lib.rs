//! Message types, validation, JSON Schemas and A2A wire formats of the bus.
//!
//! A message arrives as bytes. It becomes an [`Envelope`], whose types cannot hold an invalid
//! value, or a [`Report`] that lists every violation:
//!
//! ```text
//! bytes ─▶ Envelope::parse ─▶ Envelope { from, to, …, body: Body }
//!              │ (any violation)
//!              └▶ validate ─▶ Report { violations: [{path, code, message, …}] }
//! ```
//!
//! Each rule of a field is written once, in the field's type ([`Text`], [`List`], [`AgentId`],
//! [`Timestamp`], the closed sets …). Deserialization enforces it, [`schema`] turns it into JSON
//! Schema, and the report translates the errors of that schema.
//!
//! | folder | contents |
//! | --- | --- |
//! | `fields` | types of single values, with their limits |
//! | `body` | payloads of the seven message kinds |
//! | `validate` | schemas and the violation report |
//! | `a2a` | domain model of A2A |
//! | `opt` | objectives, plans and their tasks |
//! | `wire` | A2A versions, JSON-RPC and HTTP+JSON |
//!
//! This crate has no runtime, does no I/O, reads no clock and generates no ids.
//!
//! ```
//! use a2a_protocol::{Body, Code, Envelope};
//!
//! let message = br#"{
//!   "protocol": "openclaw.a2a.v1",
//!   "messageId": "0192a4c8-7e1a-7b3c-9d4e-000000000001",
//!   "timestamp": "2026-02-21T18:30:00.000Z",
//!   "from": {"agentId": "roman"},
//!   "type": "broadcast",
//!   "priority": "normal",
//!   "correlationId": "0192a4c8-7e1a-7b3c-9d4e-000000000002",
//!   "payload": {"scope": "squad", "topic": "freeze", "message": "No merges today", "urgency": "fyi"}
//! }"#;
//! let envelope = Envelope::parse(message).expect("a valid message");
//! assert!(matches!(envelope.body, Body::Broadcast(_)));
//!
//! let report = Envelope::parse(&message[..40]).expect_err("cut off");
//! assert_eq!(report.violations()[0].code, Code::NotJson);
//! ```

#[macro_use]
mod fields;

mod a2a;
mod assignment;
pub mod body;
mod envelope;
pub mod opt;
mod receipt;
mod validate;
pub mod wire;

pub use a2a::progress::{
    PROGRESS_EXTENSION, Progress, ProgressAggregate, ProgressTracker, TrackerStatus,
};
pub use a2a::{card, fault, operation, task};
pub use assignment::{AssignmentState, ReviewState};
pub use body::{Body, Kind};
pub use envelope::{Envelope, Priority, Protocol, Recipient, Sender};
pub use fields::agent_id::{AgentId, BadAgentId};
pub use fields::extensible::{Extensible, NotExtensible, TypedFields};
pub use fields::ids::{BadUuid, CorrelationId, MessageId, TaskId};
pub use fields::limits;
pub use fields::list::{BadLength, List};
pub use fields::text::{BadText, NonBlank, Text, Title};
pub use fields::timestamp::{BadTimestamp, Timestamp, in_milliseconds};
pub use fields::trace::{BadTrace, SpanId, Trace, TraceId};
pub use receipt::{
    CircuitScope, Event, NOTICE_EXTENSION, Notice, OpenCircuit, Outcome, Receipt, RecipientOutcome,
};
pub use validate::message_ids::MessageIds;
pub use validate::report::Report;
pub use validate::schema;
pub use validate::violation::{Code, Violation};
pub use validate::violation_text::nearest;
