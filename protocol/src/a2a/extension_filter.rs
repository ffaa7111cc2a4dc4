//! Extension filter: removes an extension's metadata for callers that have not activated it.
//!
//! A task, message or event is copied only if it contains such metadata; most do not.

use std::borrow::Cow;
use std::sync::Arc;

use crate::operation::{Reply, StreamEvent};
use crate::task::{Message, Metadata, Role, Task};

fn contains(metadata: &Option<Metadata>, uri: &str) -> bool {
    metadata.as_ref().is_some_and(|metadata| metadata.contains_key(uri))
}

/// Removes the key of an extension, and the object if it becomes empty.
fn remove(metadata: &mut Option<Metadata>, uri: &str) {
    let Some(all) = metadata else { return };
    if all.shift_remove(uri).is_some() && all.is_empty() {
        *metadata = None;
    }
}

impl Message {
    /// Whether it is an agent's message with metadata of the extension. Callers' messages are kept
    /// as they are.
    fn has_extension(&self, uri: &str) -> bool {
        self.role == Role::Agent && contains(&self.metadata, uri)
    }

    /// Removes the metadata of an extension from an agent's message.
    pub fn hide_extension(&mut self, uri: &str) {
        if self.role == Role::Agent {
            remove(&mut self.metadata, uri);
        }
    }
}

impl Task {
    /// Whether one of its agent's messages has metadata of the extension.
    fn has_extension(&self, uri: &str) -> bool {
        self.status.message.iter().chain(&self.history).any(|message| message.has_extension(uri))
    }

    /// Removes the metadata of an extension from its agent's messages.
    pub fn hide_extension(&mut self, uri: &str) {
        let all = self.status.message.iter_mut().chain(&mut self.history);
        for message in all.filter(|message| message.has_extension(uri)) {
            Arc::make_mut(message).hide_extension(uri);
        }
    }
}

impl Reply {
    /// Removes the metadata of an extension from agents' messages.
    pub fn hide_extension(&mut self, uri: &str) {
        match self {
            Self::Task(task) | Self::Planned { task, .. } => {
                if task.has_extension(uri) {
                    Arc::make_mut(task).hide_extension(uri);
                }
            }
            Self::Message(message) | Self::Answered(message) => message.hide_extension(uri),
            Self::Tasks(page) => page.tasks.iter_mut().for_each(|task| task.hide_extension(uri)),
            Self::Push(_) | Self::Pushes { .. } | Self::Deleted => {}
            Self::Objective(_) | Self::Objectives(_) | Self::Plan(_) => {}
        }
    }
}

impl StreamEvent {
    /// Whether it contains metadata of the extension.
    fn has_extension(&self, uri: &str) -> bool {
        match self {
            Self::Task(task) => task.has_extension(uri),
            Self::Message(message) => message.has_extension(uri),
            Self::StatusUpdate(update) => {
                contains(&update.metadata, uri)
                    || update
                        .status
                        .message
                        .as_ref()
                        .is_some_and(|message| message.has_extension(uri))
            }
            Self::ArtifactUpdate(update) => contains(&update.metadata, uri),
            Self::Objective(_) => false,
        }
    }

    /// The event without the metadata of an extension.
    #[must_use]
    pub fn without_extension(&self, uri: &str) -> Cow<'_, Self> {
        if !self.has_extension(uri) {
            return Cow::Borrowed(self);
        }
        let mut event = self.clone();
        match &mut event {
            Self::Task(task) => task.hide_extension(uri),
            Self::Message(message) => message.hide_extension(uri),
            Self::StatusUpdate(update) => {
                remove(&mut update.metadata, uri);
                if let Some(message) = &mut update.status.message {
                    Arc::make_mut(message).hide_extension(uri);
                }
            }
            Self::ArtifactUpdate(update) => remove(&mut update.metadata, uri),
            Self::Objective(_) => {}
        }
        Cow::Owned(event)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const URI: &str = "urn:x";

    fn task(metadata: serde_json::Value, role: &str) -> Task {
        let message = json!({"messageId": "m", "role": role, "parts": [{"text": "hi"}],
            "metadata": metadata});
        serde_json::from_value(json!({
            "id": "0192a4c8-7e1a-7b3c-9d4e-000000000003", "contextId": "c",
            "status": {"state": "TASK_STATE_WORKING", "message": message,
                "timestamp": "2026-02-21T18:30:00Z"},
            "history": [message],
        }))
        .unwrap()
    }

    #[test]
    fn extension_is_removed_from_agent_messages_only() {
        let cases = [
            (json!({"urn:x": 1}), "ROLE_AGENT", None),
            (json!({"urn:x": 1, "k": 2}), "ROLE_AGENT", Some(json!({"k": 2}))),
            (json!({"k": 2}), "ROLE_AGENT", Some(json!({"k": 2}))),
            (json!({"urn:x": 1}), "ROLE_USER", Some(json!({"urn:x": 1}))),
        ];
        for (metadata, role, left) in cases {
            let mut hidden = task(metadata.clone(), role);
            hidden.hide_extension(URI);
            for message in hidden.status.message.iter().chain(&hidden.history) {
                assert_eq!(message.metadata.clone().map(serde_json::Value::Object), left);
            }
            let event = StreamEvent::Task(Box::new(task(metadata.clone(), role)));
            let shown = event.without_extension(URI);
            assert_eq!(*shown, StreamEvent::Task(Box::new(hidden)));
            let changes = left != Some(metadata);
            assert_eq!(matches!(shown, Cow::Owned(_)), changes, "copied only where it must be");
        }
    }
}
