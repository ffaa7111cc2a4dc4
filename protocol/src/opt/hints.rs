//! OPT hints: metadata of a message that requests an objective. The server may ignore a hint.

use serde_json::Value;

use super::{HistoryScope, ObjectiveId, key};
use crate::Title;
use crate::fault::Fault;
use crate::limits::TITLE_CHARS;
use crate::task::{BadOpaqueId, Message, Metadata};
use crate::validate::document::push_token;
use crate::validate::violation::{Code, Violation};

/// The hints of one message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptHints {
    /// Whether the caller prefers an objective; `None` if the hint is absent.
    pub prefer_objective: Option<bool>,
    /// Suggested name of the objective.
    pub suggested_name: Option<String>,
    /// The objective of the message. Its presence activates OPT for the message.
    pub objective: Option<ObjectiveHint>,
    /// How much of the earlier messages the agent receives.
    pub history_scope: Option<HistoryScope>,
}

/// The objective of a message: an existing one, or a new one with this name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectiveHint {
    /// An existing objective. It takes precedence over the name.
    pub id: Option<ObjectiveId>,
    /// Name of a new objective.
    pub name: Option<String>,
}

impl OptHints {
    /// Reads the metadata of a message. `null` and blank names are absent.
    ///
    /// ```
    /// # use a2a_protocol::{opt::OptHints, task::Message};
    /// let message: Message = serde_json::from_str(r#"{"messageId": "m", "role": "ROLE_USER",
    ///     "parts": [{"text": "Write a post"}], "metadata": {"opt/v1/preferObjective": true}}"#)?;
    /// assert_eq!(OptHints::of(&message).unwrap().prefer_objective, Some(true));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Fault::InvalidParams`] with every hint of the wrong type; paths are those in the parameters
    /// of `message/send`.
    pub fn of(message: &Message) -> Result<Self, Fault> {
        let Some(metadata) = &message.metadata else { return Ok(Self::default()) };
        let mut reader = Reader { violations: Vec::new() };
        let hints = Self {
            prefer_objective: reader.flag(metadata),
            suggested_name: reader.name(metadata, key::SUGGESTED_NAME, &[key::SUGGESTED_NAME]),
            objective: reader.objective(metadata),
            history_scope: reader.scope(metadata),
        };
        if reader.violations.is_empty() {
            Ok(hints)
        } else {
            Err(Fault::InvalidParams(reader.violations))
        }
    }

    /// How much of the earlier messages the agent of a message receives. Applies even if OPT is not
    /// active.
    ///
    /// # Errors
    /// [`Fault::InvalidParams`] if the value is not a scope.
    pub fn history_scope_of(message: &Message) -> Result<Option<HistoryScope>, Fault> {
        let Some(metadata) = &message.metadata else { return Ok(None) };
        let mut reader = Reader { violations: Vec::new() };
        let scope = reader.scope(metadata);
        match reader.violations.is_empty() {
            true => Ok(scope),
            false => Err(Fault::InvalidParams(reader.violations)),
        }
    }

    /// Whether the message activates OPT without the header.
    #[must_use]
    pub const fn activates(&self) -> bool {
        self.objective.is_some() || self.prefer_objective.is_some() || self.suggested_name.is_some()
    }
}

struct Reader {
    violations: Vec<Violation>,
}

impl Reader {
    fn wrong(&mut self, keys: &[&str], code: Code, message: String) {
        let mut path = "/message/metadata".to_owned();
        keys.iter().for_each(|key| push_token(&mut path, key));
        self.violations.push(Violation::new(path, code, message));
    }

    fn flag(&mut self, fields: &Metadata) -> Option<bool> {
        let value = set(fields, key::PREFER_OBJECTIVE)?;
        let flag = value.as_bool();
        if flag.is_none() {
            let message = "This must be true or false.".to_owned();
            self.wrong(&[key::PREFER_OBJECTIVE], Code::WrongType, message);
        }
        flag
    }

    /// Reads a name; a blank one is `None`.
    fn name(&mut self, fields: &Metadata, field: &str, keys: &[&str]) -> Option<String> {
        let text = self.text(fields, field, keys)?;
        if text.trim().is_empty() {
            return None;
        }
        if Title::try_from(text).is_err() {
            let message = format!("A name has at most {TITLE_CHARS} characters. Shorten it.");
            self.wrong(keys, Code::TooLong, message);
            return None;
        }
        Some(text.to_owned())
    }

    fn text<'a>(&mut self, fields: &'a Metadata, field: &str, keys: &[&str]) -> Option<&'a str> {
        let text = set(fields, field)?.as_str();
        if text.is_none() {
            self.wrong(keys, Code::WrongType, "This must be a string.".to_owned());
        }
        text
    }

    fn objective(&mut self, fields: &Metadata) -> Option<ObjectiveHint> {
        let Value::Object(fields) = set(fields, key::OBJECTIVE)? else {
            let message = "This must be an object: {\"id\": …} for an objective that is there, {\"name\": …} for a new one.";
            self.wrong(&[key::OBJECTIVE], Code::WrongType, message.to_owned());
            return None;
        };
        let id = [key::OBJECTIVE, "id"];
        let text = self.text(fields, "id", &id).filter(|text| !text.is_empty());
        let id = text.and_then(|text| {
            let refuse = |rule: BadOpaqueId| {
                self.wrong(&id, Code::NotAllowed, format!("This cannot be such a name: {rule}."));
            };
            ObjectiveId::try_from(text).map_err(refuse).ok()
        });
        Some(ObjectiveHint { id, name: self.name(fields, "name", &[key::OBJECTIVE, "name"]) })
    }

    fn scope(&mut self, fields: &Metadata) -> Option<HistoryScope> {
        let text = self.text(fields, key::HISTORY_SCOPE, &[key::HISTORY_SCOPE])?;
        let scope = HistoryScope::from_name(text);
        if scope.is_none() {
            let allowed: Vec<_> = HistoryScope::ALL.iter().map(ToString::to_string).collect();
            let message = format!("This must be one of {}.", allowed.join(", "));
            self.wrong(&[key::HISTORY_SCOPE], Code::NotAllowed, message);
            if let Some(violation) = self.violations.last_mut() {
                violation.allowed = allowed;
            }
        }
        scope
    }
}

/// The value of a field; `None` if it is absent or `null`.
fn set<'a>(fields: &'a Metadata, field: &str) -> Option<&'a Value> {
    fields.get(field).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(metadata: Value) -> Message {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}], "metadata": metadata});
        serde_json::from_value(message).unwrap()
    }

    fn hints(metadata: Value) -> OptHints {
        OptHints::of(&message(metadata)).unwrap()
    }

    #[test]
    fn hints_are_read() {
        assert_eq!(hints(Value::Null), OptHints::default());
        assert_eq!(hints(json!({"mine": 1, "opt/v1/preferObjective": null})), OptHints::default());
        let all = json!({
            "opt/v1/preferObjective": false, "opt/v1/suggestedName": "AI Safety Research",
            "opt/v1/objective": {"id": "obj-123", "name": "...", "more": 1},
            "opt/v1/historyScope": "plan",
        });
        let id = ObjectiveId::try_from("obj-123").unwrap();
        let expected = OptHints {
            prefer_objective: Some(false),
            suggested_name: Some("AI Safety Research".into()),
            objective: Some(ObjectiveHint { id: Some(id), name: Some("...".into()) }),
            history_scope: Some(HistoryScope::Plan),
        };
        assert_eq!(hints(all), expected);
    }

    #[test]
    fn hint_for_an_objective_activates_opt() {
        assert!(hints(json!({"opt/v1/objective": {}})).activates());
        assert_eq!(
            hints(json!({"opt/v1/objective": {"id": "", "name": " "}})).objective,
            Some(ObjectiveHint::default())
        );
        assert!(hints(json!({"opt/v1/preferObjective": true})).activates());
        assert!(!hints(json!({"opt/v1/historyScope": "plan"})).activates());
        assert!(!hints(json!({"opt/v1/objective": null})).activates());
    }

    #[test]
    fn every_invalid_hint_is_reported_with_its_path() {
        let all = json!({
            "opt/v1/preferObjective": "yes", "opt/v1/suggestedName": "é".repeat(513),
            "opt/v1/objective": {"id": 7, "name": []}, "opt/v1/historyScope": "all",
        });
        let Err(Fault::InvalidParams(found)) = OptHints::of(&message(all)) else { panic!() };
        let found: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.code)).collect();
        let expected = [
            ("/message/metadata/opt~1v1~1preferObjective", Code::WrongType),
            ("/message/metadata/opt~1v1~1suggestedName", Code::TooLong),
            ("/message/metadata/opt~1v1~1objective/id", Code::WrongType),
            ("/message/metadata/opt~1v1~1objective/name", Code::WrongType),
            ("/message/metadata/opt~1v1~1historyScope", Code::NotAllowed),
        ];
        assert_eq!(found, expected);
        let bad = message(json!({"opt/v1/objective": "obj-1", "opt/v1/historyScope": 1}));
        let Err(Fault::InvalidParams(found)) = OptHints::of(&bad) else { panic!() };
        assert!(found.iter().all(|violation| violation.code == Code::WrongType), "{found:?}");
        let bad = message(json!({"opt/v1/objective": {"id": "a\nb"}}));
        assert!(OptHints::of(&bad).is_err());
    }
}
