//! What happens to the log behind the server's back, found by `log verify`.

use std::path::{Path, PathBuf};

use a2a_journal::{Commit, EventRecord, Head, Journal, Options, Record, Retention};
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};

use crate::log_command::log;
use crate::server::{Server, message};

/// A state folder with a log of a few lines, its only day file, and the head.
fn written(folder: &Path) -> (PathBuf, String) {
    let server = Server::start(folder);
    server.inbox("tim", "");
    for i in 0..6 {
        server.accepted(&message("roman", "tim", &format!("number {i}")));
    }
    assert_eq!(server.terminate().code(), Some(0));
    let days = std::fs::read_dir(folder.join("a2a-log")).unwrap();
    let mut days: Vec<_> = days.map(|entry| entry.unwrap().path()).collect();
    days.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    // Around midnight there may be two; what is done here fits the newest with enough lines.
    days.sort_by_key(|path| std::fs::metadata(path).unwrap().len());
    let head = log(folder, &["head"]).out.trim().to_owned();
    (days.pop().unwrap(), head)
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn write(path: &Path, lines: &[String]) {
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
}

#[track_caller]
fn is_found(folder: &Path, args: &[&str], what: &str, line: u64) {
    let output = log(folder, &[&["verify"], args].concat());
    assert_eq!(output.code, Some(1), "{}{}", output.out, output.err);
    assert!(output.out.starts_with("not whole: ") && output.out.contains(what), "{}", output.out);
    let json = log(folder, &[&["verify", "--format", "json"], args].concat());
    let verdict: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&verdict["ok"], &verdict["line"]), (&false.into(), &line.into()), "{}", json.out);
    assert_eq!(json.code, Some(1));
}

#[test]
fn every_change_is_found_with_its_line_with_and_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let (day, head) = written(folder.path());
    let whole = lines(&day);
    assert_eq!(log(folder.path(), &["verify", "--head", &head]).code, Some(0));
    type Change = fn(&mut Vec<String>);
    let cases: [(&str, u64, Change); 5] = [
        ("was changed", 3, |lines| lines[2] = lines[2].replace("number", "nomber")),
        ("lines were removed", 3, |lines| drop(lines.remove(2))),
        ("was inserted", 4, |lines| lines.insert(3, lines[1].clone())),
        ("was moved", 3, |lines| lines.swap(2, 3)),
        ("is no line of the log", 4, |lines| lines[3] = "hello".into()),
    ];
    for (what, line, change) in cases {
        let mut changed = whole.clone();
        change(&mut changed);
        write(&day, &changed);
        is_found(folder.path(), &[], what, line);
    }
    // The end cut off, or everything written anew: only a head noted elsewhere can show it. The
    // server does that in its own folder, and the index knows its last line.
    write(&day, &whole[..4]);
    is_found(folder.path(), &[], "one more known", 4);
    std::fs::remove_file(folder.path().join("data/a2a-heads.jsonl")).unwrap();
    is_found(folder.path(), &[], "one more known", 4);
    write(&day, &whole);
    let server = Server::start(folder.path());
    let mut changed = whole.clone();
    changed[2] = changed[2].replace("number", "nomber");
    write(&day, &changed);
    is_found(folder.path(), &[], "was changed", 3);
    write(&day, &whole);
    assert_eq!(log(folder.path(), &["verify", "--head", &head]).code, Some(0));
    drop(server);
}

#[test]
fn another_log_in_its_place_is_not_the_one_whose_head_was_noted() {
    let (mine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_, head) = written(mine.path());
    written(other.path());
    let output = log(other.path(), &["verify", "--head", &head]);
    assert_eq!(output.code, Some(1), "{}", output.out);
    assert!(output.out.contains("is not the line that was known"), "{}", output.out);
    let bad = log(mine.path(), &["verify", "--head", "7"]);
    assert!(bad.code == Some(2) && bad.err.contains("64 hex digits"), "{}", bad.err);
}

/// A log whose oldest days went, with the head it had before, the last line that went, and one
/// that was kept.
fn shortened(folder: &Path, retention: Retention) -> [Head; 3] {
    let options = Options { retention, ..Options::new(folder) };
    let (mut journal, _) = Journal::open(&options).unwrap();
    let mut heads = Vec::new();
    for (seq, days_ago) in [(1, 5), (2, 5), (3, 1), (4, 0)] {
        let time = Utc::now() - TimeDelta::days(days_ago);
        let line = EventRecord::new(seq, time, a2a_protocol::Event::Closed);
        journal.commit(&[Record::Event(line)]).unwrap();
        heads.push(journal.reader().head());
    }
    journal.retain(Utc::now()).unwrap();
    journal.close().unwrap();
    [heads[0], heads[1], heads[2]]
}

#[test]
fn a_head_from_before_a_removal_is_not_claimed_to_be_proven() {
    let old = Retention { max_age_days: Some(3), ..Retention::default() };
    let no_files = Retention { keep_jsonl: false, ..Retention::default() };
    for (retention, config, is_proven) in [
        (old, "[audit]\nmax_age_days = 3\n", false),
        // The index still has these lines.
        (no_files, "[audit]\nkeep_jsonl = false\n", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let [first, last_gone, kept] = shortened(folder.path(), retention);
        let check = |head: Head, expected: bool, who: &str| {
            let output = log(folder.path(), &["verify", "--head", &head.to_string()]);
            let code = if expected { 0 } else { 1 };
            assert_eq!(
                output.code,
                Some(code),
                "{head} {who} {config}: {}{}",
                output.out,
                output.err
            );
            assert_eq!(output.out.contains("cannot be proven"), !expected, "{}", output.out);
        };
        for (head, expected) in [(first, is_proven), (last_gone, is_proven), (kept, true)] {
            check(head, expected, "offline");
        }
        let server = Server::with_config(folder.path(), config);
        for (head, expected) in [(first, is_proven), (last_gone, is_proven), (kept, true)] {
            let answer = server.get(&format!("/bus/log/verify?head={head}")).body;
            assert_eq!(answer["ok"], json!(expected), "{answer}");
            check(head, expected, "with a server");
        }
        assert_eq!(server.get("/bus/log/verify").body["ok"], json!(true));
    }
}
