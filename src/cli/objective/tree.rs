//! Objective as a tree of plans and tasks.

use std::collections::HashMap;

use a2a_protocol::opt::{BlockedBy, Objective, Plan, PlanTask, key};
use a2a_protocol::task::{Metadata, PlanId};
use serde_json::Value;

use crate::cli::stdout::sanitize;

/// The whole tree as lines.
pub(super) fn drawn(objective: &Objective) -> Vec<String> {
    let mut lines = vec![head(objective)];
    let plans = objective.plans.as_deref().unwrap_or_default();
    let plan_names: HashMap<_, _> = plans.iter().map(|plan| (&plan.id, &plan.name)).collect();
    for (n, plan) in plans.iter().enumerate() {
        let (branch, below) =
            if n + 1 == plans.len() { ("└─", "   ") } else { ("├─", "│  ") };
        let listed = drafted_after(plan);
        let before = plan.dependencies.iter().chain(&listed);
        let before = before.filter_map(|id| plan_names.get(id).copied());
        lines.push(format!("{branch} {}{}", of_plan(plan), after(before)));
        let tasks = plan.tasks.as_deref().unwrap_or_default();
        let task_names: HashMap<_, _> = tasks.iter().map(|task| (&task.id, &task.name)).collect();
        for (n, task) in tasks.iter().enumerate() {
            let branch = if n + 1 == tasks.len() { "└─" } else { "├─" };
            let before = task.dependencies.iter().filter_map(|id| task_names.get(id).copied());
            lines.push(format!("{below}{branch} {}{}", of_task(task), after(before)));
        }
    }
    lines
}

/// Changes since `before`, one line each.
pub(super) fn changes(before: &Objective, now: &Objective) -> Vec<String> {
    let old_plans = before.plans.as_deref().unwrap_or_default();
    let old_tasks: HashMap<_, _> = old_plans
        .iter()
        .flat_map(|plan| plan.tasks.iter().flatten())
        .map(|task| (&task.id, task.status))
        .collect();
    let mut lines = Vec::new();
    for plan in now.plans.iter().flatten() {
        for task in plan.tasks.iter().flatten() {
            if old_tasks.get(&task.id) != Some(&task.status) {
                lines.push(format!("task  {}", of_task(task)));
            }
        }
        let old = old_plans.iter().find(|old| old.id == plan.id);
        if old.map(|old| old.status) != Some(plan.status) {
            lines.push(format!("plan  {}", of_plan(plan)));
        }
    }
    if before.status != now.status || before.name != now.name {
        lines.push(format!("objective  {}", head(now)));
    }
    lines
}

fn head(objective: &Objective) -> String {
    let (name, id) = (sanitize(&objective.name), sanitize(objective.id.as_str()));
    format!("{name}  {}  {id}", objective.status)
}

/// Plans that the server's planner put before this one.
fn drafted_after(plan: &Plan) -> Vec<PlanId> {
    let listed = plan.metadata.as_ref().and_then(|all| all.get(key::AFTER)?.as_array());
    let ids = listed.into_iter().flatten().filter_map(Value::as_str);
    ids.filter_map(|id| PlanId::try_from(id).ok()).collect()
}

fn of_plan(plan: &Plan) -> String {
    let id = sanitize(&plan.id.to_string());
    let mut line = format!("{}  {}  {id}", sanitize(&plan.name), plan.status);
    line.push_str(&assignee(plan.metadata.as_ref()));
    let field = |key: &str| plan.metadata.as_ref().and_then(|all| all.get(key)?.as_str());
    if field(key::BLOCKED_BY) == Some(BlockedBy::Approval.as_str()) {
        line.push_str(&format!("  (approve with: openclaw-a2a objective approve {id})"));
    }
    if let Some(reason) = field(key::REASON) {
        line.push_str(&format!("  ({})", sanitize(reason)));
    }
    line
}

fn of_task(task: &PlanTask) -> String {
    let mut line = format!("{}  {}", sanitize(&task.name), task.status);
    line.push_str(&assignee(task.metadata.as_ref()));
    if let Some(id) = task.a2a_task_id.filter(|_| task.status.is_interrupted()) {
        line.push_str(&format!("  (answer the A2A task {id})"));
    }
    line
}

fn assignee(metadata: Option<&Metadata>) -> String {
    let name = metadata.and_then(|all| all.get(key::ASSIGNEE)?.as_str());
    name.map(|name| format!("  by {}", sanitize(name))).unwrap_or_default()
}

fn after<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| sanitize(name)).collect();
    if names.is_empty() { String::new() } else { format!("  after: {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const AT: &str = "2026-02-21T18:30:00.000Z";

    fn plan(id: &str, status: &str, tasks: &[Value]) -> Value {
        json!({"id": id, "objectiveId": "obj-1", "name": format!("P {id}"), "status": status,
            "tasks": tasks, "createdAt": AT, "updatedAt": AT})
    }

    fn task(id: &str, plan: &str, status: &str) -> Value {
        json!({"id": id, "planId": plan, "objectiveId": "obj-1", "name": format!("T {id}"),
            "taskIndex": 0, "status": status})
    }

    fn objective(status: &str, plans: &[Value]) -> Objective {
        serde_json::from_value(json!({"id": "obj-1", "name": "Post\u{1b}[2J", "status": status,
            "plans": plans, "createdAt": AT, "updatedAt": AT}))
        .unwrap()
    }

    #[test]
    fn tree_nests_tasks_below_plans() {
        let mut second = task("step-2", "plan-1", "input-required");
        second["dependencies"] = json!(["step-1"]);
        second["metadata"] = json!({"opt/v1/assignee": "tim"});
        second["a2aTaskId"] = json!("0192a4c8-7e1a-7b3c-9d4e-000000000003");
        let first = plan("plan-1", "blocked", &[task("step-1", "plan-1", "completed"), second]);
        let mut held = plan("plan-2", "blocked", &[task("step-3", "plan-2", "pending")]);
        held["metadata"] = json!({"opt/v1/blockedBy": "approval"});
        held["dependencies"] = json!(["plan-1"]);
        let mut waits = plan("plan-3", "blocked", &[]);
        waits["metadata"] = json!({"opt/v1/blockedBy": "dependencies"});
        waits["dependencies"] = json!(["plan-2"]);
        let mut last = plan("plan-4", "failed", &[]);
        last["metadata"] = json!({"opt/v1/after": ["plan-3"], "opt/v1/reason": "no\u{1b}[2J"});
        let expected = [
            "Post\\u{1b}[2J  blocked  obj-1",
            "├─ P plan-1  blocked  plan-1",
            "│  ├─ T step-1  completed",
            "│  └─ T step-2  input-required  by tim  (answer the A2A task 0192a4c8-7e1a-7b3c-9d4e-000000000003)  after: T step-1",
            "├─ P plan-2  blocked  plan-2  (approve with: openclaw-a2a objective approve plan-2)  after: P plan-1",
            "│  └─ T step-3  pending",
            "├─ P plan-3  blocked  plan-3  after: P plan-2",
            "└─ P plan-4  failed  plan-4  (no\\u{1b}[2J)  after: P plan-3",
        ];
        assert_eq!(drawn(&objective("blocked", &[first, held, waits, last])), expected);
    }

    #[test]
    fn changes_are_listed_one_per_line() {
        let at = |status: &str, plans: &str, tasks: &str| {
            objective(status, &[plan("plan-1", plans, &[task("step-1", "plan-1", tasks)])])
        };
        let (before, now) =
            (at("working", "working", "working"), at("completed", "completed", "completed"));
        assert!(changes(&before, &before).is_empty());
        let expected = [
            "task  T step-1  completed",
            "plan  P plan-1  completed  plan-1",
            "objective  Post\\u{1b}[2J  completed  obj-1",
        ];
        assert_eq!(changes(&before, &now), expected);
        let begun = ["task  T step-1  working", "plan  P plan-1  working  plan-1"];
        assert_eq!(changes(&objective("working", &[]), &before), begun);
    }
}
