//! The words of the bus.
//!
//! A message arrives as bytes and leaves as an [`Envelope`] whose types cannot
//! hold a wrong value, or as a [`Report`] that lists everything wrong with it:
//!
//! ```text
//! bytes ─▶ envelope::parse ─▶ Envelope { from, to, …, body: Body }
//!              │ (anything wrong)
//!              └▶ report::explain ─▶ Report { violations: [{path, code, message, …}] }
//! ```
//!
//! Each rule of a field is written once, in the field's type ([`Text`], [`List`],
//! [`AgentId`], [`Timestamp`], the closed sets …). Reading with serde enforces it,
//! [`schema`] turns it into JSON Schema, and the report is what that schema finds.
//!
//! Nothing here reads a clock, makes an id, does I/O or knows a runtime.
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
mod closed_set;
#[macro_use]
mod object;

pub mod limits;

mod activation;
mod agent_id;
mod ids;
mod list;
mod message_ids;
mod open;
mod text;
mod timestamp;

pub mod body;
pub mod card;
mod envelope;
pub mod fault;
mod ledger;
pub mod operation;
pub mod opt;
mod progress;
mod receipt;
pub mod task;
mod trace;
pub mod wire;

mod checker;
mod document;
mod report;
pub mod schema;
mod violation;
mod wording;

pub use agent_id::{AgentId, BadAgentId};
pub use body::{Body, Kind};
pub use envelope::{Envelope, Priority, Protocol, Recipient, Sender};
pub use ids::{BadUuid, CorrelationId, MessageId, TaskId};
pub use ledger::{ReviewState, TaskState};
pub use list::{BadLength, List};
pub use message_ids::MessageIds;
pub use open::{Known, NotOpen, Open};
pub use progress::{
    PROGRESS_EXTENSION, Progress, ProgressAggregate, ProgressTracker, TrackerStatus,
};
pub use receipt::{
    CircuitScope, Event, NOTICE_EXTENSION, Notice, OpenCircuit, Outcome, Receipt, RecipientOutcome,
};
pub use text::{BadText, NonBlank, Text, Title};
pub use timestamp::{BadTimestamp, Timestamp, in_milliseconds};
pub use trace::{BadTrace, SpanId, Trace, TraceId};
pub use violation::{Code, Report, Violation};
pub use wording::nearest;
