//! Messages of which the server makes plans: options A, B and C of the extension's design.

use serde_json::json;

use super::{Opt, VERSIONS, send, text};
use crate::a2a_caller::{Caller, Form};

const STEPS: &str = "Research AI safety papers and write a summary";

#[test]
fn a_plain_message_may_become_an_objective() {
    let opt = Opt::start();
    for version in VERSIONS {
        let (method, params) = send(version, STEPS, json!({}));
        let result = opt.speaking(version).ok(method, params);
        let (task, metadata) = (&result["task"], &result["task"]["metadata"]);
        let objective = text(&metadata["opt/v1/objectiveId"]);
        assert_eq!(
            (&task["contextId"], &metadata["opt/v1/taskIndex"]),
            (&json!(objective), &json!(0))
        );
        assert!(metadata["opt/v1/planId"].is_string(), "{result}");
        let whole = opt.whole(&objective);
        assert_eq!((&whole["name"], &whole["status"]), (&json!(STEPS), &json!("working")));
        let listed = Caller::of(&opt.server, Form::Rpc03, "tim");
        let listed = listed.list(&[("contextId", json!(objective))]).unwrap();
        assert_eq!(listed["tasks"][0]["id"], task["id"]);
        opt.work();
        opt.work();
        opt.until_status(&objective, "completed");
    }
}

#[test]
fn a_question_is_answered_without_an_objective() {
    let opt = Opt::start();
    for version in VERSIONS {
        let (method, params) = send(version, "What is 2 + 2?", json!({}));
        let result = opt.speaking(version).ok(method, params);
        assert!(result.get("objective").is_none(), "{result}");
        assert!(!result.to_string().contains("opt/v1/objectiveId"), "{result}");
        opt.work();
    }
    assert_eq!(opt.caller.ok("objectives/list", json!({}))["objectives"], json!([]));
}

#[test]
fn a_message_to_an_objectives_context_belongs_to_it() {
    let opt = Opt::start();
    for version in VERSIONS {
        let objective = opt.objective();
        let (method, params) = send(version, STEPS, json!({ "contextId": objective }));
        let result = opt.speaking(version).ok(method, params);
        assert_eq!(result["task"]["contextId"], json!(objective), "{result}");
        assert_eq!(result["task"]["metadata"]["opt/v1/objectiveId"], json!(objective));
        opt.work();
        opt.work();
        opt.until_status(&objective, "completed");
    }
}

#[test]
fn hints_name_the_objective_and_bring_it_along() {
    let opt = Opt::start();
    for version in VERSIONS {
        let metadata =
            json!({"opt/v1/preferObjective": true, "opt/v1/suggestedName": "AI Safety Research"});
        let (method, params) = send(version, "Research AI safety", json!({ "metadata": metadata }));
        let result = opt.speaking(version).ok(method, params);
        let objective = &result["objective"];
        assert_eq!(
            (&objective["name"], &objective["id"]),
            (&json!("AI Safety Research"), &result["task"]["contextId"])
        );
        assert!(objective["plans"][0]["tasks"].is_array(), "{result}");
        opt.work();
        opt.until_status(&text(&objective["id"]), "completed");
    }
}

#[test]
fn http_gets_the_same_with_its_header() {
    let opt = Opt::start();
    let (_, params) = send("1.0", STEPS, json!({}));
    let caller = &opt.caller.0;
    let answer = caller.call("POST", "/agents/tim/message:send", &params);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body["objective"]["id"], answer.body["task"]["contextId"], "{answer:?}");
    // Without it the same words are one task.
    let (_, params) = send("1.0", STEPS, json!({}));
    let answer = opt.server.client().call("POST", "/agents/tim/message:send", &params);
    assert!(answer.body["task"]["id"].is_string() && answer.body.get("objective").is_none());
    assert!(!answer.body.to_string().contains("opt/v1/"), "{answer:?}");
}

#[test]
fn agent_gets_the_history_scope_that_is_asked_for() {
    let opt = Opt::start();
    for version in VERSIONS {
        let context = format!("talk-{version}");
        let output = |text, scope| {
            let metadata = json!({ "opt/v1/historyScope": scope });
            let (method, params) =
                send(version, text, json!({"contextId": context, "metadata": metadata}));
            opt.speaking(version).ok(method, params);
            let request = opt.tim.next();
            opt.tim.complete(&request, "done");
            request["payload"]["context"]["history"].to_string()
        };
        assert_eq!(output("Is the first one in?", "task"), "null");
        assert_eq!(output("Is the second one in?", "task"), "null");
        let received = output("Is the third one in?", "objective");
        assert!(received.contains("first one") && received.contains("second one"), "{received}");
        assert!(!received.contains("third one"), "{received}");
    }
}
