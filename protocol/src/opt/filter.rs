//! OPT filter: removes the extension's metadata for callers that have not activated it.
//!
//! Only metadata set by the server is removed. Messages of callers and agents are unchanged.

use std::borrow::Cow;
use std::sync::Arc;

use super::key;
use crate::operation::{Reply, StreamEvent};
use crate::task::{Metadata, Task};

/// Removes the keys of the extension, and the metadata if it becomes empty.
pub fn without_opt(metadata: &mut Option<Metadata>) {
    let Some(fields) = metadata else { return };
    if has_opt(fields) {
        fields.retain(|key, _| !key.starts_with(key::PREFIX));
        if fields.is_empty() {
            *metadata = None;
        }
    }
}

fn has_opt(metadata: &Metadata) -> bool {
    metadata.keys().any(|key| key.starts_with(key::PREFIX))
}

impl Task {
    /// Removes the extension's keys from the task's metadata. Its messages are unchanged.
    pub fn strip_opt(&mut self) {
        without_opt(&mut self.metadata);
    }
}

impl Reply {
    /// The reply for a caller that has not activated OPT.
    #[must_use]
    pub fn without_opt(self) -> Self {
        match self {
            Self::Task(mut task) | Self::Planned { mut task, .. } => {
                // The task may be shared, so it is copied only if it has metadata.
                if task.metadata.is_some() {
                    Arc::make_mut(&mut task).strip_opt();
                }
                Self::Task(task)
            }
            Self::Tasks(mut page) => {
                page.tasks.iter_mut().for_each(Task::strip_opt);
                Self::Tasks(page)
            }
            Self::Answered(message) => Self::Message(message),
            // The other replies contain no keys of OPT, or consist of OPT objects only.
            reply => reply,
        }
    }
}

impl StreamEvent {
    /// Whether the event only carries data of the extension: an objective, or a status update with the
    /// mark [`key::NEWS`], whose task has not changed.
    #[must_use]
    pub fn is_opt_only(&self) -> bool {
        match self {
            Self::Objective(_) => true,
            Self::StatusUpdate(update) => {
                let marked = |fields: &Metadata| fields.get(key::NEWS) == Some(&true.into());
                update.metadata.as_ref().is_some_and(marked)
            }
            Self::Task(_) | Self::Message(_) | Self::ArtifactUpdate(_) => false,
        }
    }

    /// The event for a caller that has not activated OPT; `None` if nothing remains. Copies the event
    /// only if it changes it.
    #[must_use]
    pub fn without_opt(&self) -> Option<Cow<'_, Self>> {
        if self.is_opt_only() {
            return None;
        }
        let metadata = match self {
            Self::Task(task) => &task.metadata,
            Self::StatusUpdate(update) => &update.metadata,
            Self::ArtifactUpdate(update) => &update.metadata,
            Self::Message(_) | Self::Objective(_) => &None,
        };
        if !metadata.as_ref().is_some_and(has_opt) {
            return Some(Cow::Borrowed(self));
        }
        let mut plain = self.clone();
        match &mut plain {
            Self::Task(task) => task.strip_opt(),
            Self::StatusUpdate(update) => without_opt(&mut update.metadata),
            Self::ArtifactUpdate(update) => without_opt(&mut update.metadata),
            Self::Message(_) | Self::Objective(_) => {}
        }
        Some(Cow::Owned(plain))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ID: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000003";

    fn task(metadata: Value) -> Value {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}],
            "metadata": {"opt/v1/preferObjective": true}});
        json!({"id": ID, "contextId": "obj-1", "metadata": metadata, "history": [message],
            "status": {"state": "TASK_STATE_WORKING", "message": message, "timestamp": "2026-02-21T18:30:00.000Z"}})
    }

    fn update(metadata: Value) -> Value {
        json!({"taskId": ID, "contextId": "obj-1", "metadata": metadata, "status": task(json!({}))["status"]})
    }

    fn piece(metadata: Value) -> Value {
        json!({"taskId": ID, "contextId": "obj-1", "metadata": metadata,
            "artifact": {"artifactId": "a", "parts": [{"text": "x"}], "metadata": {"opt/v1/x": 1}}})
    }

    /// The event that a caller without OPT receives.
    fn seen(event: Value) -> Option<Value> {
        let event: StreamEvent = serde_json::from_value(event).unwrap();
        event.without_opt().map(|plain| serde_json::to_value(&*plain).unwrap())
    }

    fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_metadata_of_the_server_is_removed() {
        let before = || json!({"opt/v1/planId": "p", "queuePosition": 1, "opt/v1/taskIndex": 0});
        let after = || json!({"queuePosition": 1});
        let event = |kind: &str, inner: Value| json!({kind: inner});
        type Made = fn(Value) -> Value;
        let kinds: [(&str, Made); 3] =
            [("task", task), ("statusUpdate", update), ("artifactUpdate", piece)];
        for (kind, made) in kinds {
            assert_eq!(seen(event(kind, made(before()))), Some(event(kind, made(after()))));
            assert_eq!(seen(event(kind, made(after()))), Some(event(kind, made(after()))));
            let mut bare = made(json!(null));
            bare.as_object_mut().unwrap().shift_remove("metadata");
            assert_eq!(
                seen(event(kind, made(json!({"opt/v1/planId": "p"})))),
                Some(event(kind, bare))
            );
        }
        let message = task(json!({}))["history"][0].clone();
        assert_eq!(seen(json!({"message": message})), Some(json!({"message": message})));
    }

    #[test]
    fn event_with_only_opt_data_is_dropped() {
        let plan = json!({"id": "p", "status": "working"});
        let news = json!({"opt/v1/plan": plan, "opt/v1/news": true});
        assert_eq!(seen(json!({"statusUpdate": update(news)})), None);
        for not_news in [json!({"opt/v1/plan": plan}), json!({"opt/v1/news": false})] {
            assert!(seen(json!({"statusUpdate": update(not_news)})).is_some());
        }
        let time = "2026-02-21T18:30:00.000Z";
        let objective = json!({"id": "obj-1", "name": "n", "status": "working", "createdAt": time, "updatedAt": time});
        assert_eq!(seen(json!({"objective": objective})), None);
    }

    #[test]
    fn event_without_opt_metadata_is_not_copied() {
        let event: StreamEvent = parsed(json!({"task": task(json!({"k": 1}))}));
        assert!(matches!(event.without_opt(), Some(Cow::Borrowed(_))));
    }

    #[test]
    fn reply_loses_opt_metadata() {
        let with = || Box::new(parsed::<Task>(task(json!({"opt/v1/planId": "p", "k": 1}))));
        let plain = || Box::new(parsed::<Task>(task(json!({"k": 1}))));
        assert_eq!(Reply::Task(with().into()).without_opt(), Reply::Task(plain().into()));
        let planned = Reply::Planned { task: with().into(), objective: None };
        assert_eq!(planned.without_opt(), Reply::Task(plain().into()));
        let page = |task: Box<Task>| {
            Reply::Tasks(parsed(
                json!({"tasks": [*task], "nextPageToken": "", "pageSize": 1, "totalSize": 1}),
            ))
        };
        assert_eq!(page(with()).without_opt(), page(plain()));
        let message = plain().history.swap_remove(0);
        let answered = Reply::Answered(Box::new((*message).clone()));
        assert_eq!(answered.without_opt(), Reply::Message(Box::new((*message).clone())));
        assert_eq!(Reply::Deleted.without_opt(), Reply::Deleted);
    }
}
