//! Disks that are full for the index or for everything, with the real program.
//!
//! A limit on the size of files simulates the disk: a write beyond it fails, for each file at the
//! same size, and it can be raised while the program runs.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use a2a_journal::{Commit, Journal, MessageRecord, Options, Received, Record, Retention};
use a2a_protocol::Outcome;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::listener::SOON;
use crate::server::{Server, message, serve, stderr};

/// The command, to which a limit on its files is an error and not its end.
fn limited(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// Files of the server may grow to so many bytes, or as far as they like.
fn limit(server: &Server, bytes: Option<u64>) {
    let pid = Pid::from_raw(server.id().try_into().unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Text that cannot be compressed.
fn noise(bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // Each call begins elsewhere; what follows is a linear congruence.
    let mut state = uuid::Uuid::now_v7().as_u128() as u64 | 1;
    let deliveries = std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[(state >> 58) as usize])
    });
    deliveries.take(bytes).collect()
}

/// A journal whose days before today fill the index with some megabytes.
fn days_before(folder: &Path) {
    let retention = Retention { compress: false, ..Retention::default() };
    let (mut journal, _) = Journal::open(&Options { retention, ..Options::new(folder) }).unwrap();
    let now = chrono::Utc::now();
    for seq in 1..=40 {
        let received = format!("{{\"noise\":\"{}\"}}", noise(100_000));
        let line = MessageRecord {
            seq,
            time: now - chrono::TimeDelta::days(50 - seq as i64),
            outcome: Outcome::Invalid,
            message_id: None,
            by: None,
            via: None,
            trace: None,
            bytes: received.len() as u64,
            received: Received::Json(received.into_bytes().into()),
            message: None,
            took_us: 1,
            fingerprint: None,
            recipients: [].into(),
            reason: Some("noise".to_owned()),
            retry_after_ms: None,
            errors: Vec::new(),
            facts: Vec::new(),
        };
        journal.commit(&[Record::Message(line)]).unwrap();
    }
    journal.close().unwrap();
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < 3 * SOON, "not in time: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn an_index_whose_disk_was_full_catches_up_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    days_before(folder.path());
    let index = folder.path().join("data/a2a-journal/db");
    let filled = size(&index);
    assert!(filled > 3 << 20, "{filled}");
    let server = Server::start_by(limited(&serve(folder.path())), folder.path());
    server.get("/bus/agents/tim/inbox");
    limit(&server, Some(filled + (64 << 10)));
    let degraded = |server: &Server| {
        let answer = server.get("/readyz");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["parts"]["index"] == "failing"
    };
    let mut sent = 0;
    until("the index fails", || {
        // Blocks of them, as the index gets them. Refused messages are on record, too, and none is
        // too loud for that. A larger one would be on record with its head alone. Today's file stays
        // far below the limit.
        if sent < 900 {
            let refused = format!("{{\"noise\":\"{}\"}}", noise(2_000));
            assert_eq!(server.post("/bus/messages", refused.as_bytes()).status, 422);
            sent += 1;
        }
        degraded(&server)
    });
    server.accepted(&message("ann", "tim", "while it fails"));
    let ready = server.get("/readyz").body;
    assert_eq!(
        (&ready["status"], &ready["degraded"][0]["part"]),
        (&"ready".into(), &"index".into())
    );
    let metrics = server.open("GET", "/metrics", &Value::Null).unwrap();
    let metrics = metrics.into_body().read_to_string().unwrap();
    assert!(metrics.contains("openclaw_a2a_journal_index_failing 1"), "{metrics}");
    let doctor = crate::openclaw_a2a().args(["doctor", "--state-dir"]).arg(folder.path()).output();
    let doctor = String::from_utf8(doctor.unwrap().stdout).unwrap();
    assert!(doctor.contains("index cannot be written"), "{doctor}");
    limit(&server, None);
    until("the index is written again", || !degraded(&server));
    let text = stderr(folder.path());
    let outages = text.lines().filter(|line| line.contains("the index cannot be written"));
    assert_eq!(outages.count(), 1, "{text}");
    assert!(!text.contains("sled::"), "{text}");
    server.accepted(&message("ann", "tim", "afterwards"));
    let (all, today) = (server.whole_log(50), sent + 2);
    let accepted = all.iter().filter(|record| record["outcome"] != "invalid").count();
    assert_eq!((all.len(), accepted), (40 + today, 2));
    assert!(server.terminate().success());
    // The next start has nothing to repair.
    let server = Server::start(folder.path());
    assert_eq!(server.whole_log(50).len(), 40 + today);
    assert!(server.terminate().success());
    let text = stderr(folder.path());
    assert!(!text.contains("does not fit the log"), "{text}");
}

#[test]
fn server_that_stops_on_a_full_disk_reports_what_was_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_by(limited(&serve(folder.path())), folder.path());
    server.get("/bus/agents/tim/inbox");
    for _ in 0..20 {
        server.accepted(&message("ann", "tim", &noise(1_000)));
    }
    let day = std::fs::read_dir(folder.path().join("a2a-log")).unwrap().next().unwrap().unwrap();
    limit(&server, Some(size(&day.path())));
    // The registration is on record, and is not written again.
    server.get("/bus/agents/newcomer/inbox");
    until("it is noticed", || server.get("/readyz").status == 503);
    let (status, text) = server.terminate_and_read();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(!text.contains("everything is written"), "{text}");
    assert!(text.contains("the disk did not take"), "{text}");
    let server = Server::start(folder.path());
    assert_eq!(server.inbox("tim", "limit=50").len(), 20, "what was accepted is kept");
    let (status, text) = server.terminate_and_read();
    assert!(status.success() && text.contains("everything is written"), "{text}");
}

#[test]
fn server_that_cannot_start_on_a_full_disk_reports_it_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    days_before(folder.path());
    let output = |state: &Path| {
        let mut command = serve(state);
        command.env_remove("OPENCLAW_LOG");
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
        shell.arg(command.get_program()).args(command.get_args()).env_remove("OPENCLAW_LOG");
        // Where coverage is measured, its counters cannot be written either, which is logged as well.
        shell.env("LLVM_PROFILE_FILE", "/dev/null");
        let output = shell.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for state in [folder.path().to_owned(), folder.path().join("new")] {
        let (code, text) = output(&state);
        assert_eq!(code, Some(2), "{text}");
        // Apart from warnings of every start on such a machine, such as the number of open files.
        let of_disk: Vec<_> = text.lines().filter(|line| !line.contains(" WARN ")).collect();
        assert!(of_disk.len() == 1 && of_disk[0].starts_with("error: "), "{text}");
    }
}
