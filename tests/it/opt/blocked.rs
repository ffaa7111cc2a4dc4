//! What a plan or an objective waits for, and which statuses a caller may set.

use serde_json::{Value, json};

use super::{Opt, text};
use crate::a2a_caller::{Caller, Form};

fn waits_for(of: &Value) -> (&Value, &Value) {
    (&of["status"], &of["metadata"]["opt/v1/blockedBy"])
}

#[test]
fn plan_states_what_it_waits_for() {
    let opt = Opt::start();
    let objective = opt.objective();
    let first = opt.plan(&objective, &["Search"], json!({}));
    let second = opt.plan(&objective, &["Draft"], json!({"dependencies": [first["id"]]}));
    assert_eq!(waits_for(&second), (&json!("blocked"), &json!("dependencies")));
    let held =
        opt.plan(&objective, &["Publish"], json!({"status": "blocked", "metadata": {"k": 1}}));
    assert_eq!(waits_for(&held), (&json!("blocked"), &json!("approval")));
    let request = opt.tim.next();
    opt.tim.ask(&request, "Which?");
    let whole = opt.until(&objective, |now| now["plans"][0]["status"] == "blocked");
    assert_eq!(waits_for(&whole["plans"][0]).1, "input");
    assert_eq!(waits_for(&whole["plans"][1]).1, "dependencies");
    assert_eq!(whole["plans"][2]["metadata"], json!({"k": 1, "opt/v1/blockedBy": "approval"}));
    let got = opt.caller.ok("plans/get", json!({"id": second["id"]}));
    assert_eq!(waits_for(&got["plan"]).1, "dependencies");
    let listed = opt.caller.ok("objectives/list", json!({"includePlans": true}));
    assert_eq!(waits_for(&listed["objectives"][0]["plans"][1]).1, "dependencies");
    // The server's own keys are not a caller's to set, and are removed when they no longer hold.
    let sent_back = json!({"id": held["id"], "status": "working",
        "metadata": {"opt/v1/blockedBy": "input", "opt/v1/after": [first["id"]], "opt/v1/reason": "x"}});
    let released = opt.caller.ok("plans/update", sent_back);
    assert_eq!((&released["status"], released.get("metadata")), (&json!("working"), None));
    // The same after a crash.
    let opt = opt.restarted();
    let whole = opt.whole(&objective);
    assert_eq!(waits_for(&whole["plans"][0]).1, "input");
    assert_eq!(waits_for(&whole["plans"][1]).1, "dependencies");
}

#[test]
fn objective_takes_every_status_with_or_without_plans() {
    let opt = Opt::start();
    let set = |id: &str, status: &str| {
        opt.caller.ok("objectives/update", json!({"id": id, "status": status}))["status"].clone()
    };
    let objective = opt.objective();
    for status in ["working", "blocked", "planning", "blocked", "working"] {
        assert_eq!(set(&objective, status), status);
        assert_eq!(opt.whole(&objective)["status"], status);
    }
    // Blocked by its caller, nothing of it begins.
    assert_eq!(set(&objective, "blocked"), "blocked");
    assert_eq!(waits_for(&opt.whole(&objective)).1, "approval");
    opt.plan(&objective, &["Search"], json!({}));
    assert!(!opt.tim.has_work());
    let opt = opt.restarted();
    let whole = opt.whole(&objective);
    assert_eq!(
        (waits_for(&whole).0, &whole["plans"][0]["status"]),
        (&json!("blocked"), &json!("pending"))
    );
    assert!(!opt.tim.has_work());
    let renamed = json!({"id": objective, "metadata": {"k": 1}});
    assert_eq!(waits_for(&opt.caller.ok("objectives/update", renamed)).1, "approval");
    opt.caller.ok("objectives/update", json!({"id": objective, "status": "working"}));
    assert_eq!(opt.work(), "Search");
    let end = opt.until_status(&objective, "completed");
    assert!(end["metadata"].get("opt/v1/blockedBy").is_none(), "{end}");
    let refused =
        opt.caller.refused("objectives/update", json!({"id": objective, "status": "working"}));
    assert_eq!(refused["code"], -32602);
}

#[test]
fn dependencies_of_a_task_are_tasks_that_can_be_got() {
    let opt = Opt::start();
    let objective = opt.objective();
    let tasks = json!([{"name": "Read", "dependencies": ["task-1"]}, {"name": "Search"}]);
    opt.plan(&objective, &[], json!({ "tasks": tasks }));
    opt.work();
    let whole = opt.until(&objective, |now| now["plans"][0]["tasks"][0].get("a2aTaskId").is_some());
    let [read, search] = [0, 1].map(|at| text(&whole["plans"][0]["tasks"][at]["a2aTaskId"]));
    let caller = Caller::of(&opt.server, Form::Rpc10, "tim");
    let caller = caller.with("a2a-extensions", a2a_protocol::opt::OPT_EXTENSION);
    let got = caller.get(&read, &[]).unwrap();
    assert_eq!(got["metadata"]["opt/v1/dependencies"], json!([search]), "{got}");
    assert!(caller.get(&search, &[]).unwrap()["metadata"].get("opt/v1/dependencies").is_none());
    opt.work();
    opt.until_status(&objective, "completed");
}

#[test]
fn objective_that_fails_has_the_reason() {
    let opt = Opt::start();
    let objective = opt.objective();
    opt.plan(&objective, &["Search"], json!({}));
    let request = opt.tim.next();
    let declined = json!({"action": "declined", "reason": "I have no library card"});
    assert_eq!(opt.tim.say(&request, "task_response", declined).status, 202);
    let end = opt.until_status(&objective, "failed");
    let reason = json!("Search: rejected: I have no library card");
    assert_eq!(end["metadata"]["opt/v1/reason"], reason, "{end:#}");
    assert_eq!(end["plans"][0]["metadata"]["opt/v1/reason"], reason, "{end:#}");
}

#[test]
fn impossible_work_is_rejected_and_not_completed() {
    let opt = Opt::start();
    let host = |version: &str| opt.server.client().with("a2a-version", version);
    for (version, method) in super::VERSIONS.into_iter().zip(["message/send", "SendMessage"]) {
        let (_, mut params) =
            super::send(version, "Research AI safety papers and write a summary", json!({}));
        params["configuration"] = json!({"blocking": true});
        let call = |client: &crate::server::Client, params: &Value| {
            let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
            client.call("POST", "/a2a", &body).body["result"].clone()
        };
        let result = call(&host(version), &params);
        let task = result.get("task").unwrap_or(&result);
        assert_eq!(crate::a2a_caller::state(task), "rejected", "{result}");
        let output = crate::a2a_caller::agent_text(task);
        assert!(
            output.contains("cannot work on this") && output.contains("attach an agent"),
            "{output}"
        );
        params["message"]["messageId"] = crate::server::new_id().into();
        let active = host(version).with("a2a-extensions", a2a_protocol::opt::OPT_EXTENSION);
        let objective = text(&call(&active, &params)["task"]["contextId"]);
        let end = opt.until_status(&objective, "failed");
        let reason = text(&end["metadata"]["opt/v1/reason"]);
        assert!(reason.contains("cannot work on this"), "{reason}");
    }
}
