//! What the calls take and give, as the texts of the extension print it.

use serde_json::{Value, json};

use super::{Opt, VERSIONS, revision, text};
use crate::server::new_id;

#[test]
fn create_is_bare_and_get_is_wrapped() {
    let opt = Opt::start();
    for version in VERSIONS {
        let caller = opt.speaking(version);
        let params = json!({"name": "Write blog post", "description": "About AI safety trends"});
        let made = caller.ok("objectives/create", params);
        assert_eq!(
            (&made["name"], &made["status"]),
            (&json!("Write blog post"), &json!("submitted"))
        );
        assert!(text(&made["id"]).starts_with("obj-") && made["createdAt"].is_string());
        let got = caller.ok("objectives/get", json!({"id": made["id"]}));
        assert_eq!(got["objective"]["description"], "About AI safety trends");
        assert!(got["objective"].get("plans").is_none(), "not asked for: {got}");
        let params = json!({"objectiveId": made["id"], "name": "Research phase", "status": "blocked",
            "tasks": [{"name": "Search papers"}, {"name": "Summarize", "dependencies": ["task-0"]}]});
        let plan = caller.ok("plans/create", params);
        assert_eq!((&plan["objectiveId"], &plan["status"]), (&made["id"], &json!("blocked")));
        let tasks = &plan["tasks"];
        assert_eq!(tasks[1]["dependencies"], json!([tasks[0]["id"]]));
        assert_eq!((&tasks[1]["taskIndex"], &tasks[1]["status"]), (&json!(1), &json!("pending")));
        let got = caller.ok("plans/get", json!({"id": plan["id"], "includeTasks": true}));
        assert_eq!(got["plan"]["tasks"], *tasks);
        let whole = json!({"id": made["id"], "includePlans": true, "includeTasks": true});
        let whole = caller.ok("objectives/get", whole);
        assert_eq!(whole["objective"]["plans"][0]["tasks"], *tasks);
        assert!(revision(&whole["objective"]) > revision(&made));
    }
}

#[test]
fn lists_have_pages_and_states() {
    let opt = Opt::start();
    let mut made: Vec<_> = (0..3).map(|_| opt.objective()).collect();
    made.reverse();
    opt.caller.ok("objectives/update", json!({"id": made[0], "status": "canceled"}));
    let ids = |page: &Value| -> Vec<String> {
        page["objectives"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect()
    };
    let first = opt.caller.ok("objectives/list", json!({"pageSize": 2}));
    let token = &first["nextPageToken"];
    let second = opt.caller.ok("objectives/list", json!({"pageSize": 2, "pageToken": token}));
    assert_eq!([ids(&first), ids(&second)].concat(), made);
    assert_eq!(second["nextPageToken"], "");
    let submitted = opt.caller.ok("objectives/list", json!({"status": "submitted"}));
    assert_eq!(ids(&submitted), made[1..]);
    for bad in [json!({"pageSize": 0}), json!({"pageSize": 101}), json!({"status": "done"})] {
        assert_eq!(opt.caller.refused("objectives/list", bad)["code"], -32602);
    }
}

#[test]
fn updates_change_what_they_name_and_nothing_else() {
    let opt = Opt::start();
    let id = opt.objective();
    let before = opt.whole(&id);
    let change = json!({"id": id, "name": "Better", "description": "More", "metadata":
        {"k": 1, "opt/v1/revision": 99}});
    let after = opt.caller.ok("objectives/update", change);
    assert_eq!((&after["name"], &after["description"]), (&json!("Better"), &json!("More")));
    assert_eq!((&after["metadata"]["k"], &after["status"]), (&json!(1), &before["status"]));
    assert_eq!(revision(&after), revision(&before) + 1);
    let plan = opt.plan(&id, &["Search"], json!({"status": "blocked"}));
    let after = opt.caller.ok("plans/update", json!({"id": plan["id"], "name": "Other"}));
    assert_eq!((&after["name"], &after["status"]), (&json!("Other"), &json!("blocked")));
}

#[test]
fn a_step_that_is_not_allowed_names_those_that_are() {
    let opt = Opt::start();
    let id = opt.objective();
    let refused =
        opt.caller.refused("objectives/update", json!({"id": id, "status": "submitted "}));
    assert_eq!(refused["code"], -32602, "{refused}");
    opt.caller.ok("objectives/update", json!({"id": id, "status": "working"}));
    let refused = opt.caller.refused("objectives/update", json!({"id": id, "status": "submitted"}));
    assert_eq!(refused["code"], -32602, "{refused}");
    assert!(
        refused.to_string().contains("planning, blocked, completed, failed, canceled"),
        "{refused}"
    );
    opt.caller.ok("objectives/update", json!({"id": id, "status": "canceled"}));
    let refused = opt.caller.refused("objectives/update", json!({"id": id, "status": "working"}));
    assert!(refused.to_string().contains("it has ended"), "{refused}");
    let late = json!({"objectiveId": id, "name": "P", "tasks": []});
    assert_eq!(opt.caller.refused("plans/create", late)["code"], -32602);
}

#[test]
fn dependencies_must_lead_somewhere() {
    let opt = Opt::start();
    let id = opt.objective();
    let task = |name: &str, on: &[&str]| json!({"name": name, "dependencies": on});
    let cases = [
        (json!([task("a", &["task-1"]), task("b", &["task-0"])]), "task-0 → task-1 → task-0"),
        (json!([task("a", &["task-0"])]), "depends on itself"),
        (json!([task("a", &["task-7"])]), "there is no task-7"),
        (
            json!([task("a", &["step-0192a4c8-7e1a-7b3c-9d4e-000000000003"])]),
            "/tasks/0/dependencies/0",
        ),
    ];
    for (tasks, expected) in cases {
        let params = json!({"objectiveId": id, "name": "P", "tasks": tasks});
        let error = opt.caller.refused("plans/create", params);
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    let nowhere = json!({"objectiveId": id, "name": "P",
        "dependencies": ["plan-0192a4c8-7e1a-7b3c-9d4e-000000000003"]});
    assert_eq!(opt.caller.refused("plans/create", nowhere)["code"], -32602);
    assert_eq!(opt.whole(&id)["plans"], json!([]), "nothing changed");
}

#[test]
fn ten_plans_and_fifty_tasks_are_the_most() {
    let opt = Opt::start();
    let id = opt.objective();
    let tasks = |count: usize| (0..count).map(|n| json!({"name": format!("t{n}")})).collect();
    let plan = |tasks: Vec<Value>| json!({"objectiveId": id, "name": "P", "status": "blocked", "tasks": tasks});
    let refused = opt.caller.refused("plans/create", plan(tasks(51)));
    assert!(refused["code"] == -32602 && refused.to_string().contains("50"), "{refused}");
    let full = opt.caller.ok("plans/create", plan(tasks(50)));
    let more = json!({"planId": full["id"], "tasks": [{"name": "one more"}]});
    let refused = opt.caller.refused("plans/addTasks", more);
    assert!(refused["code"] == -32602 && refused.to_string().contains("50"), "{refused}");
    for _ in 1..10 {
        opt.caller.ok("plans/create", plan(tasks(1)));
    }
    let refused = opt.caller.refused("plans/create", plan(tasks(1)));
    assert!(refused["code"] == -32602 && refused.to_string().contains("10"), "{refused}");
}

#[test]
fn what_is_not_there_is_not_found() {
    let opt = Opt::start();
    let (objective, plan) = (format!("obj-{}", new_id()), format!("plan-{}", new_id()));
    let cases = [
        ("objectives/get", json!({ "id": objective }), "OBJECTIVE_NOT_FOUND"),
        ("objectives/update", json!({"id": objective, "name": "n"}), "OBJECTIVE_NOT_FOUND"),
        ("objectives/subscribe", json!({ "id": objective }), "OBJECTIVE_NOT_FOUND"),
        ("plans/create", json!({"objectiveId": objective, "name": "n"}), "OBJECTIVE_NOT_FOUND"),
        ("plans/get", json!({ "id": plan }), "PLAN_NOT_FOUND"),
        ("plans/update", json!({"id": plan, "status": "working"}), "PLAN_NOT_FOUND"),
        ("plans/addTasks", json!({"planId": plan, "tasks": [{"name": "t"}]}), "PLAN_NOT_FOUND"),
    ];
    for (method, params, reason) in cases {
        let error = opt.caller.refused(method, params);
        assert_eq!(error["code"], -32001, "{method} {error}");
        assert!(error.to_string().contains(reason), "{method} {error}");
    }
}
