//! Calls that wait: they end with their client, and however many there are, others are served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::frames::Http2;
use crate::metrics::until;
use crate::oversight::token_config;
use crate::server::{Client, Server, id_of, message, new_id};
use crate::tls::{CONFIG, certify};

/// Longer than anything takes here; a test that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(60);
const WAITING: &str = "http_held{quota=\"waiting_calls\"}";

/// Sends bytes and leaves the connection open.
fn say(server: &Server, bytes: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.host()).unwrap();
    socket.set_read_timeout(Some(TOO_LONG)).unwrap();
    socket.write_all(bytes.as_bytes()).unwrap();
    socket
}

fn poll(server: &Server, agent: &str, token: &str) -> TcpStream {
    let head =
        format!("GET /bus/agents/{agent}/inbox?wait=60s HTTP/1.1\r\nHost: {}", server.host());
    say(server, &format!("{head}\r\nAuthorization: Bearer {token}\r\n\r\n"))
}

/// A blocking send to an agent that answers nothing.
fn send(server: &Server, agent: &str, id: &str, token: &str) -> TcpStream {
    let message =
        json!({"messageId": id, "role": "user", "parts": [{"kind": "text", "text": "x"}]});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send",
        "params": {"message": message, "configuration": {"blocking": true}}});
    let (call, host) = (call.to_string(), server.host());
    let length = call.len();
    let head = format!(
        "POST /agents/{agent}/a2a HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json"
    );
    say(
        server,
        &format!(
            "{head}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n{call}"
        ),
    )
}

/// The first piece of an answer.
fn answer(mut socket: TcpStream) -> String {
    let mut piece = [0; 4_096];
    let length = socket.read(&mut piece).unwrap();
    String::from_utf8_lossy(&piece[..length]).into_owned()
}

/// A message without a waiting poll is there at the first attempt.
fn comes_at_once(server: &Client, agent: &str) {
    let sent = message("roman", agent, "at once");
    server.accepted(&sent);
    let taken = server.inbox(agent, "");
    assert_eq!((taken.len(), id_of(&taken[0]), &taken[0]["attempt"]), (1, id_of(&sent), &json!(1)));
    assert_eq!(server.settle(agent, id_of(&sent), "ack").status, 200);
}

#[test]
fn a_poll_whose_client_has_left_takes_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    for polls in [1, 5] {
        let polls: Vec<_> = (0..polls).map(|_| poll(&server, "tim", "none")).collect();
        until(&server, WAITING, polls.len() as f64);
        drop(polls);
        until(&server, WAITING, 0.0);
        comes_at_once(&server, "tim");
    }
}

/// By its connection and by its stream.
#[test]
fn a_poll_over_http2_ends_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certify(folder.path());
    let server = Server::with_config(folder.path(), CONFIG);
    let client = server.client().trusting(&certificate);
    client.inbox("tim", "");
    let path = "/bus/agents/tim/inbox?wait=60s";
    let mut connection = Http2::connect(&server, &certificate, 65_535);
    let stream = connection.get(path, None).unwrap();
    until(&client, WAITING, 1.0);
    connection.reset(stream);
    until(&client, WAITING, 0.0);
    comes_at_once(&client, "tim");
    connection.get(path, None).unwrap();
    until(&client, WAITING, 1.0);
    drop(connection);
    until(&client, WAITING, 0.0);
    comes_at_once(&client, "tim");
}

#[test]
fn waiting_calls_take_no_place_of_working_ones() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "{}[http]\nmax_requests = 4\nmax_waiting = 16\nmax_waiting_per_caller = 10\n",
        token_config(&[
            ("agent = \"tim\"", "tim"),
            ("agent = \"roman\"", "roman"),
            ("client = \"acme\"", "acme"),
            ("operator = \"david\"", "david")
        ])
    );
    let server = Server::with_config(folder.path(), &config);
    let (tim, roman, david) = (
        server.client().bearing("tim"),
        server.client().bearing("roman"),
        server.client().bearing("david"),
    );
    tim.inbox("tim", "");
    roman.inbox("roman", "");
    let _polls: Vec<_> = (0..10).map(|_| poll(&server, "tim", "tim")).collect();
    until(&david, WAITING, 10.0);
    // The same caller has no more, whatever it waits for; it may still ask without waiting.
    let refused = answer(poll(&server, "tim", "tim"));
    assert!(
        refused.starts_with("HTTP/1.1 429 ") && refused.contains("\"too_many_waiting\""),
        "{refused}"
    );
    assert_eq!(tim.try_inbox("tim", "").unwrap().status, 200);
    // Others have: until all that may wait do.
    let _sends: Vec<_> = (0..6).map(|_| send(&server, "roman", &new_id(), "acme")).collect();
    until(&david, WAITING, 16.0);
    let refused = answer(send(&server, "roman", &new_id(), "acme"));
    assert!(refused.contains("-32055") && refused.contains("too_many_waiting"), "{refused}");
    let refused = answer(poll(&server, "roman", "roman"));
    assert!(
        refused.starts_with("HTTP/1.1 503 ") && refused.contains("\"too_many_waiting\""),
        "{refused}"
    );
    until(&david, "http_refused_total{quota=\"waiting_calls\"}", 3.0);
    // And none of this costs those who work.
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.get(path).status, 200);
    }
    roman.accepted(&message("roman", "tim", "still here"));
}

/// Their tasks continue, and so do others.
#[test]
fn blocking_calls_end_with_their_clients() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "[http]\nmax_requests = 4\n");
    server.inbox("tim", "");
    let ids: Vec<_> = (0..12).map(|_| new_id()).collect();
    // The same message again waits for the same task.
    let calls: Vec<_> =
        ids.iter().chain(&ids[..1]).map(|id| send(&server, "tim", id, "none")).collect();
    until(&server, WAITING, 13.0);
    until(&server, "tasks{state=\"working\"}", 12.0);
    drop(calls);
    until(&server, WAITING, 0.0);
    assert_eq!(server.get("/healthz").status, 200);
    until(&server, "tasks{state=\"working\"}", 12.0);
    let handed: Vec<Value> = server.inbox("tim", "limit=100");
    assert_eq!(handed.len(), 12, "their agent has the work all the same");
}

#[test]
fn health_and_operators_are_served_when_all_places_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = token_config(&[("agent = \"tim\"", "tim"), ("operator = \"david\"", "david")]);
    let config = format!("{tokens}[http]\nmax_requests = 2\nbody_seconds = 60\n");
    let server = Server::with_config(folder.path(), &config);
    // Messages that do not come to an end.
    let host = server.host();
    let begun = format!(
        "POST /bus/messages HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer tim\r\nContent-Length: 9\r\n\r\n{{"
    );
    let tim = server.client().bearing("tim");
    let mut bodies = Vec::new();
    let refused = loop {
        bodies.push(say(&server, &begun));
        let answer = tim.try_inbox("tim", "").unwrap();
        if answer.status != 200 {
            break answer;
        }
        assert!(bodies.len() < 1_000);
    };
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("unavailable")));
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/readyz").status, 200);
    let david = server.client().bearing("david");
    assert_eq!(david.get("/bus/agents").status, 200);
    assert_eq!(tim.get("/bus/agents").status, 503);
}
