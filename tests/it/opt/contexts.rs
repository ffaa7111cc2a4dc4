//! Which context an objective gets, and when the caller of its message is answered.

use serde_json::{Value, json};

use super::{Opt, OptCaller, VERSIONS, send, text};
use crate::a2a_caller::{Caller, FORMS};
use crate::server::new_id;

/// Two plans, one after the other.
const PLANS: &str = "# Blog\n## 1. Research\n- find\n## 2. Write\n- draft";
const STEPS: &str = "Research AI safety papers and write a summary";

#[test]
fn message_that_brings_a_new_context_keeps_it_as_objective() {
    let opt = Opt::start();
    for version in VERSIONS {
        let context = format!("my-context-{version}");
        let (method, params) = send(version, PLANS, json!({ "contextId": context }));
        let result = opt.speaking(version).ok(method, params.clone());
        let task = &result["task"];
        assert_eq!(
            (&task["contextId"], &task["metadata"]["opt/v1/objectiveId"]),
            (&json!(context), &json!(context))
        );
        assert_eq!(opt.whole(&context)["plans"].as_array().map(Vec::len), Some(2));
        // Sent again it is the same task.
        assert_eq!(opt.speaking(version).ok(method, params)["task"]["id"], task["id"]);
        opt.work();
        opt.work();
        opt.until_status(&context, "completed");
    }
}

#[test]
fn context_that_is_not_new_or_another_callers_is_refused() {
    let opt = Opt::start();
    for version in VERSIONS {
        let context = format!("talk-{version}");
        let (method, question) = send(version, "Is it true?", json!({ "contextId": context }));
        let caller = opt.speaking(version);
        caller.ok(method, question);
        opt.work();
        let (method, steps) = send(version, STEPS, json!({ "contextId": context }));
        let error = caller.refused(method, steps);
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error.to_string().contains("/message/contextId"), "{error}");
        assert!(error["message"].as_str().unwrap().contains("tasks already"), "{error}");
        // The objective it names has another context.
        let metadata = json!({"opt/v1/objective": {"id": opt.objective()}});
        let fields = json!({"contextId": "elsewhere", "metadata": metadata});
        let (method, steps) = send(version, STEPS, fields);
        let error = caller.refused(method, steps);
        assert_eq!(error["code"], -32602, "{error}");
    }
    assert!(!opt.tim.has_work(), "nothing was begun");
}

#[test]
fn silent_0_3_caller_is_answered_at_once_when_an_objective_is_made() {
    let opt = Opt::start();
    let (method, mut params) = send("0.3", PLANS, json!({}));
    params.as_object_mut().unwrap().shift_remove("configuration");
    let result = opt.speaking("0.3").ok(method, params.clone());
    assert_eq!(result["task"]["status"]["state"], "working", "{result}");
    assert_eq!(result["task"]["metadata"]["opt/v1/taskIndex"], 0);
    // So is its repeat.
    let again = opt.speaking("0.3").ok(method, params);
    assert_eq!(again["task"]["id"], result["task"]["id"]);
    let whole = opt.whole(&text(&result["task"]["contextId"]));
    // What merely comes later is pending, and depends on nothing.
    let later = &whole["plans"][1];
    assert_eq!(
        (&later["status"], later.get("dependencies")),
        (&json!("pending"), None),
        "{whole:#}"
    );
    assert!(later["metadata"].get("opt/v1/blockedBy").is_none(), "{later}");
    opt.work();
    opt.work();
    opt.until_status(&text(&result["task"]["contextId"]), "completed");
}

/// The same message with other content is no repeat.
#[test]
fn message_id_with_other_content_is_a_conflict() {
    let opt = Opt::start();
    for form in FORMS {
        let caller = Caller::of(&opt.server, form, "tim");
        let id = new_id();
        let first = json!({"messageId": id, "text": "Paint it", "metadata": {"a": 1, "b": 2}});
        let task = caller.begin(first.clone()).unwrap();
        assert_eq!(opt.work(), "Paint it");
        let again = json!({"messageId": id, "text": "Paint it", "metadata": {"b": 2, "a": 1}});
        assert_eq!(caller.begin(again).unwrap()["id"], task["id"], "{form:?}");
        let others = [
            json!({"messageId": id, "text": "Burn it", "metadata": {"a": 1, "b": 2}}),
            json!({"messageId": id, "text": "Paint it"}),
            json!({"messageId": id, "text": "Paint it", "metadata": {"a": 1, "b": 2}, "contextId": "other"}),
            json!({"messageId": id, "text": "Paint it", "metadata": {"a": 1, "b": 2}, "taskId": task["id"]}),
        ];
        for other in others {
            for wait in [true, false] {
                let refused =
                    if wait { caller.ask(other.clone()) } else { caller.begin(other.clone()) };
                let refused = refused.unwrap_err();
                assert!(
                    refused.answer.body.to_string().contains("MESSAGE_ID_CONFLICT")
                        || form.is_old(),
                    "{refused:?}"
                );
                assert!(refused.answer.body.to_string().contains("other content"), "{refused:?}");
                let is_rest = refused.answer.status != 200;
                assert!(
                    if is_rest { refused.answer.status == 409 } else { refused.code == -32602 },
                    "{refused:?}"
                );
            }
        }
        assert!(!opt.tim.has_work(), "nothing was begun");
    }
}

#[test]
fn message_of_an_objective_is_held_to_its_content_too() {
    let opt = Opt::start();
    for version in VERSIONS {
        let id = new_id();
        let (method, params) = send(version, STEPS, json!({ "messageId": id }));
        let first = opt.speaking(version).ok(method, params);
        let (method, other) = send(version, "Research it and burn it", json!({ "messageId": id }));
        let error = opt.speaking(version).refused(method, other);
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error.to_string().contains("other content"), "{error}");
        opt.work();
        opt.work();
        opt.until_status(&text(&first["task"]["contextId"]), "completed");
    }
}

#[test]
fn unknown_history_scope_is_refused_everywhere() {
    let opt = Opt::start();
    let odd = json!({"opt/v1/historyScope": "galaxy"});
    for version in VERSIONS {
        let plain = OptCaller(opt.server.client().with("a2a-version", version));
        for caller in [plain, opt.speaking(version)] {
            let (method, params) = send(version, "Is it?", json!({ "metadata": odd }));
            let error = caller.refused(method, params);
            assert_eq!(error["code"], -32602, "{error}");
            assert!(error.to_string().contains("task, plan, objective"), "{error}");
        }
    }
    let objective = opt.objective();
    let plan = opt.plan(&objective, &[], json!({}));
    let task = json!({"name": "t", "metadata": odd});
    for (method, params) in [
        ("objectives/create", json!({"name": "n", "metadata": odd})),
        ("objectives/update", json!({"id": objective, "metadata": odd})),
        ("plans/create", json!({"objectiveId": objective, "name": "n", "metadata": odd})),
        ("plans/update", json!({"id": plan["id"], "metadata": odd})),
        ("plans/addTasks", json!({"planId": plan["id"], "tasks": [task]})),
    ] {
        assert_eq!(opt.caller.refused(method, params)["code"], -32602, "{method}");
    }
    assert!(opt.whole(&objective)["plans"][0]["tasks"].as_array().is_none_or(Vec::is_empty));
    let all: Value = opt.caller.ok("objectives/list", json!({}));
    assert_eq!(all["objectives"].as_array().map(Vec::len), Some(1), "{all}");
}
