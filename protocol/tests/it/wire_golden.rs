//! Golden files of all A2A calls, replies, events and errors: `tests/golden/a2a`.
//! `UPDATE_GOLDEN=1 cargo test -p a2a-protocol` rewrites them; read the diff.

use std::path::Path;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{ArtifactUpdateEvent, Operation, StatusUpdateEvent, StreamEvent};
use a2a_protocol::wire::{
    Dialect, Method, Version, decode, error, event, jsonrpc, push_body, reply, rest,
};
use a2a_protocol::{Code, PROGRESS_EXTENSION, Violation};
use serde_json::{Map, Value, json};

use super::wire_domain::{TASK, message, replies, task};

pub const DIALECTS: [(&str, Dialect); 3] =
    [("1.0", Dialect::V1_0), ("0.3", Dialect::V0_3), ("0.3-proto", Dialect::V0_3Proto)];

pub fn golden(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/a2a").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "{name} is stale: run UPDATE_GOLDEN=1 cargo test -p a2a-protocol\n{text}"
    );
}

pub fn golden_json(name: &str, cases: Map<String, Value>) {
    golden(name, &(serde_json::to_string_pretty(&cases).unwrap() + "\n"));
}

pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

const HOOK: &str = "https://example.com/hook";

/// A call of each method, and the variants that are accepted.
fn calls() -> Vec<(Version, Method, Value)> {
    [old_calls(), new_calls()].concat()
}

/// A message in the form of the test clients.
fn seed() -> Value {
    json!({"messageId": "m", "role": "user", "parts": [{"type": "text", "text": "Hi"}]})
}

/// A filter with all fields except the state.
fn list(status: &str) -> Value {
    let mut list = json!({"contextId": "ctx", "pageSize": 10, "pageToken": "p", "historyLength": 0,
        "statusTimestampAfter": "2026-02-21T18:30:00Z", "includeArtifacts": true});
    list["status"] = json!(status);
    list
}

fn old_calls() -> Vec<(Version, Method, Value)> {
    use Version::V0_3;
    let old_text = json!({"kind": "text", "text": "Hi"});
    let old = json!({"kind": "message", "messageId": "m", "role": "user", "parts": [
        old_text,
        {"kind": "file", "file": {"bytes": "AAEC", "name": "a.bin", "mimeType": "image/png"}},
        {"kind": "file", "file": {"uri": "https://example.com/a"}},
        {"kind": "data", "data": {"n": 1}},
        {"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true}},
    ], "referenceTaskIds": ["r"], "extensions": ["e"], "metadata": {"k": 1}});
    let proto = json!({"message_id": "m", "role": "ROLE_USER", "content": [
        {"text": "Hi"}, {"data": {"data": {"n": 1}}},
        {"file": {"file_with_uri": "https://example.com/a", "mime_type": "image/png"}},
    ]});
    let auth_old = json!({"schemes": ["Basic", "Bearer"], "credentials": "secret"});
    vec![
        (
            V0_3,
            Method::SendMessage,
            json!({"message": old, "configuration": {
            "blocking": false, "historyLength": 3, "acceptedOutputModes": ["text/plain"],
            "pushNotificationConfig": {"url": HOOK, "authentication": auth_old}}, "metadata": {"k": 1}}),
        ),
        (
            V0_3,
            Method::SendMessage,
            json!({"message": proto, "configuration": {"history_length": 2}}),
        ),
        (V0_3, Method::SendMessage, json!({"message": seed()})),
        (V0_3, Method::StreamMessage, json!({"message": seed()})),
        (V0_3, Method::GetTask, json!({"id": TASK, "historyLength": 2, "metadata": {}})),
        (V0_3, Method::ListTasks, list("input-required")),
        (V0_3, Method::CancelTask, json!({"id": TASK, "metadata": {"why": "late"}})),
        (V0_3, Method::Subscribe, json!({"id": TASK})),
        (
            V0_3,
            Method::SetPush,
            json!({"taskId": TASK, "pushNotificationConfig":
            {"id": "c", "url": HOOK, "token": "word", "authentication": auth_old}}),
        ),
        (V0_3, Method::GetPush, json!({"id": TASK})),
        (V0_3, Method::GetPush, json!({"id": TASK, "pushNotificationConfigId": "c"})),
        (V0_3, Method::ListPushes, json!({"id": TASK})),
        (V0_3, Method::DeletePush, json!({"id": TASK, "pushNotificationConfigId": "c"})),
        (V0_3, Method::ExtendedCard, Value::Null),
    ]
}

fn new_calls() -> Vec<(Version, Method, Value)> {
    use Version::V1_0;
    let new = json!({"messageId": "m", "role": "ROLE_USER", "contextId": "ctx", "taskId": TASK, "parts": [
        {"text": "Hi", "mediaType": "text/markdown"}, {"raw": "AAEC", "filename": "a.bin"},
        {"url": "https://example.com/a"}, {"data": null},
    ]});
    let auth_new = json!({"scheme": "Bearer", "credentials": "secret"});
    let mut numbered = new.clone();
    numbered["role"] = json!(1);
    vec![
        (
            V1_0,
            Method::SendMessage,
            json!({"tenant": "t", "message": new, "configuration": {
            "returnImmediately": true, "historyLength": "3", "acceptedOutputModes": null,
            "taskPushNotificationConfig": {"url": HOOK, "authentication": auth_new}}, "metadata": {"k": 1}}),
        ),
        (
            V1_0,
            Method::SendMessage,
            json!({"message": seed(), "unknown": {"field": 1}, "tenant": ""}),
        ),
        (V1_0, Method::StreamMessage, json!({"message": numbered})),
        (V1_0, Method::GetTask, json!({"id": TASK, "historyLength": null})),
        (V1_0, Method::ListTasks, list("TASK_STATE_WORKING")),
        (V1_0, Method::ListTasks, list("TASK_STATE_UNSPECIFIED")),
        (V1_0, Method::ListTasks, json!({})),
        (V1_0, Method::CancelTask, json!({"id": TASK, "metadata": {"why": "late"}})),
        (V1_0, Method::Subscribe, json!({"id": TASK})),
        (
            V1_0,
            Method::SetPush,
            json!({"taskId": TASK, "id": "c", "url": HOOK, "token": "word",
            "authentication": auth_new}),
        ),
        (V1_0, Method::GetPush, json!({"taskId": TASK, "id": "c"})),
        (V1_0, Method::ListPushes, json!({"taskId": TASK, "pageSize": 0, "pageToken": ""})),
        (V1_0, Method::DeletePush, json!({"taskId": TASK, "id": "c"})),
        (V1_0, Method::ExtendedCard, json!({"tenant": "t"})),
    ]
}

#[test]
fn calls_are_read() {
    let mut text = String::new();
    for (version, method, params) in calls() {
        let decoded = decode(version, method, Some(&params.to_string())).unwrap();
        assert_eq!(Method::from(&decoded.operation), method);
        let name = method.rpc_name(version);
        text += &format!("{name} {params}\n  -> {decoded:?}\n\n");
    }
    golden("calls.txt", &text);
    let named: std::collections::HashSet<_> = calls().iter().map(|(v, m, _)| (*v, *m)).collect();
    let core = Method::ALL.iter().filter(|method| !method.is_opt()).count();
    assert_eq!(named.len(), 2 * core, "a method without a golden call");
}

#[test]
fn replies_are_written() {
    for (name, dialect) in DIALECTS {
        let mut cases = Map::new();
        for (case, method, answer) in replies() {
            let rpc = reply(dialect, method, &answer).to_json();
            cases.insert(case.into(), parsed(&rpc));
            let rest = rest::reply(dialect, method, &answer).to_json();
            if rest != rpc {
                cases.insert(format!("{case} over HTTP+JSON"), parsed(&rest));
            }
        }
        golden_json(&format!("replies-{name}.json"), cases);
    }
}

fn events() -> Vec<(&'static str, StreamEvent)> {
    let task = task();
    let status = StatusUpdateEvent {
        task_id: task.id,
        context_id: task.context_id.clone(),
        status: task.status.clone(),
        metadata: Some(Map::from_iter([("k".to_owned(), json!(1))])),
    };
    let progressing = progressing(&status);
    let artifact = ArtifactUpdateEvent {
        task_id: task.id,
        context_id: task.context_id.clone(),
        artifact: task.artifacts[0].clone(),
        append: true,
        last_chunk: true,
        metadata: None,
    };
    vec![
        ("task", StreamEvent::Task(Box::new(task))),
        ("message", StreamEvent::Message(Box::new(message()))),
        ("status_update", StreamEvent::StatusUpdate(Box::new(status))),
        ("artifact_update", StreamEvent::ArtifactUpdate(Box::new(artifact))),
        ("status_update with progress", StreamEvent::StatusUpdate(Box::new(progressing))),
    ]
}

/// The same with task progress as its only metadata.
fn progressing(status: &StatusUpdateEvent) -> StatusUpdateEvent {
    let progress = json!({"trackers": [
        {"id": "download", "progress": 12, "total": 40, "message": "12 of 40 files", "status": "running"},
    ]});
    let metadata = Map::from_iter([(PROGRESS_EXTENSION.to_owned(), progress)]);
    let mut status = StatusUpdateEvent { metadata: Some(metadata.clone()), ..status.clone() };
    let message = std::sync::Arc::make_mut(status.status.message.as_mut().unwrap());
    message.metadata = Some(metadata);
    status
}

#[test]
fn events_are_written() {
    for (name, dialect) in DIALECTS {
        let mut cases = Map::new();
        for (case, happened) in events() {
            cases.insert(case.into(), parsed(&event(dialect, &happened, true).to_json()));
        }
        let (_, happened) = events().swap_remove(2);
        let push = push_body(dialect.version(), &happened, &task());
        cases.insert("push_body".into(), parsed(&push));
        golden_json(&format!("events-{name}.json"), cases);
    }
}

fn faults() -> Vec<Fault> {
    let task = || TASK.to_owned();
    let reason = || "because".to_owned();
    let violation = Violation {
        allowed: vec!["ROLE_USER".into()],
        suggestion: Some("ROLE_USER".into()),
        ..Violation::new("/message/parts/0/a~1b", Code::NotAllowed, "This must be another.")
    };
    vec![
        Fault::TaskNotFound { task: task() },
        Fault::TaskNotCancelable { task: task(), state: "completed" },
        Fault::ObjectiveNotFound { objective: "obj-1".into() },
        Fault::PlanNotFound { plan: "plan-1".into() },
        Fault::PushNotSupported,
        Fault::PushNotFound { task: task(), id: "c".into() },
        Fault::Unsupported { reason: reason() },
        Fault::ContentType { reason: reason() },
        Fault::InvalidAgentResponse { reason: reason() },
        Fault::NoExtendedCard,
        Fault::ExtensionRequired { uri: "urn:x".into() },
        Fault::VersionNotSupported { version: "9.9".into() },
        Fault::no_such_agent("ghost"),
        Fault::InvalidParams(vec![violation]),
        Fault::MessageConflict { message: "m".into() },
        Fault::QueueFull { limit: 9999, retry_after_ms: 1500 },
        Fault::RateLimited { reason: reason(), retry_after_ms: 70 },
        Fault::CircuitOpen { reason: reason(), retry_after_ms: None },
        Fault::Forbidden { reason: reason() },
        Fault::Unavailable { reason: reason(), retry_after_ms: 1000 },
        Fault::Internal,
    ]
}

#[test]
fn errors_are_written_in_both_bindings() {
    for &version in Version::ALL {
        let mut cases = Map::new();
        for fault in faults() {
            let codes = error::codes(&fault);
            let (status, body) = rest::fault(version, &fault);
            assert_eq!(status, codes.http);
            let rpc = jsonrpc::fault(version, jsonrpc::Id::NULL, &fault);
            let both = json!({"json-rpc": parsed(&rpc)["error"], "http": status, "http+json": parsed(&body)});
            // Two faults share a name in A2A; their debug texts differ.
            let debug = format!("{fault:?}");
            let name = debug.split([' ', '(']).next().unwrap().to_owned();
            assert!(cases.insert(name.clone(), both).is_none(), "{name}");
        }
        golden_json(&format!("errors-{}.json", version.as_str()), cases);
    }
}

/// Calls with one violation or several.
fn bad_calls() -> Vec<(Method, String)> {
    let good = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}]});
    let send = |key: &str, value: Value| {
        let mut message = good.clone();
        message[key] = value;
        json!({"message": message}).to_string()
    };
    let mut deep = json!(1);
    for _ in 0..30 {
        deep = json!([deep]);
    }
    vec![
        (Method::SendMessage, "null".into()),
        (Method::SendMessage, "[]".into()),
        (Method::SendMessage, "{}".into()),
        (Method::SendMessage, r#"{"message":{}}"#.into()),
        (Method::SendMessage, r#"{"message":[1]}"#.into()),
        (Method::SendMessage, r#"{"message":{"messageId":"a","messageId":"b"}}"#.into()),
        (Method::SendMessage, format!(r#"{{"x":{}{}}}"#, "[".repeat(200), "]".repeat(200))),
        (
            Method::SendMessage,
            format!(r#"{{"metadata":{{"x":{}{}}}}}"#, "[".repeat(200), "]".repeat(200)),
        ),
        (Method::SendMessage, r#"{"message":{"metadata":{"n":1e999}}}"#.into()),
        (Method::SendMessage, send("messageId", json!(7))),
        (Method::SendMessage, send("messageId", json!("a\nb"))),
        (Method::SendMessage, send("role", json!("ROLE_USR"))),
        (Method::SendMessage, send("role", json!("ROLE_UNSPECIFIED"))),
        (Method::SendMessage, send("role", json!(9))),
        (Method::SendMessage, send("parts", json!([]))),
        (Method::SendMessage, send("parts", json!("invalid"))),
        (Method::SendMessage, send("parts", json!([{"text": "a"}, {}, {"text": "a", "url": "b"}]))),
        (Method::SendMessage, send("parts", json!([{"text": {"a": 1}}]))),
        (Method::SendMessage, send("parts", json!([{"raw": "not base64!"}]))),
        (Method::SendMessage, send("parts", json!([{"data": deep}]))),
        (Method::SendMessage, send("parts", json!([{"text": "a\u{0}b"}]))),
        (
            Method::SendMessage,
            json!({"message": good, "configuration": {"historyLength": -1}}).to_string(),
        ),
        (
            Method::SendMessage,
            json!({"message": good, "configuration": {"taskPushNotificationConfig": {}}})
                .to_string(),
        ),
        (Method::GetTask, "{}".into()),
        (Method::GetTask, r#"{"id":"x","historyLength":1.5}"#.into()),
        (
            Method::ListTasks,
            r#"{"pageSize":0,"status":"working?","statusTimestampAfter":"yesterday"}"#.into(),
        ),
        (Method::ListTasks, r#"{"pageSize":101}"#.into()),
        (Method::SetPush, r#"{"taskId":"x","url":"","authentication":{"credentials":"a"}}"#.into()),
        (
            Method::SetPush,
            r#"{"taskId":"x","url":"u","authentication":{"scheme":"a b","credentials":"x\r\ny"}}"#
                .into(),
        ),
        (Method::GetPush, r#"{"taskId":"x"}"#.into()),
    ]
}

#[test]
fn violations_of_bad_calls_are_golden() {
    let mut text = String::new();
    for (method, params) in bad_calls() {
        let Err(Fault::InvalidParams(found)) = decode(Version::V1_0, method, Some(&params)) else {
            panic!("accepted: {params}");
        };
        assert!(!found.is_empty(), "{params}");
        let shown: String = params.chars().take(120).collect();
        text += &format!("{} {shown}\n", method.rpc_name(Version::V1_0));
        for violation in found {
            text += &format!("  {}\n", serde_json::to_string(&violation).unwrap());
        }
    }
    golden("violations.txt", &text);
}

#[test]
fn absent_parameters_are_reported() {
    for &method in Method::ALL {
        for &version in Version::ALL {
            let read = decode(version, method, None);
            match method {
                Method::ListTasks => {
                    assert!(matches!(read.unwrap().operation, Operation::ListTasks(_)))
                }
                Method::ListObjectives => {
                    assert_eq!(Method::from(&read.unwrap().operation), method)
                }
                Method::ExtendedCard => {
                    assert_eq!(read.unwrap().operation, Operation::ExtendedCard)
                }
                _ => {
                    let Err(Fault::InvalidParams(found)) = read else { panic!("{read:?}") };
                    assert_eq!((found[0].path.as_str(), found[0].code), ("", Code::Missing));
                    assert!(found[0].message.contains(method.rpc_name(version)), "{}", found[0]);
                }
            }
        }
    }
}
