//! Examples in the specification of OPT: every printed call is parsed, and every field of a printed
//! reply is in our reply with the same value. Differences are listed with the reason.
//!
//! "README" is the extension's specification, "design" its design document.

use std::sync::Arc;

use a2a_protocol::card::Extension;
use a2a_protocol::operation::{Operation, Reply};
use a2a_protocol::opt::{Objective, OptHints};
use a2a_protocol::task::{Message, Task};
use a2a_protocol::wire::{Method, Version, decode, reply};
use serde_json::{Map, Value, json};

use super::wire_golden::{golden, golden_json, parsed};

/// Placeholder for a part that the specification omits.
const ELIDED: &str = "...";
const TASK: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000001";
const MOMENT: &str = "2026-02-15T04:30:00Z";

fn user_message(text: &str) -> Value {
    json!({"messageId": "msg-123", "role": "user", "parts": [{"type": "text", "text": text}]})
}

/// The calls with their source and the printed method name.
fn printed_calls() -> Vec<(&'static str, &'static str, Value)> {
    let mut hinted = user_message("Research AI safety...");
    hinted["metadata"] =
        json!({"opt/v1/preferObjective": true, "opt/v1/suggestedName": "AI Safety Research"});
    let mut attached = user_message("Go on");
    attached["metadata"] = json!({"opt/v1/objective": {"id": "obj-123", "name": ELIDED}});
    let mut within = user_message("Go on");
    within["contextId"] = json!("obj-abc");
    let whole = json!({"id": "obj-abc", "includePlans": true, "includeTasks": true});
    vec![
        ("README: TL;DR", "objectives/create", json!({"name": "Write blog post"})),
        (
            "README: TL;DR",
            "plans/create",
            json!({"objectiveId": "obj-123", "name": "Research",
                "tasks": [{"name": "Search for papers"}, {"name": "Summarize findings"}]}),
        ),
        (
            "README: objectives/create",
            "objectives/create",
            json!({"name": "Write blog post", "description": "About AI safety trends"}),
        ),
        (
            "README: objectives/get",
            "objectives/get",
            json!({"id": "obj-abc123", "includePlans": true, "includeTasks": true}),
        ),
        (
            "README: objectives/list",
            "objectives/list",
            json!({"status": "working", "pageSize": 10, "pageToken": ELIDED}),
        ),
        (
            "README: objectives/update",
            "objectives/update",
            json!({"id": "obj-abc123", "status": "completed"}),
        ),
        (
            "README: plans/create",
            "plans/create",
            json!({"objectiveId": "obj-abc123", "name": "Research phase", "tasks": [
                {"name": "Search papers", "description": "Find 5 recent papers"},
                {"name": "Summarize", "dependencies": ["task-0"]}]}),
        ),
        ("README: plans/get", "plans/get", json!({"id": "plan-xyz789", "includeTasks": true})),
        (
            "README: plans/update",
            "plans/update",
            json!({"id": "plan-xyz789", "status": "completed"}),
        ),
        // The specification prints only the metadata of this message.
        ("README: Extension Activation", "message/send", json!({"message": attached})),
        (
            "design: Starting a Conversation",
            "message/send",
            json!({"message": user_message("Research AI safety papers and write a summary")}),
        ),
        ("design: Fetching the Objective Hierarchy", "objectives/get", whole),
        ("design: Option B", "objectives/create", json!({"name": "Research AI safety..."})),
        // The specification prints these two without an id and a role, which A2A requires.
        ("design: Option B", "message/send", json!({"message": within})),
        ("design: Option C", "message/send", json!({"message": hinted})),
    ]
}

#[test]
fn every_printed_call_is_read() {
    let mut text = String::new();
    for (place, name, params) in printed_calls() {
        let (_, method) = Method::from_rpc_name(name).unwrap();
        for &version in Version::ALL {
            let decoded = decode(version, method, Some(&params.to_string())).unwrap();
            let name = method.rpc_name(version);
            text += &format!("{place} ({}): {name} {params}\n  -> {decoded:?}\n", version.as_str());
            if let Operation::SendMessage(send) = &decoded.operation {
                text += &format!("  -> {:?}\n", OptHints::of(&send.message).unwrap());
            }
            text.push('\n');
        }
    }
    golden("opt-seed-calls.txt", &text);
}

/// A printed reply and our reply.
struct Printed {
    place: &'static str,
    method: Method,
    result: Value,
    ours: Reply,
    /// Paths that differ, in 0.3 and in 1.0.
    differs: [&'static [&'static str]; 2],
    /// The reason for the differences.
    why: &'static str,
}

fn objective(fields: Value) -> Box<Objective> {
    let mut objective = json!({"id": "obj-abc", "createdAt": MOMENT, "updatedAt": MOMENT});
    objective.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    Box::new(serde_json::from_value(objective).unwrap())
}

fn plan(id: &str, name: &str, status: &str, tasks: &[(&str, &str, &str)]) -> Value {
    let tasks = tasks.iter().enumerate().map(|(i, (task, name, status))| {
        json!({"id": task, "planId": id, "objectiveId": "obj-abc", "name": name, "taskIndex": i,
            "status": status})
    });
    json!({"id": id, "objectiveId": "obj-abc", "name": name, "status": status,
        "tasks": tasks.collect::<Value>(), "createdAt": MOMENT, "updatedAt": MOMENT})
}

fn planned_task() -> Arc<Task> {
    let task = json!({"id": TASK, "contextId": "obj-abc",
        "status": {"state": "TASK_STATE_WORKING", "timestamp": MOMENT},
        "metadata": {"opt/v1/objectiveId": "obj-abc", "opt/v1/planId": "plan-001", "opt/v1/taskIndex": 0}});
    Arc::new(serde_json::from_value(task).unwrap())
}

fn sums_up() -> Box<Message> {
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "2 + 2 = 4"}]});
    Box::new(serde_json::from_value(message).unwrap())
}

fn whole() -> Box<Objective> {
    objective(json!({
        "name": "Research AI safety papers and write a summary",
        "status": "working",
        "plans": [
            plan("plan-001", "Research", "working", &[
                ("task-001", "Search papers", "working"),
                ("task-002", "Summarize findings", "pending"),
            ]),
            plan("plan-002", "Writing", "pending", &[("task-003", "Write summary", "pending")]),
        ],
    }))
}

const IDS: &str = "ids of A2A tasks are UUIDs here; 1.0 has its own words for states";

fn printed_answers() -> Vec<Printed> {
    vec![
        Printed {
            place: "README: objectives/create",
            method: Method::CreateObjective,
            result: json!({"id": "obj-abc123", "name": "Write blog post", "status": "submitted",
                "createdAt": "2026-02-15T04:30:00Z", "updatedAt": "2026-02-15T04:30:00Z"}),
            ours: Reply::Objective(objective(
                json!({"id": "obj-abc123", "name": "Write blog post", "status": "submitted"}),
            )),
            differs: [&[], &[]],
            why: "",
        },
        Printed {
            place: "design: Server Response (With Planning)",
            method: Method::SendMessage,
            result: json!({"task": {"id": "task-001", "contextId": "obj-abc",
                "status": {"state": "working", "timestamp": ELIDED},
                "metadata": {"opt/v1/objectiveId": "obj-abc", "opt/v1/planId": "plan-001",
                    "opt/v1/taskIndex": 0}}}),
            ours: Reply::Planned { task: planned_task(), objective: Some(whole()) },
            differs: [&["/task/id"], &["/task/id", "/task/status/state"]],
            why: IDS,
        },
        Printed {
            place: "design: Server Response (Simple, No Planning)",
            method: Method::SendMessage,
            result: json!({"message": {"role": "agent",
                "parts": [{"type": "text", "text": "2 + 2 = 4"}]}}),
            ours: Reply::Answered(sums_up()),
            differs: [&["/message/parts/0/type"], &["/message/role", "/message/parts/0/type"]],
            why: "`type` is `kind` in 0.3 and nothing in 1.0, which has its own words for roles",
        },
        Printed {
            place: "design: Fetching the Objective Hierarchy",
            method: Method::GetObjective,
            result: json!({"objective": {"id": "obj-abc",
                "name": "Research AI safety papers and write a summary", "status": "working",
                "plans": [
                    {"id": "plan-001", "name": "Research", "status": "working", "tasks": [
                        {"id": "task-001", "name": "Search papers", "status": "working"},
                        {"id": "task-002", "name": "Summarize findings", "status": "pending"}]},
                    {"id": "plan-002", "name": "Writing", "status": "pending", "tasks": [
                        {"id": "task-003", "name": "Write summary", "status": "pending"}]}]}}),
            ours: Reply::Objective(whole()),
            differs: [&[], &[]],
            why: "",
        },
        Printed {
            place: "design: Option A",
            method: Method::SendMessage,
            result: json!({"task": {"metadata": {"opt/v1/objectiveId": ELIDED}}}),
            ours: Reply::Planned { task: planned_task(), objective: None },
            differs: [&[], &[]],
            why: "",
        },
        Printed {
            place: "design: Option B",
            method: Method::CreateObjective,
            result: json!({"objective": {"id": "obj-abc", "status": "planning"}}),
            ours: Reply::Objective(objective(json!({"name": "Research", "status": "submitted"}))),
            differs: [&["/objective"], &["/objective"]],
            why: "the document does not recommend it, and the specification prints it bare",
        },
        Printed {
            place: "design: Option C",
            method: Method::SendMessage,
            result: json!({"task": ELIDED, "objective": {"id": "obj-abc",
                "name": "AI Safety Research", "status": "working", "plans": ELIDED}}),
            ours: Reply::Planned {
                task: planned_task(),
                objective: Some(Box::new(Objective {
                    name: "AI Safety Research".into(),
                    ..*whole()
                })),
            },
            differs: [&[], &[]],
            why: "",
        },
    ]
}

/// Paths of `printed` whose value differs in `ours`.
fn differences(printed: &Value, ours: Option<&Value>, path: &str, found: &mut Vec<String>) {
    match (printed, ours) {
        (Value::Object(printed), Some(Value::Object(ours))) => {
            for (key, value) in printed {
                let token = key.replace('~', "~0").replace('/', "~1");
                differences(value, ours.get(key), &format!("{path}/{token}"), found);
            }
        }
        (Value::Array(printed), Some(Value::Array(ours))) if printed.len() == ours.len() => {
            for (i, (value, ours)) in printed.iter().zip(ours).enumerate() {
                differences(value, Some(ours), &format!("{path}/{i}"), found);
            }
        }
        (Value::String(printed), Some(_)) if printed == ELIDED => {}
        (Value::String(printed), Some(Value::String(ours))) => {
            let moment = |text: &str| chrono::DateTime::parse_from_rfc3339(text).ok();
            if printed != ours && (moment(printed).is_none() || moment(printed) != moment(ours)) {
                found.push(path.to_owned());
            }
        }
        (printed, ours) if ours == Some(printed) => {}
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn every_printed_field_is_in_our_answers() {
    for (&version, index) in Version::ALL.iter().zip(0..) {
        let mut cases = Map::new();
        for printed in printed_answers() {
            let Printed { place, method, result, ours, differs, why } = printed;
            let ours = parsed(&reply(version.dialect(), method, &ours).to_json());
            let mut found = Vec::new();
            differences(&result, Some(&ours), "", &mut found);
            assert_eq!(found, differs[index], "{place} in {}\n{ours:#}", version.as_str());
            assert_eq!(found.is_empty(), why.is_empty(), "{place}: a reason for each difference");
            cases.insert(place.into(), ours);
        }
        golden_json(&format!("opt-seed-replies-{}.json", version.as_str()), cases);
    }
}

#[test]
fn the_printed_card_is_ours() {
    let printed = json!({
        "uri": "https://github.com/zeroasterisk/a2a-opt/v1",
        "required": false,
        "params": {"maxPlansPerObjective": 10, "maxTasksPerPlan": 50}
    });
    let mut found = Vec::new();
    let ours = serde_json::to_value(Extension::opt()).unwrap();
    differences(&printed, Some(&ours), "", &mut found);
    assert_eq!(found, Vec::<String>::new());
}
