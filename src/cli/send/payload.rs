//! Flags for the payloads of the seven kinds, with defaults.
//!
//! Validation is left to the protocol, whose violations are printed unchanged.

mod review;
mod task;

use a2a_protocol::body::{Scope, Urgency};
use a2a_protocol::{AgentId, Kind, TaskId, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::TaskParties;
use crate::cli::duration::after;
use crate::cli::human::one_of;

pub(super) use review::{ReviewRequest, ReviewResponse};
pub(super) use task::{StatusUpdate, TaskRequest, TaskResponse};

/// Payload flags of one kind.
pub(super) trait Payload {
    /// Kind of the message.
    const KIND: Kind;

    /// Task of the message, if the ledger may have it.
    fn task(&self) -> Option<TaskId> {
        None
    }

    /// Default recipient.
    fn addressee<'a>(&self, _: &'a TaskParties) -> Option<&'a AgentId> {
        None
    }

    /// Builds the payload of a message from `from`.
    fn write(&self, from: &str) -> anyhow::Result<Value>;
}

/// JSON object of the fields that are given.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn with(mut self, name: &str, value: Option<impl Serialize>) -> Self {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), json!(value));
        }
        self
    }

    /// Adds a list unless it is empty.
    fn list<T: Serialize>(self, name: &str, items: &[T]) -> Self {
        self.with(name, (!items.is_empty()).then_some(items))
    }

    fn object(self) -> Value {
        Value::Object(self.0)
    }

    /// The object, or `None` when it is empty.
    fn some(self) -> Option<Value> {
        (!self.0.is_empty()).then(|| self.object())
    }
}

/// Parses a point in time: RFC 3339, or a duration from now.
fn timestamp(text: &str) -> Result<String, String> {
    if let Some(moment) = after(chrono::Utc::now(), text) {
        return Ok(Timestamp::from(moment).to_string());
    }
    match text.parse::<Timestamp>() {
        Ok(moment) => Ok(moment.to_string()),
        Err(error) => Err(format!("{error}; or how long from now: 90s, 15m, 2h, 3d")),
    }
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a send knowledge-share --from roman --topic 'sled flush' \\
    --discovery 'It survives a kill' --relevant-to tim
  openclaw-a2a send knowledge-share --topic backups \\
    --discovery 'They run at two' --action 'Do not deploy then'

Without --relevant-to it goes to the sender's whole squad.")]
pub(super) struct KnowledgeShare {
    /// Short label of the topic
    #[arg(long, value_name = "TEXT")]
    topic: String,
    /// The discovery
    #[arg(long, value_name = "TEXT")]
    discovery: String,
    /// Agents concerned, separated by commas or given several times
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    relevant_to: Vec<AgentId>,
    /// Source of the discovery
    #[arg(long, value_name = "TEXT", default_value = "the command line")]
    source: String,
    /// Mark it as something to act on
    #[arg(long)]
    actionable: bool,
    /// Suggested action; implies --actionable
    #[arg(long, value_name = "TEXT")]
    action: Option<String>,
}

impl Payload for KnowledgeShare {
    const KIND: Kind = Kind::KnowledgeShare;

    fn write(&self, _: &str) -> anyhow::Result<Value> {
        Ok(Fields::default()
            .with("topic", Some(&self.topic))
            .with("discovery", Some(&self.discovery))
            .with("relevantTo", Some(&self.relevant_to))
            .with("source", Some(&self.source))
            .with("actionable", Some(self.actionable || self.action.is_some()))
            .with("suggestedAction", self.action.as_ref())
            .object())
    }
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a send broadcast --topic freeze \\
    --message 'No merges until the release is out'
  openclaw-a2a send broadcast --from roman --scope squad --topic lunch \\
    --message 'At noon' --urgency attention_needed")]
pub(super) struct Broadcast {
    /// Recipients
    #[arg(long, default_value = "org", value_parser = one_of(Scope::ALL, Scope::as_str))]
    scope: Scope,
    /// Short label of the topic
    #[arg(long, value_name = "TEXT")]
    topic: String,
    /// The announcement
    #[arg(long, value_name = "TEXT")]
    message: String,
    /// What is expected of the recipients
    #[arg(long, default_value = "fyi", value_parser = one_of(Urgency::ALL, Urgency::as_str))]
    urgency: Urgency,
}

impl Payload for Broadcast {
    const KIND: Kind = Kind::Broadcast;

    fn write(&self, _: &str) -> anyhow::Result<Value> {
        let Self { scope, topic, message, urgency } = self;
        Ok(json!({"scope": scope, "topic": topic, "message": message, "urgency": urgency}))
    }
}
