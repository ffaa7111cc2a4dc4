//! What an agent's answers on the bus mean for its A2A task.
//!
//! Agents speak `openclaw.a2a.v1`. What A2A has beyond it travels in the open objects: artifacts
//! and a message in a response's `result`, pieces of an artifact and progress in an update's
//! `metadata`.
//! Whatever an agent may leave out (ids, roles) is filled in here.

use a2a_protocol::body::{Action, Status, StatusUpdate, TaskResponse};
use a2a_protocol::task::{Artifact, Content, Label, Metadata, Part};
use a2a_protocol::{
    Body, Envelope, Event, MessageId, NOTICE_EXTENSION, Notice, PROGRESS_EXTENSION, Progress,
};
use serde::Deserialize;
use serde_json::Value;

/// The key in `status_update.metadata` under which an agent hands over an artifact, or a piece
/// of one, while it works: `{"artifact": …, "append": false, "lastChunk": true}`.
pub const ARTIFACT_EXTENSION: &str = "urn:openclaw:a2a:artifact:v1";

/// What an agent says beside the bare fact.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentText {
    /// The parts of its message; empty when it says nothing.
    pub parts: Vec<Part>,
    /// The message's metadata.
    pub metadata: Option<Metadata>,
    /// How far everything is: a snapshot in the words of the task-progress extension, as the agent
    /// wrote it.
    pub progress: Option<Value>,
    /// The message of the bus that says it, where one does: heard again after a crash, it becomes
    /// the same message of its task.
    pub id: Option<MessageId>,
}

impl AgentText {
    fn text(text: &str) -> Self {
        Self { parts: vec![Part::text(text)], ..Self::default() }
    }
}

/// An artifact, or a piece of one.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactPiece {
    /// The artifact.
    pub artifact: Artifact,
    /// Its parts continue the artifact of this name.
    pub append: bool,
    /// Nothing more of it comes.
    pub last_chunk: bool,
}

/// What a message means for the task it is about.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentUpdate {
    /// The agent is at it; what it says about that, and what has come of it so far.
    Works {
        /// What it says; empty when nothing.
        text: AgentText,
        /// What came of the task meanwhile.
        pieces: Vec<ArtifactPiece>,
    },
    /// The agent needs an answer, or credentials.
    Asks {
        /// What it asks.
        text: AgentText,
        /// It needs credentials.
        credentials: bool,
    },
    /// The agent has done it.
    Completed {
        /// What it says.
        text: AgentText,
        /// What came of it.
        artifacts: Vec<Artifact>,
        /// The summary of an agent that gave nothing else back, for a task without artifacts.
        summary: Option<Artifact>,
        /// The agent means this as a plain answer: a message instead of a task.
        direct: bool,
    },
    /// It cannot be done.
    Failed(AgentText),
    /// The agent does not take it.
    Rejected(AgentText),
    /// Somebody called it off on the bus.
    Cancelled(AgentText),
    /// What the agent gave back cannot be read.
    Unreadable(String),
}

/// What a message means for the task it is about; `None` when it means nothing.
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
    /// Whether all that is said is how far the agent is.
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
        None => reason.or(summary).map(AgentText::text).unwrap_or_default(),
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
            // All that came of the task: clients look for results in artifacts, not in what is
            // said about them.
            let is_all = artifacts.is_empty() && result.get("message").is_none() && !direct;
            let summary = summary.filter(|text| is_all && !text.trim().is_empty());
            let summary = summary.map(summary_artifact).transpose()?;
            AgentUpdate::Completed { text, artifacts, summary, direct }
        }
    })
}

/// The summary of an agent that gave nothing else back.
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

/// The answer that most tasks end with: a text, artifacts that carry what they must, and nothing
/// that has to be explained. `None` for any other.
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
        text: AgentText::text(&message),
        artifacts,
        summary: None,
        direct,
    })
}

fn from_status(update: &StatusUpdate) -> Result<AgentUpdate, Unreadable> {
    let mut text = AgentText::text(&update.progress);
    // Its rules were checked when the message was read; looked for only where it is.
    let progressing = update.metadata.as_ref().filter(|all| all.progress.is_some());
    text.progress = progressing.and_then(|all| all.get(PROGRESS_EXTENSION));
    let piece = update.metadata.as_ref().and_then(|all| all.get::<Value>(ARTIFACT_EXTENSION));
    let pieces = piece.map(|piece| parse_piece(&piece)).transpose()?.into_iter().collect();
    Ok(match update.status {
        // A status never ends a task.
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
    let text = AgentText::text(&update.progress);
    match from_notice.event {
        Event::DeadLetter | Event::Expired | Event::Tripped => Some(AgentUpdate::Failed(text)),
        Event::Cancelled => Some(AgentUpdate::Cancelled(text)),
        _ => None,
    }
}

/// A message as an agent writes it: a text, or an object whose ids and role are not needed.
fn parse_message(value: &Value) -> Result<AgentText, Unreadable> {
    #[derive(Deserialize)]
    struct Loose {
        parts: Vec<Part>,
        #[serde(default)]
        metadata: Option<Metadata>,
    }
    if let Value::String(text) = value {
        return Ok(AgentText::text(text));
    }
    let Loose { parts, mut metadata } = Loose::deserialize(value)
        .map_err(|error| Unreadable(format!("`result.message` cannot be read: {error}")))?;
    let progress = metadata.as_mut().and_then(|all| all.shift_remove(PROGRESS_EXTENSION));
    // A response's `result` is open, so nobody has looked yet. What breaks the rules is left out:
    // how far something is never decides how it ends.
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

/// An artifact as an agent writes it: an id is not needed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LooseArtifact {
    #[serde(default)]
    artifact_id: Option<Label>,
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
        let named = || Label::try_from(format!("artifact-{}", at + 1).as_str());
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

impl AgentText {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// A plain text, for what the server itself has to say.
    #[must_use]
    pub fn plainly(text: impl Into<String>) -> Self {
        Self { parts: vec![Content::Text(text.into()).into()], ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn response(payload: Value) -> AgentUpdate {
        from_response(&serde_json::from_value(payload).unwrap())
            .unwrap_or_else(|Unreadable(why)| AgentUpdate::Unreadable(why))
    }

    const TASK: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000003";

    #[test]
    fn answers_become_moves() {
        let update = |action, reason: Option<&str>| {
            let mut payload = json!({"taskId": TASK, "action": action});
            if let Some(reason) = reason {
                payload["reason"] = reason.into();
            }
            response(payload)
        };
        assert_eq!(
            update("accepted", None),
            AgentUpdate::Works { text: AgentText::default(), pieces: vec![] }
        );
        assert_eq!(update("declined", Some("no")), AgentUpdate::Rejected(AgentText::text("no")));
        assert_eq!(update("failed", Some("no")), AgentUpdate::Failed(AgentText::text("no")));
        let asks = AgentUpdate::Asks { text: AgentText::text("which?"), credentials: false };
        assert_eq!(update("blocked", Some("which?")), asks);
    }

    #[test]
    fn a_result_carries_artifacts_and_a_message() {
        let update = response(json!({"taskId": TASK, "action": "completed", "result": {
            "message": {"parts": [{"text": "done"}]},
            "artifacts": [{"parts": [{"data": 1}]}, {"artifactId": "x", "parts": [{"url": "u"}]}],
        }}));
        let AgentUpdate::Completed { text, artifacts, direct, .. } = update else {
            panic!("{update:?}")
        };
        assert_eq!((text, direct), (AgentText::text("done"), false));
        let ids: Vec<_> = artifacts.iter().map(|a| a.artifact_id.as_str()).collect();
        assert_eq!(ids, ["artifact-1", "x"]);
        let direct = response(json!({"taskId": TASK, "action": "completed",
            "result": {"message": "hi", "direct": true}}));
        assert!(matches!(direct, AgentUpdate::Completed { direct: true, .. }));
    }

    #[test]
    fn completed_with_only_a_summary_gives_it_as_artifact() {
        let update = |result: Value| {
            let update = response(json!({"taskId": TASK, "action": "completed", "result": result}));
            let AgentUpdate::Completed { text, summary, .. } = update else { panic!("{update:?}") };
            let texts = summary.iter().flat_map(|artifact| &artifact.parts).cloned();
            (text.parts, texts.collect::<Vec<_>>())
        };
        let text = |text: &str| vec![Part::text(text)];
        assert_eq!(update(json!({"summary": "Found 5"})), (text("Found 5"), text("Found 5")));
        assert_eq!(update(json!({"summary": "s", "message": "m"})), (text("m"), vec![]));
        let whole = json!({"summary": "s", "artifacts": [{"parts": [{"text": "a"}]}]});
        assert_eq!(update(whole), (text("s"), vec![]));
        assert_eq!(update(json!({"summary": "s", "direct": true})), (text("s"), vec![]));
        assert_eq!(update(json!({"filesChanged": []})), (vec![], vec![]));
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_place() {
        let update = response(json!({"taskId": TASK, "action": "completed",
            "result": {"artifacts": [{"parts": [{"text": "a"}]}, {"parts": []}]}}));
        let AgentUpdate::Unreadable(why) = update else { panic!("{update:?}") };
        assert!(why.contains("artifacts[1]"), "{why}");
    }
    #[test]
    fn progress_comes_as_it_was_written_and_beside_whatever_else_is_said() {
        let progress = json!({"trackers": [{"id": "a", "progress": 1, "total": 3}]});
        let update = |mut fields: Value| {
            fields["taskId"] = TASK.into();
            fields["progress"] = "one of three".into();
            fields["metadata"] = json!({ PROGRESS_EXTENSION: progress });
            from_status(&serde_json::from_value(fields).unwrap()).ok().unwrap()
        };
        let AgentUpdate::Works { text, pieces } = update(json!({"status": "in_progress"})) else {
            panic!()
        };
        assert_eq!((text.progress, pieces), (Some(progress.clone()), vec![]));
        assert_eq!((text.parts, text.metadata), (vec![Part::text("one of three")], None));
        let blocked = update(json!({"status": "blocked", "blockedBy": "which?"}));
        let AgentUpdate::Asks { text, .. } = blocked else { panic!("{blocked:?}") };
        assert_eq!(text.parts, [Part::text("which?")]);
        assert_eq!(text.progress, Some(progress.clone()));
    }

    #[test]
    fn progress_in_an_answer_counts_if_it_keeps_the_rules_and_is_left_out_if_not() {
        let answer = |progress: &Value| {
            let message = json!({"parts": [{"text": "done"}],
                "metadata": { PROGRESS_EXTENSION: progress }});
            let update = response(json!({"taskId": TASK, "action": "completed",
                "result": {"message": message}}));
            let AgentUpdate::Completed { text, .. } = update else { panic!("{update:?}") };
            assert_eq!(text.metadata, None);
            text.progress
        };
        let good = json!({"trackers": []});
        assert_eq!(answer(&good), Some(good));
        assert_eq!(answer(&json!({"trackers": [{"id": "a", "progress": 2, "total": 1}]})), None);
    }
}
