//! The one model of A2A: tasks, messages, parts, artifacts.
//!
//! Its serialised form is that of A2A 1.0; 0.3 exists only in [`crate::wire`]. Unknown fields
//! are ignored when reading, as A2A wants it. Nothing here knows methods, codes or transports.

mod label;
mod moment;
mod part;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use label::{BadLabel, ContextId, Label, PlanId, PlanTaskId};
pub use moment::Moment;
pub use part::{Content, Part};

use crate::TaskId;

/// Any JSON object that somebody hangs onto something.
pub type Metadata = Map<String, Value>;

closed_set! {
    /// How far an A2A task is.
    pub enum TaskState {
        /// Taken in, not begun.
        Submitted = "TASK_STATE_SUBMITTED",
        /// Being worked on.
        Working = "TASK_STATE_WORKING",
        /// Done.
        Completed = "TASK_STATE_COMPLETED",
        /// It could not be done.
        Failed = "TASK_STATE_FAILED",
        /// Called off.
        Canceled = "TASK_STATE_CANCELED",
        /// The agent needs an answer before it can go on.
        InputRequired = "TASK_STATE_INPUT_REQUIRED",
        /// The agent does not take it.
        Rejected = "TASK_STATE_REJECTED",
        /// The agent needs credentials before it can go on.
        AuthRequired = "TASK_STATE_AUTH_REQUIRED",
    }
}

impl TaskState {
    /// Whether it stays like this for ever.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// The state in a word, in sentences that callers of every version read.
    #[must_use]
    pub const fn in_a_word(self) -> &'static str {
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

    /// Whether it waits for whoever asked.
    #[must_use]
    pub const fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

closed_set! {
    /// Who speaks.
    pub enum Role {
        /// Whoever asks.
        User = "ROLE_USER",
        /// Whoever does the work.
        Agent = "ROLE_AGENT",
    }
}

/// Something that is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Chosen by whoever says it, new for every message.
    pub message_id: Label,
    /// The conversation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// The task it is about. A label, not a [`TaskId`]: a caller may name one that never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Label>,
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// URIs of the extensions that its content uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "part::list")]
    pub extensions: Vec<String>,
    /// Tasks that it refers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "part::list")]
    pub reference_task_ids: Vec<String>,
}

impl Message {
    /// The text of all its text parts.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.content {
            Content::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its name within the task.
    pub artifact_id: Label,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it consists of.
    pub parts: Vec<Part>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// URIs of the extensions that its content uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "part::list")]
    pub extensions: Vec<String>,
}

/// How a task stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// How far it is.
    pub state: TaskState,
    /// What the agent says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<Message>>,
    /// Since when.
    pub timestamp: Moment,
}

/// A piece of work that somebody asked an agent for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Made by the server.
    pub id: TaskId,
    /// The conversation it belongs to.
    pub context_id: ContextId,
    /// How it stands.
    pub status: TaskStatus,
    /// What came of it so far. Shared, as is the history: a task is copied with every change,
    /// and most of it stays as it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Arc<Artifact>>,
    /// What was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Arc<Message>>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl Task {
    /// Keeps the newest `limit` messages of the history; all of them without a limit.
    pub fn cut_history(&mut self, limit: Option<usize>) {
        if let Some(limit) = limit {
            let older = self.history.len().saturating_sub(limit);
            self.history.drain(..older);
        }
    }
}
