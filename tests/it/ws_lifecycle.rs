//! Sessions over WebSocket: who may come, how a connection is lost, resumed and ended.

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::Message;

use crate::server::{Server, id_of, message};
use crate::socket::{Socket, text};

fn started(config: &str) -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), config);
    (folder, server)
}

fn send(server: &Server, to: &str, text: &str) -> Value {
    let message = message("roman", to, text);
    server.accepted(&message);
    message
}

/// A server with long backoff: what comes at once was kept, not redelivered.
fn slow_to_retry() -> (TempDir, Server) {
    let (folder, server) =
        started("[delivery]\nfirst_pause_ms = 3600000\nlongest_pause_ms = 3600000");
    server.inbox("tim", "");
    (folder, server)
}

#[test]
fn a_session_that_is_resumed_keeps_its_messages_and_gets_none_twice() {
    let (_folder, server) = slow_to_retry();
    let (mut socket, hello) =
        Socket::greet(&server, "tim", json!({"window": 3, "graceSeconds": 60}));
    let session = hello["sessionId"].clone();
    let messages: Vec<_> = ["a", "b", "c", "d"].map(|text| send(&server, "tim", text)).into();
    let frames: Vec<_> = (0..3).map(|_| socket.delivered()).collect();
    drop(socket);
    let (mut socket, hello) =
        Socket::greet(&server, "tim", json!({"window": 3, "graceSeconds": 60, "resume": session}));
    assert_eq!((&hello["resumed"], &hello["sessionId"]), (&json!(true), &session));
    let ids: Vec<_> = messages.iter().map(|message| message["messageId"].clone()).collect();
    assert_eq!(hello["inHands"], json!(ids[..3]));
    socket.is_quiet();
    socket.say(&json!({"type": "ack", "messageId": ids[1]}));
    let mut output = [socket.receive(), socket.receive()];
    output.sort_by_key(|frame| frame["type"].as_str().unwrap().to_owned());
    assert_eq!(output[0], json!({"type": "ack", "messageId": ids[1], "durable": true}));
    assert_eq!((text(&output[1]), &output[1]["attempt"]), ("d", &json!(1)));
    // Once more, and this time the agent lists what it still has: the rest is redelivered.
    drop(socket);
    let hello = json!({"window": 3, "resume": session, "inHands": [ids[0]]});
    let (mut socket, _) = Socket::greet(&server, "tim", hello);
    for expected in ["c", "d"] {
        let frame = socket.delivered();
        assert_eq!((text(&frame), &frame["attempt"]), (expected, &json!(1)));
        socket.ack(&frame);
    }
    socket.ack(&frames[0]);
    socket.is_quiet();
}

#[test]
fn a_living_connection_gives_its_session_to_the_one_that_resumes_it() {
    let (_folder, server) = slow_to_retry();
    let (mut old, hello) = Socket::greet(&server, "tim", json!({}));
    send(&server, "tim", "a");
    let frame = old.delivered();
    let (mut new, answer) = Socket::greet(&server, "tim", json!({"resume": hello["sessionId"]}));
    assert_eq!(answer["resumed"], true);
    let (_, code, _) = old.closed();
    assert_eq!(code, 4001);
    new.ack(&frame);
    assert_eq!(server.get("/bus/agents/tim").body["sessions"], 1);
}

#[test]
fn what_cannot_be_resumed_is_a_new_session() {
    let (_folder, server) = slow_to_retry();
    let (socket, hello) = Socket::greet(&server, "tim", json!({"graceSeconds": 60}));
    // Another agent's session is not accessible.
    let (_ann, answer) = Socket::greet(&server, "ann", json!({"resume": hello["sessionId"]}));
    assert_eq!(answer["resumed"], false);
    // And a session that left cannot be resumed.
    socket.leave();
    let (_socket, answer) = Socket::greet(&server, "tim", json!({"resume": hello["sessionId"]}));
    assert_eq!(answer["resumed"], false);
    assert_ne!(answer["sessionId"], hello["sessionId"]);
}

#[test]
fn session_not_resumed_in_time_loses_its_messages() {
    let (_folder, server) = started("[delivery]\nfirst_pause_ms = 1");
    let (mut socket, _) = Socket::greet(&server, "tim", json!({"graceSeconds": 1}));
    send(&server, "tim", "a");
    socket.delivered();
    drop(socket);
    let (mut other, _) = Socket::greet(&server, "tim", json!({}));
    let frame = other.delivered();
    assert_eq!((text(&frame), &frame["attempt"]), ("a", &json!(2)));
    other.ack(&frame);
}

#[test]
fn what_waits_for_an_agent_that_is_away_goes_to_its_other_session() {
    let (_folder, server) = slow_to_retry();
    let (mut away, hello) = Socket::greet(&server, "tim", json!({"window": 1, "graceSeconds": 60}));
    send(&server, "tim", "a");
    send(&server, "tim", "b");
    let a = away.delivered();
    drop(away);
    let (mut here, _) = Socket::greet(&server, "tim", json!({}));
    assert_eq!(text(&here.delivered()), "b");
    let (mut back, _) = Socket::greet(&server, "tim", json!({"resume": hello["sessionId"]}));
    back.ack(&a);
}

#[test]
fn silent_session_is_closed_and_its_messages_go_to_another() {
    let (_folder, server) =
        started("[sessions]\nsilent_seconds = 1\n[delivery]\nfirst_pause_ms = 1");
    let (mut silent, _) = Socket::greet(&server, "tim", json!({}));
    send(&server, "tim", "a");
    silent.delivered();
    // It reads nothing from here on, and so does not answer pings either.
    let (mut other, _) = Socket::greet(&server, "tim", json!({}));
    let frame = other.delivered();
    assert_eq!((text(&frame), &frame["attempt"]), ("a", &json!(2)));
    assert_eq!(silent.closed().1, 4000);
}

#[test]
fn stalled_session_gets_nothing_more_and_is_closed() {
    let (_folder, server) = started(
        "[sessions]\nsilent_seconds = 60\n[http]\nstalled_seconds = 1\n[limits]\nburst = 1000\n[delivery]\nfirst_pause_ms = 1",
    );
    // It asks and asks, and does not listen.
    let (_deaf, _) = Socket::greet(&server, "tim", json!({"window": 256}));
    let large = "x".repeat(30_000);
    let first = send(&server, "tim", &large);
    for _ in 1..300 {
        send(&server, "tim", &large);
    }
    let (mut other, _) = Socket::greet(&server, "tim", json!({"window": 1}));
    let frame = other.delivered();
    assert_eq!((id_of(&frame), &frame["attempt"]), (id_of(&first), &json!(2)));
    other.ack(&frame); // and so everything before it is in the log
    let log = server.get(&format!("/bus/log/{}", id_of(&first))).body.to_string();
    // Which of the two comes first depends on how much the system buffers for a slow reader.
    let reasons = ["took nothing for too long", "connection of the agent was lost"];
    assert!(reasons.iter().any(|reason| log.contains(reason)), "{log}");
}

#[test]
fn stopping_server_reports_it_and_keeps_what_is_in_flight() {
    let (folder, server) = started("");
    let (mut socket, _) = Socket::greet(&server, "tim", json!({"graceSeconds": 60}));
    send(&server, "tim", "done");
    send(&server, "tim", "undone");
    let done = socket.delivered();
    socket.delivered();
    socket.ack(&done);
    let stopping = std::thread::spawn(move || server.terminate());
    let (_, code, reason) = socket.closed();
    assert_eq!((code, reason.contains("stopping")), (1001, true), "{reason}");
    assert!(stopping.join().unwrap().success());
    let server = Server::start(folder.path());
    let (mut socket, _) = Socket::greet(&server, "tim", json!({}));
    let frame = socket.delivered();
    assert_eq!((text(&frame), &frame["attempt"]), ("undone", &json!(1)));
    socket.ack(&frame);
    socket.is_quiet();
}

#[test]
fn after_a_crash_the_acknowledged_is_never_redelivered_and_the_rest_is() {
    let (folder, mut server) = started("[limits]\nburst = 1000\n[delivery]\nattempts = 100");
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        let (mut socket, _) = Socket::greet(&server, "tim", json!({"window": 8}));
        for n in 0..20 {
            send(&server, "tim", &format!("{round}.{n}"));
        }
        for _ in 0..10 {
            let frame = loop {
                let frame = socket.receive();
                if frame["type"] == "deliver" {
                    break frame;
                }
                acknowledged.push(frame["messageId"].clone());
            };
            assert!(!acknowledged.contains(&json!(id_of(&frame))), "{frame}");
            socket.say(&json!({"type": "ack", "messageId": id_of(&frame)}));
        }
        server.kill();
        // What was answered counts, even if it is read only now.
        while let Some(frame) = socket.try_receive() {
            if frame["type"] == "ack" {
                acknowledged.push(frame["messageId"].clone());
            }
        }
        server = Server::start(folder.path());
    }
    let (mut socket, _) = Socket::greet(&server, "tim", json!({"window": 256}));
    let pending = server.get("/bus/agents/tim").body["pending"].as_u64().unwrap();
    // Fifty were acknowledged, and of some of those the answer was lost.
    let most = 100 - acknowledged.len() as u64;
    assert!((50..=most).contains(&pending), "{pending} of at most {most}");
    for _ in 0..pending {
        let frame = socket.delivered();
        assert!(!acknowledged.contains(&json!(id_of(&frame))), "{frame}");
    }
    socket.is_quiet();
}

#[test]
fn without_its_token_a_caller_is_no_agent() {
    // SHA-256 of `tim-token`, `ann-token` and `boss-token`.
    let hash = |token: &str| {
        use sha2::{Digest, Sha256};
        Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let config = format!(
        "[[agents]]\nid = \"tim\"\n[[agents]]\nid = \"ann\"\n\
         [[auth.tokens]]\nagent = \"tim\"\nsha256 = \"{}\"\n\
         [[auth.tokens]]\nagent = \"ann\"\nsha256 = \"{}\"\n\
         [[auth.tokens]]\noperator = \"boss\"\nsha256 = \"{}\"\n",
        hash("tim-token"),
        hash("ann-token"),
        hash("boss-token")
    );
    let (_folder, server) = started(&config);
    let refused = |headers: &[(&'static str, &str)]| {
        let (status, body) = Socket::try_connect(&server, "tim", headers).err().unwrap();
        (status, body["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(refused(&[]), (401, "unauthorized".into()));
    assert_eq!(refused(&[("authorization", "Bearer wrong")]), (401, "unauthorized".into()));
    assert_eq!(refused(&[("authorization", "Bearer ann-token")]), (403, "forbidden".into()));
    let boss = ("authorization", "Bearer boss-token");
    assert_eq!(refused(&[boss]), (403, "forbidden".into()));
    assert_eq!(refused(&[boss, ("a2a-on-behalf-of", "ann")]), (403, "forbidden".into()));
    Socket::try_connect(&server, "tim", &[("authorization", "Bearer tim-token")]).unwrap();
    Socket::try_connect(&server, "tim", &[boss, ("a2a-on-behalf-of", "tim")]).unwrap();
}

#[test]
fn pages_of_another_origin_do_not_get_in() {
    let (_folder, server) = started("");
    let own = server.url().to_owned();
    let port = own.rsplit_once(':').unwrap().1;
    let rebound = format!("evil.example:{port}");
    let rebound_origin = format!("http://{rebound}");
    let with_path = format!("{own}/x");
    for headers in [
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        vec![("origin", "http://127.0.0.1")],
        vec![("origin", with_path.as_str())],
        // The name of a page that was made to point here.
        vec![("origin", rebound_origin.as_str()), ("host", rebound.as_str())],
    ] {
        let (status, body) = Socket::try_connect(&server, "tim", &headers).err().unwrap();
        // A wrong host is another mistake than a foreign page.
        let is_refused = status == 403 && body["code"] == "cross_origin" || status == 421;
        assert!(is_refused, "{headers:?}: {status} {body}");
    }
    Socket::try_connect(&server, "tim", &[("origin", &own)]).unwrap();
}

#[test]
fn there_is_an_end_to_connections_and_a_place_is_free_again() {
    let (_folder, server) = started("[sessions]\nper_agent = 2\ntotal = 3");
    let (a, _) = Socket::connect(&server, "tim");
    let (_b, _) = Socket::connect(&server, "tim");
    let (status, body) = Socket::try_connect(&server, "tim", &[]).err().unwrap();
    assert_eq!((status, &body["code"]), (503, &json!("too_many_sessions")), "{body}");
    let (_c, _) = Socket::connect(&server, "ann");
    let (status, body) = Socket::try_connect(&server, "bob", &[]).err().unwrap();
    assert_eq!((status, &body["code"]), (503, &json!("server_full")), "{body}");
    a.leave();
    let mut tries = (0..1_000).map(|_| Socket::try_connect(&server, "tim", &[]));
    assert!(tries.any(|connected| connected.is_ok()));
}

#[test]
fn upgrade_without_websocket_or_agent_is_refused() {
    let (_folder, server) = started("[directory]\nopen = false");
    let plain = server.get("/bus/agents/tim/session");
    assert_eq!((plain.status, &plain.body["code"]), (426, &json!("upgrade_required")), "{plain:?}");
    for (agent, status, code) in [
        ("tim", 404, "unknown_recipient"),
        ("system", 404, "unknown_recipient"),
        ("a%20b", 400, "bad_agent_id"),
    ] {
        let (answered, body) = Socket::try_connect(&server, agent, &[]).err().unwrap();
        assert_eq!((answered, &body["code"]), (status, &json!(code)), "{body}");
    }
}

#[test]
fn pings_are_answered_both_ways() {
    let (_folder, server) = started("");
    let (mut socket, _) = Socket::connect(&server, "tim");
    socket.is_quiet();
    socket.say(&json!({"type": "ping"}));
    assert_eq!(socket.receive(), json!({"type": "ping", "answer": true}));
    socket.say(&json!({"type": "ping", "id": "x", "answer": true}));
    socket.say_raw(Message::Ping("abc".into()));
    assert_eq!(socket.pong(), "abc");
    socket.is_quiet();
}
