//! What a power cut leaves at the end of the log, and damage that looks like it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::log_command::log;
use crate::server::{Server, id_of, message};

/// Copies a state folder but for what a running server holds in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The newest day file. Around midnight there may be two, and the older is the fuller one.
fn day(folder: &Path) -> PathBuf {
    let days = std::fs::read_dir(folder.join("a2a-log")).unwrap();
    let days = days.map(|entry| entry.unwrap().path());
    days.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .max()
        .unwrap()
}

/// Sends some messages and is killed; the ids that have a receipt.
fn used(folder: &Path, name: &str) -> Vec<String> {
    let server = Server::start(folder);
    server.inbox("tim", ""); // tim joins
    let send = |n| {
        let sent = message("roman", "tim", &format!("{name} {n}"));
        server.accepted(&sent);
        id_of(&sent).to_owned()
    };
    let sent = (0..8).map(send).collect();
    server.kill();
    sent
}

fn backup(folder: &Path) -> Option<i32> {
    let place = tempfile::tempdir().unwrap();
    let mut command = crate::openclaw_a2a();
    command.arg("backup").arg(place.path().join("copy")).arg("--state-dir").arg(folder);
    command.output().unwrap().status.code()
}

fn in_log(folder: &Path) -> HashSet<String> {
    let text = log(folder, &["--limit", "0", "--format", "jsonl"]);
    let records = text.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.map(|record| record["messageId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_write_that_lost_its_beginning_is_set_aside_and_the_log_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let promised = used(folder.path(), "promised");
    let down = tempfile::tempdir().unwrap();
    copy(folder.path(), down.path());
    let end = std::fs::read(day(down.path())).unwrap().len();
    let torn = used(folder.path(), "torn");
    // The machine went down while what follows was being written: its last pages are there.
    let mut bytes = std::fs::read(day(folder.path())).unwrap();
    bytes[end..end + 700].fill(0);
    std::fs::write(day(down.path()), &bytes).unwrap();
    assert_eq!(log(down.path(), &["verify"]).code, Some(1));
    assert_ne!(backup(down.path()), Some(0));

    let server = Server::start(down.path());
    server.accepted(&message("roman", "tim", "the log goes on"));
    assert_eq!(server.terminate().code(), Some(0));
    let text = log(down.path(), &["verify"]);
    assert_eq!(text.code, Some(0), "{}{}", text.out, text.err);
    assert_eq!(backup(down.path()), Some(0));
    let found = in_log(down.path());
    assert!(promised.iter().all(|id| found.contains(id)), "{promised:?}");
    assert!(!torn.iter().any(|id| found.contains(id)));
    let kept = std::fs::read_dir(down.path().join("a2a-log")).unwrap();
    let kept = kept.map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| path.to_string_lossy().contains("torn-")).collect();
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!(std::fs::read(kept).unwrap(), bytes[end..]);
}

#[test]
fn the_same_hole_in_what_was_promised_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    used(folder.path(), "first");
    let from = std::fs::read(day(folder.path())).unwrap().len();
    used(folder.path(), "second");
    let mut bytes = std::fs::read(day(folder.path())).unwrap();
    bytes[from..from + 700].fill(0);
    std::fs::write(day(folder.path()), &bytes).unwrap();
    let server = Server::start(folder.path());
    server.accepted(&message("roman", "tim", "the log goes on"));
    assert_eq!(server.terminate().code(), Some(0));
    assert!(std::fs::read(day(folder.path())).unwrap().starts_with(&bytes), "nothing is cut off");
    let text = log(folder.path(), &["verify"]);
    assert_eq!(text.code, Some(1), "{}{}", text.out, text.err);
    assert!(text.out.starts_with("not whole: "), "{}", text.out);
}
