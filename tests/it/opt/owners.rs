//! Whose objectives they are: another's is answered exactly as one that does not exist.

use serde_json::json;

use super::{OptCaller, send, text};
use crate::a2a_caller::FAR;
use crate::a2a_worker::Worker;
use crate::oversight::token_config;
use crate::server::{Answer, Server, new_id};

/// Everything that can be tried with ids; what came back, without them.
fn tried(caller: &OptCaller, objective: &str, plan: &str) -> Vec<String> {
    let metadata = json!({"metadata": {"opt/v1/objective": {"id": objective}}});
    let all = [
        ("objectives/get", json!({ "id": objective })),
        ("objectives/get", json!({"id": objective, "sinceRevision": 1, "waitMs": 50})),
        ("objectives/update", json!({"id": objective, "status": "canceled"})),
        ("objectives/subscribe", json!({ "id": objective })),
        ("plans/create", json!({"objectiveId": objective, "name": "P", "tasks": [{"name": "t"}]})),
        ("plans/get", json!({ "id": plan })),
        ("plans/update", json!({"id": plan, "status": "working"})),
        ("plans/addTasks", json!({"planId": plan, "tasks": [{"name": "t"}]})),
        send("0.3", "x", metadata.clone()),
        send("1.0", "x", metadata),
    ];
    let shown = |answer: Answer| {
        assert!(answer.body.get("error").is_some(), "{answer:?}");
        let text = format!("{} {} {}", answer.status, answer.content_type, answer.body);
        text.replace(objective, "THE-OBJECTIVE").replace(plan, "THE-PLAN")
    };
    all.into_iter().map(|(method, params)| shown(caller.answer(method, params))).collect()
}

#[test]
fn another_callers_objective_is_answered_like_none_at_all() {
    let who = [
        ("client = \"acme\"", "acme-1"),
        ("client = \"eve\"", "eve-1"),
        ("agent = \"tim\"", "tim-1"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), &format!("{FAR}{}", token_config(&who)));
    let _tim = Worker::new(server.client().bearing("tim-1"), "tim");
    let bearing = |token| OptCaller::new(&server.client().bearing(token), "1.0");
    let (acme, eve) = (bearing("acme-1"), bearing("eve-1"));
    let objective = text(&acme.ok("objectives/create", json!({"name": "Secret"}))["id"]);
    let plan = json!({"objectiveId": objective, "name": "P", "status": "blocked",
        "tasks": [{"name": "t"}]});
    let plan = text(&acme.ok("plans/create", plan)["id"]);
    let whole = json!({"id": objective, "includePlans": true, "includeTasks": true});
    let before = acme.ok("objectives/get", whole.clone());
    let (no_objective, no_plan) = (format!("obj-{}", new_id()), format!("plan-{}", new_id()));
    assert_eq!(tried(&eve, &objective, &plan), tried(&eve, &no_objective, &no_plan));
    assert_eq!(eve.ok("objectives/list", json!({}))["objectives"], json!([]));
    // Nor can another's plan be waited for.
    let own = text(&eve.ok("objectives/create", json!({"name": "Own"}))["id"]);
    let waits = |plan: &str| {
        let params = json!({"objectiveId": own, "name": "P", "dependencies": [plan]});
        eve.refused("plans/create", params).to_string().replace(plan, "THE-PLAN")
    };
    assert_eq!(waits(&plan), waits(&no_plan));
    assert_eq!(acme.ok("objectives/get", whole), before, "nothing changed");
}
