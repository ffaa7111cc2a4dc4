//! What calls about objectives cost, and how large an objective may be.

use serde_json::{Value, json};

use super::{Opt, OptCaller, send};
use crate::a2a_caller::{Caller, FORMS};
use crate::a2a_http::limits::retry_after_ms;
use crate::a2a_worker::Worker;
use crate::server::{Server, new_id};

fn start(config: &str) -> (tempfile::TempDir, Server, Worker, OptCaller) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), config);
    let tim = Worker::tim(&server);
    let caller = OptCaller::new(&server.client(), "1.0");
    (folder, server, tim, caller)
}

#[test]
fn calls_that_change_objectives_are_charged_like_messages() {
    let (_folder, _server, tim, caller) = start("[limits]\nper_agent_per_minute = 1\nburst = 4\n");
    let objective = caller.ok("objectives/create", json!({"name": "o"}))["id"].clone();
    let plan = json!({"objectiveId": objective, "name": "p"});
    let plan = caller.ok("plans/create", plan)["id"].clone();
    caller.ok("objectives/update", json!({"id": objective, "name": "n"}));
    caller.ok("plans/update", json!({"id": plan, "name": "n"}));
    let (method, steps) = send("1.0", "Research it, then write it", json!({}));
    for (method, params) in [
        ("objectives/create", json!({"name": "o"})),
        ("objectives/update", json!({"id": objective, "name": "m"})),
        ("plans/create", json!({"objectiveId": objective, "name": "p"})),
        ("plans/update", json!({"id": plan, "name": "m"})),
        ("plans/addTasks", json!({"planId": plan, "tasks": [{"name": "t"}]})),
        (method, steps),
    ] {
        let error = caller.refused(method, params);
        assert_eq!(error["code"], -32051, "{method} {error}");
        let wait = error["data"][0]["metadata"]["retryAfterMs"].as_str().unwrap();
        assert!((1..=60_000).contains(&wait.parse::<u64>().unwrap()), "{error}");
    }
    // Looking costs nothing, and nothing was changed.
    for _ in 0..10 {
        let whole = json!({"id": objective, "includePlans": true, "includeTasks": true});
        let whole = caller.ok("objectives/get", whole)["objective"].clone();
        assert_eq!((&whole["name"], &whole["plans"][0]["name"]), (&json!("n"), &json!("n")));
        assert_eq!(whole["plans"].as_array().map(Vec::len), Some(1), "{whole}");
    }
    assert_eq!(
        caller.ok("objectives/list", json!({}))["objectives"].as_array().map(Vec::len),
        Some(1)
    );
    assert!(!tim.has_work());
}

#[test]
fn bytes_of_a_caller_are_limited() {
    let (_folder, server, tim, caller) = start(
        "[limits]\nper_agent_per_minute = 100000\nburst = 100000\nper_pair_per_minute = 100000\n\
         a2a_bytes_per_minute = 100000\n",
    );
    let text = "x".repeat(30_000);
    let objective =
        caller.ok("objectives/create", json!({"name": "o", "description": text}))["id"].clone();
    for form in FORMS {
        let sender = Caller::of(&server, form, "tim");
        let large = || json!({"text": text, "messageId": new_id()});
        let refused =
            std::iter::repeat_with(|| sender.begin(large())).find_map(Result::err).unwrap();
        assert_eq!(refused.code, -32051, "{form:?} {refused:?}");
        assert!(refused.answer.body.to_string().contains("100000 bytes a minute"), "{refused:?}");
        assert!((1..=60_000).contains(&retry_after_ms(&refused)), "{refused:?}");
        // What is small is limited by its number.
        sender.begin(json!({"text": "x"})).unwrap();
    }
    let change = json!({"id": objective, "description": text});
    assert_eq!(caller.refused("objectives/update", change)["code"], -32051);
    drop(tim);
}

#[test]
fn metadata_and_the_whole_objective_have_a_limit() {
    let opt = Opt::start();
    let objective = opt.objective();
    let large = json!({"k": "x".repeat(64 * 1024)});
    let plan = opt.plan(&objective, &[], json!({"status": "blocked"}));
    let tasks = json!([{"name": "t"}, {"name": "t", "metadata": large}]);
    let changes = [
        ("objectives/create", json!({"name": "n", "metadata": large}), "/metadata"),
        ("objectives/update", json!({"id": objective, "metadata": large}), "/metadata"),
        (
            "plans/create",
            json!({"objectiveId": objective, "name": "n", "metadata": large}),
            "/metadata",
        ),
        (
            "plans/create",
            json!({"objectiveId": objective, "name": "n", "tasks": tasks}),
            "/tasks/1/metadata",
        ),
        ("plans/update", json!({"id": plan["id"], "metadata": large}), "/metadata"),
        ("plans/addTasks", json!({"planId": plan["id"], "tasks": tasks}), "/tasks/1/metadata"),
    ];
    for (method, params, place) in changes {
        let error = opt.caller.refused(method, params);
        assert_eq!(error["code"], -32602, "{method} {error}");
        assert!(
            error.to_string().contains(place) && error.to_string().contains("65536"),
            "{error}"
        );
    }
    let task = json!({"name": "t", "description": "x".repeat(30_000)});
    let more = |count: usize| -> Value { std::iter::repeat_n(task.clone(), count).collect() };
    let add = |count| json!({"planId": plan["id"], "tasks": more(count)});
    opt.caller.ok("plans/addTasks", add(30));
    let error = opt.caller.refused("plans/addTasks", add(5));
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error.to_string().contains("1048576"), "{error}");
    opt.caller.ok("plans/addTasks", add(3));
    // What is replaced does not count.
    let large = json!({"k": "x".repeat(40_000)});
    for _ in 0..3 {
        let change = json!({"id": plan["id"], "metadata": large});
        opt.caller.ok("plans/update", change);
    }
    let tasks = opt.whole(&objective)["plans"][0]["tasks"].as_array().map(Vec::len);
    assert_eq!(tasks, Some(33));
}
