//! Card entries of the built-in extensions.

use serde_json::{Value, json};

use super::Extension;
use crate::PROGRESS_EXTENSION;
use crate::limits::{
    PROGRESS_UPDATES_PER_SECOND, TRACKER_ID_CHARS, TRACKER_MESSAGE_CHARS, TRACKERS,
};
use crate::opt::{OPT_EXTENSION, PLANS_PER_OBJECTIVE, TASKS_PER_PLAN};

impl Extension {
    /// The OPT extension: objectives, plans and tasks.
    #[must_use]
    pub fn opt() -> Self {
        let params = json!({
            "maxPlansPerObjective": PLANS_PER_OBJECTIVE,
            "maxTasksPerPlan": TASKS_PER_PLAN,
        });
        Self::optional(OPT_EXTENSION, "Objectives with plans and their tasks", params)
    }

    /// The task-progress extension, in the form of its specification.
    #[must_use]
    pub fn task_progress() -> Self {
        let params = json!({
            "maxTrackers": TRACKERS,
            "maxMessageChars": TRACKER_MESSAGE_CHARS,
            "maxIdChars": TRACKER_ID_CHARS,
            "recommendedMaxUpdatesPerSecond": PROGRESS_UPDATES_PER_SECOND,
        });
        Self::optional(PROGRESS_EXTENSION, "Structured task progress reporting", params)
    }

    fn optional(uri: &str, description: &str, params: Value) -> Self {
        let params = match params {
            Value::Object(params) => Some(params),
            _ => None,
        };
        Self { uri: uri.into(), description: Some(description.into()), required: false, params }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_progress_entry_equals_its_specification() {
        let printed = json!({
            "uri": "https://a2a-protocol.org/extensions/task-progress/v1",
            "required": false,
            "description": "Structured task progress reporting",
            "params": {
                "maxTrackers": 20,
                "maxMessageChars": 512,
                "maxIdChars": 128,
                "recommendedMaxUpdatesPerSecond": 2
            }
        });
        assert_eq!(serde_json::to_value(Extension::task_progress()).unwrap(), printed);
        let schema = crate::schema::task_progress().to_string();
        for limit in [r#""maxLength":512"#, r#""maxLength":128"#] {
            assert!(schema.contains(limit), "{limit} is not in the schema");
        }
    }

    #[test]
    fn opt_entry_contains_its_limits() {
        let declared = serde_json::to_value(Extension::opt()).unwrap();
        assert_eq!(declared["uri"], "https://github.com/zeroasterisk/a2a-opt/v1");
        assert_eq!(declared["required"], false);
        assert_eq!(declared["params"], json!({"maxPlansPerObjective": 10, "maxTasksPerPlan": 50}));
    }
}
