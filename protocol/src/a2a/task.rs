//! A2A tasks, messages and artifacts.
//!
//! The serde form is that of A2A 1.0; 0.3 exists only in [`crate::wire`]. Unknown fields are
//! ignored when reading, as A2A requires.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::part;
use crate::TaskId;

pub use super::part::{Content, Part};
pub use crate::fields::opaque_id::{BadOpaqueId, ContextId, OpaqueId, PlanId, PlanTaskId};
pub use crate::fields::utc_millis::UtcMillis;

/// Additional data of an object: any JSON object.
pub type Metadata = Map<String, Value>;

closed_set! {
    /// State of an A2A task.
    pub enum TaskState {
        /// Accepted by the server, not started.
        Submitted = "TASK_STATE_SUBMITTED",
        /// The agent is working on it.
        Working = "TASK_STATE_WORKING",
        /// Completed.
        Completed = "TASK_STATE_COMPLETED",
        /// Failed.
        Failed = "TASK_STATE_FAILED",
        /// Cancelled.
        Canceled = "TASK_STATE_CANCELED",
        /// The agent needs an answer before it can continue.
        InputRequired = "TASK_STATE_INPUT_REQUIRED",
        /// The agent has rejected it.
        Rejected = "TASK_STATE_REJECTED",
        /// The agent needs credentials before it can continue.
        AuthRequired = "TASK_STATE_AUTH_REQUIRED",
    }
}

impl TaskState {
    /// Whether no further state can follow.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Short name of the state, for sentences in replies; it is also the name on the wire of 0.3.
    #[must_use]
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::InputRequired => "input-required",
            Self::Rejected => "rejected",
            Self::AuthRequired => "auth-required",
        }
    }

    /// Whether the task waits for the caller.
    #[must_use]
    pub const fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

closed_set! {
    /// Author of a message.
    pub enum Role {
        /// The caller.
        User = "ROLE_USER",
        /// The agent that works on the task.
        Agent = "ROLE_AGENT",
    }
}

/// A message between a caller and an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Chosen by the author, new for every message.
    pub message_id: OpaqueId,
    /// The conversation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// The task it is about.
    // Opaque, not a `TaskId`: a caller may name a task that never existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<OpaqueId>,
    /// The author.
    pub role: Role,
    /// The content.
    pub parts: Vec<Part>,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// URIs of the extensions that its content uses.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "part::list_or_null"
    )]
    pub extensions: Vec<String>,
    /// Ids of tasks that it refers to.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "part::list_or_null"
    )]
    pub reference_task_ids: Vec<String>,
}

impl Message {
    /// The text parts, joined by line breaks.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.content {
            Content::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A result of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its id within the task.
    pub artifact_id: OpaqueId,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The content.
    pub parts: Vec<Part>,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// URIs of the extensions that its content uses.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "part::list_or_null"
    )]
    pub extensions: Vec<String>,
}

/// Current status of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// The state.
    pub state: TaskState,
    /// The agent's message about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<Message>>,
    /// When the status was set.
    pub timestamp: UtcMillis,
}

/// A unit of work that a caller requested from an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Generated by the server.
    pub id: TaskId,
    /// The conversation it belongs to.
    pub context_id: ContextId,
    /// Current status.
    pub status: TaskStatus,
    /// Results so far.
    // Artifacts and history are shared: a task is copied with every change, and most of it stays as
    // it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Arc<Artifact>>,
    /// Messages so far, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Arc<Message>>,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl Task {
    /// Truncates the history to the newest `limit` messages; `None` keeps all.
    pub fn cut_history(&mut self, limit: Option<usize>) {
        if let Some(limit) = limit {
            let older = self.history.len().saturating_sub(limit);
            self.history.drain(..older);
        }
    }
}
