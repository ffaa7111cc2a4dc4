//! A2A requests for an agent: read the message, deliver artifacts, ask for input. Optional: an
//! agent that ignores A2A works all the same.

use a2a_actors::Delivery;
use a2a_policy::tasks::ARTIFACT_EXTENSION;
use a2a_protocol::Body;
use a2a_protocol::task::{Artifact, ContextId, Message, Part};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{StatusReport, TaskAnswer};

/// Key in a part's metadata that refers to a part too large for the message: `{"messageId": …,
/// "part": …, "bytes": …}`. The whole task is at `GET /bus/tasks/{id}/a2a`.
pub const REFERENCE_EXTENSION: &str = "urn:openclaw:a2a:reference:v1";

/// The A2A message behind a task request.
///
/// ```
/// use a2a_sdk::{A2aRequest, Agent, Delivery, SendError, TaskAnswer};
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
    /// The conversation, the same for all of its tasks.
    pub context_id: ContextId,
    /// Earlier messages of this task, the oldest first.
    pub history: Vec<Message>,
    /// The version of A2A of the request, such as `0.3`, if the server states it.
    pub version: Option<String>,
}

impl A2aRequest {
    /// The A2A request of a delivery; `None` when it has none.
    #[must_use]
    pub fn of(delivery: &Delivery) -> Option<Self> {
        let Body::TaskRequest(task) = &delivery.message.body else { return None };
        let context = task.context.as_ref()?;
        Self::whole(context.as_json()).or_else(|| Self::in_parts(context.to_value()))
    }

    /// The first message of a task with every part inline, which is the usual case.
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
    /// Sets the text message that an A2A client gets beside the result.
    #[must_use]
    pub fn message(self, text: impl Into<String>) -> Self {
        self.field("message", text.into())
    }

    /// Sets the message that an A2A client gets beside the result, from any parts.
    #[must_use]
    pub fn message_parts(self, parts: Vec<Part>) -> Self {
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

    /// Answers with a plain message instead of a task, unless the client has seen the task already.
    #[must_use]
    pub fn directly(self) -> Self {
        self.field("direct", true)
    }

    /// Asks for credentials instead of input.
    #[must_use]
    pub fn for_credentials(self) -> Self {
        self.field("authRequired", true)
    }
}

impl StatusReport {
    /// Streams an artifact, or a chunk of one, while the task is at work. With `append` its parts
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
    fn a_part_that_stayed_behind_says_where_it_is() {
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
