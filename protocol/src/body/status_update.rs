//! Payload of `status_update`: the progress of work.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::{example, required_when};
use crate::fields::object::present;
use crate::{Extensible, NonBlank, Progress, TaskId, Text, Timestamp, TypedFields};

closed_set! {
    /// State of the work. It never ends a task: only a `task_response` does.
    pub enum Status {
        /// Work continues.
        InProgress = "in_progress",
        /// Work waits for something; name it in `blockedBy`.
        Blocked = "blocked",
        /// The work itself is done.
        Completed = "completed",
        /// Work rests and will continue.
        Paused = "paused",
    }
}

impl Status {
    /// Whether the sender must give `blockedBy`.
    #[must_use]
    pub const fn needs_blocker(self) -> bool {
        matches!(self, Self::Blocked)
    }
}

/// The payload of `status_update`: how a task, or the sender's work in general, is going.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = blocker_is_required, extend("examples" = [Self::example(), Self::blocked_example()]))]
pub struct StatusUpdate {
    /// The `taskId` of the task this is about. Leave out for a general status.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The state of the work.
    pub status: Status,
    /// The current state in a sentence or two.
    pub progress: NonBlank,
    /// What is in the way. Required, and not blank, when `status` is `blocked`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<Text>,
    /// When the work will probably be done: RFC 3339 with `T` and an offset.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub estimated_completion: Option<Timestamp>,
    /// Data of protocol extensions, keyed by URI and carried through unchanged; task progress is checked.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extensible<Extensions>>,
}

impl StatusUpdate {
    /// Whether it carries a snapshot of the task-progress extension.
    #[must_use]
    pub fn has_snapshot(&self) -> bool {
        self.metadata.as_ref().is_some_and(|all| all.progress.is_some())
    }
}

/// The typed fields of `metadata`. Every key belongs to an extension; one of them is known here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
pub struct Extensions {
    /// Bars of the task-progress extension: a snapshot of everything that progresses.
    // The name equals `PROGRESS_EXTENSION`; a test compares them.
    #[serde(rename = "https://a2a-protocol.org/extensions/task-progress/v1")]
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

object_only!(StatusUpdate, Extensions);

impl TypedFields for Extensions {}

fn blocker_is_required(schema: &mut Schema) {
    let values = Status::ALL.iter().filter(|s| s.needs_blocker()).map(|s| s.as_str());
    required_when(schema, "status", values, "blockedBy", "What is in the way.");
}

impl StatusUpdate {
    pub(super) fn is_consistent(&self) -> bool {
        !self.status.needs_blocker()
            || self.blocked_by.as_ref().is_some_and(|blocker| !blocker.trim().is_empty())
    }

    fn blocked_example() -> Self {
        example!({
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
            "status": "blocked",
            "progress": "The validator is done, the router is not",
            "blockedBy": "The limits are not decided"
        })
    }

    pub(super) fn example() -> Self {
        example!({
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
            "status": "in_progress",
            "progress": "Five of the seven kinds validate",
            "estimatedCompletion": "2026-02-22T00:00:00Z",
            "metadata": {
                "https://a2a-protocol.org/extensions/task-progress/v1": {
                    "trackers": [{"id": "kinds", "progress": 5, "total": 7, "status": "running"}]
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Code, Envelope, PROGRESS_EXTENSION};

    #[test]
    fn progress_violations_have_paths_in_the_message() {
        let mut message =
            serde_json::to_value(Envelope::example(Body::from(StatusUpdate::example()))).unwrap();
        let read = Envelope::parse(message.to_string().as_bytes()).unwrap();
        let Body::StatusUpdate(update) = read.body else { panic!() };
        let progress = update.metadata.as_ref().and_then(|all| all.progress.clone()).unwrap();
        assert_eq!(progress.trackers[0].total, Some(7.0));
        let payload = &mut message["payload"]["metadata"][PROGRESS_EXTENSION];
        *payload = serde_json::json!({
            "trackers": [{"id": "a", "progress": 2, "total": 1}, {"id": "b", "progress": -1}],
            "eta": 1,
        });
        let report = Envelope::parse(message.to_string().as_bytes()).unwrap_err();
        let found: Vec<_> = report.violations().iter().map(|v| (v.path.as_str(), v.code)).collect();
        let at = "/payload/metadata/https:~1~1a2a-protocol.org~1extensions~1task-progress~1v1";
        let place = |rest| format!("{at}{rest}");
        let places = [place("/eta"), place("/trackers/0/progress"), place("/trackers/1/progress")];
        let codes = [Code::UnknownField, Code::Mismatch, Code::NotAllowed];
        let expected: Vec<_> = places.iter().map(String::as_str).zip(codes).collect();
        assert_eq!(found, expected);
    }
}
