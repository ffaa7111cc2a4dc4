use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::{folder, is_problem, progress, started, violations, with_tim};
use crate::server::{Server, id_of, message};

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
fn fan_out_reaches_all_agents_but_its_sender() {
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
fn rate_limited_sender_gets_the_time_to_retry() {
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
fn full_inbox_refuses_until_a_message_leaves() {
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
