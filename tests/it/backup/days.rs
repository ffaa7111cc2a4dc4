//! Closed days whose files are not kept: the index alone has them, and a server that runs has
//! the index.

use std::path::Path;

use a2a_journal::{Commit, EventRecord, Journal, Options, Record, Retention};
use chrono::{TimeDelta, Utc};
use serde_json::json;

use super::{backup, check, everything, restored, run};
use crate::log_command::log;
use crate::server::{Server, message};

const CONFIG: &str = "[audit]\nkeep_jsonl = false\n";

/// Days of which only the newest has a file, and the hash of the very first line.
fn without_files(folder: &Path) -> String {
    let retention = Retention { keep_jsonl: false, ..Retention::default() };
    let options = Options { retention, ..Options::new(folder) };
    let (mut journal, _) = Journal::open(&options).unwrap();
    let mut first = None;
    for (seq, days_ago) in [(1, 5), (2, 5), (3, 2), (4, 1), (5, 0)] {
        let time = Utc::now() - TimeDelta::days(days_ago);
        let line = EventRecord::new(seq, time, a2a_protocol::Event::Closed);
        journal.commit(&[Record::Event(line)]).unwrap();
        first.get_or_insert(journal.reader().head());
    }
    journal.retain(Utc::now()).unwrap();
    journal.close().unwrap();
    first.unwrap().to_string()
}

fn days(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("a2a-log")).unwrap().count()
}

/// It is whole from the first line on, and a server continues from it.
fn is_whole(folder: &Path, first: &str, name: &str) {
    let (from, again) = (folder.join(name), folder.join(format!("{name}-restored")));
    assert_eq!(days(&from), 4);
    assert_eq!(check(&from).code, Some(0));
    restored(&from, &again);
    let verified = log(&again, &["verify", "--head", first]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    let server = Server::start(&again);
    let verified = server.get(&format!("/bus/log/verify?head={first}"));
    assert_eq!(verified.body["ok"], json!(true), "{verified:?}");
    assert_eq!(verified.body["from"], json!(1), "{verified:?}");
    server.inbox("tim", "");
    server.accepted(&message("roman", "tim", "still here"));
}

#[test]
fn days_that_only_the_index_has_are_in_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let first = without_files(&state);
    std::fs::write(state.join("a2a.toml"), CONFIG).unwrap();
    assert_eq!(days(&state), 1);
    backup(&state, &folder.path().join("offline"));
    is_whole(folder.path(), &first, "offline");

    let server = Server::start(&state);
    backup(&state, &folder.path().join("online"));
    is_whole(folder.path(), &first, "online");
    assert!(!state.join("data/a2a-rebuilt").exists(), "what was lent is given back");
    assert_eq!(days(&state), 1);

    // With tokens the server wants to know who asks.
    let made = run(&[&"token", &"create", &"--operator", &"david", &"--state-dir", &state]);
    let token = made.out.trim().to_owned();
    let other = run(&[&"token", &"create", &"--agent", &"tim", &"--state-dir", &state]);
    let to = folder.path().join("asked");
    let before = everything(folder.path());
    for wrong in [None, Some(other.out.trim())] {
        let output = match wrong {
            None => run(&[&"backup", &to, &"--state-dir", &state]),
            Some(wrong) => run(&[&"backup", &to, &"--state-dir", &state, &"--token", &wrong]),
        };
        assert_eq!(output.code, Some(2), "{}", output.out);
        assert!(output.err.contains("are in the index alone"), "{}", output.err);
        assert!(output.err.contains("the server refuses"), "{}", output.err);
    }
    assert_eq!(everything(folder.path()).len(), before.len(), "nothing is left behind");
    let output = run(&[&"backup", &to, &"--state-dir", &state, &"--token", &token]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    let verified = server.bearing(&token).get("/bus/log/verify");
    assert_eq!(verified.body["ok"], json!(true), "{verified:?}");
    drop(server);
    assert_eq!(check(&to).code, Some(0));
}

/// No caller chooses a path over HTTP, and the answer has nothing of the log.
#[test]
fn a_server_writes_days_to_its_own_place_only() {
    let folder = tempfile::tempdir().unwrap();
    without_files(folder.path());
    let server = Server::with_config(folder.path(), CONFIG);
    let ask = |body: &str| server.post("/bus/log/rebuild", body.as_bytes());
    for bad in ["", "{}", "{\"before\":\"today\"}", "{\"before\":\"2026-02-21\",\"to\":\"/tmp\"}"] {
        assert_eq!(ask(bad).status, 400, "{bad}");
    }
    assert_eq!(ask("{\"before\":\"1999-02-21\"}").body, json!({"files": []}));
    let answer = ask("{\"before\":\"2999-02-21\"}");
    let files = answer.body["files"].as_array().unwrap();
    assert_eq!((answer.status, files.len()), (200, 4), "{answer:?}");
    for name in files {
        let path = folder.path().join("data/a2a-rebuilt").join(name.as_str().unwrap());
        assert!(std::fs::read_to_string(path).unwrap().starts_with("{\"seq\":"));
    }
}
