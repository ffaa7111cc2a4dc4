//! Answers that are asked for and not taken, and connections that only stay.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::frames::{Came, Http2};
use crate::oversight::token_config;
use crate::server::{Server, message, serve};
use crate::tls::{CONFIG, certify};
use crate::tokens::{create, revoke};

/// Longer than anything takes here; a test that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(60);

#[test]
fn a_connection_that_takes_nothing_costs_others_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certify(folder.path());
    let config = format!("[http]\nmax_requests = 20\nstalled_seconds = 60\n{CONFIG}");
    let server = Server::with_config(folder.path(), &config);
    let client = server.client().trusting(&certificate);
    client.inbox("tim", "");
    let mut connection = Http2::connect(&server, &certificate, 0);
    let streams: Vec<_> =
        (0..100).map(|_| connection.get("/openapi.json", None).unwrap()).collect();
    for stream in streams {
        while connection.next() != Some(Came::Head(stream)) {}
    }
    // All of them are answered, and nothing of it is taken.
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    client.accepted(&message("roman", "tim", "still here"));
    // A reader that continues like that loses the connection.
    for _ in 0..3_000 {
        if connection.get("/openapi.json", None).is_err() {
            break;
        }
    }
    connection.until_closed();
    assert_eq!(client.get("/healthz").status, 200);
}

#[test]
fn an_answer_that_is_not_taken_ends_its_connection() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certify(folder.path());
    let config = format!("[http]\nstalled_seconds = 0.5\nidle_seconds = 60\n{CONFIG}");
    let server = Server::with_config(folder.path(), &config);
    // Nothing is taken at all; or the beginning, and the rest is held back.
    for window in [0, 100_000] {
        let mut connection = Http2::connect(&server, &certificate, window);
        connection.get("/openapi.json", None).unwrap();
        connection.until_closed();
    }
    // One that asks for nothing more may stay.
    let mut connection = Http2::connect(&server, &certificate, 1 << 20);
    let stream = connection.get("/healthz", None).unwrap();
    while connection.next() != Some(Came::Head(stream)) {}
    let other = Http2::connect(&server, &certificate, 0);
    {
        let mut other = other;
        other.get("/healthz", None).unwrap();
        other.until_closed();
    }
    let stream = connection.get("/healthz", None).unwrap();
    while connection.next().unwrap() != Came::Head(stream) {}
}

/// The answers that one caller does not read are bounded, and cost no other caller anything.
#[test]
fn unread_answers_are_charged_to_their_caller() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certify(folder.path());
    let tokens = token_config(&[("operator = \"ann\"", "ann"), ("operator = \"bob\"", "bob")]);
    let config =
        format!("{tokens}[http]\nmax_unread_mib_per_caller = 1\nstalled_seconds = 60\n{CONFIG}");
    let server = Server::with_config(folder.path(), &config);
    let client = server.client().trusting(&certificate);
    let (ann, bob) = (client.bearing("ann"), client.bearing("bob"));
    let page =
        ann.open("GET", "/metrics", &json!(null)).unwrap().into_body().read_to_string().unwrap();
    let mut connection = Http2::connect(&server, &certificate, 0);
    let enough = (1 << 20) / page.len() + 2;
    assert!(enough < 100, "a page has {} bytes", page.len());
    for _ in 0..enough {
        let stream = connection.get("/metrics", Some("ann")).unwrap();
        while connection.next() != Some(Came::Head(stream)) {}
    }
    let refused = ann.get("/metrics");
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("too_much_unread")));
    assert_eq!(ann.get("/bus/dead-letters").status, 200, "small answers are not charged");
    assert_eq!(bob.get("/metrics").status, 200);
}

/// Under a low limit of open files: more connections than fit, and the tokens still work.
#[test]
fn idle_connections_leave_files_for_tokens_and_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (_, first) = create(folder.path(), &["--agent", "tim"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""]);
    let program = serve(folder.path());
    command.arg(program.get_program()).args(program.get_args());
    command.env("OPENCLAW_LOG", "warn").env_remove("OPENCLAW_STATE_DIR");
    let server = Server::start_by(command, folder.path());
    let output = crate::server::stderr(folder.path());
    assert!(output.contains("max_connections=10000"), "{output}");
    let idle: Vec<_> = (0..400).map(|_| TcpStream::connect(server.host()).unwrap()).collect();
    assert_eq!(server.client().get("/healthz").status, 200);
    let known = |token: &str| server.client().bearing(token).get("/bus/agents").status;
    assert_eq!(known(&first), 200);
    let (id, second) = create(folder.path(), &["--agent", "roman"]);
    assert_eq!((known(&first), known(&second)), (200, 200));
    server.client().bearing(&first).inbox("tim", "");
    revoke(folder.path(), &id);
    assert_eq!((known(&first), known(&second)), (200, 401));
    server.client().bearing(&first).accepted(&message("tim", "tim", "still here"));
    // The ones that did nothing for longest had to go.
    let mut oldest = &idle[0];
    oldest.set_read_timeout(Some(TOO_LONG)).unwrap();
    match oldest.read(&mut [0; 64]) {
        Ok(length) => assert_eq!(length, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    let mut newest = &idle[399];
    newest
        .write_all(format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", server.host()).as_bytes())
        .unwrap();
    let mut answer = [0; 12];
    newest.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}
