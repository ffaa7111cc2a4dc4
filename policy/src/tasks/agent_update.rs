//! Translation of an agent's bus messages to updates of its A2A task.
//!
//! Agents use `openclaw.a2a.v1`. A2A content beyond that travels in its open objects: artifacts and
//! a message in a response's `result`, artifact chunks and progress in an update's `metadata`. Ids
//! and roles that an agent may omit are filled in here.

use a2a_protocol::body::{Action, Status, StatusUpdate, TaskResponse};
use a2a_protocol::task::{Artifact, Metadata, OpaqueId, Part};
use a2a_protocol::{
    Body, Envelope, Event, MessageId, NOTICE_EXTENSION, Notice, PROGRESS_EXTENSION, Progress,
};
use serde::Deserialize;
use serde_json::Value;

/// The key in `status_update.metadata` for an artifact, or a chunk of one, of a running task:
/// `{"artifact": …, "append": false, "lastChunk": true}`.
pub const ARTIFACT_EXTENSION: &str = "urn:openclaw:a2a:artifact:v1";

/// The message an agent sends with an update.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentText {
    /// The parts of the message; empty without one.
    pub parts: Vec<Part>,
    /// The message's metadata.
    pub metadata: Option<Metadata>,
    /// A progress snapshot in the format of the task-progress extension, unchanged.
    pub progress: Option<Value>,
    /// The bus message it came in. Redelivered after a crash, it becomes the same message of the
    /// task.
    pub id: Option<MessageId>,
}

impl AgentText {
    /// A message of one text part.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], ..Self::default() }
    }

    /// Whether there is no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// An artifact, or a chunk of one.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactPiece {
    /// The artifact.
    pub artifact: Artifact,
    /// Whether its parts are appended to the artifact with the same id.
    pub append: bool,
    /// Whether it is the last chunk.
    pub last_chunk: bool,
}

/// The update of an A2A task that a bus message means.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentUpdate {
    /// The agent works on it.
    Works {
        /// Its message; empty when it sent none.
        text: AgentText,
        /// Artifacts and chunks produced so far.
        pieces: Vec<ArtifactPiece>,
    },
    /// The agent needs input or credentials.
    Asks {
        /// The question.
        text: AgentText,
        /// Whether it needs credentials.
        credentials: bool,
    },
    /// The agent completed it.
    Completed {
        /// Its message.
        text: AgentText,
        /// The artifacts.
        artifacts: Vec<Artifact>,
        /// The response's summary as an artifact, for a task without other artifacts.
        summary: Option<Artifact>,
        /// Whether the result is a direct answer: a message instead of a task.
        direct: bool,
    },
    /// The agent or the bus failed it.
    Failed(AgentText),
    /// The agent declined it.
    Rejected(AgentText),
    /// The task was cancelled on the bus.
    Cancelled(AgentText),
    /// The agent's response is invalid.
    Unreadable(String),
}

/// The update a bus message means; `None` when it means none.
#[must_use]
pub fn interpret(message: &Envelope) -> Option<AgentUpdate> {
    match &message.body {
        Body::TaskResponse(response) => Some(
            from_response(response).unwrap_or_else(|Unreadable(why)| AgentUpdate::Unreadable(why)),
        ),
        Body::StatusUpdate(update) if message.from.agent_id.as_str() == "system" => {
            from_notice(update)
        }
        Body::StatusUpdate(update) => {
            Some(from_status(update).unwrap_or_else(|Unreadable(why)| AgentUpdate::Unreadable(why)))
        }
        _ => None,
    }
}

impl AgentUpdate {
    /// Whether it consists of progress only.
    #[must_use]
    pub fn is_only_progress(&self) -> bool {
        matches!(self, Self::Works { text, pieces } if text.progress.is_some() && pieces.is_empty())
    }
}

struct Unreadable(String);

fn from_response(response: &TaskResponse) -> Result<AgentUpdate, Unreadable> {
    if let Some(plain) = plain_completion(response) {
        return Ok(plain);
    }
    let result = response.result.as_ref().map(|result| result.to_value()).unwrap_or_default();
    let summary = response.result.as_ref().and_then(|result| result.summary.as_deref());
    let reason = response.reason.as_deref();
    let text = match result.get("message") {
        Some(message) => parse_message(message)?,
        None => reason.or(summary).map(AgentText::plain).unwrap_or_default(),
    };
    Ok(match response.action {
        Action::Accepted => AgentUpdate::Works { text, pieces: Vec::new() },
        Action::Declined => AgentUpdate::Rejected(text),
        Action::Failed => AgentUpdate::Failed(text),
        Action::Blocked => {
            let credentials = result.get("authRequired") == Some(&Value::Bool(true));
            AgentUpdate::Asks { text, credentials }
        }
        Action::Completed => {
            let artifacts = parse_artifacts(result.get("artifacts"))?;
            let direct = result.get("direct") == Some(&Value::Bool(true));
            // Nothing else was returned. Clients look for results in artifacts, not in messages.
            let is_all = artifacts.is_empty() && result.get("message").is_none() && !direct;
            let summary = summary.filter(|text| is_all && !text.trim().is_empty());
            let summary = summary.map(summary_artifact).transpose()?;
            AgentUpdate::Completed { text, artifacts, summary, direct }
        }
    })
}

/// The artifact made of a summary.
fn summary_artifact(summary: &str) -> Result<Artifact, Unreadable> {
    let loose = LooseArtifact {
        artifact_id: None,
        name: Some("summary".to_owned()),
        description: None,
        parts: vec![Part::text(summary)],
        metadata: None,
        extensions: None,
    };
    loose.named(0)
}

/// Fast path for the common response: a text, and artifacts that need no diagnostics. `None` for
/// any other.
fn plain_completion(response: &TaskResponse) -> Option<AgentUpdate> {
    #[derive(Deserialize)]
    struct Plain {
        message: String,
        #[serde(default)]
        artifacts: Vec<LooseArtifact>,
        #[serde(default)]
        direct: bool,
    }
    let result = response.result.as_ref().filter(|_| response.action == Action::Completed)?;
    let Plain { message, artifacts, direct } = serde_json::from_str(result.as_json()).ok()?;
    let artifacts = artifacts.into_iter().enumerate();
    let artifacts = artifacts.map(|(at, loose)| loose.named(at)).collect::<Result<_, _>>().ok()?;
    Some(AgentUpdate::Completed {
        text: AgentText::plain(&message),
        artifacts,
        summary: None,
        direct,
    })
}

fn from_status(update: &StatusUpdate) -> Result<AgentUpdate, Unreadable> {
    let mut text = AgentText::plain(&*update.progress);
    // Validated when the message was parsed.
    let progressing = update.metadata.as_ref().filter(|all| all.progress.is_some());
    text.progress = progressing.and_then(|all| all.get(PROGRESS_EXTENSION));
    let piece = update.metadata.as_ref().and_then(|all| all.get::<Value>(ARTIFACT_EXTENSION));
    let pieces = piece.map(|piece| parse_piece(&piece)).transpose()?.into_iter().collect();
    Ok(match update.status {
        // A status update never ends a task.
        Status::InProgress | Status::Paused | Status::Completed => {
            AgentUpdate::Works { text, pieces }
        }
        Status::Blocked => {
            if let Some(blocker) = update.blocked_by.as_deref() {
                text.parts = vec![Part::text(blocker)];
            }
            AgentUpdate::Asks { text, credentials: false }
        }
    })
}

fn from_notice(update: &StatusUpdate) -> Option<AgentUpdate> {
    let from_notice: Notice = update.metadata.as_ref()?.get(NOTICE_EXTENSION)?;
    let text = AgentText::plain(&*update.progress);
    match from_notice.event {
        Event::DeadLetter | Event::Expired | Event::Tripped => Some(AgentUpdate::Failed(text)),
        Event::Cancelled => Some(AgentUpdate::Cancelled(text)),
        _ => None,
    }
}

/// A message as an agent writes it: a text, or an object in which ids and role are optional.
fn parse_message(value: &Value) -> Result<AgentText, Unreadable> {
    #[derive(Deserialize)]
    struct Loose {
        parts: Vec<Part>,
        #[serde(default)]
        metadata: Option<Metadata>,
    }
    if let Value::String(text) = value {
        return Ok(AgentText::plain(text));
    }
    let Loose { parts, mut metadata } = Loose::deserialize(value)
        .map_err(|error| Unreadable(format!("`result.message` cannot be read: {error}")))?;
    let progress = metadata.as_mut().and_then(|all| all.shift_remove(PROGRESS_EXTENSION));
    // A response's `result` is an open object that is not validated before. Invalid progress is
    // dropped: it must not decide how the task ends.
    let progress = progress.filter(|progress| Progress::deserialize(progress).is_ok());
    Ok(AgentText { parts, metadata: metadata.filter(|all| !all.is_empty()), progress, id: None })
}

fn parse_artifacts(value: Option<&Value>) -> Result<Vec<Artifact>, Unreadable> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    let Value::Array(all) = value else {
        return Err(Unreadable("`result.artifacts` is not an array".into()));
    };
    let read = |(at, value)| {
        parse_artifact(value, at)
            .map_err(|Unreadable(why)| Unreadable(format!("`result.artifacts[{at}]`: {why}")))
    };
    all.iter().enumerate().map(read).collect()
}

fn parse_artifact(value: &Value, at: usize) -> Result<Artifact, Unreadable> {
    LooseArtifact::deserialize(value).map_err(|error| Unreadable(error.to_string()))?.named(at)
}

/// An artifact as an agent writes it: the id is optional.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LooseArtifact {
    #[serde(default)]
    artifact_id: Option<OpaqueId>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    parts: Vec<Part>,
    #[serde(default)]
    metadata: Option<Metadata>,
    #[serde(default)]
    extensions: Option<Vec<String>>,
}

impl LooseArtifact {
    fn named(self, at: usize) -> Result<Artifact, Unreadable> {
        if self.parts.is_empty() {
            return Err(Unreadable("an artifact has at least one part".into()));
        }
        let named = || OpaqueId::try_from(format!("artifact-{}", at + 1).as_str());
        let artifact_id = match self.artifact_id {
            Some(id) => id,
            None => named().map_err(|error| Unreadable(error.to_string()))?,
        };
        Ok(Artifact {
            artifact_id,
            name: self.name,
            description: self.description,
            parts: self.parts,
            metadata: self.metadata,
            extensions: self.extensions.unwrap_or_default(),
        })
    }
}

fn parse_piece(value: &Value) -> Result<ArtifactPiece, Unreadable> {
    let flag = |key| value.get(key) == Some(&Value::Bool(true));
    let inner = value.get("artifact").unwrap_or(&Value::Null);
    let artifact = parse_artifact(inner, 0).map_err(|Unreadable(why)| {
        Unreadable(format!("`metadata[\"{ARTIFACT_EXTENSION}\"].artifact`: {why}"))
    })?;
    Ok(ArtifactPiece { artifact, append: flag("append"), last_chunk: flag("lastChunk") })
}

#[cfg(test)]
mod tests;
