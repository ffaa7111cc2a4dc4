//! SIGHUP: another configuration in a running server. Rates are one a minute, so that no bucket
//! fills up while a test runs.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::a2a_caller::{Caller, FAR, Form, id, state};
use crate::a2a_worker::Worker;
use crate::listener::SOON;
use crate::server::{Answer, Server, id_of, message, new_id, serve, stderr};
use crate::socket::Socket;

/// One message a minute; the burst is appended.
const SLOW: &str = "[limits]\nper_agent_per_minute = 1\nper_pair_per_minute = 1\n";

fn write(folder: &Path, config: &str) {
    std::fs::write(folder.join("a2a.toml"), config).unwrap();
}

/// A server that logs what it does.
fn start(folder: &Path, config: &str) -> Server {
    write(folder, config);
    let mut command = serve(folder);
    command.env("OPENCLAW_LOG", "warn,openclaw_a2a=info");
    Server::start_by(command, folder)
}

/// Writes another configuration and has the server take it up.
#[track_caller]
fn reload(server: &Server, folder: &Path, config: &str) -> String {
    write(folder, config);
    let output = server.hang_up();
    assert!(output.contains("configuration reloaded"), "{output}");
    output
}

#[track_caller]
fn is(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{answer:?}");
}

#[test]
fn limits_change_and_no_agent_gets_a_fresh_burst() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &format!("{SLOW}burst = 3\ninbox = 5\n"));
    server.inbox("tim", "");
    let send = |from: &str| server.send(&message(from, "tim", "x"));
    let sent = |from: &str, most: usize| (0..most).take_while(|_| send(from).status == 202).count();
    assert_eq!(sent("roman", 10), 3);
    is(&send("roman"), 429, "rate_limited");

    let output = reload(&server, folder.path(), &format!("{SLOW}burst = 5\ninbox = 6\n"));
    assert!(
        output.contains("limits.burst 3 -> 5, limits.pair_burst 3 -> 5, limits.inbox 5 -> 6"),
        "{output}"
    );
    assert_eq!(sent("roman", 10), 2, "three of the five are used");
    is(&send("roman"), 429, "rate_limited");
    assert_eq!(sent("main", 1), 1, "the sixth place of the inbox");
    is(&send("main"), 503, "queue_full");

    let output = server.hang_up();
    assert!(output.contains("nothing that takes effect has changed"), "{output}");
    is(&send("roman"), 429, "rate_limited");
    // What waited before and after is there, in order.
    assert_eq!(server.inbox("tim", "limit=100").len(), 6);
}

#[test]
fn fan_out_limit_follows_the_reloaded_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &format!("{FAR}max_recipients = 1\n"));
    for agent in ["roman", "tim", "main"] {
        server.inbox(agent, "");
    }
    let mut broadcast = message("roman", "tim", "x");
    broadcast["type"] = json!("broadcast");
    broadcast["payload"] =
        json!({"scope": "org", "topic": "News", "message": "Hear.", "urgency": "fyi"});
    broadcast.as_object_mut().unwrap().remove("to");
    let refused = server.send(&broadcast);
    assert!(refused.body["reason"].as_str().unwrap().contains("at most 1 "), "{refused:?}");
    reload(&server, folder.path(), &format!("{FAR}max_recipients = 2\n"));
    broadcast["messageId"] = json!(new_id());
    assert_eq!(server.send(&broadcast).status, 202);
}

#[test]
fn rules_of_access_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), FAR);
    server.inbox("tim", "");
    let send = || server.send(&message("roman", "tim", "x"));
    assert_eq!(send().status, 202);
    let rule = "[[access]]\nname = \"quiet\"\nallow = false\nfrom = \"roman\"\nto = \"tim\"\n";
    let output = reload(&server, folder.path(), &format!("{FAR}{rule}"));
    assert!(output.contains("changed=\"access\""), "{output}");
    is(&send(), 403, "forbidden");
    assert!(send().body["reason"].as_str().unwrap().contains("quiet"));
    let explained = server.get("/bus/access?from=roman&to=tim&type=status_update").body;
    assert_eq!(explained["rule"], "quiet", "{explained}");
    reload(&server, folder.path(), FAR);
    assert_eq!(send().status, 202);
}

#[test]
fn the_directory_opens_and_closes_and_who_is_removed_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let both =
        format!("{FAR}[[agents]]\nid = \"roman\"\n[[agents]]\nid = \"tim\"\nsquad = \"core\"\n");
    let server = start(folder.path(), &both);
    let send = |from: &str, to: &str| server.send(&message(from, to, "x"));
    is(&send("main", "tim"), 403, "forbidden");
    is(&send("roman", "main"), 404, "unknown_recipient");
    let first = server.accepted(&message("roman", "tim", "kept"));

    // Main comes, tim goes.
    let other =
        format!("{FAR}[[agents]]\nid = \"roman\"\n[[agents]]\nid = \"main\"\nrole = \"Chief\"\n");
    let output = reload(&server, folder.path(), &other);
    assert!(output.contains("changed=\"agents\""), "{output}");
    assert_eq!(send("main", "roman").status, 202);
    assert_eq!(send("roman", "main").status, 202);
    assert_eq!(server.get("/bus/agents/main").body["role"], "Chief");
    is(&send("tim", "roman"), 403, "forbidden");
    // Tim's pending messages stay his, new ones arrive, and his profile is the file's to define.
    assert_eq!(send("roman", "tim").status, 202);
    assert_eq!(server.get("/bus/agents/tim").body["squad"], Value::Null);
    let waiting = server.inbox("tim", "limit=10");
    assert_eq!(waiting.len(), 2);
    assert_eq!(id_of(&waiting[0]), first["messageId"].as_str().unwrap());
    assert_eq!(server.settle("tim", id_of(&waiting[0]), "ack").status, 200);

    reload(&server, folder.path(), &format!("{other}[directory]\nopen = true\n"));
    assert_eq!(send("tim", "roman").status, 202);
    assert_eq!(send("nova", "roman").status, 202);
    assert_eq!(server.put("/bus/agents/tim", &json!({"squad": "own"})).status, 200);
    reload(&server, folder.path(), &both);
    assert_eq!(server.get("/bus/agents/tim").body["squad"], "own", "as after a restart");
    is(&send("nova", "roman"), 403, "forbidden");
}

/// The two talk until they are stopped; how many messages passed.
fn ping_pong(server: &Server, conversation: &str) -> (usize, Answer) {
    for n in 0..100 {
        let (from, to) = if n % 2 == 0 { ("roman", "tim") } else { ("tim", "roman") };
        let mut output = message(from, to, &format!("{n}"));
        output["correlationId"] = json!(conversation);
        let answer = server.send(&output);
        if answer.status != 202 {
            return (n, answer);
        }
    }
    panic!("nobody stops them");
}

#[test]
fn an_open_circuit_stays_open_and_the_next_opens_by_the_new_settings() {
    let folder = tempfile::tempdir().unwrap();
    let breaker =
        |rounds: u32| format!("{FAR}[breaker]\nrounds = {rounds}\ncooldown_seconds = 3600\n");
    let server = start(folder.path(), &breaker(3));
    for agent in ["roman", "tim"] {
        server.inbox(agent, "");
    }
    let (first, second) = (new_id(), new_id());
    let (passed, refused) = ping_pong(&server, &first);
    is(&refused, 409, "circuit_open");
    assert_eq!(passed, 8);
    let circuits = || {
        let mut body = server.get("/bus/circuits").body;
        let all = body["circuits"].as_array_mut().unwrap();
        all.iter_mut()
            .for_each(|circuit| drop(circuit.as_object_mut().unwrap().remove("retryAfterMs")));
        body
    };
    let before = circuits();
    assert_eq!(before["circuits"].as_array().unwrap().len(), 1);

    let output = reload(&server, folder.path(), &breaker(1));
    assert!(output.contains("breaker.rounds 3 -> 1"), "{output}");
    assert_eq!(circuits(), before, "as it was");
    let (passed, refused) = ping_pong(&server, &first);
    assert_eq!(passed, 0);
    is(&refused, 409, "circuit_open");
    assert_eq!(ping_pong(&server, &second).0, 2);
}

#[test]
fn tasks_have_the_new_time_those_at_work_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), FAR);
    let tim = Worker::tim(&server);
    let caller = Caller::of(&server.client(), Form::Rpc10, "tim");
    let done = caller.begin(json!({})).unwrap();
    tim.complete(&tim.next(), "done");
    let at_work = caller.begin(json!({"contextId": "c-1"})).unwrap();
    tim.next();
    let next = caller.begin(json!({"contextId": "c-1"})).unwrap();
    assert_eq!(state(&next), "submitted");

    reload(&server, folder.path(), &format!("{FAR}[tasks]\nqueue_per_context = 1\n"));
    let full = caller.begin(json!({"contextId": "c-1"})).unwrap_err();
    assert_eq!(full.code, -32050, "{full:?}");
    assert_eq!(state(&caller.get(&id(&next), &[]).unwrap()), "submitted", "who waits stays");

    // The seed's spelling as well.
    let output =
        reload(&server, folder.path(), &format!("{FAR}[a2a.tasks]\ntimeoutMinutes = 0.0001\n"));
    assert!(output.contains("tasks.timeout_minutes 30.0 -> 0.0001"), "{output}");
    let failed = until(&caller, &id(&at_work), |task| state(task) == "failed");
    assert!(crate::a2a_caller::agent_text(&failed).contains("timed out"), "{failed}");

    assert_eq!(state(&caller.get(&id(&done), &[]).unwrap()), "completed");
    reload(&server, folder.path(), &format!("{FAR}[tasks]\nttl_days = 0.000001\n"));
    let deadline = Instant::now() + SOON;
    while caller.get(&id(&done), &[]).is_ok() {
        assert!(Instant::now() < deadline, "it is kept");
        std::thread::yield_now();
    }
}

/// The task once it is so.
fn until(caller: &Caller, task: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + SOON;
    loop {
        let now = caller.get(task, &[]).unwrap();
        if so(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "never: {now}");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_connected_stays_so_and_what_waits_is_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), FAR);
    let (mut tim, _) = Socket::greet(&server, "tim", json!({"window": 1}));
    let caller = Caller::of(&server.client(), Form::Rest10, "main");
    let main = Worker::new(server.client(), "main");
    let mut events = caller.stream(json!({})).unwrap();
    let request = main.next();
    assert_eq!(events.next().unwrap().word(), "task working");
    let send = |text: &str| drop(server.accepted(&message("roman", "tim", text)));
    ["one", "two"].into_iter().for_each(send);
    let in_hand = tim.delivered();

    let changed = format!("{FAR}inbox = 7\n[breaker]\nrounds = 9\n[tasks]\nttl_days = 3\n");
    reload(&server, folder.path(), &changed);
    send("three");
    tim.ack(&in_hand);
    for expected in ["two", "three"] {
        let frame = tim.delivered();
        assert_eq!(crate::socket::text(&frame), expected);
        tim.ack(&frame);
    }
    tim.is_quiet();
    main.complete(&request, "done");
    let words: Vec<_> = events.rest().iter().map(|event| event.word()).collect();
    assert_eq!(words, ["artifact", "completed"]);
    tim.leave();
}

#[test]
fn bad_file_changes_nothing_and_reports_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &format!("{SLOW}burst = 1\n"));
    server.inbox("tim", "");
    let send = |from: &str| server.send(&message(from, "tim", "x"));
    assert_eq!(send("roman").status, 202);
    for (bad, words) in [
        (
            "[limits]\nbrust = 9\n",
            "a2a.toml:2: unknown key `brust` in [limits]; did you mean `burst`?",
        ),
        ("[limits]\nburst = 9\n[[agents]]\nid = \"a b\"\n", "a2a.toml:3: [[agents]] id"),
        ("[limits\n", "a2a.toml:1: "),
    ] {
        write(folder.path(), bad);
        let output = server.hang_up();
        assert!(output.contains("ERROR") && output.contains("nothing has changed"), "{output}");
        assert!(output.contains(words), "{words} in {output}");
        is(&send("roman"), 429, "rate_limited");
        assert_eq!(server.get("/bus/agents").status, 200);
    }
    let output =
        reload(&server, folder.path(), &format!("{SLOW}burst = 2\n[http]\nmax_streams = 9\n"));
    assert!(output.contains("WARN") && output.contains("http.max_streams 4096 -> 9"), "{output}");
    assert!(output.contains("needs a restart"), "{output}");
    assert_eq!(send("roman").status, 202);
    // As long as it waits for the restart, every reload reports it.
    assert!(server.hang_up().contains("http.max_streams 4096 -> 9"));
}

#[test]
fn tokens_and_what_is_hidden_change_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), FAR);
    server.inbox("tim", "");
    server.accepted(&message("roman", "tim", "secret"));
    let hash: String = Sha256::digest("t-david").iter().map(|byte| format!("{byte:02x}")).collect();
    let token = format!("[[auth.tokens]]\noperator = \"david\"\nsha256 = \"{hash}\"\n");
    let hidden = format!("{FAR}{token}[audit]\nredact = [\"progress\"]\n");
    let output = reload(&server, folder.path(), &hidden);
    assert!(output.contains("auth.tokens") && !output.contains(&hash), "{output}");
    is(&server.get("/bus/log"), 401, "unauthorized");
    let david = server.client().bearing("t-david");
    let shown = david.get("/bus/log");
    assert_eq!(
        shown.body["records"][0]["message"]["payload"]["progress"], "[redacted]",
        "{shown:?}"
    );
    let output = reload(&server, folder.path(), &format!("{FAR}{token}"));
    assert!(output.contains("audit.redact"), "{output}");
    let shown = david.get("/bus/log");
    assert_eq!(shown.body["records"][0]["message"]["payload"]["progress"], "secret", "{shown:?}");
    // Removing the last token admits no caller.
    reload(&server, folder.path(), FAR);
    is(&david.get("/bus/log"), 401, "unauthorized");
    assert!(!stderr(folder.path()).contains("t-david"));
}
