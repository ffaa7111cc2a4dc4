//! Sessions over WebSocket: what is handed out, in which order, how often, and to whom.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Server, id_of, message, new_id};
use crate::socket::{Socket, text};

/// A server with wide limits, whose retries do not take long.
fn started(more: &str) -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[limits]\nburst = 1000\n[delivery]\nattempts = 3\nfirst_pause_ms = 1\nlongest_pause_ms = 1\n{more}"
    );
    let server = Server::with_config(folder.path(), &config);
    server.inbox("tim", "");
    (folder, server)
}

fn sent(server: &Server, texts: &[&str]) -> Vec<Value> {
    let send = |text: &&str| {
        let message = message("roman", "tim", text);
        server.accepted(&message);
        message
    };
    texts.iter().map(send).collect()
}

fn agent(server: &Server, name: &str) -> Value {
    server.get(&format!("/bus/agents/{name}")).body
}

fn events(server: &Server, message: &Value) -> Vec<String> {
    let found = server.get(&format!("/bus/log/{}", id_of(message)));
    assert_eq!(found.status, 200, "{found:?}");
    let lines = found.body["records"][0]["deliveries"].as_array().unwrap();
    lines.iter().map(|line| line["event"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn session_identifies_itself_and_the_agent_is_online() {
    let (_folder, server) = started("");
    let (socket, hello) = Socket::connect(&server, "tim");
    assert_eq!(hello["protocol"], "openclaw.a2a.session.v1");
    assert_eq!((&hello["window"], &hello["resumed"]), (&json!(16), &json!(false)));
    assert_eq!(hello["inHands"], json!([]));
    let limits = json!({
        "frameBytes": 262_144 + 4_096, "messageBytes": 262_144, "window": 256,
        "graceSeconds": 60, "leaseSeconds": 1_800, "silentSeconds": 30,
    });
    assert_eq!(hello["limits"], limits);
    assert_eq!(agent(&server, "tim")["presence"], "online");
    assert_eq!(agent(&server, "tim")["sessions"], 1);
    socket.leave();
}

#[test]
fn what_arrives_is_delivered_as_it_was_sent_and_never_again_once_acknowledged() {
    let (folder, server) = started("");
    let (mut socket, _) = Socket::greet(&server, "tim", json!({}));
    let mut first = message("roman", "tim", "häuser \u{1F980}");
    first["payload"]["metadata"] = json!({"https://example.org/x": {"big": 1e300}});
    let receipt = server.accepted(&first);
    assert_eq!(receipt["outcome"], "delivered");
    let frame = socket.delivered();
    assert_eq!(frame["message"], first);
    assert_eq!((&frame["sender"], &frame["attempt"]), (&json!("roman"), &json!(1)));
    assert_eq!(frame["seq"], receipt["seq"]);
    socket.ack(&frame);
    assert_eq!(events(&server, &first), ["acknowledged"]);
    // Again is too late, and not held against the connection.
    socket.say(&json!({"type": "ack", "messageId": id_of(&first)}));
    assert_eq!(socket.error("not_taken")["messageId"], first["messageId"]);
    socket.say(&json!({"type": "nack", "messageId": new_id()}));
    socket.error("not_taken");
    socket.is_quiet();
    // Nor after the worst kind of stop.
    server.kill();
    let server = Server::start(folder.path());
    let (mut socket, _) = Socket::greet(&server, "tim", json!({}));
    let later = sent(&server, &["later"]);
    assert_eq!(id_of(&socket.delivered()), id_of(&later[0]));
}

#[test]
fn as_many_as_the_window_are_out_and_in_order() {
    let (_folder, server) = started("");
    let texts: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    sent(&server, &all);
    let (mut socket, hello) = Socket::greet(&server, "tim", json!({"window": 4}));
    assert_eq!(hello["window"], 4);
    let mut out: Vec<Value> = (0..4).map(|_| socket.delivered()).collect();
    assert_eq!(out.iter().map(text).collect::<Vec<_>>(), all[..4]);
    socket.is_quiet();
    for expected in &all[4..] {
        // Each one that is done frees a permit.
        socket.say(&json!({"type": "ack", "messageId": id_of(&out.remove(2))}));
        let mut frames = [socket.receive(), socket.receive()];
        frames.sort_by_key(|frame| frame["type"].as_str().unwrap().to_owned());
        assert_eq!(frames[0]["type"], "ack");
        assert_eq!(text(&frames[1]), *expected);
        out.push(frames[1].clone());
    }
    socket.is_quiet();
}

#[test]
fn without_a_hello_the_session_begins_by_itself() {
    let (_folder, server) = started("");
    sent(&server, &["one"]);
    let (mut socket, _) = Socket::connect(&server, "tim");
    assert_eq!(text(&socket.delivered()), "one");
    socket.say(&json!({"type": "hello"}));
    socket.error("unexpected");
}

#[test]
fn failed_attempt_is_redelivered_and_the_last_is_a_dead_letter() {
    let (_folder, server) = started("");
    let (mut socket, _) = Socket::greet(&server, "tim", json!({"window": 1}));
    let poison = sent(&server, &["poison", "next"]).remove(0);
    for attempt in 1..=3 {
        let frame = socket.delivered();
        assert_eq!((text(&frame), &frame["attempt"]), ("poison", &json!(attempt)));
        socket.nack(&frame, "not today");
    }
    assert_eq!(text(&socket.delivered()), "next");
    let dead = server.get("/bus/dead-letters").body;
    assert_eq!(dead["deadLetters"][0]["messageId"], poison["messageId"], "{dead}");
    assert_eq!(dead["deadLetters"][0]["reason"], "not today");
}

#[test]
fn what_a_lost_connection_had_is_tried_again_by_the_next() {
    let (_folder, server) = started("");
    let messages = sent(&server, &["one", "two", "three"]);
    let (mut socket, _) = Socket::greet(&server, "tim", json!({"window": 2}));
    let done = socket.delivered();
    assert_eq!(text(&socket.delivered()), "two");
    socket.ack(&done);
    assert_eq!(text(&socket.delivered()), "three");
    drop(socket);
    let (mut socket, _) = Socket::greet(&server, "tim", json!({}));
    for expected in ["two", "three"] {
        let frame = socket.delivered();
        assert_eq!((text(&frame), &frame["attempt"]), (expected, &json!(2)));
        socket.ack(&frame);
    }
    socket.is_quiet();
    assert_eq!(events(&server, &messages[1]), ["attempt_failed", "delivered", "acknowledged"]);
}

#[test]
fn two_sessions_share_the_work_and_a_conversation_stays_with_one() {
    let (_folder, server) = started("");
    let (mut a, _) = Socket::greet(&server, "tim", json!({}));
    let (mut b, _) = Socket::greet(&server, "tim", json!({}));
    assert_eq!(agent(&server, "tim")["sessions"], 2);
    let talks: Vec<String> = (0..4).map(|_| new_id()).collect();
    for round in 0..3 {
        for talk in &talks {
            let mut message = message("roman", "tim", &round.to_string());
            message["correlationId"] = json!(talk);
            server.accepted(&message);
        }
    }
    let mut received = Vec::new();
    for socket in [&mut a, &mut b] {
        let frames: Vec<_> = (0..6).map(|_| socket.delivered()).collect();
        socket.is_quiet();
        let own = frames.iter().map(|frame| frame["message"]["correlationId"].clone());
        let mut own: Vec<_> = own.map(|talk| talk.as_str().unwrap().to_owned()).collect();
        own.sort();
        own.dedup();
        assert_eq!(own.len(), 2, "{own:?}");
        received.extend(own);
    }
    received.sort();
    let mut talks = talks;
    talks.sort();
    assert_eq!(received, talks);
    // When one goes, the other has it all.
    drop(b);
    let again: Vec<_> = (0..6).map(|_| a.delivered()).collect();
    assert!(again.iter().all(|frame| frame["attempt"] == 2), "{again:?}");
}

#[test]
fn cancelled_task_is_reported_to_the_session_that_holds_it() {
    let (_folder, server) = started("");
    let (mut socket, hello) = Socket::greet(&server, "tim", json!({"graceSeconds": 30}));
    let session = &hello["sessionId"];
    let task = new_id();
    let mut request = message("roman", "tim", "");
    request["type"] = json!("task_request");
    request["payload"] = json!({
        "taskId": task, "title": "Index", "description": "Add one.",
        "taskType": "implementation", "complexity": "low",
    });
    server.accepted(&request);
    let frame = socket.delivered();
    let called_off =
        server.post(&format!("/bus/tasks/{task}/cancel"), br#"{"reason":"never mind"}"#);
    assert_eq!(called_off.status, 200, "{called_off:?}");
    let cancel = json!({"type": "cancel", "messageId": request["messageId"], "taskId": task});
    // The notice of the bus comes as a message of its own, before or after.
    let mut frames = vec![socket.receive(), socket.receive()];
    frames.sort_by_key(|frame| frame["type"].as_str().unwrap().to_owned());
    assert_eq!(frames[0], cancel);
    assert_eq!(frames[1]["sender"], "system", "{frames:?}");
    // A resumed session gets it again.
    drop(socket);
    let (mut socket, hello) = Socket::greet(&server, "tim", json!({"resume": session}));
    assert_eq!(hello["inHands"].as_array().unwrap().len(), 2);
    assert_eq!(socket.receive(), cancel);
    socket.nack(&frame, "stopped");
    // No session wants another attempt.
    assert_eq!(events(&server, &request).last().unwrap(), "cancelled");
}
