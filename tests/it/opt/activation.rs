//! Which callers activate OPT and how, and that no other caller sees it.

use a2a_protocol::opt::OPT_EXTENSION;
use serde_json::{Value, json};

use super::{Opt, OptCaller, VERSIONS, send};
use crate::a2a_caller::{Caller, FORMS, id};

const METHODS: [&str; 9] = [
    "objectives/create",
    "objectives/get",
    "objectives/list",
    "objectives/update",
    "objectives/subscribe",
    "plans/create",
    "plans/get",
    "plans/update",
    "plans/addTasks",
];

/// Enough for every method.
fn params() -> Value {
    let tasks = json!([{"name": "t"}]);
    json!({"id": "obj-1", "objectiveId": "obj-1", "name": "n", "tasks": tasks})
}

#[test]
fn without_activation_its_methods_name_the_extension_they_need() {
    let opt = Opt::start();
    for version in VERSIONS {
        let plain = OptCaller(opt.server.client().with("a2a-version", version));
        for method in METHODS {
            let params = match method {
                "plans/create" => json!({"objectiveId": "obj-1", "name": "n"}),
                "plans/addTasks" => json!({"planId": "plan-1", "tasks": [{"name": "t"}]}),
                "objectives/create" => json!({"name": "n"}),
                "objectives/list" => json!({}),
                _ => json!({"id": params()["id"]}),
            };
            let error = plain.refused(method, params);
            assert_eq!(error["code"], -32008, "{version} {method} {error}");
            assert!(error.to_string().contains(OPT_EXTENSION), "{error}");
        }
    }
}

#[test]
fn every_card_declares_it_with_its_limits() {
    let opt = Opt::start();
    for below in ["", "/agents/tim"] {
        let card = opt.server.client().get(&format!("{below}/.well-known/agent-card.json")).body;
        let all = card["capabilities"]["extensions"].as_array().unwrap();
        let declared = all.iter().find(|one| one["uri"] == OPT_EXTENSION).unwrap();
        let limits = json!({"maxPlansPerObjective": 10, "maxTasksPerPlan": 50});
        assert_eq!((&declared["required"], &declared["params"]), (&json!(false), &limits));
    }
}

#[test]
fn wishes_are_checked_only_where_it_is_active() {
    let opt = Opt::start();
    let odd = json!({"opt/v1/other": "maybe", "opt/v1/taskIndex": "first"});
    let odder = json!({"opt/v1/suggestedName": 7});
    for version in VERSIONS {
        let (method, params) = send(version, "Is this odd?", json!({ "metadata": odd }));
        let plain = OptCaller(opt.server.client().with("a2a-version", version));
        plain.ok(method, params.clone());
        assert_eq!(opt.work(), "Is this odd?");
        let (method, params) = send(version, "Is this odd?", json!({ "metadata": odder }));
        let error = opt.speaking(version).refused(method, params);
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error.to_string().contains("opt~1v1~1suggestedName"), "{error}");
        // Wishing for an objective activates it; nothing in its place does not.
        let named = |objective: Value| json!({"metadata": {"opt/v1/objective": objective}});
        let (method, params) = send(version, "x", named(json!("obj-1")));
        let answer = plain.answer(method, params);
        assert_eq!(answer.body["error"]["code"], -32602, "{answer:?}");
        let (method, params) = send(version, "Nothing?", named(Value::Null));
        let answer = plain.answer(method, params);
        assert!(answer.body.get("result").is_some(), "{answer:?}");
        assert_eq!(echoed(&answer), None);
        assert_eq!(opt.work(), "Nothing?");
    }
}

fn echoed(answer: &crate::server::Answer) -> Option<&str> {
    let header = ["a2a-extensions", "x-a2a-extensions"];
    header.iter().find_map(|name| answer.headers.get(*name)).map(|value| value.to_str().unwrap())
}

#[test]
fn what_is_activated_is_echoed() {
    let opt = Opt::start();
    let answer = opt.caller.answer("objectives/list", json!({}));
    assert_eq!(echoed(&answer), Some(OPT_EXTENSION));
    for version in VERSIONS {
        let plain = OptCaller(opt.server.client().with("a2a-version", version));
        let metadata = json!({"metadata": {"opt/v1/objective": {"name": "Post"}}});
        let (method, params) = send(version, "Research it, then write it", metadata);
        let answer = plain.answer(method, params);
        assert_eq!(echoed(&answer), Some(OPT_EXTENSION), "{answer:?}");
        assert_eq!(answer.body["result"]["objective"]["name"], "Post", "{answer:?}");
    }
}

#[test]
fn others_see_plain_tasks_in_every_form() {
    let opt = Opt::start();
    let objective = opt.objective();
    opt.plan(&objective, &["Search", "Read"], json!({}));
    let request = opt.tim.next();
    let whole = opt.until(&objective, |now| now["plans"][0]["tasks"][0]["status"] == "working");
    let task = super::text(&whole["plans"][0]["tasks"][0]["a2aTaskId"]);
    let mut streams = Vec::new();
    for form in FORMS {
        let plain = Caller::of(&opt.server, form, "tim");
        let shown = plain.get(&task, &[]).unwrap();
        let page = plain.list(&[("contextId", json!(objective))]).unwrap();
        let tasks = page["tasks"].as_array().unwrap();
        assert!(tasks.iter().any(|listed| id(listed) == task), "{form:?} {page}");
        assert_eq!(tasks.len(), 2, "all of the objective: {form:?} {page}");
        for value in [shown, page] {
            assert!(!value.to_string().contains("opt/v1/"), "{form:?} {value}");
        }
        let active = plain.with("a2a-extensions", OPT_EXTENSION);
        let shown = active.get(&task, &[]).unwrap();
        assert_eq!(shown["metadata"]["opt/v1/objectiveId"], json!(objective), "{form:?} {shown}");
        streams.push((form, plain.subscribe(&task).unwrap()));
    }
    opt.tim.complete(&request, "found");
    for (form, stream) in streams {
        let seen = stream.rest();
        assert!(seen.iter().all(|event| !event.data.to_string().contains("opt/v1/")), "{form:?}");
        assert_eq!(seen.last().unwrap().word(), "completed", "{form:?}");
    }
}

#[test]
fn webhooks_are_called_in_the_version_that_set_them() {
    use crate::a2a_http::pushes::{PRIVATE, next, receiver};
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{}{PRIVATE}", crate::a2a_caller::FAR);
    let server = crate::server::Server::with_config(folder.path(), &config);
    let tim = crate::a2a_worker::Worker::tim(&server);
    let caller = OptCaller::new(&server.client(), "1.0");
    for form in FORMS {
        let made = caller.ok("objectives/create", json!({"name": "Post"}));
        let tasks = json!([{"name": "Search"}]);
        caller.ok("plans/create", json!({"objectiveId": made["id"], "name": "P", "tasks": tasks}));
        let request = tim.next();
        let task = super::text(&request["payload"]["taskId"]);
        let plain = Caller::of(&server, form, "tim");
        let active = plain.with("a2a-extensions", OPT_EXTENSION);
        let ((hidden_url, hidden), (shown_url, shown)) =
            (receiver(&["200 OK"]), receiver(&["200 OK"]));
        plain.set_push(&task, &json!({"id": "plain", "url": hidden_url})).unwrap();
        let wish = active.set_push(&task, &json!({"id": "active", "url": shown_url})).unwrap();
        assert!(wish.get("opt").is_none(), "kept, never shown: {wish}");
        tim.complete(&request, "found");
        let (mut ended, mut answered) = (false, false);
        while !ended {
            let body = next(&hidden).body.to_string();
            assert!(!body.contains("opt/v1/"), "{form:?} {body}");
            ended = body.to_ascii_lowercase().contains("completed");
        }
        while !answered {
            answered = next(&shown).body.to_string().contains("opt/v1/");
        }
    }
}
