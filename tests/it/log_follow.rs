//! `openclaw-a2a log --follow`: across servers, from nothing, until the reader leaves.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::server::{Server, id_of, message};

/// A command that follows the log; dropping it ends it.
struct Follower {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Follower {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
        command.args(["log", "--follow", "--state-dir"]).arg(folder).args(args);
        command.env_remove("OPENCLAW_TOKEN").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The next line; waits for it.
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.out.read_line(&mut line).unwrap() > 0, "it ended");
        line
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_was_then_what_happens_across_servers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    let sent: Vec<_> = (0..4).map(|i| message("roman", "tim", &i.to_string())).collect();
    server.accepted(&sent[0]);
    server.accepted(&sent[1]);
    let mut all = Follower::start(folder.path(), &["--format", "jsonl"]);
    let mut one = Follower::start(folder.path(), &["--agent", "tim", "--limit", "1"]);
    assert_eq!((&all.json()["message"], &all.json()["message"]), (&sent[0], &sent[1]));
    assert!(one.line().contains("in_progress: 1"));
    server.accepted(&sent[2]);
    assert_eq!(all.json()["message"], sent[2]);
    assert!(one.line().contains("roman → tim"));
    let taken = server.inbox("tim", "wait=10s&limit=1");
    server.settle("tim", id_of(&taken[0]), "ack");
    assert_eq!(all.json()["event"], "delivered");
    assert_eq!(all.json()["event"], "acknowledged");
    assert!(one.line().contains("delivered     tim attempt 1"));
    assert!(one.line().contains("acknowledged  tim"));
    // It waits for the next server and continues where it was.
    server.kill();
    let server = Server::start(folder.path());
    server.accepted(&sent[3]);
    assert_eq!(all.json()["message"], sent[3]);
    assert!(one.line().contains("in_progress: 3"));
}

#[test]
fn without_a_server_it_shows_what_was_and_waits_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    let (before, after) = (message("roman", "tim", "before"), message("roman", "tim", "after"));
    server.accepted(&before);
    assert_eq!(server.terminate().code(), Some(0));
    let mut follower = Follower::start(folder.path(), &["--format", "jsonl"]);
    assert_eq!(follower.json()["message"], before);
    let server = Server::start(folder.path());
    server.accepted(&after);
    assert_eq!(follower.json()["message"], after);
}

#[test]
fn it_ends_when_its_time_is_over_or_its_reader_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    server.accepted(&message("roman", "tim", "before"));
    let mut over = Follower::start(folder.path(), &["--until", "now"]);
    assert!(over.line().contains("before"));
    assert_eq!(over.child.wait().unwrap().code(), Some(0));

    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
    command.args(["log", "--follow", "--state-dir"]).arg(folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    drop(out);
    // It notices at its next write.
    while child.try_wait().unwrap().is_none() {
        server.send(&message("roman", "tim", "more"));
    }
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}
