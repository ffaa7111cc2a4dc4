//! What the metadata of a plan or a task says about how it is done.

use a2a_protocol::opt::{OnTaskFailure, key};
use a2a_protocol::task::Metadata;
use a2a_protocol::{AgentId, Code, Violation};
use serde_json::Value;

/// The heeded part of a plan's or a task's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Who does it; `None` leaves it to whoever is above.
    pub assignee: Option<AgentId>,
    /// What follows when a task fails; heeded on plans.
    pub on_task_failure: OnTaskFailure,
}

impl Settings {
    /// Reads new metadata; `place` is the JSON Pointer to it.
    ///
    /// # Errors
    ///
    /// Every key whose value makes no sense.
    pub fn read(metadata: Option<&Metadata>, place: &str) -> Result<Self, Vec<Violation>> {
        let (settings, violations) = read(metadata, place);
        if violations.is_empty() { Ok(settings) } else { Err(violations) }
    }

    /// Reads metadata that was checked when it came; what makes no sense counts as absent.
    #[must_use]
    pub fn of(metadata: Option<&Metadata>) -> Self {
        read(metadata, "").0
    }
}

fn read(metadata: Option<&Metadata>, place: &str) -> (Settings, Vec<Violation>) {
    let mut settings = Settings { assignee: None, on_task_failure: OnTaskFailure::Fail };
    let mut violations = Vec::new();
    let mut complain = |key: &str, code, message: String, allowed: Vec<String>| {
        // A slash inside a key is written `~1` in a JSON Pointer.
        let path = format!("{place}/{}", key.replace('/', "~1"));
        violations.push(Violation { allowed, ..Violation::new(path, code, message) });
    };
    let value = |key: &str| metadata.and_then(|metadata| metadata.get(key));
    if let Some(value) = value(key::ASSIGNEE) {
        match value.as_str().map(AgentId::try_from) {
            Some(Ok(agent)) => settings.assignee = Some(agent),
            Some(Err(bad)) => complain(key::ASSIGNEE, Code::BadAgentId, bad.to_string(), vec![]),
            None => {
                let message = format!("expected the id of an agent, a string, not {}", kind(value));
                complain(key::ASSIGNEE, Code::WrongType, message, vec![]);
            }
        }
    }
    if let Some(value) = value(key::ON_TASK_FAILURE) {
        match value.as_str().and_then(OnTaskFailure::from_word) {
            Some(word) => settings.on_task_failure = word,
            None => {
                let allowed = OnTaskFailure::ALL.iter().map(ToString::to_string).collect();
                let code = if value.is_string() { Code::NotAllowed } else { Code::WrongType };
                let message = "expected `fail` or `skip`".to_owned();
                complain(key::ON_TASK_FAILURE, code, message, allowed);
            }
        }
    }
    (settings, violations)
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_makes_no_sense_is_named_where_it_stands() {
        let metadata = |value: Value| value.as_object().cloned();
        let good =
            metadata(json!({"opt/v1/assignee": "ada", "opt/v1/onTaskFailure": "skip", "x": 1}));
        let read = Settings::read(good.as_ref(), "/metadata").unwrap();
        assert_eq!(read.assignee.as_ref().map(AgentId::as_str), Some("ada"));
        assert_eq!(read.on_task_failure, OnTaskFailure::Skip);
        assert_eq!(Settings::of(None).on_task_failure, OnTaskFailure::Fail);

        let bad = metadata(json!({"opt/v1/assignee": "a b", "opt/v1/onTaskFailure": "stop"}));
        let found = Settings::read(bad.as_ref(), "/metadata").unwrap_err();
        assert_eq!(found[0].path, "/metadata/opt~1v1~1assignee");
        assert_eq!(found[0].code, Code::BadAgentId);
        assert_eq!((found[1].code, found[1].allowed.len()), (Code::NotAllowed, 2));
        assert_eq!(Settings::of(bad.as_ref()), Settings::of(None));

        let wrong = metadata(json!({"opt/v1/assignee": 1, "opt/v1/onTaskFailure": null}));
        let found = Settings::read(wrong.as_ref(), "/tasks/0/metadata").unwrap_err();
        assert!(found.iter().all(|violation| violation.code == Code::WrongType));
    }
}
