use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{folder, is_problem, progress, started};
use crate::server::{Server, id_of, message, serve, serve_on, stderr};

#[test]
fn the_address_is_written_while_the_server_runs_and_removed_when_it_stops() {
    let folder = folder();
    let file = folder.path().join("a2a.addr");
    let server = started(folder.path());
    assert!(server.url().starts_with("http://127.0.0.1:"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", server.url()));
    assert_eq!(server.terminate().code(), Some(0));
    assert!(!file.exists());
    // A server that was killed leaves it behind; the next one notices.
    Server::start(folder.path()).kill();
    assert!(file.exists());
    let server = Server::start(folder.path());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", server.url()));
    assert!(stderr(folder.path()).contains("did not stop cleanly"));
}

#[test]
fn stopping_does_not_wait_for_those_who_wait() {
    let folder = folder();
    let server = started(folder.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let client = server.client();
            // An empty inbox, a refusal or a connection that ends, but not a hang.
            scope.spawn(move || match client.try_inbox("tim", "wait=60s") {
                Ok(answer) if answer.status == 200 => {
                    assert_eq!(answer.body["messages"], json!([]));
                }
                Ok(answer) => is_problem(&answer, 503, "unavailable"),
                Err(_) => {}
            });
        }
        let began = Instant::now();
        assert_eq!(server.terminate().code(), Some(0));
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    });
}

fn fails(mut command: std::process::Command) -> String {
    let Output { status, stderr, stdout } = command.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert!(stdout.is_empty());
    assert!(stderr.contains("error: "), "{stderr}");
    stderr
}

#[test]
fn a_second_server_on_the_same_state_is_refused() {
    let folder = folder();
    let server = started(folder.path());
    let error = fails(serve(folder.path()));
    assert!(error.contains("another process"), "{error}");
    let address = std::fs::read_to_string(folder.path().join("a2a.addr")).unwrap();
    assert_eq!(address.trim(), server.url());
    server.accepted(&message("roman", "tim", "the first goes on"));
}

#[test]
fn only_this_machine_may_connect() {
    let folder = folder();
    for (address, says) in [
        ("0.0.0.0:0", "refusing to listen on 0.0.0.0"),
        ("[::]:0", "refusing to listen on [::]"),
        ("localhost", "write an address and a port"),
        ("127.0.0.1:99999", "a port of at most 65535"),
        ("no-such-host.invalid:7420", "cannot listen on \"no-such-host.invalid:7420\""),
    ] {
        let error = fails(serve_on(folder.path(), address));
        assert!(error.contains(says), "{error}");
    }
    assert!(!folder.path().join("a2a-log").exists(), "nothing is begun");
}

#[test]
fn configuration_with_an_unknown_key_is_refused() {
    let folder = folder();
    for (config, says) in [
        ("[limits]\nper_agent_per_minut = 5\n", "per_agent_per_minut"),
        ("[delivery]\nattempts = 0\n", "attempts"),
        ("[[agents]]\nid = \"a b\"\n", "a b"),
        ("[[agents]]\nid = \"tim\"\n[[agents]]\nid = \"Tim\"\n", "differ in case only"),
        ("limits = \n", "a2a.toml"),
    ] {
        std::fs::write(folder.path().join("a2a.toml"), config).unwrap();
        let error = fails(serve(folder.path()));
        assert!(error.contains(says) && error.contains("a2a.toml"), "{error}");
    }
    let mut command = serve(folder.path());
    command.args(["--config", "/nowhere/a2a.toml"]);
    assert!(fails(command).contains("/nowhere/a2a.toml"));
}

/// Both ways to end: what is known afterwards is the same.
#[test]
fn a_restart_forgets_nothing() {
    for cleanly in [true, false] {
        let folder = folder();
        let server = started(folder.path());
        let sent: Vec<_> = ["done", "taken", "waiting"].map(|t| message("roman", "tim", t)).into();
        let receipts: Vec<_> = sent.iter().map(|message| server.accepted(message)).collect();
        assert_eq!(progress(&server.inbox("tim", "limit=2")), ["done", "taken"]);
        assert_eq!(server.settle("tim", id_of(&sent[0]), "ack").status, 200);
        let before = server.whole_log(100);
        if cleanly {
            assert_eq!(server.terminate().code(), Some(0));
        } else {
            server.kill();
        }

        let server = Server::start(folder.path());
        let taken = server.inbox("tim", "");
        assert_eq!(progress(&taken), ["taken", "waiting"]);
        assert_eq!(taken[1]["message"], sent[2]);
        for (message, receipt) in sent.iter().zip(&receipts) {
            let again = server.send(message);
            assert_eq!((again.status, &again.body["outcome"]), (200, &json!("duplicate")));
            assert_eq!(again.body["seq"], receipt["seq"]);
            assert_eq!(again.body["time"], receipt["time"]);
            assert_eq!(again.body["recipients"], receipt["recipients"]);
            let mut other = message.clone();
            other["payload"]["progress"] = json!("another");
            is_problem(&server.send(&other), 409, "conflict");
        }
        assert!(server.inbox("tim", "").is_empty());
        // Who had joined by sending alone can still be written to.
        server.accepted(&message("tim", "roman", "an answer"));
        let after = server.whole_log(100);
        for record in &before {
            let kept = after.iter().find(|r| r["seq"] == record["seq"]).unwrap();
            assert_eq!((&kept["hash"], &kept["message"]), (&record["hash"], &record["message"]));
        }
    }
}
