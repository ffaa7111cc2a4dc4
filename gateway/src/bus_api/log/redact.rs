//! Redaction of the log over HTTP: values are replaced on the way out. Files and journal keep
//! everything, or the chain could not be verified.

use std::collections::BTreeMap;

use memchr::memmem;
use serde_json::Value;
use serde_json::value::RawValue;

/// The placeholder.
const REDACTED: &str = "[redacted]";

/// Which values of messages are redacted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redaction {
    /// Field names of payloads, at any depth.
    names: Vec<String>,
    /// JSON Pointers into the message.
    pointers: Vec<String>,
}

impl Redaction {
    /// Parses field names (`description`) and JSON Pointers (`/payload/result/summary`).
    ///
    /// # Errors
    /// A sentence about the entry that is not valid.
    pub fn new(entries: &[String]) -> Result<Self, String> {
        let mut redaction = Self::default();
        for entry in entries {
            if entry.starts_with("/payload/") && !entry.ends_with('/') {
                redaction.pointers.push(entry.clone());
            } else if entry.starts_with('/') || entry.trim().is_empty() {
                return Err(format!(
                    "[audit] redact = {entry:?}: write the name of a payload's field, or a JSON Pointer that begins with /payload/"
                ));
            } else {
                redaction.names.push(entry.clone());
            }
        }
        Ok(redaction)
    }

    /// Whether nothing is redacted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.pointers.is_empty()
    }

    /// Redacts a line of the log, or a record with its events. A line without redacted values is
    /// returned byte for byte.
    #[must_use]
    pub fn apply(&self, line: String) -> String {
        if self.is_empty() || !self.may_concern(&line) {
            return line;
        }
        match serde_json::from_str::<Value>(&line) {
            Ok(mut record) => {
                self.hide(&mut record);
                record.to_string()
            }
            // Nested too deep to be searched: the whole message is redacted.
            Err(_) => without_message(&line),
        }
    }

    /// Whether the line may contain a redacted field; escapes can spell any name.
    fn may_concern(&self, line: &str) -> bool {
        let line = line.as_bytes();
        let holds = |text: &str| memmem::find(line, text.as_bytes()).is_some();
        holds("\\u")
            || holds("\\/")
            || holds("\"raw\":")
            || self
                .all_names()
                .any(|name| name.contains(['~', '"', '\\', '\t', '/']) || holds(name))
    }

    /// Field names, and the last part of each pointer.
    fn all_names(&self) -> impl Iterator<Item = &str> {
        let ends = self.pointers.iter().filter_map(|pointer| pointer.rsplit('/').next());
        self.names.iter().map(String::as_str).chain(ends)
    }

    fn hide(&self, record: &mut Value) {
        if let Some(message) = record.get_mut("message") {
            for pointer in &self.pointers {
                if let Some(value) = message.pointer_mut(pointer) {
                    *value = REDACTED.into();
                }
            }
            if let Some(payload) = message.get_mut("payload") {
                hide_fields(payload, &|name| self.names.iter().any(|hidden| hidden == name));
            }
        }
        // Input that is not JSON may contain any value.
        if let Some(raw) = record.get_mut("raw") {
            *raw = REDACTED.into();
        }
        for error in record.get_mut("errors").and_then(Value::as_array_mut).into_iter().flatten() {
            self.hide_error(error);
        }
        if let Some(facts) = record.get_mut("facts") {
            // The facts that the bus records of a message copy some of its fields.
            hide_fields(facts, &|name| self.all_names().any(|hidden| hidden == name));
        }
        for event in
            record.get_mut("deliveries").and_then(Value::as_array_mut).into_iter().flatten()
        {
            self.hide(event);
        }
    }

    /// A violation may quote the value it is about.
    fn hide_error(&self, error: &mut Value) {
        let path = error["path"].as_str().unwrap_or_default();
        let named = |name: &str| self.names.iter().any(|hidden| hidden == name);
        if path.split('/').any(named) || self.pointers.iter().any(|hidden| path.starts_with(hidden))
        {
            for field in ["message", "suggestion"] {
                if let Some(text) = error.get_mut(field) {
                    *text = REDACTED.into();
                }
            }
        }
    }
}

fn hide_fields(value: &mut Value, is_hidden: &dyn Fn(&str) -> bool) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if is_hidden(name) {
                    *value = REDACTED.into();
                } else {
                    hide_fields(value, is_hidden);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide_fields(item, is_hidden)),
        _ => {}
    }
}

fn without_message(line: &str) -> String {
    let fields = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(line);
    let shown = fields.ok().and_then(|mut fields| {
        fields.retain(|name, _| !matches!(name.as_str(), "message" | "raw" | "errors" | "facts"));
        let hidden = RawValue::from_string(format!("\"{REDACTED}\"")).ok()?;
        fields.insert("message".into(), hidden);
        serde_json::to_string(&fields).ok()
    });
    shown.unwrap_or_else(|| format!("{{\"message\":\"{REDACTED}\"}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redaction(entries: &[&str]) -> Redaction {
        let entries: Vec<_> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        Redaction::new(&entries).unwrap()
    }

    #[test]
    fn names_and_pointers_are_replaced_wherever_they_are() {
        let hide = redaction(&["description", "/payload/result/summary"]);
        let line = r#"{"seq":1,"message":{"description":"stays","payload":{"descri\u0070tion":"S1","list":[{"description":{"a":"S2"}}],"result":{"summary":"S3","branch":"b"}}},"errors":[{"path":"/payload/description","code":"blank","message":"S4"}],"facts":{"task:1":{"summary":"S5","state":"done"}},"deliveries":[{"event":"delivered","facts":{"task:1":{"description":"S6"}}}],"prev":"00"}"#;
        let shown = hide.apply(line.to_owned());
        assert!(!shown.contains("\"S"), "{shown}");
        for kept in
            ["stays", "\"branch\":\"b\"", "\"code\":\"blank\"", "\"state\":\"done\"", "prev"]
        {
            assert!(shown.contains(kept), "{kept} in {shown}");
        }
        assert_eq!(shown.matches(REDACTED).count(), 6);
    }

    #[test]
    fn what_cannot_be_read_is_hidden_and_what_does_not_concern_stays_as_it_is() {
        let hide = redaction(&["description"]);
        let raw = hide.apply(r#"{"seq":1,"raw":"{\"description\":\"S","bytes":9}"#.to_owned());
        assert!(!raw.contains("\"S") && raw.contains("\"bytes\":9"), "{raw}");
        let exact = r#"{"seq":1,"message":{"payload":{"n":123456789012345678901234567890}}}"#;
        assert_eq!(hide.apply(exact.to_owned()), exact);
        let deep = format!("{}\"description\"{}", "[".repeat(500), "]".repeat(500));
        let shown = hide.apply(format!(r#"{{"seq":1,"message":{deep},"prev":"00"}}"#));
        assert!(!shown.contains("description") && shown.contains("\"prev\":\"00\""), "{shown}");
        assert_eq!(Redaction::default().apply(deep.clone()), deep);
    }

    #[test]
    fn senseless_entries_are_refused() {
        for bad in ["", " ", "/", "/from/agentId", "/payload", "/payload/x/"] {
            assert!(Redaction::new(&[bad.to_owned()]).is_err(), "{bad:?}");
        }
    }
}
