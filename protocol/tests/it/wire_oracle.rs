//! Cross-check with the official crate of 1.0, which reads our output and whose output we read. Both
//! forms of 0.3 must contain the same data as the domain model.

use a2a_protocol::operation::{Operation, Reply, SendMessage};
use a2a_protocol::wire::{Dialect, Method, Version, decode, event, reply};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::wire_domain::{events, messages, replies, tasks};

fn sent(decoded: a2a_protocol::wire::Decoded) -> SendMessage {
    let Operation::SendMessage(send) = decoded.operation else { panic!("{decoded:?}") };
    *send
}

/// JSON without empty lists and objects.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| *value != json!([]) && *value != json!({}))
            .map(|(key, value)| (key, pruned(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(pruned).collect(),
        value => value,
    }
}

/// Equality up to the format of timestamps: the oracle prints other fractions.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::String(a), Value::String(b)) => {
            let moment = |text: &str| chrono::DateTime::parse_from_rfc3339(text).ok();
            a == b || moment(a).is_some_and(|a| moment(b) == Some(a))
        }
        (a, b) => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_oracle_reads_our_tasks(task in tasks()) {
        let ours = serde_json::to_value(reply(Dialect::V1_0, Method::GetTask, &Reply::Task(task.into()))).unwrap();
        let read: a2a::Task = serde_json::from_value(ours.clone()).unwrap();
        let theirs = serde_json::to_value(&read).unwrap();
        prop_assert!(same(&pruned(ours.clone()), &pruned(theirs.clone())), "{ours}\n{theirs}");
    }

    #[test]
    fn the_oracle_reads_our_sends_and_events(task in tasks(), event_ in events()) {
        let sent = reply(Dialect::V1_0, Method::SendMessage, &Reply::Task(task.clone().into())).to_json();
        let read: a2a::SendMessageResponse = serde_json::from_str(&sent).unwrap();
        let a2a::SendMessageResponse::Task(read) = read else { panic!("{sent}") };
        prop_assert_eq!(read.id, task.id.to_string());
        let ours = serde_json::to_value(event(Dialect::V1_0, &event_, true)).unwrap();
        let read: a2a::StreamResponse = serde_json::from_value(ours.clone()).unwrap();
        let theirs = serde_json::to_value(&read).unwrap();
        // The oracle always writes the two flags of an artifact update.
        prop_assert!(same(&without_flags(pruned(ours.clone())), &without_flags(pruned(theirs.clone()))), "{ours}\n{theirs}");
    }

    #[test]
    fn we_read_what_the_oracle_writes(message in messages(), now in any::<bool>(), length in proptest::option::of(0_i32..100)) {
        let sent_message: a2a::Message = serde_json::from_value(serde_json::to_value(&message).unwrap()).unwrap();
        let request = a2a::SendMessageRequest {
            message: sent_message,
            configuration: Some(a2a::SendMessageConfiguration {
                accepted_output_modes: Some(vec!["text/plain".into()]),
                task_push_notification_config: None,
                history_length: length,
                return_immediately: Some(now),
            }),
            metadata: None,
            tenant: Some("t".into()),
        };
        let params = serde_json::to_string(&request).unwrap();
        let decoded = decode(Version::V1_0, Method::SendMessage, Some(&params)).unwrap();
        prop_assert_eq!(decoded.tenant.as_deref(), Some("t"));
        let send = sent(decoded);
        prop_assert_eq!(send.message, message);
        prop_assert_eq!(send.return_immediately, now);
        prop_assert_eq!(send.history_length, length.map(|n| n as usize));
        prop_assert_eq!(send.accepted_output_modes, vec!["text/plain"]);
    }

    #[test]
    fn a_message_survives_the_old_versions(message in messages()) {
        for dialect in [Dialect::V0_3, Dialect::V0_3Proto] {
            let written = serde_json::to_value(reply(dialect, Method::SendMessage, &Reply::Message(Box::new(message.clone())))).unwrap();
            let written = if dialect == Dialect::V0_3Proto { written["message"].clone() } else { written };
            let params = json!({"message": written}).to_string();
            let decoded = decode(Version::V0_3, Method::SendMessage, Some(&params)).unwrap();
            prop_assert_eq!(decoded.dialect, dialect);
            let mut expected = message.clone();
            if dialect == Dialect::V0_3Proto {
                expected.reference_task_ids.clear(); // 0.3 cannot represent them
            }
            prop_assert_eq!(sent(decoded).message, expected, "{}", params);
        }
    }

    #[test]
    fn every_object_of_0_3_names_its_kind(event_ in events(), last in any::<bool>()) {
        let written = serde_json::to_value(event(Dialect::V0_3, &event_, last)).unwrap();
        let kind = written["kind"].as_str().unwrap();
        prop_assert!(["task", "message", "status-update", "artifact-update"].contains(&kind));
        prop_assert_eq!(written.get("final").and_then(Value::as_bool), (kind == "status-update").then_some(last));
        let text = written.to_string();
        prop_assert!(!text.contains("TASK_STATE_") && !text.contains("\"ROLE_"), "{}", text);
    }
}

/// Round trip of every other kind of reply through the official types.
#[test]
fn the_oracle_reads_every_reply() {
    fn again<T: serde::Serialize + serde::de::DeserializeOwned>(ours: &str) -> Value {
        let read: T = serde_json::from_str(ours).unwrap();
        serde_json::to_value(&read).unwrap()
    }
    for (case, method, answer) in replies() {
        let ours = reply(Dialect::V1_0, method, &answer).to_json();
        let theirs = match &answer {
            Reply::Task(_) if method != Method::SendMessage => again::<a2a::Task>(&ours),
            Reply::Task(_) | Reply::Message(_) => again::<a2a::SendMessageResponse>(&ours),
            Reply::Tasks(_) => again::<a2a::ListTasksResponse>(&ours),
            Reply::Push(_) => again::<a2a::TaskPushNotificationConfig>(&ours),
            Reply::Pushes { .. } => again::<a2a::ListTaskPushNotificationConfigsResponse>(&ours),
            Reply::Deleted => again::<()>(&ours),
            // The official types do not include the extension; `wire_opt` tests it.
            _ => continue,
        };
        let mut ours: Value = serde_json::from_str(&ours).unwrap();
        if theirs.get("nextPageToken").is_none_or(Value::is_null) {
            // The oracle may omit an empty token.
            ours.as_object_mut().and_then(|fields| fields.shift_remove("nextPageToken"));
        }
        assert!(same(&ours, &theirs), "{case}\n{ours}\n{theirs}");
    }
}

fn without_flags(mut event: Value) -> Value {
    if let Some(Value::Object(update)) = event.get_mut("artifactUpdate") {
        for flag in ["append", "lastChunk"] {
            if !update.get(flag).is_some_and(|flag| *flag == json!(true)) {
                update.shift_remove(flag);
            }
        }
    }
    event
}
