//! Scenarios: mutations of an objective, the effects of each, and the resulting statuses.

mod edges;

use a2a_protocol::opt::{
    Objective, ObjectiveStatus, Plan, PlanStatus, PlanTask, PlanTaskStatus, key,
};
use a2a_protocol::task::{PlanId, PlanTaskId};
use serde_json::{Value, json};

use super::{CommandRefused, Effect, Tree};

const TIME: &str = "2026-02-15T04:30:00Z";

/// An objective in a line: plans separated by `|`, each with its name, the plans it depends on
/// after `<`, the plan it merely follows after `>`, `?` if failed tasks are skipped, `!` if it is
/// held; then its tasks in the same notation.
pub(super) fn objective(line: &str) -> Objective {
    let plans: Vec<Plan> =
        line.split('|').filter(|text| !text.trim().is_empty()).map(plan).collect();
    let objective = json!({
        "id": "obj", "name": "o", "status": "submitted", "plans": plans,
        "createdAt": TIME, "updatedAt": TIME,
    });
    serde_json::from_value(objective).unwrap()
}

fn plan(text: &str) -> Plan {
    let (head, tasks) = text.split_once(':').unwrap();
    let (skip, held) = (head.contains('?'), head.contains('!'));
    let head = head.replace(['?', '!'], "");
    let (head, after) = head.split_once('>').unwrap_or((&head, ""));
    let (name, dependencies) = named(head.trim());
    let after: Vec<&str> = after.split_whitespace().collect();
    let tasks: Vec<PlanTask> =
        tasks.split_whitespace().enumerate().map(|(i, text)| task(text, i, &name)).collect();
    let plan = json!({
        "id": name, "objectiveId": "obj", "name": name, "tasks": tasks,
        "status": if held { "blocked" } else { "pending" }, "dependencies": dependencies,
        "metadata": {key::ON_TASK_FAILURE: if skip { "skip" } else { "fail" }, key::AFTER: after},
        "createdAt": TIME, "updatedAt": TIME,
    });
    serde_json::from_value(plan).unwrap()
}

fn task(text: &str, place: usize, plan: &str) -> PlanTask {
    let (name, dependencies) = named(text);
    let task: Value = json!({
        "id": name, "planId": plan, "objectiveId": "obj", "name": name, "taskIndex": place,
        "dependencies": dependencies, "status": "pending",
    });
    serde_json::from_value(task).unwrap()
}

fn named(text: &str) -> (String, Vec<String>) {
    let (name, needs) = text.split_once('<').unwrap_or((text, ""));
    let needs = needs.split(',').map(str::trim).filter(|need| !need.is_empty());
    (name.trim().into(), needs.map(Into::into).collect())
}

/// The same as a tree that is not settled yet.
pub(super) fn tree(line: &str) -> Tree {
    Tree::from(&objective(line))
}

/// All statuses in a line: `working | A working: a=completed b=working`.
fn shown(tree: &Tree) -> String {
    let mut line = tree.status().to_string();
    for plan in tree.plans() {
        line += &format!(" | {} {}:", plan.id(), plan.status());
        for (task, status) in plan.shown() {
            line += &format!(" {}={status}", task.id());
        }
    }
    line
}

/// The effects on tasks: `+a` begins, `-a` is cancelled.
fn done(effects: &[Effect]) -> String {
    let words = effects.iter().filter_map(|effect| match effect {
        Effect::Begin { task, .. } => Some(format!("+{task}")),
        Effect::Cancel { task, .. } => Some(format!("-{task}")),
        Effect::Plan { .. } | Effect::Objective { .. } => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Applies one action: `a=failed` is a report, `A:blocked` sets the status of a plan, `:canceled`
/// that of the objective; anything else adds a plan.
fn act(tree: &mut Tree, word: &str) -> Result<Vec<Effect>, CommandRefused> {
    if let Some((task, status)) = word.split_once('=') {
        let status = PlanTaskStatus::from_name(status).unwrap();
        return Ok(tree.report(&PlanTaskId::try_from(task).unwrap(), status));
    }
    match word.split_once(':') {
        Some(("", status)) => tree.move_objective(ObjectiveStatus::from_name(status).unwrap()),
        Some((id, status)) if PlanStatus::from_name(status).is_some() => {
            let status = PlanStatus::from_name(status).unwrap();
            tree.move_plan(&PlanId::try_from(id).unwrap(), status)
        }
        _ => tree.add_plan(&plan(word)),
    }
}

/// Runs a scenario: per action the expected effects on tasks, and all statuses.
fn play(line: &str, acts: &[(&str, &str, &str)]) {
    let mut tree = tree(line);
    for (word, expected_done, expected_shown) in acts {
        let effects = if word.is_empty() { tree.settle() } else { act(&mut tree, word).unwrap() };
        assert_eq!(done(&effects), *expected_done, "{line}: after {word}");
        assert_eq!(shown(&tree), *expected_shown, "{line}: after {word}");
        assert_eq!(tree.settle(), [], "{line}: {word} leaves nothing to be done");
    }
}

#[test]
fn the_objective_of_the_specification() {
    play(
        "Research: search sum<search | Writing>Research: write",
        &[
            (
                "",
                "+search",
                "working | Research working: search=submitted sum=pending | Writing pending: write=pending",
            ),
            (
                "search=working",
                "",
                "working | Research working: search=working sum=pending | Writing pending: write=pending",
            ),
            (
                "search=completed",
                "+sum",
                "working | Research working: search=completed sum=submitted | Writing pending: write=pending",
            ),
            (
                "sum=completed",
                "+write",
                "working | Research completed: search=completed sum=completed | Writing working: write=submitted",
            ),
            (
                "write=completed",
                "",
                "completed | Research completed: search=completed sum=completed | Writing completed: write=completed",
            ),
            (
                "write=failed",
                "",
                "completed | Research completed: search=completed sum=completed | Writing completed: write=completed",
            ),
        ],
    );
}

#[test]
fn plan_with_unfinished_dependencies_is_blocked_and_a_later_one_is_pending() {
    play(
        "A: a | B<A: b | C>A: c | D<A>B: d",
        &[
            (
                "",
                "+a",
                "working | A working: a=submitted | B blocked: b=pending | C pending: c=pending | D blocked: d=pending",
            ),
            (
                "a=completed",
                "+b +c",
                "working | A completed: a=completed | B working: b=submitted | C working: c=submitted | D pending: d=pending",
            ),
            (
                "b=completed",
                "+d",
                "working | A completed: a=completed | B completed: b=completed | C working: c=submitted | D working: d=submitted",
            ),
        ],
    );
    play(
        "A: a | C>A: c",
        &[
            ("", "+a", "working | A working: a=submitted | C pending: c=pending"),
            ("a=failed", "", "failed | A failed: a=failed | C skipped: c=canceled"),
        ],
    );
    // A plan that waits for others can be held as well; released, it keeps waiting.
    play(
        "A: a | B<A: b",
        &[
            ("", "+a", "working | A working: a=submitted | B blocked: b=pending"),
            ("B:blocked", "", "working | A working: a=submitted | B blocked: b=pending"),
            ("a=completed", "", "blocked | A completed: a=completed | B blocked: b=pending"),
            ("B:working", "+b", "working | A completed: a=completed | B working: b=submitted"),
        ],
    );
}

#[test]
fn objective_takes_every_open_status_with_or_without_plans() {
    play(
        "",
        &[
            (":working", "", "working"),
            (":blocked", "", "blocked"),
            // Held: new tasks do not begin.
            ("A: a b<a", "", "blocked | A pending: a=pending b=pending"),
            (":working", "+a", "working | A working: a=submitted b=pending"),
            (":planning", "", "planning | A working: a=submitted b=pending"),
            ("a=working", "", "planning | A working: a=working b=pending"),
            ("a=input-required", "", "blocked | A blocked: a=input-required b=pending"),
            // Blocked by its plan already; the caller holds it as well.
            (":blocked", "", "blocked | A blocked: a=input-required b=pending"),
            ("a=completed", "", "blocked | A pending: a=completed b=pending"),
            (":planning", "+b", "working | A working: a=completed b=submitted"),
            (":blocked", "", "blocked | A working: a=completed b=submitted"),
            ("b=completed", "", "completed | A completed: a=completed b=completed"),
        ],
    );
    play(
        "A!: a",
        &[
            ("", "", "blocked | A blocked: a=pending"),
            (":working", "", "working | A blocked: a=pending"),
            ("A:working", "+a", "working | A working: a=submitted"),
        ],
    );
}

#[test]
fn independent_tasks_run_in_parallel() {
    play(
        "A: a b c<a,b | B: d",
        &[
            (
                "",
                "+a +b +d",
                "working | A working: a=submitted b=submitted c=pending | B working: d=submitted",
            ),
            (
                "a=completed",
                "",
                "working | A working: a=completed b=submitted c=pending | B working: d=submitted",
            ),
            (
                "c=completed",
                "",
                "working | A working: a=completed b=submitted c=pending | B working: d=submitted",
            ),
            (
                "b=completed",
                "+c",
                "working | A working: a=completed b=completed c=submitted | B working: d=submitted",
            ),
        ],
    );
}

#[test]
fn failed_task_fails_its_plan_and_skips_dependents() {
    for end in ["failed", "rejected", "canceled"] {
        play(
            "A: a b c<b | B<A: d | C<B: e | D: f",
            &[
                (
                    "",
                    "+a +b +f",
                    "working | A working: a=submitted b=submitted c=pending | B blocked: d=pending | C blocked: e=pending | D working: f=submitted",
                ),
                (
                    &format!("a={end}"),
                    "-b",
                    &format!(
                        "working | A failed: a={end} b=canceled c=canceled | B skipped: d=canceled | C skipped: e=canceled | D working: f=submitted"
                    ),
                ),
                (
                    "b=completed",
                    "",
                    &format!(
                        "working | A failed: a={end} b=canceled c=canceled | B skipped: d=canceled | C skipped: e=canceled | D working: f=submitted"
                    ),
                ),
                (
                    "f=completed",
                    "",
                    &format!(
                        "failed | A failed: a={end} b=canceled c=canceled | B skipped: d=canceled | C skipped: e=canceled | D completed: f=completed"
                    ),
                ),
            ],
        );
    }
}

#[test]
fn plan_with_skip_continues_after_failed_task() {
    play(
        "A?: a b<a c<b d | B<A: e",
        &[
            (
                "",
                "+a +d",
                "working | A working: a=submitted b=pending c=pending d=submitted | B blocked: e=pending",
            ),
            (
                "a=failed",
                "",
                "working | A working: a=failed b=canceled c=canceled d=submitted | B blocked: e=pending",
            ),
            (
                "d=completed",
                "+e",
                "working | A completed: a=failed b=canceled c=canceled d=completed | B working: e=submitted",
            ),
        ],
    );
    play(
        "A?: a b<a",
        &[
            ("", "+a", "working | A working: a=submitted b=pending"),
            ("a=rejected", "", "planning | A skipped: a=rejected b=canceled"),
            ("B: c", "+c", "working | A skipped: a=rejected b=canceled | B working: c=submitted"),
            (
                "c=completed",
                "",
                "completed | A skipped: a=rejected b=canceled | B completed: c=completed",
            ),
        ],
    );
}

#[test]
fn held_plan_waits_for_approval_and_others_continue() {
    play(
        "A!: a | B<A: b",
        &[
            ("", "", "blocked | A blocked: a=pending | B blocked: b=pending"),
            ("A:blocked", "", "blocked | A blocked: a=pending | B blocked: b=pending"),
            ("B:working", "", "blocked | A blocked: a=pending | B blocked: b=pending"),
            ("B:blocked", "", "blocked | A blocked: a=pending | B blocked: b=pending"),
            ("B:working", "", "blocked | A blocked: a=pending | B blocked: b=pending"),
            ("A:working", "+a", "working | A working: a=submitted | B blocked: b=pending"),
            ("A:blocked", "", "working | A blocked: a=submitted | B blocked: b=pending"),
            ("a=completed", "+b", "working | A completed: a=completed | B working: b=submitted"),
        ],
    );
    // No new task begins while it is held.
    play(
        "A: a b<a",
        &[
            ("", "+a", "working | A working: a=submitted b=pending"),
            ("A:blocked", "", "working | A blocked: a=submitted b=pending"),
            ("a=completed", "", "blocked | A blocked: a=completed b=pending"),
            ("A:working", "+b", "working | A working: a=completed b=submitted"),
        ],
    );
}

#[test]
fn question_blocks_plan_until_input() {
    play(
        "A: a b | B: c",
        &[
            (
                "",
                "+a +b +c",
                "working | A working: a=submitted b=submitted | B working: c=submitted",
            ),
            (
                "a=input-required",
                "",
                "working | A blocked: a=input-required b=submitted | B working: c=submitted",
            ),
            (
                "c=completed",
                "",
                "working | A blocked: a=input-required b=submitted | B completed: c=completed",
            ),
            (
                "b=auth-required",
                "",
                "blocked | A blocked: a=input-required b=auth-required | B completed: c=completed",
            ),
            (
                "A:working",
                "",
                "blocked | A blocked: a=input-required b=auth-required | B completed: c=completed",
            ),
            (
                "b=submitted",
                "",
                "working | A blocked: a=input-required b=submitted | B completed: c=completed",
            ),
            (
                "a=working",
                "",
                "working | A working: a=working b=submitted | B completed: c=completed",
            ),
        ],
    );
    // Held and waiting for input at once: input is no approval, and approval no input.
    play(
        "A: a b<a",
        &[
            ("", "+a", "working | A working: a=submitted b=pending"),
            ("A:blocked", "", "working | A blocked: a=submitted b=pending"),
            ("a=input-required", "", "blocked | A blocked: a=input-required b=pending"),
            ("a=working", "", "working | A blocked: a=working b=pending"),
            ("a=input-required", "", "blocked | A blocked: a=input-required b=pending"),
            ("A:working", "", "blocked | A blocked: a=input-required b=pending"),
            ("a=working", "", "working | A working: a=working b=pending"),
        ],
    );
}

#[test]
fn ended_parent_cancels_its_children() {
    for (status, plan) in [("completed", "skipped"), ("failed", "skipped"), ("canceled", "skipped")]
    {
        play(
            "A: a b<a | B<A: c | C: d",
            &[
                (
                    "",
                    "+a +d",
                    "working | A working: a=submitted b=pending | B blocked: c=pending | C working: d=submitted",
                ),
                (
                    "d=completed",
                    "",
                    "working | A working: a=submitted b=pending | B blocked: c=pending | C completed: d=completed",
                ),
                (
                    &format!(":{status}"),
                    "-a",
                    &format!(
                        "{status} | A {plan}: a=canceled b=canceled | B {plan}: c=canceled | C completed: d=completed"
                    ),
                ),
            ],
        );
    }
    for (status, rest, objective) in [("completed", "+c", "working"), ("skipped", "+c", "working")]
    {
        play(
            "A: a b<a | B<A: c",
            &[
                ("", "+a", "working | A working: a=submitted b=pending | B blocked: c=pending"),
                (
                    &format!("A:{status}"),
                    &format!("-a {rest}"),
                    &format!(
                        "{objective} | A {status}: a=canceled b=canceled | B working: c=submitted"
                    ),
                ),
            ],
        );
    }
    play(
        "A: a b<a | B<A: c",
        &[
            ("", "+a", "working | A working: a=submitted b=pending | B blocked: c=pending"),
            ("A:failed", "-a", "failed | A failed: a=canceled b=canceled | B skipped: c=canceled"),
        ],
    );
}

#[test]
fn objective_without_tasks_is_planning() {
    play(
        "",
        &[
            ("", "", "submitted"),
            (":planning", "", "planning"),
            ("A:", "", "planning | A pending:"),
            ("B!:", "", "planning | A pending: | B blocked:"),
            ("C<A: c", "", "blocked | A pending: | B blocked: | C blocked: c=pending"),
            ("B:skipped", "", "planning | A pending: | B skipped: | C blocked: c=pending"),
            ("A:completed", "+c", "working | A completed: | B skipped: | C working: c=submitted"),
        ],
    );
    play(
        "A: a",
        &[
            ("", "+a", "working | A working: a=submitted"),
            ("B:", "", "working | A working: a=submitted | B pending:"),
            ("a=completed", "", "planning | A completed: a=completed | B pending:"),
            (":completed", "", "completed | A completed: a=completed | B skipped:"),
        ],
    );
}
