use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Answer, Server, id_of, message, new_id, serve, serve_on, stderr};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A server with room for tests, where tim has joined.
fn started(folder: &Path) -> Server {
    with_tim(folder, "[limits]\nburst = 1000\n")
}

fn with_tim(folder: &Path, config: &str) -> Server {
    let server = Server::with_config(folder, config);
    assert_eq!(server.inbox("tim", ""), [] as [Value; 0]);
    server
}

/// Asserts a problem of RFC 9457 with this status and code.
#[track_caller]
fn is_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.content_type, "application/problem+json", "{answer:?}");
    assert_eq!(answer.body["code"], code, "{answer:?}");
    assert_eq!(answer.body["status"], status, "{answer:?}");
    assert!(answer.body["title"].is_string(), "{answer:?}");
    assert!(answer.body["detail"].is_string(), "{answer:?}");
}

/// `path code` of every violation.
fn violations(answer: &Answer) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let errors = answer.body["errors"].as_array().unwrap();
    let mut found: Vec<_> =
        errors.iter().map(|e| format!("{} {}", text(&e["path"]), text(&e["code"]))).collect();
    found.sort();
    found
}

fn progress(taken: &[Value]) -> Vec<&str> {
    taken.iter().map(|m| m["message"]["payload"]["progress"].as_str().unwrap()).collect()
}

// Sending

#[test]
fn an_accepted_message_gets_a_receipt_and_is_handed_out_as_it_came() {
    let folder = folder();
    let server = started(folder.path());
    let mut sent = message("roman", "tim", "häuser \u{1F980}");
    sent["payload"]["metadata"] = json!({"https://example.org/x": {"big": 1e300, "n": 3}});
    let receipt = server.accepted(&sent);
    assert_eq!(receipt["messageId"], sent["messageId"]);
    assert_eq!(receipt["correlationId"], sent["correlationId"]);
    assert_eq!(receipt["recipients"], json!([{"agentId": "tim", "outcome": "queued"}]));
    assert_eq!(receipt["outcome"], "queued");
    assert!(receipt["seq"].as_u64().unwrap() > 0);
    let taken = server.inbox("tim", "");
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0]["message"], sent);
    assert_eq!(taken[0]["seq"], receipt["seq"]);
    assert_eq!((&taken[0]["sender"], &taken[0]["attempt"]), (&json!("roman"), &json!(1)));
}

#[test]
fn a_fan_out_reaches_everyone_but_its_sender() {
    let folder = folder();
    let server = started(folder.path());
    for agent in ["ann", "roman"] {
        server.inbox(agent, "");
    }
    let mut sent = message("roman", "tim", "");
    sent.as_object_mut().unwrap().remove("to");
    sent["type"] = json!("broadcast");
    sent["payload"] =
        json!({"scope": "org", "topic": "lunch", "message": "It is ready.", "urgency": "fyi"});
    let answer = server.send(&sent);
    assert_eq!(answer.status, 202, "{answer:?}");
    // In the order in which they joined.
    let names = answer.body["recipients"].as_array().unwrap().iter().map(|r| &r["agentId"]);
    assert_eq!(names.collect::<Vec<_>>(), ["tim", "ann"]);
    for agent in ["ann", "tim"] {
        assert_eq!(server.inbox(agent, "wait=10s").len(), 1, "{agent}");
    }
    assert!(server.inbox("roman", "").is_empty());
}

#[test]
fn the_same_message_again_is_a_duplicate_and_another_body_a_conflict() {
    let folder = folder();
    let server = started(folder.path());
    let sent = message("roman", "tim", "once");
    let first = server.accepted(&sent);
    for _ in 0..3 {
        let again = server.send(&sent);
        assert_eq!(again.status, 200, "{again:?}");
        assert_eq!(again.body["outcome"], "duplicate");
        for field in ["seq", "time", "recipients", "messageId", "correlationId"] {
            assert_eq!(again.body[field], first[field], "{field}");
        }
    }
    let mut other = sent.clone();
    other["payload"]["progress"] = json!("twice");
    is_problem(&server.send(&other), 409, "conflict");
    let mut other = sent.clone();
    other["from"]["agentId"] = json!("mallory");
    is_problem(&server.send(&other), 409, "conflict");
    assert_eq!(progress(&server.inbox("tim", "")), ["once"]);
    assert!(server.inbox("tim", "").is_empty());
}

#[test]
fn an_invalid_message_is_answered_with_every_violation() {
    let folder = folder();
    let server = started(folder.path());
    let mut sent = message("roman", "tim", " ");
    sent["messageId"] = json!("17");
    sent["priority"] = json!("soon");
    sent["extra"] = json!(1);
    sent["payload"].as_object_mut().unwrap().remove("status");
    let answer = server.send(&sent);
    is_problem(&answer, 422, "invalid");
    assert_eq!(
        violations(&answer),
        [
            "/extra unknown_field",
            "/messageId bad_uuid",
            "/payload/progress blank",
            "/payload/status missing",
            "/priority not_allowed",
        ]
    );
}

#[test]
fn hostile_bodies_get_a_typed_refusal_and_do_no_harm() {
    let folder = folder();
    let server = started(folder.path());
    let valid = message("roman", "tim", "x").to_string();
    let with = |old: &str, new: &str| {
        assert!(valid.contains(old));
        valid.replace(old, new).into_bytes()
    };
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let cases: [(&str, Vec<u8>, &str); 10] = [
        ("nothing", b"".to_vec(), "not_json"),
        ("words", b"hello".to_vec(), "not_json"),
        ("half a message", valid.as_bytes()[..valid.len() / 2].to_vec(), "not_json"),
        ("NaN", with("\"x\"", "NaN"), "not_json"),
        ("a lone surrogate", with("\"x\"", "\"\\ud800\""), "not_json"),
        ("bad UTF-8", [b"\"", [0xff, 0xfe].as_slice(), b"\""].concat(), "not_json"),
        ("10,000 deep", deep.into_bytes(), "too_deep"),
        ("the same key twice", with("\"x\"", "\"x\",\"progress\":\"y\""), "duplicate_key"),
        ("an array", b"[]".to_vec(), "wrong_type"),
        ("a huge number", with("\"x\"", "1e99999"), ""),
    ];
    for (name, body, code) in cases {
        let answer = server.post("/bus/messages", &body);
        is_problem(&answer, 422, "invalid");
        let found = violations(&answer);
        assert!(found.iter().any(|violation| violation.contains(code)), "{name}: {found:?}");
    }
    server.accepted(&message("roman", "tim", "still here"));
    assert_eq!(progress(&server.inbox("tim", "")), ["still here"]);
    // Every one of them is on record, and the record can be read.
    let log = server.get("/bus/log?limit=100");
    assert_eq!(log.status, 200, "{log:?}");
    assert!(log.body["records"].as_array().unwrap().len() >= 11, "{log:?}");
}

#[test]
fn a_body_over_the_limit_is_too_large() {
    let folder = folder();
    let server = started(folder.path());
    let padded = |bytes: usize| {
        let mut text = message("roman", "tim", "large").to_string();
        text.push_str(&" ".repeat(bytes - text.len()));
        text.into_bytes()
    };
    assert_eq!(server.post("/bus/messages", &padded(256 << 10)).status, 202);
    for bytes in [(256 << 10) + 1, 300 << 10, 3 << 20] {
        let answer = server.post("/bus/messages", &padded(bytes));
        is_problem(&answer, 422, "invalid");
        assert_eq!(violations(&answer), [" too_large"], "{bytes}");
    }
    assert_eq!(server.inbox("tim", "").len(), 1);
}

/// The server stops reading such a body; a client that reads while it writes sees why.
#[test]
fn a_body_far_over_the_limit_is_answered_before_it_is_read() {
    let folder = folder();
    let server = started(folder.path());
    let answer = raw(&server, |stream| {
        let host = server.host();
        let head = format!("POST /bus/messages HTTP/1.1\r\nHost: {host}\r\n");
        stream.write_all(format!("{head}Content-Length: 10485760\r\n\r\n").as_bytes())?;
        (0..160).try_for_each(|_| stream.write_all(&[b' '; 64 << 10]))
    });
    assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
    assert!(answer.contains("too_large"), "{answer}");
    server.accepted(&message("roman", "tim", "still here"));
}

/// What the server answers to bytes as they are; a write that it cuts short is its right.
fn raw(server: &Server, write: impl FnOnce(&mut TcpStream) -> std::io::Result<()>) -> String {
    let mut stream = TcpStream::connect(server.host()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = write(&mut stream);
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !answer.windows(2).any(|pair| pair == b"}\r" || pair == b"\"}") {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn an_unknown_recipient_is_answered_with_a_near_name() {
    let folder = folder();
    let server = started(folder.path());
    let answer = server.send(&message("roman", "timm", "hi"));
    is_problem(&answer, 404, "unknown_recipient");
    assert!(answer.body["detail"].as_str().unwrap().contains("did you mean `tim`?"), "{answer:?}");
    let answer = server.send(&message("roman", "somebody-else", "hi"));
    is_problem(&answer, 404, "unknown_recipient");
    assert!(!answer.body["detail"].as_str().unwrap().contains("did you mean"), "{answer:?}");
}

#[test]
fn names_of_the_bus_and_strangers_to_a_closed_directory_are_forbidden() {
    let folder = folder();
    let server =
        Server::with_config(folder.path(), "[[agents]]\nid = \"tim\"\n[[agents]]\nid = \"ann\"\n");
    for from in ["system", "human", "operator", "System", "mallory"] {
        is_problem(&server.send(&message(from, "tim", "hi")), 403, "forbidden");
    }
    server.accepted(&message("ann", "tim", "hi"));
    for agent in ["mallory", "system"] {
        is_problem(&server.try_inbox(agent, "").unwrap(), 404, "unknown_recipient");
    }
    let listed = server.get("/bus/agents").body;
    let names: Vec<_> =
        listed["agents"].as_array().unwrap().iter().map(|a| &a["agentId"]).collect();
    assert_eq!(names, ["ann", "tim"]);
}

#[test]
fn who_sends_too_much_is_told_when_to_come_back() {
    let folder = folder();
    let config = "[limits]\nper_agent_per_minute = 6\nper_pair_per_minute = 6\nburst = 2\n";
    let server = with_tim(folder.path(), config);
    server.accepted(&message("roman", "tim", "1"));
    server.accepted(&message("roman", "tim", "2"));
    let answer = server.send(&message("roman", "tim", "3"));
    is_problem(&answer, 429, "rate_limited");
    let wait = answer.body["retryAfterMs"].as_u64().unwrap();
    assert!((1..=10_000).contains(&wait), "{wait}");
    assert_eq!(answer.retry_after, Some(wait.div_ceil(1_000).to_string()));
    server.accepted(&message("ann", "tim", "others are not affected"));
}

#[test]
fn a_full_inbox_takes_no_more_until_there_is_room() {
    let folder = folder();
    let server = with_tim(folder.path(), "[limits]\ninbox = 2\n");
    for text in ["1", "2"] {
        server.accepted(&message("roman", "tim", text));
    }
    let third = message("roman", "tim", "3");
    let answer = server.send(&third);
    is_problem(&answer, 503, "queue_full");
    assert_eq!(answer.retry_after.as_deref(), Some("1"), "{answer:?}");
    let taken = server.inbox("tim", "limit=1");
    is_problem(&server.send(&third), 503, "queue_full");
    assert_eq!(server.settle("tim", id_of(&taken[0]), "ack").status, 200);
    server.accepted(&third);
    assert_eq!(progress(&server.inbox("tim", "")), ["2", "3"]);
}

#[test]
fn a_message_from_the_future_is_invalid() {
    let folder = folder();
    let server = started(folder.path());
    let at = |minutes| (chrono::Utc::now() + chrono::TimeDelta::minutes(minutes)).to_rfc3339();
    let mut sent = message("roman", "tim", "soon");
    sent["timestamp"] = json!(at(6));
    let answer = server.send(&sent);
    is_problem(&answer, 422, "invalid");
    assert_eq!(violations(&answer), ["/timestamp bad_timestamp"]);
    sent["timestamp"] = json!(at(4));
    server.accepted(&sent);
}

// Receiving

#[test]
fn who_joined_is_listed_with_what_waits() {
    let folder = folder();
    let server = started(folder.path());
    server.accepted(&message("roman", "tim", "1"));
    server.accepted(&message("roman", "tim", "2"));
    let answer = server.get("/bus/agents");
    assert_eq!(answer.status, 200);
    let seen: Vec<_> = answer.body["agents"].as_array().unwrap().iter().collect();
    let seen: Vec<_> =
        seen.iter().map(|a| (&a["agentId"], a["pending"].as_u64().unwrap())).collect();
    assert_eq!(seen, [(&json!("roman"), 0), (&json!("tim"), 2)]);
}

#[test]
fn an_inbox_hands_out_by_priority_in_order_and_each_message_to_one() {
    let folder = folder();
    let server = started(folder.path());
    for (text, priority) in [
        ("1", "low"),
        ("2", "normal"),
        ("3", "urgent"),
        ("4", "high"),
        ("5", "normal"),
        ("6", "urgent"),
    ] {
        let mut sent = message("roman", "tim", text);
        sent["priority"] = json!(priority);
        server.accepted(&sent);
    }
    assert_eq!(progress(&server.inbox("tim", "limit=2")), ["3", "6"]);
    assert_eq!(progress(&server.inbox("tim", "limit=3")), ["4", "2", "5"]);
    assert_eq!(progress(&server.inbox("tim", "limit=100")), ["1"]);
    assert!(server.inbox("tim", "limit=100").is_empty());
}

/// Without `wait` the answer is what is there, every time.
#[test]
fn what_is_there_is_handed_out_without_waiting() {
    let folder = folder();
    let server = started(folder.path());
    for round in 0..200 {
        server.accepted(&message("roman", "tim", &round.to_string()));
        let taken = server.inbox("tim", "");
        assert_eq!(progress(&taken), [round.to_string()]);
        assert_eq!(server.settle("tim", id_of(&taken[0]), "ack").status, 200);
    }
}

/// A wait may end in the very moment a message comes; the message must not fall between.
#[test]
fn a_wait_that_just_ends_loses_nothing() {
    let folder = folder();
    let server = started(folder.path());
    const MESSAGES: usize = 300;
    std::thread::scope(|scope| {
        let client = server.client();
        scope.spawn(move || {
            for n in 0..MESSAGES {
                client.accepted(&message("roman", "tim", &n.to_string()));
            }
        });
        let mut seen = Vec::new();
        for _ in 0..100_000 {
            let taken = server.inbox("tim", "wait=1ms&limit=3");
            seen.extend(progress(&taken).into_iter().map(str::to_owned));
            if seen.len() >= MESSAGES {
                break;
            }
        }
        let expected: Vec<_> = (0..MESSAGES).map(|n| n.to_string()).collect();
        assert_eq!(seen, expected);
    });
}

#[test]
fn who_waits_gets_the_message_when_it_comes() {
    let folder = folder();
    let server = started(folder.path());
    assert!(server.inbox("tim", "wait=10ms").is_empty());
    std::thread::scope(|scope| {
        let client = server.client();
        let waiting = scope.spawn(move || client.inbox("tim", "wait=30s"));
        server.accepted(&message("roman", "tim", "there you are"));
        assert_eq!(progress(&waiting.join().unwrap()), ["there you are"]);
    });
}

#[test]
fn an_acknowledged_message_is_done() {
    let folder = folder();
    let server = started(folder.path());
    let sent = message("roman", "tim", "do it");
    is_problem(&server.settle("tim", id_of(&sent), "ack"), 404, "not_taken");
    let receipt = server.accepted(&sent);
    is_problem(&server.settle("tim", id_of(&sent), "ack"), 404, "not_taken");
    assert_eq!(server.inbox("tim", "").len(), 1);
    is_problem(&server.settle("ann", id_of(&sent), "ack"), 404, "not_taken");
    let answer = server.settle("tim", id_of(&sent), "ack");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body, json!({"messageId": sent["messageId"], "event": "acknowledged"}));
    is_problem(&server.settle("tim", id_of(&sent), "ack"), 404, "not_taken");
    is_problem(&server.settle("tim", id_of(&sent), "nack"), 404, "not_taken");
    assert!(server.inbox("tim", "").is_empty());
    assert_eq!(events_of(&server, &receipt), ["delivered", "acknowledged"]);
}

/// The events on the record of a message.
fn events_of(server: &Server, receipt: &Value) -> Vec<String> {
    let log = server.whole_log(100);
    let record = log.iter().find(|record| record["seq"] == receipt["seq"]).unwrap();
    let deliveries = record["deliveries"].as_array().unwrap().iter();
    deliveries.map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_given_back_comes_again_after_a_pause() {
    let folder = folder();
    let server = with_tim(folder.path(), "[delivery]\nfirst_pause_ms = 20\n");
    let receipt = server.accepted(&message("roman", "tim", "1"));
    server.accepted(&message("roman", "tim", "2"));
    let taken = server.inbox("tim", "limit=1");
    let path = format!("/bus/agents/tim/inbox/{}/nack", id_of(&taken[0]));
    is_problem(&server.post(&path, b"because"), 400, "bad_request");
    let answer = server.post(&path, br#"{"reason": "no time"}"#);
    assert_eq!((answer.status, &answer.body["event"]), (200, &json!("attempt_failed")));
    let again = server.inbox("tim", "wait=30s");
    assert_eq!(progress(&again), ["1", "2"]);
    assert_eq!(again[0]["attempt"], 2);
    assert_eq!(again[1]["attempt"], 1);
    assert_eq!(server.settle("tim", id_of(&again[0]), "ack").status, 200);
    let events = ["delivered", "attempt_failed", "delivered", "acknowledged"];
    assert_eq!(events_of(&server, &receipt), events);
}

#[test]
fn while_a_message_pauses_later_ones_of_its_sender_wait_behind_it() {
    let folder = folder();
    let server = with_tim(folder.path(), "[delivery]\nfirst_pause_ms = 60000\n");
    for (from, text) in [("roman", "1"), ("roman", "2"), ("ann", "3")] {
        server.accepted(&message(from, "tim", text));
    }
    let taken = server.inbox("tim", "limit=1");
    assert_eq!(server.settle("tim", id_of(&taken[0]), "nack").status, 200);
    assert_eq!(progress(&server.inbox("tim", "")), ["3"]);
    assert!(server.inbox("tim", "").is_empty());
    // Who gave it back may think better of it.
    assert_eq!(server.settle("tim", id_of(&taken[0]), "ack").status, 200);
    assert_eq!(progress(&server.inbox("tim", "wait=30s")), ["2"]);
}

#[test]
fn several_that_are_given_back_come_again_in_their_order() {
    let folder = folder();
    let config = "[delivery]\nfirst_pause_ms = 1\nlongest_pause_ms = 1\nattempts = 100\n";
    let server = with_tim(folder.path(), config);
    for text in ["1", "2", "3", "4"] {
        server.accepted(&message("roman", "tim", text));
    }
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let mut taken = Vec::new();
        for _ in 0..100 {
            taken.extend(server.inbox("tim", "wait=1s"));
            if taken.len() >= 4 {
                break;
            }
        }
        assert_eq!(progress(&taken), ["1", "2", "3", "4"]);
        for at in order {
            assert_eq!(server.settle("tim", id_of(&taken[at]), "nack").status, 200);
        }
    }
}

#[test]
fn a_lease_that_runs_out_is_a_failed_attempt() {
    let folder = folder();
    let server = with_tim(folder.path(), "[delivery]\nlease_seconds = 1\nfirst_pause_ms = 1\n");
    let receipt = server.accepted(&message("roman", "tim", "1"));
    assert_eq!(server.inbox("tim", "").len(), 1);
    let again = server.inbox("tim", "wait=30s");
    assert_eq!(again[0]["attempt"], 2);
    assert_eq!(server.settle("tim", id_of(&again[0]), "ack").status, 200);
    let events = ["delivered", "attempt_failed", "delivered", "acknowledged"];
    assert_eq!(events_of(&server, &receipt), events);
}

#[test]
fn after_five_failed_attempts_the_sender_gets_a_notice() {
    let folder = folder();
    let server = with_tim(folder.path(), "[delivery]\nfirst_pause_ms = 1\nlongest_pause_ms = 2\n");
    let sent = message("roman", "tim", "impossible");
    let receipt = server.accepted(&sent);
    for attempt in 1..=5 {
        let taken = server.inbox("tim", "wait=30s");
        assert_eq!(taken[0]["attempt"], attempt);
        let path = format!("/bus/agents/tim/inbox/{}/nack", id_of(&sent));
        assert_eq!(server.post(&path, br#"{"reason": "it is \u0000impossible"}"#).status, 200);
    }
    let notices = server.inbox("roman", "wait=30s");
    assert_eq!(notices.len(), 1);
    let notice = &notices[0]["message"];
    assert_eq!(notices[0]["sender"], "system");
    assert_eq!(notice["from"]["agentId"], "system");
    assert_eq!(notice["correlationId"], sent["correlationId"]);
    assert_eq!(notice["type"], "status_update");
    let text = notice["payload"]["progress"].as_str().unwrap();
    assert!(text.contains(id_of(&sent)) && text.contains("impossible"), "{text}");
    assert!(server.inbox("tim", "").is_empty());
    assert_eq!(events_of(&server, &receipt).last().map(String::as_str), Some("dead_letter"));
    // The dead letter stays one, and the notice is still owed, whatever happens.
    server.kill();
    let server = Server::start(folder.path());
    assert!(server.inbox("tim", "").is_empty());
    assert_eq!(id_of(&server.inbox("roman", "")[0]), id_of(&notices[0]));
    assert_eq!(server.send(&sent).body["outcome"], "duplicate");
}

#[test]
fn a_notice_finds_room_in_a_full_inbox() {
    let folder = folder();
    let server = with_tim(folder.path(), "[limits]\ninbox = 1\n[delivery]\nattempts = 1\n");
    let sent = message("roman", "tim", "impossible");
    server.accepted(&sent);
    server.accepted(&message("ann", "roman", "fills the inbox"));
    is_problem(&server.send(&message("ann", "roman", "more")), 503, "queue_full");
    assert_eq!(server.inbox("tim", "").len(), 1);
    assert_eq!(server.settle("tim", id_of(&sent), "nack").status, 200);
    let mut taken = server.inbox("roman", "wait=30s");
    if taken.len() < 2 {
        taken.extend(server.inbox("roman", "wait=30s"));
    }
    let senders: HashSet<_> = taken.iter().map(|letter| letter["sender"].as_str()).collect();
    assert_eq!(senders, HashSet::from([Some("ann"), Some("system")]));
}

// Asking wrongly

#[test]
fn what_cannot_be_understood_is_a_problem_that_says_why() {
    let folder = folder();
    let server = started(folder.path());
    let id = new_id();
    for (path, code) in [
        ("/bus/agents/a%20b/inbox", "bad_agent_id"),
        ("/bus/agents/..%2f..%2fetc/inbox", "bad_agent_id"),
        ("/bus/agents/tim/inbox?wait=soon", "bad_request"),
        ("/bus/agents/tim/inbox?limit=many", "bad_request"),
        ("/bus/agents/tim/inbox?limit=-1", "bad_request"),
        ("/bus/log?cursor=first", "bad_request"),
        ("/bus/log?limit=all", "bad_request"),
    ] {
        is_problem(&server.get(path), 400, code);
    }
    for (path, code) in [
        ("/bus/agents/tim/inbox/17/ack".to_owned(), "bad_uuid"),
        ("/bus/agents/tim/inbox/00000000-0000-0000-0000-000000000000/nack".to_owned(), "bad_uuid"),
        (format!("/bus/agents/a*b/inbox/{id}/ack"), "bad_agent_id"),
        (format!("/bus/agents/a*b/inbox/{id}/nack"), "bad_agent_id"),
    ] {
        is_problem(&server.post(&path, b""), 400, code);
    }
    let large = format!("{{\"reason\":\"{}\"}}", "x".repeat(300 << 10));
    is_problem(
        &server.post(&format!("/bus/agents/tim/inbox/{id}/nack"), large.as_bytes()),
        413,
        "too_large",
    );
}

#[test]
fn unknown_places_and_verbs_are_problems_too() {
    let folder = folder();
    let server = started(folder.path());
    for path in
        ["/", "/bus", "/bus/nothing", "/bus/agents/tim/outbox", "/bus/agents/tim/inbox/x/eat"]
    {
        is_problem(&server.get(path), 404, "not_found");
    }
    for path in ["/bus/agents", "/bus/log", "/healthz", "/bus/agents/tim/inbox"] {
        is_problem(&server.post(path, b"{}"), 404, "not_found");
    }
    is_problem(&server.get("/bus/messages"), 404, "not_found");
}

#[test]
fn health_is_told() {
    let folder = folder();
    let server = started(folder.path());
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/readyz").status, 200);
}

// The log

#[test]
fn the_log_is_read_page_by_page_newest_first() {
    let folder = folder();
    let server = started(folder.path());
    let mut expected = Vec::new();
    for n in 0..25 {
        expected.push(server.accepted(&message("roman", "tim", &n.to_string()))["seq"].clone());
    }
    expected.push(server.post("/bus/messages", b"no \x01 JSON").body["seq"].clone());
    expected.push(server.send(&message("roman", "tom", "nobody")).body["seq"].clone());
    expected.reverse();
    for limit in [1, 7, 1_000] {
        let log = server.whole_log(limit);
        let seqs: Vec<_> = log.iter().map(|record| record["seq"].clone()).collect();
        assert_eq!(seqs, expected, "limit {limit}");
        assert!(log.iter().all(|record| record["deliveries"].is_array()));
        let outcomes: Vec<_> = log.iter().map(|record| &record["outcome"]).take(3).collect();
        assert_eq!(outcomes, ["unknown_recipient", "invalid", "queued"]);
        assert_eq!(log[1]["raw"], "no \u{1} JSON");
        assert_eq!(log[2]["message"]["payload"]["progress"], "24");
        for key in ["time", "messageId", "recipients", "hash", "prev"] {
            assert!(log[2].get(key).is_some(), "{key}");
        }
    }
    assert_eq!(server.get("/bus/log?limit=3").body["records"].as_array().unwrap().len(), 3);
    assert_eq!(server.get("/bus/log?limit=100000").status, 200);
}

// Starting and stopping

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
        ("localhost", "not an address and a port"),
    ] {
        let error = fails(serve_on(folder.path(), address));
        assert!(error.contains(says), "{error}");
    }
    assert!(!folder.path().join("a2a-log").exists(), "nothing is begun");
}

#[test]
fn a_configuration_that_says_something_unknown_is_refused() {
    let folder = folder();
    for (config, says) in [
        ("[limits]\nper_agent_per_minut = 5\n", "per_agent_per_minut"),
        ("[delivery]\nattempts = 0\n", "attempts"),
        ("[[agents]]\nid = \"a b\"\n", "a b"),
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
