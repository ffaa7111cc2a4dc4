//! What a caller does not see of an extension that it has not activated.
//!
//! Nothing is copied unless there is something to leave out, which most tasks do not have.

use std::borrow::Cow;
use std::sync::Arc;

use crate::operation::{Reply, StreamEvent};
use crate::task::{Message, Metadata, Role, Task};

fn has(metadata: &Option<Metadata>, uri: &str) -> bool {
    metadata.as_ref().is_some_and(|metadata| metadata.contains_key(uri))
}

/// An object that has nothing left is left out, too.
fn remove(metadata: &mut Option<Metadata>, uri: &str) {
    let Some(all) = metadata else { return };
    if all.shift_remove(uri).is_some() && all.is_empty() {
        *metadata = None;
    }
}

impl Message {
    /// Whether an agent says something in the words of the extension; what callers say is theirs.
    fn speaks(&self, uri: &str) -> bool {
        self.role == Role::Agent && has(&self.metadata, uri)
    }

    /// Leaves out what an agent says in the words of an extension.
    pub fn hide_extension(&mut self, uri: &str) {
        if self.role == Role::Agent {
            remove(&mut self.metadata, uri);
        }
    }
}

impl Task {
    /// Whether its agent said something in the words of the extension.
    fn speaks(&self, uri: &str) -> bool {
        self.status.message.iter().chain(&self.history).any(|message| message.speaks(uri))
    }

    /// Leaves out what its agent says in the words of an extension.
    pub fn hide_extension(&mut self, uri: &str) {
        let all = self.status.message.iter_mut().chain(&mut self.history);
        for message in all.filter(|message| message.speaks(uri)) {
            Arc::make_mut(message).hide_extension(uri);
        }
    }
}

impl Reply {
    /// Leaves out what agents say in the words of an extension.
    pub fn hide_extension(&mut self, uri: &str) {
        match self {
            Self::Task(task) | Self::Planned { task, .. } => {
                if task.speaks(uri) {
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
    /// Whether there is anything in the words of the extension.
    fn speaks(&self, uri: &str) -> bool {
        match self {
            Self::Task(task) => task.speaks(uri),
            Self::Message(message) => message.speaks(uri),
            Self::StatusUpdate(update) => {
                has(&update.metadata, uri)
                    || update.status.message.as_ref().is_some_and(|message| message.speaks(uri))
            }
            Self::ArtifactUpdate(update) => has(&update.metadata, uri),
            Self::Objective(_) => false,
        }
    }

    /// The event without what is said in the words of an extension.
    #[must_use]
    pub fn without_extension(&self, uri: &str) -> Cow<'_, Self> {
        if !self.speaks(uri) {
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
    fn only_what_agents_say_in_its_words_is_left_out() {
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
