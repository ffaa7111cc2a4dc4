//! `openclaw-a2a task watch` where no terminal is: a line for each change, and the end as a code.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use a2a_protocol::PROGRESS_EXTENSION;
use serde_json::{Value, json};

use super::snapshot;
use crate::a2a_caller::{Caller, FAR, Form, id};
use crate::a2a_worker::Worker;
use crate::server::{Server, new_id};

fn watch(folder: &Path, task: &str, more: &[&str]) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    command.args(["task", "watch", task, "--agent", "tim", "--state-dir"]).arg(folder).args(more);
    command.env_remove("OPENCLAW_STATE_DIR").stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Everything it writes to its end, after `first` lines at which the agent may continue.
fn run(mut child: Child, first: usize, resume: impl FnOnce()) -> (Vec<String>, i32) {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    for _ in 0..first {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        lines.push(line.trim_end().to_owned());
    }
    resume();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    lines.extend(rest.lines().map(str::to_owned));
    (lines, child.wait().unwrap().code().unwrap())
}

fn tell(tim: &Worker, request: &Value, text: &str, snapshot: &Value) {
    let fields = json!({"status": "in_progress", "progress": text,
        "metadata": { PROGRESS_EXTENSION: snapshot }});
    assert_eq!(tim.say(request, "status_update", fields).status, 202);
}

#[test]
fn each_change_is_a_line_until_the_task_ends() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), FAR);
    let tim = Worker::tim(&server);
    let caller = Caller::of(&server, Form::Rest10, "tim");
    let task = id(&caller.begin(json!({})).unwrap());
    let request = tim.next();
    let (lines, code) = run(watch(folder.path(), &task, &[]), 1, || {
        tell(&tim, &request, "a\u{1b}[2J", &snapshot(1, 4));
        tell(&tim, &request, "two", &snapshot(2, 4));
        tim.complete(&request, "done\u{1b}[31m");
    });
    let expected = [
        "working",
        "  a  1/4 (25%)",
        "artifact  out",
        "completed  done\\u{1b}[31m",
        "  a  2/4 (50%)",
    ];
    // On a slow machine the second update has its own time.
    let mut seen = lines.clone();
    seen.retain(|line| line != "  a  2/4 (50%)");
    assert_eq!(seen, expected[..4], "{lines:?}");
    assert!(lines.contains(&expected[4].to_owned()), "{lines:?}");
    assert_eq!(code, 0);
    // It has ended: its end is shown.
    let (lines, code) = run(watch(folder.path(), &task, &[]), 0, || {});
    assert_eq!((lines, code), (vec![expected[3].to_owned(), expected[4].to_owned()], 0));
}

#[test]
fn programs_get_the_events_and_an_exit_code_for_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), FAR);
    let tim = Worker::tim(&server);
    let caller = Caller::of(&server, Form::Rest10, "tim");
    let task = id(&caller.begin(json!({})).unwrap());
    let request = tim.next();
    let (lines, code) = run(watch(folder.path(), &task, &["--format", "json"]), 1, || {
        tell(&tim, &request, "one", &snapshot(1, 4));
        let failed = json!({"action": "failed", "reason": "no"});
        assert_eq!(tim.say(&request, "task_response", failed).status, 202);
    });
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["task"]["id"], json!(task));
    let progress = &events[1]["statusUpdate"]["metadata"][PROGRESS_EXTENSION];
    assert_eq!(progress, &snapshot(1, 4), "{lines:?}");
    assert_eq!(events[2]["statusUpdate"]["status"]["state"], "TASK_STATE_FAILED");
    assert_eq!((events.len(), code), (3, 1));
    let (lines, code) = run(watch(folder.path(), &task, &["--format", "json"]), 0, || {});
    let ended: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((ended["task"]["id"].clone(), lines.len(), code), (json!(task), 1, 1));
    // There is no such task, then no server.
    assert_eq!(run(watch(folder.path(), &new_id(), &[]), 0, || {}).1, 1);
    server.terminate();
    assert_eq!(run(watch(folder.path(), &task, &[]), 0, || {}).1, 2);
}
