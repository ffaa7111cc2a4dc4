//! Who sees progress and who does not, in every form of A2A.

use std::thread;

use a2a_protocol::PROGRESS_EXTENSION;
use serde_json::{Value, json};

use super::snapshot;
use crate::a2a_caller::{Caller, FAR, FORMS, id};
use crate::a2a_events::Event;
use crate::a2a_http::pushes::{PRIVATE, next, receiver};
use crate::a2a_worker::Worker;
use crate::server::Server;

/// Every place of a value where the extension is named.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let at = format!("{path}/{key}");
                if key == PROGRESS_EXTENSION {
                    found.push(path.to_owned());
                } else {
                    places(value, &at, found);
                }
            }
        }
        Value::Array(all) => {
            all.iter()
                .enumerate()
                .for_each(|(n, value)| places(value, &format!("{path}/{n}"), found));
        }
        _ => {}
    }
}

fn shown(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    places(value, "", &mut found);
    found
}

/// Where a task has it.
const IN_STATUS: &str = "/status/message/metadata";

fn active(caller: &Caller) -> Caller {
    let header = if caller.form.is_old() { "x-a2a-extensions" } else { "a2a-extensions" };
    caller.with(header, PROGRESS_EXTENSION)
}

fn tell(tim: &Worker, request: &Value, text: &str, snapshot: &Value) {
    let fields = json!({"status": "in_progress", "progress": text,
        "metadata": { PROGRESS_EXTENSION: snapshot }});
    let answer = tim.say(request, "status_update", fields);
    assert_eq!(answer.status, 202, "{answer:?}");
}

#[test]
fn only_those_who_activate_it_see_it_and_the_others_read_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), FAR);
    let tim = Worker::tim(&server);
    for form in FORMS {
        let plain = Caller::of(&server, form, "tim");
        let active = active(&plain);
        let (mut streams, mut tasks) = (Vec::new(), Vec::new());
        for caller in [&plain, &active] {
            let mut stream = caller.stream(json!({})).unwrap();
            let task = id(&stream.next().unwrap().data);
            let request = tim.next();
            let watching = caller.subscribe(&task).unwrap();
            // The first at once, the second when its time has come.
            tell(&tim, &request, "1 of 3", &snapshot(1, 3));
            tell(&tim, &request, "2 of 3", &snapshot(2, 3));
            while crate::a2a_caller::agent_text(&caller.get(&task, &[]).unwrap()) != "2 of 3" {}
            let task_now = caller.get(&task, &[]).unwrap();
            let page = caller.list(&[("pageSize", json!(1))]).unwrap();
            let listed = page["tasks"][0].clone();
            assert_eq!(id(&listed), task);
            tell(&tim, &request, "3 of 3", &snapshot(3, 3));
            tim.complete(&request, "done");
            streams.push((stream.rest(), watching.rest()));
            tasks.push((task_now, listed, caller.get(&task, &[]).unwrap()));
        }
        let (now, listed, end) = &tasks[0];
        for hidden in [now, listed, end] {
            assert!(!hidden.to_string().contains(PROGRESS_EXTENSION), "{form:?} {hidden}");
            assert!(hidden["status"].pointer("/message/metadata").is_none(), "{hidden}");
        }
        assert_eq!(crate::a2a_caller::agent_text(now), "2 of 3", "{form:?}");
        let (now, listed, end) = &tasks[1];
        assert!(shown(now).contains(&IN_STATUS.to_owned()), "{form:?} {now}");
        assert!(shown(listed).contains(&IN_STATUS.to_owned()), "{form:?} {listed}");
        assert!(shown(end).contains(&IN_STATUS.to_owned()), "{form:?} {end}");
        let at = |task: &Value| task.pointer(IN_STATUS).unwrap()[PROGRESS_EXTENSION].clone();
        assert_eq!((at(now), at(end)), (snapshot(2, 3), snapshot(3, 3)), "{form:?}");
        assert!(end.get("metadata").is_none_or(|all| all.get(PROGRESS_EXTENSION).is_none()));
        let words = |events: &[Event]| events.iter().map(Event::word).collect::<Vec<_>>();
        for hidden in [&streams[0].0, &streams[0].1] {
            assert!(hidden.iter().all(|event| shown(&event.data).is_empty()), "{form:?}");
            assert!(words(hidden).ends_with(&[
                "working".into(),
                "working".into(),
                "artifact".into(),
                "completed".into()
            ]));
        }
        for seen in [&streams[1].0, &streams[1].1] {
            let with: Vec<_> = seen
                .iter()
                .filter(|event| event.data.get("taskId").is_some())
                .filter_map(|event| event.data["metadata"].get(PROGRESS_EXTENSION).cloned())
                .collect();
            assert_eq!(with, [snapshot(1, 3), snapshot(2, 3), snapshot(3, 3)], "{form:?}");
        }
    }
}

#[test]
fn answer_and_header_name_the_activated_extensions() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), FAR);
    let tim = Worker::tim(&server);
    for form in FORMS {
        let plain = Caller::of(&server, form, "tim");
        for (caller, sees) in [(&plain, false), (&active(&plain), true)] {
            let answer = thread::scope(|scope| {
                let asks = scope.spawn(|| caller.ask(json!({})).unwrap());
                let request = tim.next();
                tell(&tim, &request, "1 of 1", &snapshot(1, 1));
                tim.complete(&request, "done");
                asks.join().unwrap()
            });
            assert_eq!(!shown(&answer).is_empty(), sees, "{form:?} {answer}");
        }
    }
    let named = server.client().with("x-a2a-extensions", PROGRESS_EXTENSION);
    let header = "x-a2a-extensions";
    for path in ["tasks", "v1/tasks"] {
        let answer = named.get(&format!("/agents/tim/{path}"));
        assert_eq!(answer.headers[header], PROGRESS_EXTENSION);
        let silent = server.client().get(&format!("/agents/tim/{path}"));
        assert!(silent.headers.get(header).is_none());
    }
}

#[test]
fn webhooks_are_called_in_the_version_that_set_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), &format!("{FAR}{PRIVATE}"));
    let tim = Worker::tim(&server);
    for form in FORMS {
        let plain = Caller::of(&server, form, "tim");
        let task = id(&plain.begin(json!({})).unwrap());
        let request = tim.next();
        let (hidden_url, hidden) = receiver(&["200 OK"]);
        let (shown_url, shows) = receiver(&["200 OK"]);
        plain.set_push(&task, &json!({"id": "plain", "url": hidden_url})).unwrap();
        let made = active(&plain).set_push(&task, &json!({"id": "active", "url": shown_url}));
        assert!(!made.unwrap().to_string().contains("progress"), "kept, never shown");
        tell(&tim, &request, "1 of 2", &snapshot(1, 2));
        let (plain_body, active_body) = (next(&hidden).body, next(&shows).body);
        assert!(!plain_body.to_string().contains(PROGRESS_EXTENSION), "{form:?} {plain_body}");
        assert!(plain_body.to_string().contains("1 of 2"), "{form:?} {plain_body}");
        assert!(!shown(&active_body).is_empty(), "{form:?} {active_body}");
        tim.complete(&request, "done");
    }
}

#[test]
fn every_card_declares_it_as_its_specification_prints_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), FAR);
    let _tim = Worker::tim(&server);
    let client = server.client();
    let declared = json!({
        "uri": "https://a2a-protocol.org/extensions/task-progress/v1",
        "required": false,
        "description": "Structured task progress reporting",
        "params": {
            "maxTrackers": 20,
            "maxMessageChars": 512,
            "maxIdChars": 128,
            "recommendedMaxUpdatesPerSecond": 2,
        },
    });
    for below in ["", "/agents/tim"] {
        let card = client.get(&format!("{below}/.well-known/agent-card.json")).body;
        let all = card["capabilities"]["extensions"].as_array().unwrap();
        assert!(all.contains(&declared), "{card}");
    }
    let schema = client.get("/schemas/task-progress.json");
    let printed = include_str!("../../../protocol/schemas/task-progress.schema.json");
    assert_eq!(schema.status, 200);
    assert_eq!(schema.body, serde_json::from_str::<Value>(printed).unwrap());
    assert_eq!(
        client.get("/schemas/status_update.json").body["$id"],
        "urn:openclaw:a2a:v1:status_update"
    );
    assert_eq!(client.get("/schemas/nothing.json").status, 404);
}
