//! The history that a step gets of the steps that are done.

use a2a_protocol::opt::HistoryScope;
use serde_json::{Value, json};

use super::{Opt, VERSIONS, send, text};

/// Does the next step; returns its name, and the results in its history.
fn work(opt: &Opt) -> (String, Vec<String>) {
    let request = opt.tim.next();
    let name = text(&request["payload"]["title"]);
    opt.tim.complete(&request, &format!("what came of {name}"));
    let parts = request["payload"]["context"]["a2a"]["parts"].as_array().unwrap();
    let results = parts.iter().filter_map(|part| part["data"]["results"].as_array()).flatten();
    let received = results.map(|result| {
        let name = text(&result["name"]);
        assert_eq!(result["result"], format!("what came of {name}"));
        assert!(result["taskId"].is_string(), "{result}");
        name
    });
    let received = received.collect();
    (name, received)
}

/// One after the other, and a plan that waits for them; the history that each of them got.
fn run(mut opt: Opt, metadata: &Value, crash: bool) -> (Opt, Vec<(String, Vec<String>)>) {
    let objective = opt.objective();
    let tasks = json!([
        {"name": "search"}, {"name": "read", "dependencies": ["task-0"]},
        {"name": "draft", "dependencies": ["task-1"]},
    ]);
    let first = opt.plan(&objective, &[], json!({"tasks": tasks, "metadata": metadata}));
    let later = json!({"dependencies": [first["id"]], "metadata": metadata});
    opt.plan(&objective, &["print"], later);
    let mut received = vec![work(&opt), work(&opt)];
    if crash {
        opt.until(&objective, |now| now["plans"][0]["tasks"][2]["status"] == "working");
        opt = opt.restarted();
    }
    received.extend([work(&opt), work(&opt)]);
    opt.until_status(&objective, "completed");
    (opt, received)
}

fn steps(of: [(&str, &[&str]); 4]) -> Vec<(String, Vec<String>)> {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    of.map(|(name, received)| (name.to_owned(), owned(received))).into()
}

#[test]
fn step_gets_the_history_its_plan_asks_for() {
    let needed =
        steps([("search", &[]), ("read", &["search"]), ("draft", &["read"]), ("print", &[])]);
    let (mut opt, mut received) = run(Opt::start(), &json!({}), false);
    assert_eq!(received, needed);
    for scope in HistoryScope::ALL {
        let expected = match scope {
            HistoryScope::Task => needed.clone(),
            HistoryScope::Plan => steps([
                ("search", &[]),
                ("read", &["search"]),
                ("draft", &["search", "read"]),
                ("print", &[]),
            ]),
            HistoryScope::Objective => steps([
                ("search", &[]),
                ("read", &["search"]),
                ("draft", &["search", "read"]),
                ("print", &["search", "read", "draft"]),
            ]),
        };
        let metadata = json!({ "opt/v1/historyScope": scope.as_str() });
        for crash in [false, true] {
            (opt, received) = run(opt, &metadata, crash);
            assert_eq!(received, expected, "{scope}, {crash}");
        }
    }
}

#[test]
fn what_is_wished_for_a_message_is_wished_for_its_steps() {
    let opt = Opt::start();
    let list = "1. Find the papers\n2. Read the papers\n3. Write a summary";
    for version in VERSIONS {
        let more = json!({"metadata": {"opt/v1/historyScope": "plan"}});
        let (method, params) = send(version, list, more);
        let made = opt.speaking(version).ok(method, params);
        let plan = &made["objective"]["plans"][0];
        assert_eq!(plan["metadata"]["opt/v1/historyScope"], "plan", "{made}");
        let received: Vec<_> = (0..3).map(|_| work(&opt).1.len()).collect();
        assert_eq!(received, [0, 1, 2]);
    }
}

#[test]
fn a_scope_that_is_none_is_refused_with_those_that_are() {
    let opt = Opt::start();
    let objective = opt.objective();
    let plan = json!({
        "objectiveId": objective, "name": "Research", "tasks": [{"name": "search"}],
        "metadata": {"opt/v1/historyScope": "all"},
    });
    let refused = opt.caller.refused("plans/create", plan);
    let output = refused.to_string();
    assert_eq!(refused["code"], -32602, "{output}");
    assert!(output.contains("opt~1v1~1historyScope"), "{output}");
    for scope in HistoryScope::ALL {
        assert!(output.contains(scope.as_str()), "{output}");
    }
    assert!(!opt.tim.has_work());
}

#[test]
fn of_very_many_steps_a_step_gets_the_latest() {
    let opt = Opt::start();
    let objective = opt.objective();
    let names: Vec<String> = (0..50).map(|number| format!("step {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let first = opt.plan(&objective, &names, json!({}));
    let tasks = json!([
        {"name": "sort"}, {"name": "read", "dependencies": ["task-0"]},
        {"name": "draft", "dependencies": ["task-1"]},
    ]);
    let metadata = json!({"opt/v1/historyScope": "objective"});
    let later = json!({"tasks": tasks, "dependencies": [first["id"]], "metadata": metadata});
    opt.plan(&objective, &[], later);
    for _ in 0..51 {
        work(&opt);
    }
    assert_eq!(work(&opt).1.len(), 51); // what it needs, and fifty others
    let (name, received) = work(&opt);
    assert_eq!((name.as_str(), received.len()), ("draft", 51));
    assert_eq!((received[0].as_str(), received[50].as_str()), ("step 1", "read"));
}
