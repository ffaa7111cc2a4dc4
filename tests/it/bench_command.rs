//! `openclaw-a2a bench`: that its figures add up, that it leaves nothing waiting, that it keeps to
//! the server's limits, and when it does not run at all.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::openclaw_a2a;
use crate::server::{Server, message, signal};

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn bench(folder: &Path, args: &[&str]) -> Said {
    let mut command = openclaw_a2a();
    for name in ["OPENCLAW_STATE_DIR", "OPENCLAW_TOKEN", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    let output = command.args(["bench", "--state-dir"]).arg(folder).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The result of a run that went well, after looking at what holds for every run.
fn result(folder: &Path, args: &[&str]) -> Value {
    let printed = bench(folder, &[&["--format", "json"], args].concat());
    assert_eq!(printed.code, Some(0), "{}{}", printed.out, printed.err);
    assert_eq!(printed.err, "", "nobody looks at a bar");
    let result: Value = serde_json::from_str(&printed.out).unwrap();
    adds_up(&result);
    result
}

#[track_caller]
fn adds_up(result: &Value) {
    let number = |key: &str| result[key].as_u64().unwrap();
    let refused: u64 =
        result["refused"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    let answered = number("accepted") + refused + number("unanswered");
    assert_eq!(number("sent"), answered, "{result}");
    assert_eq!(number("left"), 0, "{result}");
    assert!(result["acceptedPerSecond"].as_f64().unwrap() > 0.0, "{result}");
    for times in result["latencyMs"].as_object().unwrap().values() {
        let figures =
            ["p50", "p90", "p99", "p99.9", "max"].map(|name| times[name].as_f64().unwrap());
        assert!(figures[0] > 0.0 && figures.is_sorted(), "{result}");
    }
}

/// How many messages are pending for all agents.
fn pending(server: &Server) -> u64 {
    let agents = server.get("/bus/agents").body;
    agents["agents"].as_array().unwrap().iter().map(|a| a["pending"].as_u64().unwrap()).sum()
}

#[test]
fn messages_are_sent_taken_and_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let result = result(folder.path(), &["--count", "120", "--concurrency", "3"]);
    assert_eq!((&result["accepted"], &result["acknowledged"]), (&json!(120), &json!(120)));
    assert_eq!((&result["mode"], &result["ended"]), (&json!("messages"), &json!("count")));
    assert_eq!(pending(&server), 0);
    let records = server.whole_log(1_000);
    assert_eq!(json!(records.len()), result["sent"]);
    let run = format!("bench-{}-", result["run"].as_str().unwrap());
    assert!(records.iter().all(|record| record["by"].as_str().unwrap().starts_with(&run)));
    // Those who send and those who take were there, and are gone.
    assert!(result["agents"].as_u64().unwrap() >= 4, "{result}");
    let agents = server.get("/bus/agents").body;
    assert_eq!(agents["agents"], json!([]), "{agents}");
    let accepted = records.iter().filter(|record| record["outcome"] != "rate_limited");
    for record in accepted {
        let events = record["deliveries"].as_array().unwrap();
        assert!(events.iter().any(|event| event["event"] == "acknowledged"), "{record}");
    }
}

#[test]
fn tasks_are_sent_and_awaited() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let result = result(folder.path(), &["tasks", "--count", "12", "--concurrency", "4"]);
    assert_eq!(result["states"], json!({"completed": 12}), "{result}");
    let listed = server.get("/tasks?pageSize=1").body;
    assert_eq!(listed["totalSize"], json!(12), "{listed}");
    let text = bench(folder.path(), &["tasks", "--count", "2", "--yes"]);
    assert_eq!(text.code, Some(0), "{}", text.err);
    assert!(
        text.out.starts_with("tasks: ") && text.out.contains("accepted      2 ("),
        "{}",
        text.out
    );
}

#[test]
fn limits_are_kept_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[limits]\nper_agent_per_minute = 60\nper_pair_per_minute = 60\nburst = 4\n";
    let server = Server::with_config(folder.path(), config);
    let printed = result(folder.path(), &["--count", "60", "--concurrency", "2"]);
    assert_eq!(
        (&printed["accepted"], &printed["acknowledged"]),
        (&json!(60), &json!(60)),
        "{printed}"
    );
    assert!(printed["refused"]["rate_limited"].as_u64() > Some(0), "{printed}");
    assert!(printed["agents"].as_u64() > Some(4), "others go on: {printed}");
    let advice = printed["advice"].to_string();
    assert!(advice.contains("[limits]") && advice.contains("messages a minute"), "{advice}");
    // All tasks have one caller, so they wait their turn.
    let printed = result(folder.path(), &["tasks", "--count", "6", "--concurrency", "4", "--yes"]);
    assert_eq!(printed["states"], json!({"completed": 6}), "{printed}");
    assert!(printed["refused"]["rate_limited"].as_u64() > Some(0), "{printed}");
    assert!(printed["advice"].to_string().contains("[limits]"), "{printed}");
    assert_eq!(pending(&server), 0);
}

#[test]
fn it_ends_by_itself_and_on_ctrl_c_with_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let timed = result(folder.path(), &["--duration", "2s", "--concurrency", "2"]);
    assert_eq!(timed["ended"], "duration");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    command.args(["bench", "--yes", "--duration", "10m", "--concurrency", "2", "--format", "json"]);
    command.arg("--state-dir").arg(folder.path()).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let newest = || server.get("/bus/log?limit=1").body["records"][0]["by"].clone();
    let first = newest();
    while newest() == first {
        assert_eq!(child.try_wait().unwrap(), None);
    }
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    adds_up(&result);
    assert_eq!((&result["ended"], output.status.code()), (&json!("interrupted"), Some(0)));
    assert_eq!(result["accepted"], result["acknowledged"]);
    assert!(result["accepted"].as_u64() > Some(0), "{result}");
    assert_eq!(pending(&server), 0);
}

#[test]
fn command_reports_why_it_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], code, word: &str| {
        let printed = bench(folder.path(), args);
        assert_eq!(printed.code, Some(code), "{args:?}: {}{}", printed.out, printed.err);
        assert!(
            format!("{}{}", printed.out, printed.err).contains(word),
            "{args:?}: {}",
            printed.err
        );
    };
    refused(&[], 2, "no server is running");
    refused(&["--duration", "11m"], 2, "at most 10m");
    refused(&["--duration", "1s", "--count", "1"], 2, "cannot be used with");
    let server = Server::start(folder.path());
    refused(&["--agent", "tim"], 2, "bench tasks --agent");
    refused(&["tasks", "--agent", "nobody", "--count", "1"], 1, "nobody");
    server.inbox("tim", "");
    server.accepted(&message("roman", "tim", "hello"));
    let before = server.get("/bus/log/head").body;
    refused(&["--count", "1"], 2, "--yes");
    refused(&["tasks", "--count", "1"], 2, "--yes");
    assert_eq!(server.get("/bus/log/head").body, before, "nothing was sent");
}

#[test]
fn closed_directory_error_explains_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "[[agents]]\nid = \"tim\"\n");
    let printed = bench(folder.path(), &["--count", "1"]);
    assert_eq!(printed.code, Some(2), "{}", printed.out);
    assert!(
        printed.err.contains("open = true") && printed.err.contains("[directory]"),
        "{}",
        printed.err
    );
    assert!(server.whole_log(10).is_empty());
}

#[test]
fn with_tokens_it_speaks_for_its_agents_as_an_operator() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let create = |who: &[&str]| {
        let mut command = openclaw_a2a();
        command.args(["token", "create", "--state-dir"]).arg(folder.path()).args(who);
        let made = command.output().unwrap();
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    let (david, tim) = (create(&["--operator", "david"]), create(&["--agent", "tim"]));
    for args in [vec!["--count", "1"], vec!["--count", "1", "--token", &tim]] {
        let printed = bench(folder.path(), &args);
        assert_eq!(printed.code, Some(2), "{}", printed.out);
        assert!(printed.err.contains("operator's token"), "{}", printed.err);
    }
    let result = result(folder.path(), &["--count", "3", "--token", &david]);
    assert_eq!(result["acknowledged"], 3);
    let agents = server.client().bearing(&david).get("/bus/agents").body;
    assert_eq!(agents["agents"], json!([]), "none of the run is left: {agents}");
    let made = result["agents"].as_u64().unwrap();
    assert!((3..=20).contains(&made), "only who has something to send is made: {result}");
}
