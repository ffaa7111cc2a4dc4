//! What an error carries besides its code and its sentence, for programs.

use serde_json::{Map, Value, json};

use super::{form, retry_after_ms};
use crate::fault::Fault;
use crate::violation::Violation;

/// Violations that one answer lists.
const MOST: usize = 100;

/// `google.rpc.ErrorInfo`; its metadata are strings.
pub(super) fn info(reason: &str, metadata: &[(&str, String)]) -> Value {
    let mut info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "a2a-protocol.org",
    });
    if !metadata.is_empty() {
        let fields = metadata.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
        info["metadata"] = Value::Object(fields.collect());
    }
    info
}

/// As 1.0 has it: a list of objects, each of which names its type.
pub(super) fn list(fault: &Fault) -> Value {
    let facts: Vec<_> = facts(fault);
    let mut details = vec![info(form(fault).reason, &facts)];
    if let Fault::InvalidParams(violations) = fault {
        let fields: Vec<_> = violations.iter().take(MOST).map(field_violation).collect();
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": fields,
        }));
    }
    if let Some(ms) = retry_after_ms(fault) {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{}.{:03}s", ms / 1000, ms % 1000),
        }));
    }
    // What no type of Google's has room for. A Struct can be read without knowing it.
    let ours = ours(fault);
    if !ours.is_empty() {
        details.push(json!({
            "@type": "type.googleapis.com/google.protobuf.Struct",
            "value": ours,
        }));
    }
    Value::Array(details)
}

/// As 0.3 takes it: any object.
pub(super) fn object(fault: &Fault) -> Value {
    let mut fields = Map::new();
    fields.insert("reason".into(), form(fault).reason.into());
    fields.extend(facts(fault).into_iter().map(|(key, value)| (key.to_owned(), value.into())));
    fields.extend(ours(fault));
    Value::Object(fields)
}

/// What the error is about.
fn facts(fault: &Fault) -> Vec<(&'static str, String)> {
    let mut facts = match fault {
        Fault::TaskNotFound { task } => vec![("taskId", task.clone())],
        Fault::ObjectiveNotFound { objective } => vec![("objectiveId", objective.clone())],
        Fault::PlanNotFound { plan } => vec![("planId", plan.clone())],
        Fault::PushNotFound { task, id } => {
            vec![("taskId", task.clone()), ("configId", id.clone())]
        }
        Fault::TaskNotCancelable { task, state } => {
            vec![("taskId", task.clone()), ("state", (*state).to_owned())]
        }
        Fault::ExtensionRequired { uri } => vec![("extension", uri.clone())],
        Fault::VersionNotSupported { version } => {
            vec![("version", version.clone()), ("supported", "0.3, 1.0".to_owned())]
        }
        Fault::MessageConflict { message } => vec![("messageId", message.clone())],
        Fault::NoSuchAgent { agent, .. } => vec![("agentId", agent.clone())],
        Fault::QueueFull { limit, .. } => vec![("limit", limit.to_string())],
        _ => Vec::new(),
    };
    if let Some(ms) = retry_after_ms(fault) {
        facts.push(("retryAfterMs", ms.to_string()));
    }
    facts
}

/// What keeps its type: numbers, and violations in our own form.
fn ours(fault: &Fault) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(ms) = retry_after_ms(fault) {
        fields.insert("retryAfterMs".into(), ms.into());
    }
    if let Fault::InvalidParams(violations) = fault {
        let listed: Vec<_> =
            violations.iter().take(MOST).map(|violation| json!(violation)).collect();
        fields.insert("violations".into(), listed.into());
    }
    fields
}

fn field_violation(violation: &Violation) -> Value {
    json!({
        "field": dotted(&violation.path),
        "description": violation.message,
        "reason": violation.code.as_str().to_ascii_uppercase(),
    })
}

/// A JSON Pointer as protocol buffers write a place: `message.parts[0].text`.
fn dotted(pointer: &str) -> String {
    let mut field = String::new();
    for token in pointer.split('/').skip(1) {
        if !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit()) {
            field.push_str(&format!("[{token}]"));
        } else {
            if !field.is_empty() {
                field.push('.');
            }
            field.push_str(&token.replace("~1", "/").replace("~0", "~"));
        }
    }
    field
}
