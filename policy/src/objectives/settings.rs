//! Settings in the metadata of a plan or a task.

use a2a_protocol::opt::{HistoryScope, OnTaskFailure, key};
use a2a_protocol::task::Metadata;
use a2a_protocol::{AgentId, Code, Violation};
use serde_json::Value;

/// The metadata keys that the server interprets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The agent that does it; `None` inherits from the level above.
    pub assignee: Option<AgentId>,
    /// What a failed task means for its plan; read from plans only.
    pub on_task_failure: OnTaskFailure,
    /// Which completed steps are sent to a step as history; read from plans only.
    pub history_scope: HistoryScope,
}

impl Settings {
    /// Parses new metadata; `pointer` is its JSON Pointer.
    ///
    /// # Errors
    ///
    /// All keys with an invalid value.
    pub fn read(metadata: Option<&Metadata>, pointer: &str) -> Result<Self, Vec<Violation>> {
        let (settings, violations) = read(metadata, pointer);
        if violations.is_empty() { Ok(settings) } else { Err(violations) }
    }

    /// Parses metadata that was validated before; invalid values count as absent.
    #[must_use]
    pub fn of(metadata: Option<&Metadata>) -> Self {
        read(metadata, "").0
    }
}

fn read(metadata: Option<&Metadata>, pointer: &str) -> (Settings, Vec<Violation>) {
    let mut reader = Reader { metadata, pointer, violations: Vec::new() };
    let settings = Settings {
        assignee: reader.assignee(),
        on_task_failure: reader
            .enum_value(key::ON_TASK_FAILURE, OnTaskFailure::ALL, OnTaskFailure::from_name)
            .unwrap_or(OnTaskFailure::Fail),
        history_scope: reader
            .enum_value(key::HISTORY_SCOPE, HistoryScope::ALL, HistoryScope::from_name)
            .unwrap_or(HistoryScope::Task),
    };
    (settings, reader.violations)
}

struct Reader<'a> {
    metadata: Option<&'a Metadata>,
    pointer: &'a str,
    violations: Vec<Violation>,
}

impl<'a> Reader<'a> {
    fn value(&self, key: &str) -> Option<&'a Value> {
        self.metadata.and_then(|metadata| metadata.get(key))
    }

    fn complain(&mut self, key: &str, code: Code, message: String, allowed: Vec<String>) {
        // A slash inside a key is written `~1` in a JSON Pointer.
        let path = format!("{}/{}", self.pointer, key.replace('/', "~1"));
        self.violations.push(Violation { allowed, ..Violation::new(path, code, message) });
    }

    fn assignee(&mut self) -> Option<AgentId> {
        let value = self.value(key::ASSIGNEE)?;
        match value.as_str().map(AgentId::try_from) {
            Some(Ok(agent)) => return Some(agent),
            Some(Err(bad)) => {
                self.complain(key::ASSIGNEE, Code::BadAgentId, bad.to_string(), vec![]);
            }
            None => {
                let message = format!("expected the id of an agent, a string, not {}", kind(value));
                self.complain(key::ASSIGNEE, Code::WrongType, message, vec![]);
            }
        }
        None
    }

    /// The value of an enum.
    fn enum_value<T: std::fmt::Display>(
        &mut self,
        key: &str,
        all: &[T],
        from_name: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let enum_value = value.as_str().and_then(from_name);
        if enum_value.is_none() {
            let allowed: Vec<String> = all.iter().map(ToString::to_string).collect();
            let code = if value.is_string() { Code::NotAllowed } else { Code::WrongType };
            let message = format!("expected one of `{}`", allowed.join("`, `"));
            self.complain(key, code, message, allowed);
        }
        enum_value
    }
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
    fn invalid_settings_are_reported_with_pointers() {
        let metadata = |value: Value| value.as_object().cloned();
        let good = metadata(json!({
            "opt/v1/assignee": "ada", "opt/v1/onTaskFailure": "skip",
            "opt/v1/historyScope": "plan", "x": 1,
        }));
        let read = Settings::read(good.as_ref(), "/metadata").unwrap();
        assert_eq!(read.assignee.as_ref().map(AgentId::as_str), Some("ada"));
        assert_eq!(read.on_task_failure, OnTaskFailure::Skip);
        assert_eq!(read.history_scope, HistoryScope::Plan);
        let plain = Settings::of(None);
        assert_eq!(plain.on_task_failure, OnTaskFailure::Fail);
        assert_eq!(plain.history_scope, HistoryScope::Task);

        let bad = metadata(json!({
            "opt/v1/assignee": "a b", "opt/v1/onTaskFailure": "stop", "opt/v1/historyScope": "all",
        }));
        let found = Settings::read(bad.as_ref(), "/metadata").unwrap_err();
        assert_eq!(found[0].path, "/metadata/opt~1v1~1assignee");
        assert_eq!(found[0].code, Code::BadAgentId);
        assert_eq!((found[1].code, found[1].allowed.len()), (Code::NotAllowed, 2));
        assert_eq!((found[2].code, found[2].allowed.len()), (Code::NotAllowed, 3));
        assert_eq!(Settings::of(bad.as_ref()), Settings::of(None));

        let wrong = metadata(json!({
            "opt/v1/assignee": 1, "opt/v1/onTaskFailure": null, "opt/v1/historyScope": [],
        }));
        let found = Settings::read(wrong.as_ref(), "/tasks/0/metadata").unwrap_err();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|violation| violation.code == Code::WrongType));
    }
}
