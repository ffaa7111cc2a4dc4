//! Golden files of OPT calls and replies: `tests/golden/a2a/opt-*`.

use std::collections::HashSet;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{ObjectivePage, Operation, OptOperation, Reply, StreamEvent};
use a2a_protocol::opt::{Objective, PLANS_PER_OBJECTIVE, Plan, TASKS_PER_PLAN};
use a2a_protocol::wire::{Method, Version, decode, event, reply};
use a2a_protocol::{Code, Violation};
use serde_json::{Map, Value, json};

use super::wire_domain::{message, task};
use super::wire_golden::{DIALECTS, golden, golden_json, parsed};

const MOMENT: &str = "2026-02-15T04:30:00.000Z";

/// An objective with every field.
pub fn objective() -> Objective {
    let objective = json!({
        "id": "obj-abc", "name": "AI Safety Research", "description": "In depth", "status": "working",
        "plans": [plan(), {"id": "plan-002", "objectiveId": "obj-abc", "name": "Writing",
            "status": "pending", "createdAt": MOMENT, "updatedAt": MOMENT}],
        "metadata": {"opt/v1/revision": 7, "mine": 1}, "createdAt": MOMENT, "updatedAt": MOMENT,
    });
    serde_json::from_value(objective).unwrap()
}

fn plan() -> Plan {
    let plan = json!({
        "id": "plan-001", "objectiveId": "obj-abc", "name": "Research", "description": "Read",
        "status": "working", "dependencies": ["plan-000"],
        "tasks": [
            {"id": "step-1", "planId": "plan-001", "objectiveId": "obj-abc", "name": "Search papers",
                "description": "Find 5", "taskIndex": 0, "status": "input-required",
                "a2aTaskId": super::wire_domain::TASK, "metadata": {"opt/v1/assignee": "tim"}},
            {"id": "step-2", "planId": "plan-001", "objectiveId": "obj-abc", "name": "Summarize",
                "taskIndex": 1, "dependencies": ["step-1"], "status": "pending"},
        ],
        "metadata": {"opt/v1/assignee": "roman", "opt/v1/onTaskFailure": "skip"},
        "createdAt": MOMENT, "updatedAt": MOMENT,
    });
    serde_json::from_value(plan).unwrap()
}

/// A call of each method with all parameters, and the variants that are accepted.
fn calls() -> Vec<(Method, Value)> {
    let tasks = json!([
        {"name": "Search papers", "description": "Find 5", "metadata": {"opt/v1/assignee": "tim"}},
        {"name": "Summarize", "description": "", "unknown": 1,
            "dependencies": ["task-0", "task-007", "step-9", "task-", "task-1x", "task--1", "task-99999999999999999999"]},
    ]);
    vec![
        (
            Method::CreateObjective,
            json!({"tenant": "tim", "name": "Write blog post", "description": "About AI safety trends",
                "metadata": {"mine": 1, "opt/v1/revision": 99}}),
        ),
        (Method::CreateObjective, json!({"name": "x", "description": "", "metadata": null})),
        (Method::GetObjective, json!({"id": "obj-1", "sinceRevision": 3, "waitMs": 60_000})),
        (Method::GetObjective, json!({"id": "obj-1", "includeTasks": true, "waitMs": "0"})),
        (Method::GetObjective, json!({"objective_id": "obj-1", "include_plans": true})),
        (Method::ListObjectives, json!({})),
        (
            Method::ListObjectives,
            json!({"status": "blocked", "pageSize": 100, "pageToken": "p", "includeTasks": true}),
        ),
        (Method::ListObjectives, json!({"status": "", "pageToken": ""})),
        (Method::UpdateObjective, json!({"id": "obj-1"})),
        (
            Method::UpdateObjective,
            json!({"id": "obj-1", "name": "n", "description": "", "status": "canceled",
                "metadata": {"opt/v1/revision": 1}}),
        ),
        (Method::SubscribeObjective, json!({"id": "obj-1"})),
        (Method::CreatePlan, json!({"objectiveId": "obj-1", "name": "Research", "tasks": []})),
        (
            Method::CreatePlan,
            json!({"objectiveId": "obj-1", "name": "Research", "description": "Read", "status": "blocked",
                "tasks": tasks, "dependencies": ["plan-0", "task-0"],
                "metadata": {"opt/v1/assignee": "roman", "opt/v1/onTaskFailure": "skip"}}),
        ),
        (Method::GetPlan, json!({"id": "plan-1"})),
        (Method::GetPlan, json!({"id": "plan-1", "planId": "plan-1", "includeTasks": true})),
        (Method::UpdatePlan, json!({"id": "plan-1", "dependencies": []})),
        (
            Method::UpdatePlan,
            json!({"id": "plan-1", "name": "n", "description": "d", "status": "skipped",
                "dependencies": ["plan-0"], "metadata": {"opt/v1/assignee": null}}),
        ),
        (Method::AddTasks, json!({"planId": "plan-1", "tasks": [{"name": "One more"}]})),
        (Method::AddTasks, json!({"id": "plan-1", "tasks": [{"name": "One more"}]})),
    ]
}

#[test]
fn calls_are_read_alike_in_both_versions() {
    let mut text = String::new();
    for (method, params) in calls() {
        let read = |version| decode(version, method, Some(&params.to_string())).unwrap();
        let (old, new) = (read(Version::V0_3), read(Version::V1_0));
        assert_eq!((&old.tenant, &old.operation), (&new.tenant, &new.operation));
        assert_eq!(old.dialect, Version::V0_3.dialect());
        assert_eq!(new.dialect, Version::V1_0.dialect());
        assert_eq!(Method::from(&new.operation), method);
        let name = method.rpc_name(Version::V1_0);
        text += &format!("{name} {params}\n  -> {:?}\n\n", new.operation);
    }
    golden("opt-calls.txt", &text);
    let named: HashSet<_> = calls().into_iter().map(|(method, _)| method).collect();
    let known = Method::ALL.iter().copied().filter(|method| method.is_opt()).collect();
    assert_eq!(named, known, "a method without a golden call");
}

fn replies() -> Vec<(&'static str, Method, Reply)> {
    let objective = || Box::new(self::objective());
    let bare = || Box::new(Objective { plans: None, metadata: None, ..self::objective() });
    let plan = || Reply::Plan(Box::new(self::plan()));
    let page = |next: &str| {
        Reply::Objectives(ObjectivePage {
            objectives: vec![*bare()],
            next_page_token: next.to_owned(),
        })
    };
    let planned = |objective| Reply::Planned { task: task().into(), objective };
    vec![
        ("create_objective", Method::CreateObjective, Reply::Objective(bare())),
        ("get_objective", Method::GetObjective, Reply::Objective(objective())),
        ("list_objectives", Method::ListObjectives, page("")),
        ("list_objectives_with_more", Method::ListObjectives, page("next")),
        ("update_objective", Method::UpdateObjective, Reply::Objective(bare())),
        ("create_plan", Method::CreatePlan, plan()),
        ("get_plan", Method::GetPlan, plan()),
        ("update_plan", Method::UpdatePlan, plan()),
        ("add_tasks", Method::AddTasks, plan()),
        ("send_planned", Method::SendMessage, planned(Some(bare()))),
        ("send_without_objective", Method::SendMessage, planned(None)),
        ("send_message", Method::SendMessage, Reply::Answered(Box::new(message()))),
    ]
}

#[test]
fn replies_and_events_are_written() {
    for (name, dialect) in DIALECTS {
        let mut cases = Map::new();
        for (case, method, answer) in replies() {
            let written = parsed(&reply(dialect, method, &answer).to_json());
            let new = parsed(&reply(Version::V1_0.dialect(), method, &answer).to_json());
            assert!(!method.is_opt() || written == new, "{case} is another in {name}");
            cases.insert(case.into(), written);
        }
        let first = StreamEvent::Objective(Box::new(objective()));
        let written = parsed(&event(dialect, &first, false).to_json());
        assert_eq!(written, json!({"objective": objective()}), "{name}");
        cases.insert("event".into(), written);
        golden_json(&format!("opt-replies-{name}.json"), cases);
    }
}

#[test]
fn a_planned_task_keeps_the_form_of_its_version() {
    let (_, method, planned) = replies().swap_remove(9);
    let (_, _, answered) = replies().swap_remove(11);
    let of = |version: Version, answer| parsed(&reply(version.dialect(), method, answer).to_json());
    let old = of(Version::V0_3, &planned);
    assert_eq!(
        (&old["task"]["kind"], &old["objective"]["id"]),
        (&json!("task"), &json!("obj-abc"))
    );
    assert_eq!(of(Version::V0_3, &answered)["message"]["kind"], "message");
    let new = of(Version::V1_0, &planned);
    assert_eq!(new["task"]["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(new["objective"], old["objective"]);
    assert_eq!(of(Version::V1_0, &answered)["message"]["role"], "ROLE_AGENT");
}

/// Calls with one violation or several.
fn bad_calls() -> Vec<(Method, Value)> {
    let mut deep = json!(1);
    for _ in 0..30 {
        deep = json!([deep]);
    }
    let plan = |key: &str, value: Value| {
        let mut plan = json!({"objectiveId": "obj-1", "name": "Research"});
        plan[key] = value;
        plan
    };
    let many = |n: usize| json!(vec![json!({"name": "t"}); n]);
    let ids = |n: usize| json!(vec!["plan-0"; n]);
    vec![
        (Method::CreateObjective, json!([])),
        (Method::CreateObjective, json!({})),
        (Method::CreateObjective, json!({"name": ""})),
        (Method::CreateObjective, json!({"name": " \t"})),
        (
            Method::CreateObjective,
            json!({"name": "é".repeat(513), "description": "é".repeat(32_769)}),
        ),
        (Method::CreateObjective, json!({"name": {"a": 1}})),
        (Method::CreateObjective, json!({"name": "a\u{0}b"})),
        (Method::CreateObjective, json!({"name": "x", "metadata": {"deep": deep}})),
        (Method::CreateObjective, json!({"name": "x", "metadata": [1]})),
        (Method::GetObjective, json!({})),
        (Method::GetObjective, json!({"id": "a\nb", "waitMs": 60_001, "sinceRevision": -1})),
        (Method::GetObjective, json!({"id": "x", "waitMs": -1})),
        (Method::GetObjective, json!({"id": "x", "includePlans": "perhaps"})),
        (Method::GetObjective, json!({"id": "x", "objectiveId": "y"})),
        (Method::ListObjectives, json!({"pageSize": 0, "status": "complete"})),
        (Method::ListObjectives, json!({"pageSize": 101, "status": 3})),
        (Method::UpdateObjective, json!({"id": "x", "name": " ", "status": "cancelled"})),
        (Method::UpdateObjective, json!({"status": "completed"})),
        (Method::SubscribeObjective, json!({"id": 7})),
        (Method::CreatePlan, json!({"tasks": [{}, {"name": "ok"}, {"name": ""}]})),
        (Method::CreatePlan, plan("status", json!("working"))),
        (Method::CreatePlan, plan("tasks", many(TASKS_PER_PLAN + 1))),
        (Method::CreatePlan, plan("tasks", json!(["Search papers"]))),
        (Method::CreatePlan, plan("tasks", json!([{"name": "t", "dependencies": ["", 1]}]))),
        (Method::CreatePlan, plan("tasks", json!([{"name": "t", "dependencies": ["", "a\tb"]}]))),
        (
            Method::CreatePlan,
            plan(
                "tasks",
                json!([{"name": "t", "dependencies": ids(TASKS_PER_PLAN + 1),
                "metadata": {"opt/v1/assignee": "no one"}}]),
            ),
        ),
        (Method::CreatePlan, plan("dependencies", ids(PLANS_PER_OBJECTIVE + 1))),
        (
            Method::CreatePlan,
            plan("metadata", json!({"opt/v1/assignee": "../tim", "opt/v1/onTaskFailure": "skipp"})),
        ),
        (
            Method::UpdatePlan,
            json!({"id": "p", "status": "submitted",
                "metadata": {"opt/v1/assignee": 7, "opt/v1/onTaskFailure": true, "deep": deep}}),
        ),
        (Method::GetPlan, json!({"planId": ""})),
        (Method::AddTasks, json!({"planId": "p"})),
        (Method::AddTasks, json!({"planId": "p", "id": "q", "tasks": many(51)})),
    ]
}

fn violations(method: Method, params: &Value) -> Vec<Violation> {
    match decode(Version::V0_3, method, Some(&params.to_string())) {
        Err(Fault::InvalidParams(found)) => found,
        read => panic!("{params}: {read:?}"),
    }
}

#[test]
fn violations_of_bad_calls_are_golden() {
    let mut text = String::new();
    for (method, params) in bad_calls() {
        let found = violations(method, &params);
        assert!(!found.is_empty(), "{params}");
        let shown: String = params.to_string().chars().take(120).collect();
        text += &format!("{} {shown}\n", method.rpc_name(Version::V0_3));
        for violation in found {
            text += &format!("  {}\n", serde_json::to_string(&violation).unwrap());
        }
    }
    golden("opt-violations.txt", &text);
}

#[test]
fn value_above_a_limit_is_refused() {
    let at = |method, params: Value| decode(Version::V1_0, method, Some(&params.to_string()));
    let plan = |tasks: usize, plans: usize| {
        json!({"objectiveId": "o", "name": "é".repeat(512), "description": "é".repeat(32_768),
            "tasks": vec![json!({"name": "t"}); tasks], "dependencies": vec!["p"; plans]})
    };
    let decoded = at(Method::CreatePlan, plan(TASKS_PER_PLAN, PLANS_PER_OBJECTIVE)).unwrap();
    let Operation::Opt(asked) = decoded.operation else { panic!() };
    let OptOperation::CreatePlan(asked) = *asked else { panic!("{asked:?}") };
    assert_eq!((asked.tasks.len(), asked.dependencies.len()), (50, 10));
    let found = violations(Method::CreatePlan, &plan(TASKS_PER_PLAN + 1, PLANS_PER_OBJECTIVE + 1));
    let found: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.code)).collect();
    assert_eq!(found, [("/tasks", Code::TooMany), ("/dependencies", Code::TooMany)]);
    assert!(at(Method::GetObjective, json!({"id": "o", "waitMs": 60_000})).is_ok());
    assert!(at(Method::GetObjective, json!({"id": "o", "waitMs": 60_001})).is_err());
}
