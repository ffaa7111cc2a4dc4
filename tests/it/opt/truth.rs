//! What must be true of an objective whatever happens: random ones, an agent whose answers are
//! known beforehand, and so is the state of everything at the end.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{revision, text};
use crate::server::{Client, id_of, message};

/// Longer than anything takes; a test that reaches it has failed.
pub(super) const TOO_LONG: Duration = Duration::from_secs(120);
/// Who does the tasks.
pub(super) const AGENTS: [&str; 2] = ["tim", "roman"];
const ENDS: [&str; 4] = ["completed", "failed", "canceled", "rejected"];

/// Numbers that are the same in every run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// Some of these.
    fn some<T: Clone>(&mut self, of: &[T], chance: usize) -> Vec<T> {
        of.iter().filter(|_| self.percent(chance)).cloned().collect()
    }

    /// The tasks of a plan. Their names encode their results, so that these are the same however
    /// often an agent is asked.
    fn tasks(&mut self) -> Vec<Value> {
        let count = 1 + self.below(4);
        // A task may need tasks behind it: the order of the list means nothing.
        let backwards = self.percent(50);
        let each = (0..count).map(|at| {
            let earlier: Vec<_> = match backwards {
                true => (at + 1..count).map(|at| format!("task-{at}")).collect(),
                false => (0..at).map(|at| format!("task-{at}")).collect(),
            };
            let name = if self.percent(80) { "can" } else { "cannot" };
            let mut task = json!({"name": name, "dependencies": self.some(&earlier, 50)});
            if self.percent(40) {
                task["metadata"] = json!({ "opt/v1/assignee": AGENTS[1] });
            }
            task
        });
        each.collect()
    }

    /// A plan that may build on these.
    pub(super) fn plan(&mut self, objective: &str, earlier: &[String]) -> Value {
        let policy = if self.percent(50) { "skip" } else { "fail" };
        json!({
            "objectiveId": objective,
            "name": "plan",
            "tasks": self.tasks(),
            "dependencies": self.some(earlier, 40),
            "metadata": {"opt/v1/onTaskFailure": policy},
        })
    }
}

/// The agents are attached. All deliveries are handed back: no work is done yet.
pub(super) fn appear(client: &Client) {
    for agent in AGENTS {
        for received in client.inbox(agent, "limit=1") {
            assert_eq!(client.settle(agent, id_of(&received), "nack").status, 200);
        }
    }
}

/// What the agents were asked for: tasks by their ids.
pub(super) type Asked = Mutex<HashSet<String>>;

/// Takes work and does it, until the server is gone.
pub(super) fn work(client: &Client, agent: &str, asked: &Asked) {
    while let Ok(answer) = client.try_inbox(agent, "wait=1s&limit=4") {
        let Some(messages) = answer.body["messages"].as_array() else { continue };
        for received in messages {
            if received["message"]["type"] == "task_request"
                && done(client, agent, received, asked).is_none()
            {
                return;
            }
            // Acknowledged after the answer, so that nothing is forgotten.
            if client.try_settle(agent, id_of(received), "ack").is_err() {
                return;
            }
        }
    }
}

fn done(client: &Client, agent: &str, received: &Value, asked: &Asked) -> Option<()> {
    let request = &received["message"];
    let mut answer = message(agent, "x", "x");
    answer["to"] = json!({"agentId": request["from"]["agentId"]});
    answer["correlationId"] = request["correlationId"].clone();
    answer["type"] = "task_response".into();
    let task = &request["payload"]["taskId"];
    answer["payload"] = match request["payload"]["title"] == "can" {
        true => json!({"taskId": task, "action": "completed"}),
        false => json!({"taskId": task, "action": "failed", "reason": "no"}),
    };
    asked.lock().unwrap().insert(text(task));
    let receipt = client.try_send(&answer).ok()?;
    // 409: it was answered before a crash, or cancelled meanwhile.
    assert!(matches!(receipt.status, 202 | 409 | 503), "{receipt:?}");
    Some(())
}

pub(super) fn each<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn is_end(status: &Value) -> bool {
    status == "skipped" || ENDS.iter().any(|end| status == end)
}

fn by_id(of: &[Value]) -> HashMap<&str, &Value> {
    of.iter().map(|one| (one["id"].as_str().unwrap(), one)).collect()
}

fn needs(one: &Value) -> impl Iterator<Item = &str> {
    each(one, "dependencies").iter().map(|id| id.as_str().unwrap())
}

/// How many of these are so.
fn count(of: &[Value], status: &str) -> usize {
    of.iter().filter(|one| one["status"] == status).count()
}

/// No parent contradicts its children, and nothing that can begin has been forgotten.
pub(super) fn is_consistent(objective: &Value) {
    let plans = each(objective, "plans");
    let known = by_id(plans);
    for plan in plans {
        let tasks = each(plan, "tasks");
        let ended = tasks.iter().all(|task| is_end(&task["status"]));
        let untouched = tasks.iter().all(|task| task.get("a2aTaskId").is_none());
        let runs = count(tasks, "working") + count(tasks, "submitted") > 0;
        let waits = needs(plan).any(|id| !is_end(&known[id]["status"]));
        let right = match plan["status"].as_str().unwrap() {
            "completed" => ended && count(tasks, "completed") > 0,
            "failed" => ended && count(tasks, "failed") > 0,
            "skipped" => ended,
            "blocked" => untouched && (waits || plan["metadata"]["opt/v1/blockedBy"] == "approval"),
            "working" => runs && !waits,
            _ => false,
        };
        assert!(right, "a plan and its tasks: {plan:#}\nof {objective:#}");
        tasks_are_consistent(plan);
    }
    let ended = plans.iter().all(|plan| is_end(&plan["status"]));
    let (completed, failed) = (count(plans, "completed"), count(plans, "failed"));
    let held = plans.iter().filter(|plan| plan["metadata"]["opt/v1/blockedBy"] == "approval");
    let held = held.count();
    let right = match objective["status"].as_str().unwrap() {
        "submitted" => plans.is_empty(),
        "planning" => !plans.is_empty() && count(plans, "skipped") == plans.len(),
        "working" => count(plans, "working") > 0,
        "blocked" => count(plans, "working") == 0 && held > 0,
        "completed" => ended && completed > 0 && failed == 0,
        "failed" => ended && failed > 0,
        "canceled" => ended,
        _ => false,
    };
    assert!(right, "an objective and its plans: {objective:#}");
}

fn tasks_are_consistent(plan: &Value) {
    let tasks = each(plan, "tasks");
    let known = by_id(tasks);
    for task in tasks {
        let ready = needs(task).all(|id| known[id]["status"] == "completed");
        let right = match (task.get("a2aTaskId"), task["status"].as_str().unwrap()) {
            (None, "pending") => plan["status"] != "working" || !ready,
            (None, "canceled") => is_end(&plan["status"]) || !ready,
            (None, _) => false,
            (Some(_), "pending") => false,
            (Some(_), _) => ready,
        };
        assert!(right, "a task and its dependencies: {task:#}\nof {plan:#}");
    }
}

/// The A2A tasks match the objective.
pub(super) fn is_mirrored(client: &Client, objective: &Value) -> Result<(), String> {
    for task in each(objective, "plans").iter().flat_map(|plan| each(plan, "tasks")) {
        let Some(id) = task["a2aTaskId"].as_str() else { continue };
        let agent = task["metadata"]["opt/v1/assignee"].as_str().unwrap_or(AGENTS[0]);
        let found = client.get(&format!("/agents/{agent}/tasks/{id}"));
        if found.status != 200 {
            return Err(format!("{id} is lost: {found:?}"));
        }
        let state = found.body["status"]["state"].as_str().unwrap();
        let state = state.strip_prefix("TASK_STATE_").unwrap().to_lowercase();
        if task["status"] != *state {
            return Err(format!("{task:#} is {state}"));
        }
    }
    Ok(())
}

/// How a plan must end: what comes of its tasks is known.
fn must_end(plan: &Value, lost: bool) -> &'static str {
    if lost {
        return "skipped";
    }
    let tasks = each(plan, "tasks");
    let mut done: HashSet<&str> = HashSet::new();
    loop {
        let next = tasks.iter().find(|task| {
            let id = task["id"].as_str().unwrap();
            let ready = needs(task).all(|id| done.contains(id));
            task["name"] == "can" && ready && !done.contains(id)
        });
        let Some(next) = next else { break };
        done.insert(next["id"].as_str().unwrap());
    }
    let fails = tasks
        .iter()
        .any(|task| task["name"] == "cannot" && needs(task).all(|id| done.contains(id)));
    match plan["metadata"]["opt/v1/onTaskFailure"] == "skip" {
        false if fails => "failed",
        true if done.is_empty() => "skipped",
        _ => "completed",
    }
}

/// Everything that could be done was done, and what came of it is what had to.
pub(super) fn is_done(objective: &Value, asked: &Asked) {
    is_consistent(objective);
    let plans = each(objective, "plans");
    // A plan comes after those it builds on.
    let mut lost: HashSet<&str> = HashSet::new();
    let mut ends: HashMap<&str, &str> = HashMap::new();
    for plan in plans {
        let id = plan["id"].as_str().unwrap();
        let is_lost = needs(plan).any(|id| ends[id] == "failed" || lost.contains(id));
        if is_lost {
            lost.insert(id);
        }
        let end = must_end(plan, is_lost);
        ends.insert(id, end);
        assert_eq!(plan["status"], end, "{plan:#}\nof {objective:#}");
    }
    for task in plans.iter().flat_map(|plan| each(plan, "tasks")) {
        let says = match task["status"].as_str().unwrap() {
            "completed" => "can",
            "failed" => "cannot",
            _ => continue,
        };
        assert_eq!(task["name"], says, "{task:#}");
        let id = text(&task["a2aTaskId"]);
        assert!(asked.lock().unwrap().contains(&id), "nobody was asked: {task:#}");
    }
}

/// An objective and its tasks at one moment, in which nothing changed.
pub(super) fn at_rest(client: &Client, whole: impl Fn() -> Value) -> Value {
    let limit = Instant::now() + TOO_LONG;
    loop {
        let before = whole();
        is_consistent(&before);
        let mirrored = is_mirrored(client, &before);
        if revision(&whole()) == revision(&before) {
            mirrored.unwrap_or_else(|found| panic!("{found}\nof {before:#}"));
            return before;
        }
        assert!(Instant::now() < limit, "never rests: {before:#}");
    }
}
