//! Message payloads: one file for each of the seven kinds.
//!
//! The doc text of fields and enum values is published in the JSON Schemas, and violations quote it.

mod broadcast;
mod knowledge_share;
mod review_request;
mod review_response;
mod status_update;
mod task_request;
mod task_response;

use schemars::{Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::TaskId;

pub use broadcast::{Broadcast, Scope, Urgency};
pub use knowledge_share::KnowledgeShare;
pub use review_request::ReviewRequest;
pub use review_response::{
    Concern, LineNumber, NextAction, NextTask, ReviewResponse, ReviewerFix, Severity, Verdict,
};
pub use status_update::{Extensions, Status, StatusUpdate};
pub use task_request::{Complexity, TaskContext, TaskRequest, TaskType};
pub use task_response::{Action, TaskResponse, TaskResult};

closed_set! {
    /// What the message is.
    pub enum Kind {
        /// Ask another agent to do a task.
        TaskRequest = "task_request",
        /// Answer a task request: take it, decline it, or report how it ended.
        TaskResponse = "task_response",
        /// Report how work is going.
        StatusUpdate = "status_update",
        /// Share something you found out with other agents.
        KnowledgeShare = "knowledge_share",
        /// Ask another agent to review work.
        ReviewRequest = "review_request",
        /// Give the verdict of a review.
        ReviewResponse = "review_response",
        /// Announce something to a squad, the organisation or its c-suite.
        Broadcast = "broadcast",
    }
}

/// Evaluates one expression with the body type of a kind; the compiler reports a missing kind.
macro_rules! for_kind {
    ($kind:expr, $body:ident => $call:expr) => {
        match $kind {
            Kind::TaskRequest => {
                type $body = TaskRequest;
                $call
            }
            Kind::TaskResponse => {
                type $body = TaskResponse;
                $call
            }
            Kind::StatusUpdate => {
                type $body = StatusUpdate;
                $call
            }
            Kind::KnowledgeShare => {
                type $body = KnowledgeShare;
                $call
            }
            Kind::ReviewRequest => {
                type $body = ReviewRequest;
                $call
            }
            Kind::ReviewResponse => {
                type $body = ReviewResponse;
                $call
            }
            Kind::Broadcast => {
                type $body = Broadcast;
                $call
            }
        }
    };
}

impl Kind {
    /// Whether a message of this kind must name one recipient in `to`.
    ///
    /// For the other kinds `to` is an additional recipient.
    #[must_use]
    pub const fn needs_recipient(self) -> bool {
        !matches!(self, Self::KnowledgeShare | Self::Broadcast)
    }

    pub(crate) fn payload_schema(self, generator: &mut SchemaGenerator) -> Schema {
        for_kind!(self, T => generator.subschema_for::<T>())
    }

    /// A complete payload of this kind, used in the documentation and the schemas.
    #[must_use]
    pub fn example(self) -> Body {
        for_kind!(self, T => T::example().into())
    }

    /// A complete message of this kind, used in the documentation and the schemas.
    #[must_use]
    pub fn example_message(self) -> crate::Envelope {
        crate::Envelope::example(self.example())
    }
}

/// A payload, typed by its kind.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// See [`TaskRequest`].
    TaskRequest(TaskRequest),
    /// See [`TaskResponse`].
    TaskResponse(TaskResponse),
    /// See [`StatusUpdate`].
    StatusUpdate(StatusUpdate),
    /// See [`KnowledgeShare`].
    KnowledgeShare(KnowledgeShare),
    /// See [`ReviewRequest`].
    ReviewRequest(ReviewRequest),
    /// See [`ReviewResponse`].
    ReviewResponse(ReviewResponse),
    /// See [`Broadcast`].
    Broadcast(Broadcast),
}

impl Body {
    /// Reads the payload of a message of kind `kind`.
    pub(crate) fn read(kind: Kind, payload: &str) -> serde_json::Result<Self> {
        for_kind!(kind, T => serde_json::from_str::<T>(payload).map(Self::from))
    }

    /// The kind, which the envelope's `type` contains.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::TaskRequest(_) => Kind::TaskRequest,
            Self::TaskResponse(_) => Kind::TaskResponse,
            Self::StatusUpdate(_) => Kind::StatusUpdate,
            Self::KnowledgeShare(_) => Kind::KnowledgeShare,
            Self::ReviewRequest(_) => Kind::ReviewRequest,
            Self::ReviewResponse(_) => Kind::ReviewResponse,
            Self::Broadcast(_) => Kind::Broadcast,
        }
    }

    /// The task the message is about.
    #[must_use]
    pub const fn task_id(&self) -> Option<TaskId> {
        match self {
            Self::TaskRequest(body) => Some(body.task_id),
            Self::TaskResponse(body) => Some(body.task_id),
            Self::ReviewRequest(body) => Some(body.task_id),
            Self::ReviewResponse(body) => Some(body.task_id),
            Self::StatusUpdate(body) => body.task_id,
            Self::KnowledgeShare(_) | Self::Broadcast(_) => None,
        }
    }

    /// Whether the fields agree with each other. Each single field is checked by its type.
    pub(crate) fn is_consistent(&self) -> bool {
        match self {
            Self::TaskResponse(body) => body.is_consistent(),
            Self::ReviewResponse(body) => body.is_consistent(),
            Self::StatusUpdate(body) => body.is_consistent(),
            Self::TaskRequest(_)
            | Self::KnowledgeShare(_)
            | Self::ReviewRequest(_)
            | Self::Broadcast(_) => true,
        }
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::TaskRequest(body) => Serialize::serialize(body, serializer),
            Self::TaskResponse(body) => Serialize::serialize(body, serializer),
            Self::StatusUpdate(body) => Serialize::serialize(body, serializer),
            Self::KnowledgeShare(body) => Serialize::serialize(body, serializer),
            Self::ReviewRequest(body) => Serialize::serialize(body, serializer),
            Self::ReviewResponse(body) => Serialize::serialize(body, serializer),
            Self::Broadcast(body) => Serialize::serialize(body, serializer),
        }
    }
}

macro_rules! into_body {
    ($($name:ident),+) => { $(
        impl From<$name> for Body {
            fn from(body: $name) -> Self {
                Self::$name(body)
            }
        }
    )+ };
}

into_body!(
    TaskRequest,
    TaskResponse,
    StatusUpdate,
    KnowledgeShare,
    ReviewRequest,
    ReviewResponse,
    Broadcast
);

/// Builds an example from JSON, so that the examples are parsed like any message.
macro_rules! example {
    ($($json:tt)+) => {
        serde_json::from_value(serde_json::json!($($json)+))
            .unwrap_or_else(|error| unreachable!("the example is checked by a test: {error}"))
    };
}
pub(crate) use example;

/// Adds a condition to a schema: if `field` is one of `values`, `then` is required and not blank.
fn required_when(
    schema: &mut Schema,
    field: &str,
    values: impl Iterator<Item = &'static str>,
    then: &str,
    description: &str,
) {
    let values: Vec<_> = values.collect();
    schema.insert(
        "if".into(),
        serde_json::json!({ "properties": { field: { "enum": values } }, "required": [field] }),
    );
    schema.insert(
        "then".into(),
        serde_json::json!({
            "properties": { then: {
                "type": "string",
                "pattern": crate::fields::text::NOT_BLANK_PATTERN,
                "description": description,
            } },
            "required": [then],
        }),
    );
}
