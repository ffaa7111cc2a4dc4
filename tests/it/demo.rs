//! `serve --demo`: a cast that really works together, within all rate limits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use a2a_actors::tasks::{TaskCaller, TaskSettings};
use a2a_protocol::operation::{ListObjectives, OptOperation, Reply};
use a2a_protocol::opt::ObjectiveStatus;
use a2a_taskdb::TaskDb;
use openclaw_a2a::agents::demo::{CAST, Demo, Pace, enlist};
use openclaw_a2a::{BreakerSettings, Bus, BusSettings, RateSettings};
use serde_json::{Value, json};

use crate::a2a_side::{Side, id};
use crate::server::{Server, new_id, serve};

/// What a log must hold after a round, as far as it was seen.
#[derive(Debug, Default)]
struct Seen {
    kinds: BTreeSet<String>,
    verdicts: BTreeSet<String>,
    trackers: bool,
    objective: Option<String>,
    /// What should not be there.
    trouble: Vec<String>,
}

impl Seen {
    fn note(&mut self, line: &Value) {
        let message = &line["message"];
        let kind = message["type"].as_str().unwrap_or_default();
        self.kinds.extend(Some(kind.to_owned()).filter(|kind| !kind.is_empty()));
        let payload = &message["payload"];
        if let Some(verdict) = payload["verdict"].as_str() {
            self.verdicts.insert(verdict.to_owned());
        }
        let progress = &payload["metadata"][a2a_protocol::PROGRESS_EXTENSION];
        self.trackers |= progress["trackers"].is_array();
        let context = payload["context"]["contextId"].as_str();
        if let Some(objective) = context.filter(|context| context.starts_with("obj-")) {
            self.objective.get_or_insert_with(|| objective.to_owned());
        }
        let outcome = line["outcome"].as_str().unwrap_or("delivered");
        let event = line["event"].as_str().unwrap_or("acknowledged");
        if !["delivered", "queued"].contains(&outcome)
            || ["dead_letter", "attempt_failed", "tripped"].contains(&event)
        {
            self.trouble.push(line.to_string());
        }
    }

    /// Whether everything that a round shows is there but the announcement at its end.
    fn is_whole(&self) -> bool {
        self.kinds.len() == 7
            && self.verdicts.len() == 2
            && self.trackers
            && self.objective.is_some()
    }
}

/// The program, ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    command.args(args).arg("--state-dir").arg(folder).stdin(Stdio::null());
    command.env_remove("OPENCLAW_TOKEN").env_remove("OPENCLAW_STATE_DIR");
    command
}

fn with_demo(folder: &Path) -> Server {
    let mut command = serve(folder);
    command.arg("--demo");
    Server::start_by(command, folder)
}

/// Follows the log from line `from` on, until the predicate has enough.
fn follow(folder: &Path, from: u64, mut is_enough: impl FnMut(&Value) -> bool) {
    let args = ["log", "--follow", "--limit", "0", "--format", "jsonl"];
    let follower = program(folder, &args).stdout(Stdio::piped()).spawn().unwrap();
    let mut follower = Running(follower);
    let out = BufReader::new(follower.0.stdout.take().unwrap());
    let mut begun = 0;
    for line in out.lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["seq"].as_u64().is_none_or(|seq| seq < from) {
            continue;
        }
        if is_enough(&line) {
            return;
        }
        begun += u32::from(is_begin(&line));
        assert!(begun < 3, "two rounds were not enough");
    }
    panic!("the log ended");
}

/// Whether a round begins with this line.
fn is_begin(line: &Value) -> bool {
    let message = &line["message"];
    message["type"] == "task_request"
        && message["payload"]["context"]["branch"].is_string()
        && message["to"]["agentId"] == "worker"
}

/// What is there after a whole round, from line `from` on.
fn a_round(folder: &Path, from: u64) -> Seen {
    let mut seen = Seen::default();
    follow(folder, from, |line| {
        seen.note(line);
        seen.is_whole()
    });
    seen
}

fn newest(server: &Server) -> u64 {
    server.get("/bus/log?limit=1").body["records"][0]["seq"].as_u64().unwrap()
}

/// Watches an objective to its end; it is completed.
fn completed(folder: &Path, objective: &str) -> String {
    let watched = program(folder, &["objective", "show", objective, "--watch"]).output().unwrap();
    let printed = String::from_utf8(watched.stdout).unwrap();
    assert!(watched.status.success(), "{printed}");
    printed
}

#[test]
fn a_round_shows_everything_and_nothing_goes_wrong_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = with_demo(folder.path());
    let seen = a_round(folder.path(), 0);
    let printed = completed(folder.path(), seen.objective.as_ref().unwrap());
    assert!(printed.contains("Proofread the release notes"), "{printed}");
    let tree = program(folder.path(), &["objective", "list"]).output().unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.contains("completed") && tree.contains("2/2"), "{tree}");
    assert_eq!(seen.trouble, [] as [String; 0]);
    assert_eq!(server.get("/bus/dead-letters").body["deadLetters"], json!([]));
    assert_eq!(server.get("/bus/circuits").body["circuits"], json!([]));
    // In the directory they are a squad.
    let agents = server.get("/bus/agents").body;
    for name in CAST {
        let agent = agents["agents"].as_array().unwrap().iter().find(|a| a["agentId"] == name);
        let agent = agent.unwrap_or_else(|| panic!("{name}: {agents}"));
        assert_eq!((&agent["squad"], &agent["presence"]), (&json!("demo"), &json!("online")));
    }
    let last = newest(&server);
    assert!(server.terminate().success());
    let verified = program(folder.path(), &["log", "verify"]).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");

    let server = with_demo(folder.path());
    let seen = a_round(folder.path(), last + 1);
    assert_eq!(seen.trouble, [] as [String; 0]);
    completed(folder.path(), seen.objective.as_ref().unwrap());
    assert_eq!(server.get("/bus/dead-letters").body["deadLetters"], json!([]));
}

#[test]
fn work_cut_off_by_a_crash_continues() {
    let folder = tempfile::tempdir().unwrap();
    let server = with_demo(folder.path());
    let mut task = Value::Null;
    follow(folder.path(), 0, |line| {
        if is_begin(line) {
            task = line["message"]["payload"]["taskId"].clone();
        }
        line["message"]["payload"]["verdict"] == "changes_requested"
    });
    server.kill();
    let server = with_demo(folder.path());
    follow(folder.path(), 0, |line| {
        let payload = &line["message"]["payload"];
        payload["taskId"] == task && payload["action"] == "completed"
    });
    assert_eq!(server.get("/bus/dead-letters").body["deadLetters"], json!([]));
}

/// What an agent answers an A2A client.
fn ask(server: &Server, agent: &str, text: &str) -> Value {
    let message = json!({"messageId": new_id(), "role": "ROLE_USER", "parts": [{"text": text}]});
    let path = format!("/agents/{agent}/message:send");
    let answer = server.post(&path, json!({"message": message}).to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[test]
fn the_cast_answers_clients_also_where_the_directory_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a2a.toml"), "[[agents]]\nid = \"tim\"\n").unwrap();
    let server = with_demo(folder.path());
    for (agent, artifact, part) in [
        ("worker", "result", "1. Buy milk."),
        ("lead", "result", "2. Call the bank"),
        ("reviewer", "review", "nothing to change"),
        ("researcher", "notes", "no note"),
    ] {
        let task = &ask(&server, agent, "Buy milk. Call the bank")["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{agent}: {task}");
        assert_eq!(task["artifacts"][0]["name"], artifact, "{agent}: {task}");
        let text = task["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
        assert!(text.contains(part), "{agent}: {text}");
    }
    // A question gets a plain answer.
    let answer = ask(&server, "researcher", "What about Retry-After?");
    let text = answer["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(text.contains("as a date instead of seconds"), "{text}");
    let seen = a_round(folder.path(), 0);
    assert_eq!(seen.trouble, [] as [String; 0]);
    completed(folder.path(), seen.objective.as_ref().unwrap());
}

#[test]
fn a_name_that_is_taken_is_refused_before_anything_happens() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a2a.toml"), "[[agents]]\nid = \"worker\"\n").unwrap();
    let mut command = serve(folder.path());
    let output = command.arg("--demo").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("`worker`") && printed.contains("--state-dir"), "{printed}");
    assert!(!folder.path().join("a2a-log").exists());
}

/// A bus on which the cast plays one round after the other.
async fn played(folder: &Path, rates: RateSettings, rounds: u32) -> (Side, TaskCaller) {
    let mut agents = Vec::new();
    enlist(&mut agents).unwrap();
    // Repeats count, as they do at the demo's own pace.
    let breaker = BreakerSettings { repeat_gap: Duration::ZERO, ..BreakerSettings::default() };
    let settings = BusSettings { agents, rates, breaker, ..BusSettings::default() };
    let bus = Bus::builder().state_dir(folder).settings(settings).start().unwrap();
    let side = Side::on(bus, TaskSettings::default(), Box::new(TaskDb::open_in_memory().unwrap()));
    let pace = Pace { step: Duration::ZERO, rest: Duration::ZERO, rounds };
    let demo = Demo::attach(&side.bus, side.tasks.clone(), true, pace).await.unwrap();
    demo.run().await;
    let lead = id("lead");
    let owner = "agent:lead".into();
    (
        side,
        TaskCaller {
            owner,
            principal: lead,
            is_client: false,
            sees_all: false,
            trace: None,
            version: None,
        },
    )
}

/// Every message in the log: from, to (if it is one agent), line.
fn printed(folder: &Path) -> Vec<(String, Option<String>, Value)> {
    let mut all = Vec::new();
    for file in std::fs::read_dir(folder.join("a2a-log")).unwrap() {
        for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if let Some(from) = line["message"]["from"]["agentId"].as_str() {
                let to = line["message"]["to"]["agentId"].as_str().map(str::to_owned);
                all.push((from.to_owned(), to, line));
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn all_rounds_pass_the_breaker_and_half_of_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    // Some more than are played: the breaker takes the same words twenty times.
    let usual = Pace::default();
    let pace = Pace { rounds: usual.rounds + 5, ..usual };
    let (side, lead) = played(folder.path(), RateSettings::unlimited(), pace.rounds).await;
    assert_eq!((side.bus.system().stats().refused(), side.bus.dead_letters().await.len()), (0, 0));
    let list = ListObjectives { page_size: Some(100), ..ListObjectives::default() };
    let listed = side.tasks.opt(&lead, &id("lead"), OptOperation::ListObjectives(list)).await;
    let Ok(Reply::Objectives(page)) = listed else { panic!("{listed:?}") };
    let is_done = |status| status == ObjectiveStatus::Completed;
    assert_eq!(page.objectives.iter().filter(|o| is_done(o.status)).count(), pace.rounds as usize);
    side.stop().await;

    let (mut agents, mut pairs) = (BTreeMap::new(), BTreeMap::new());
    let mut rests = false;
    for (from, to, line) in printed(folder.path()) {
        rests |= line["message"]["payload"]["topic"] == "the demo is over";
        *agents.entry(from.clone()).or_insert(0_u64) += 1;
        *pairs.entry((from, to)).or_insert(0_u64) += 1;
    }
    assert!(rests, "nobody said so");
    let limits = RateSettings::default();
    let a_minute = |count: u64| count * 60 / (u64::from(pace.rounds) * pace.rest.as_secs());
    for (agent, count) in agents {
        let most = u64::from(limits.per_agent_per_minute.get()) / 2;
        assert!(a_minute(count) <= most, "{agent}: {count}");
    }
    for (pair, count) in pairs {
        let most = u64::from(limits.per_pair_per_minute.get()) / 2;
        assert!(a_minute(count) <= most, "{pair:?}: {count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_round_fits_the_usual_limits_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (side, _) = played(folder.path(), RateSettings::default(), 1).await;
    assert_eq!(side.bus.system().stats().refused(), 0);
    side.stop().await;
    let kinds =
        printed(folder.path()).into_iter().map(|(.., line)| line["message"]["type"].clone());
    let kinds: BTreeSet<String> = kinds.map(|kind| kind.as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds.len(), 7, "{kinds:?}");
}
