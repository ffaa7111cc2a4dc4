//! Tasks of A2A clients: reading their messages, answering with artifacts, asking back.
//!
//! All of it is optional. An agent that ignores it can still do their tasks.

use a2a_actors::Delivery;
use a2a_policy::tasks::ARTIFACT_EXTENSION;
use a2a_protocol::Body;
use a2a_protocol::task::{Artifact, ContextId, Message, Part};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{StatusReport, TaskAnswer};

/// Metadata key of a part that was too large for the delivery. Its value locates the part:
/// `{"messageId": …, "part": …, "bytes": …}`. The complete task is at `GET /bus/tasks/{id}/a2a`.
pub const REFERENCE_EXTENSION: &str = "urn:openclaw:a2a:reference:v1";

/// The message of an A2A client, in the delivery that requests its task.
///
/// ```
/// use openclaw_a2a::{A2aRequest, Agent, Delivery, SendError, TaskAnswer};
///
/// async fn work(tim: Agent, delivery: Delivery) -> Result<(), SendError> {
///     let text = A2aRequest::of(&delivery).map(|asked| asked.text()).unwrap_or_default();
///     tim.send_task_response(&delivery, TaskAnswer::completed("Done.").text_artifact("echo", text)).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct A2aRequest {
    /// The current message. A part that was too large is `data` with [`REFERENCE_EXTENSION`] in its
    /// metadata.
    pub message: Message,
    /// The A2A context, which all tasks of a conversation share.
    pub context_id: ContextId,
    /// Earlier messages of the task, the oldest first.
    pub history: Vec<Message>,
    /// A2A version of the caller, such as `0.3`; `None` when the server did not record it.
    pub version: Option<String>,
}

impl A2aRequest {
    /// Extracts the A2A message of a delivery; `None` when the delivery requests no A2A task.
    #[must_use]
    pub fn of(delivery: &Delivery) -> Option<Self> {
        let Body::TaskRequest(task) = &delivery.message.body else { return None };
        let context = task.context.as_ref()?;
        Self::whole(context.as_json()).or_else(|| Self::in_parts(context.to_value()))
    }

    /// Fast path: the first message of a task, with all parts included.
    fn whole(context: &str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Whole {
            a2a: Message,
            context_id: ContextId,
            a2a_version: Option<String>,
            history: Option<IgnoredAny>,
        }
        let whole: Whole = serde_json::from_str(context).ok()?;
        let Whole { a2a: message, context_id, a2a_version: version, history: None } = whole else {
            return None;
        };
        Some(Self { message, context_id, history: Vec::new(), version })
    }

    fn in_parts(mut context: Value) -> Option<Self> {
        let message = read(context.get_mut("a2a")?.take())?;
        let context_id = serde_json::from_value(context.get_mut("contextId")?.take()).ok()?;
        let history = match context.get_mut("history").map(Value::take) {
            Some(Value::Array(all)) => all.into_iter().filter_map(read).collect(),
            _ => Vec::new(),
        };
        let version = context.get("a2aVersion").and_then(Value::as_str).map(str::to_owned);
        Some(Self { message, context_id, history, version })
    }

    /// The text of the message.
    #[must_use]
    pub fn text(&self) -> String {
        self.message.text()
    }
}

fn read(mut message: Value) -> Option<Message> {
    if let Some(Value::Array(parts)) = message.get_mut("parts") {
        for part in parts {
            if let Some(reference) = part.get_mut("reference").map(Value::take) {
                *part = json!({ "data": null, "metadata": { REFERENCE_EXTENSION: reference } });
            }
        }
    }
    serde_json::from_value(message).ok()
}

impl TaskAnswer {
    /// Adds a message to the A2A client, beside the result.
    #[must_use]
    pub fn saying(self, text: impl Into<String>) -> Self {
        self.field("message", text.into())
    }

    /// Adds a message of any parts to the A2A client.
    #[must_use]
    pub fn saying_parts(self, parts: Vec<Part>) -> Self {
        self.field("message", json!({ "parts": parts }))
    }

    /// Adds an artifact.
    #[must_use]
    pub fn artifact(self, artifact: &Artifact) -> Self {
        self.also("artifacts", json!(artifact))
    }

    /// Adds a text artifact.
    #[must_use]
    pub fn text_artifact(self, name: impl Into<String>, text: impl Into<String>) -> Self {
        let artifact = json!({ "name": name.into(), "parts": [Part::text(text)] });
        self.also("artifacts", artifact)
    }

    /// Answers with a plain message. An A2A client gets it instead of a task, unless the task was
    /// already visible to a client.
    #[must_use]
    pub fn directly(self) -> Self {
        self.field("direct", true)
    }

    /// The task waits for credentials, not for input.
    #[must_use]
    pub fn for_credentials(self) -> Self {
        self.field("authRequired", true)
    }
}

impl StatusReport {
    /// Sends an artifact, or a chunk of one, while the task is running. With `append` the parts
    /// continue the artifact of the same id; `last` marks the final chunk.
    #[must_use]
    pub fn artifact(self, artifact: &Artifact, append: bool, last: bool) -> Self {
        let piece = json!({ "artifact": artifact, "append": append, "lastChunk": last });
        self.extension(ARTIFACT_EXTENSION, piece)
    }
}

#[cfg(test)]
mod tests {
    use a2a_protocol::task::Content;

    use super::*;

    #[test]
    fn missing_part_contains_its_reference() {
        let message = read(json!({"messageId": "m", "role": "ROLE_USER", "parts": [
            {"text": "see"}, {"reference": {"messageId": "m", "part": 1, "bytes": 9}},
        ]}));
        let message = message.unwrap();
        assert_eq!(message.text(), "see");
        assert_eq!(message.parts[1].content, Content::Data(Value::Null));
        let metadata = message.parts[1].metadata.as_ref().unwrap();
        assert_eq!(metadata[REFERENCE_EXTENSION]["part"], 1);
    }
}
