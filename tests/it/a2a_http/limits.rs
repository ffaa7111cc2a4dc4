//! Limits: each has its own error, states when to retry, and changes nothing.

use serde_json::{Value, json};

use super::{code, start, start_with};
use crate::a2a_caller::{Caller, FORMS, Form, Refused, id};
use crate::a2a_worker::Worker;
use crate::server::{Server, new_id};

/// The delay that the answer states.
pub(crate) fn retry_after_ms(refused: &Refused) -> u64 {
    let error = &refused.answer.body["error"];
    let details = [&error["data"], &error["details"], &refused.answer.body["data"]];
    let found = details.iter().flat_map(|details| match details {
        Value::Array(all) => all.clone(),
        other => vec![(*other).clone()],
    });
    let wait = found.filter_map(|detail| {
        let wait = detail.get("retryAfterMs").or_else(|| detail["metadata"].get("retryAfterMs"))?;
        wait.as_u64().or_else(|| wait.as_str()?.parse().ok())
    });
    wait.max().unwrap_or_else(|| panic!("no retryAfterMs: {refused:?}"))
}

#[test]
fn rate_limited_caller_gets_the_time_to_retry() {
    for form in FORMS {
        let folder = tempfile::tempdir().unwrap();
        let config = "[limits]\nper_agent_per_minute = 1\nburst = 2\n";
        let server = Server::with_config(folder.path(), config);
        let tim = Worker::tim(&server);
        let caller = Caller::of(&server, form, "tim");
        let message = json!({"messageId": new_id()});
        let first = caller.begin(message.clone()).unwrap();
        caller.begin(json!({})).unwrap();
        let refused = caller.begin(json!({})).unwrap_err();
        assert_eq!(refused.code, -32051, "{form:?} {refused:?}");
        let wait = retry_after_ms(&refused);
        assert!((1..=60_000).contains(&wait), "{form:?} {refused:?}");
        let is_rest = matches!(form, Form::Rest03 | Form::Rest10);
        let http = (refused.answer.status, refused.answer.retry_after.clone());
        let expected = (429, Some(wait.div_ceil(1_000).to_string()));
        assert_eq!(http, if is_rest { expected } else { (200, None) }, "{form:?}");
        // Looking costs nothing. A repeat is a call like any other.
        assert_eq!(caller.list(&[]).unwrap()["totalSize"], 2, "{form:?}");
        let refused = caller.begin(message).unwrap_err();
        assert_eq!(refused.code, -32051, "{form:?} {refused:?}");
        let output = json!({"messageId": new_id(), "taskId": first["id"]});
        assert_eq!(caller.begin(output).unwrap_err().code, -32051, "{form:?}");
        tim.next();
        tim.next();
        assert!(!tim.has_work());
    }
}

#[test]
fn a_conversation_that_is_full_takes_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _tim) = start_with(folder.path(), "[tasks]\nqueue_per_context = 2\n");
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let context = new_id();
        let fields = json!({"contextId": context});
        for _ in 0..3 {
            caller.begin(fields.clone()).unwrap();
        }
        let refused = caller.begin(fields.clone()).unwrap_err();
        assert_eq!(refused.code, -32050, "{form:?} {refused:?}");
        assert!(retry_after_ms(&refused) > 0);
        assert_eq!(code(caller.stream(fields).map(drop)), -32050, "{form:?}");
        let page = caller.list(&[("contextId", json!(context))]).unwrap();
        assert_eq!(page["totalSize"], 3, "{form:?}");
        caller.begin(json!({})).unwrap();
    }
}

#[test]
fn a_conversation_in_circles_is_stopped_for_that_task_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), "[breaker]\nmax_turns = 5\n");
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let task = id(&caller.begin(json!({})).unwrap());
        let request = tim.next();
        let refused = (0..50).find_map(|n| {
            let fields = json!({"status": "in_progress", "progress": format!("and? {n}")});
            tim.say(&request, "status_update", fields);
            caller.begin(json!({"taskId": task, "text": format!("more {n}")})).err()
        });
        let refused = refused.expect("an end");
        assert_eq!(refused.code, -32052, "{form:?} {refused:?}");
        let is_rest = matches!(form, Form::Rest03 | Form::Rest10);
        assert_eq!(refused.answer.status, if is_rest { 409 } else { 200 });
        let other = caller.begin(json!({})).unwrap();
        assert_eq!(tim.next()["payload"]["taskId"], other["id"], "{form:?}");
        caller.cancel(&id(&other)).unwrap();
    }
}

#[test]
fn a_stream_without_a_place_begins_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), "[http]\nmax_streams = 1\n");
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let mut open = caller.stream(json!({})).unwrap();
        let task = id(&open.next().unwrap().data);
        let before = caller.list(&[]).unwrap()["totalSize"].clone();
        assert_eq!(code(caller.stream(json!({})).map(drop)), -32055, "{form:?}");
        assert_eq!(code(caller.subscribe(&task).map(drop)), -32055, "{form:?}");
        assert_eq!(caller.list(&[]).unwrap()["totalSize"], before, "{form:?}");
        tim.complete(&tim.next(), "done");
        assert!(open.last().is_some());
    }
    assert!(!tim.has_work());
}

#[test]
fn absent_agent_is_not_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _tim) = start_with(folder.path(), "");
    for form in FORMS {
        let unknown = Caller::of(&server, form, "nobody");
        assert_eq!(code(unknown.ask(json!({}))), -32054, "{form:?}");
        assert_eq!(code(unknown.stream(json!({})).map(drop)), -32054, "{form:?}");
        // Callers have a name on the bus, but no agent works there.
        Caller::of(&server, form, "tim").begin(json!({})).unwrap();
        let caller = Caller::of(&server, form, "a2a-client");
        assert_eq!(code(caller.ask(json!({}))), -32054, "{form:?}");
    }
    assert_eq!(server.get("/agents/a2a-client/.well-known/agent-card.json").status, 404);
}

#[test]
fn a_message_has_a_thousand_parts_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let field = if form == Form::Rest03 { "content" } else { "parts" };
        let part = match form {
            Form::Rpc03 => json!({"kind": "text", "text": "x"}),
            _ => json!({"text": "x"}),
        };
        let refused = caller.begin(json!({ field: vec![part; 1_001] })).unwrap_err();
        assert_eq!(refused.code, -32602, "{form:?}");
        let output = refused.answer.body.to_string();
        assert!(output.contains(&format!("/{field}")) && output.contains("1000"), "{output}");
    }
    assert!(!tim.has_work());
}

/// Of three megabytes each: one to a page, and no task is left out.
#[test]
fn a_page_of_tasks_is_bounded_in_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in [Form::Rpc10, Form::Rest10] {
        let caller = Caller::of(&server, form, "tim");
        let context = new_id();
        let text = "x".repeat(3 << 20);
        let mut tasks: Vec<_> = (0..3)
            .map(|_| {
                let began = caller.begin(json!({"text": text, "contextId": context})).unwrap();
                id(&began)
            })
            .collect();
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let query = [
                ("contextId", json!(context)),
                ("pageSize", json!(100)),
                ("historyLength", json!(10)),
                ("pageToken", json!(token)),
            ];
            let page = caller.list(&query).unwrap();
            let on_it = page["tasks"].as_array().unwrap();
            assert_eq!((on_it.len(), &page["totalSize"]), (1, &json!(3)), "{form:?}");
            found.push(id(&on_it[0]));
            token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
        }
        found.sort();
        tasks.sort();
        assert_eq!(found, tasks);
    }
    drop(tim);
}
