//! Rows 13 and 14, over raw sockets: what is no HTTP is refused, and who only stays is shed.
//!
//! The limits are tiny here, and every test waits for the server to close.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::server::{Server, message};

/// Longer than anything takes here; a test that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(60);
const TINY: &str =
    "[http]\nhead_seconds = 1\nbody_seconds = 0.5\nidle_seconds = 0.5\nstalled_seconds = 0.5\n";

fn connect(server: &Server) -> TcpStream {
    let socket = TcpStream::connect(server.host()).unwrap();
    socket.set_read_timeout(Some(TOO_LONG)).unwrap();
    socket.set_write_timeout(Some(TOO_LONG)).unwrap();
    socket
}

/// All bytes from the server until it closes. A wait that is too long fails the test.
fn until_closed(mut socket: TcpStream) -> String {
    let mut output = Vec::new();
    match socket.read_to_end(&mut output) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&output).into_owned()
}

/// The answer to these bytes, on a connection that the client would keep.
fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut socket = connect(server);
    // A write that the server cuts short is its right.
    let _ = socket.write_all(bytes);
    until_closed(socket)
}

#[test]
fn what_is_no_http_gets_a_typed_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), TINY);
    server.inbox("tim", "");
    let host = server.host();
    let get = |rest: &str| format!("GET /bus/agents HTTP/1.1\r\nHost: {host}\r\n{rest}\r\n");
    let post = |rest: &str| format!("POST /bus/messages HTTP/1.1\r\nHost: {host}\r\n{rest}");
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("a large head", get(&format!("X: {}\r\n", "y".repeat(40 << 10))).into(), "431"),
        ("a giant head", get(&format!("X: {}\r\n", "y".repeat(1 << 20))).into(), "431"),
        ("a large target", get("").replace("agents", &"a".repeat(40 << 10)).into(), "431"),
        ("many headers", get(&many).into(), "431"),
        (
            "two ways to say the length",
            post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").into(),
            "400",
        ),
        ("two lengths", post("Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd").into(), "400"),
        ("a length that is none", post("Content-Length: +4\r\n\r\nabcd").into(), "400"),
        (
            "an odd encoding",
            post("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n").into(),
            "400",
        ),
        ("a bad chunk", post("Transfer-Encoding: chunked\r\n\r\nzz\r\n").into(), "400"),
        ("two hosts", get("Host: evil.example\r\n").into(), "400"),
        ("no host", b"GET /bus/agents HTTP/1.1\r\n\r\n".to_vec(), "400"),
        ("no host, an older way", b"GET /bus/agents HTTP/1.0\r\n\r\n".to_vec(), "421"),
        ("another host", b"GET /bus/agents HTTP/1.1\r\nHost: evil\r\n\r\n".to_vec(), "421"),
        ("NUL in a header", get("X: a\0b\r\n").into(), "400"),
        ("a folded header", get("X: a\r\n b\r\n").into(), "400"),
        ("noise", b"\0\x01\x02\r\n\r\n".to_vec(), "400"),
        ("bad UTF-8 in the target", b"GET /\xff\xfe HTTP/1.1\r\n\r\n".to_vec(), "400"),
        ("bad UTF-8 in the host", b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n".to_vec(), "421"),
        ("bad UTF-8 in a path", get("").replace("agents", "agents/%ff%fe/inbox").into(), "400"),
    ];
    for (name, bytes, status) in cases {
        let answer = exchange(&server, &bytes);
        let line = answer.lines().next().unwrap_or_default();
        assert_eq!(line.split(' ').nth(1), Some(status), "{name}: {answer}");
    }
    assert!(
        exchange(&server, get(&format!("X: {}\r\n", "y".repeat(40 << 10))).as_bytes())
            .contains("\"code\":\"head_too_large\"")
    );
    server.client().accepted(&message("roman", "tim", "still here"));
}

#[test]
fn bad_utf8_is_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let digits: String = Sha256::digest("x").iter().map(|byte| format!("{byte:02x}")).collect();
    let config = format!("{TINY}[[auth.tokens]]\noperator = \"david\"\nsha256 = \"{digits}\"\n");
    let server = Server::with_config(folder.path(), &config);
    let head = format!("GET /bus/log HTTP/1.1\r\nHost: {}\r\nAuthorization: ", server.host());
    let answer = exchange(&server, &[head.as_bytes(), b"Bearer \xff\xfe\r\n\r\n"].concat());
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(answer.contains("www-authenticate: Bearer"), "{answer}");
}

#[test]
fn who_is_slow_is_shed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), TINY);
    server.inbox("tim", "");
    let host = server.host();
    let whole = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let begun = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nX: ");
    let body =
        format!("POST /bus/messages HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n{{");
    // Nothing at all; half a head; a whole one and then nothing; one and then half of another.
    exchange(&server, b"");
    exchange(&server, begun.as_bytes());
    for bytes in [whole.clone(), whole.clone() + &begun, whole.clone() + "\r\n"] {
        let answer = exchange(&server, bytes.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    // Half of another that begins after the answer came, when no clock of the library runs.
    let mut socket = connect(&server);
    socket.write_all(whole.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    socket.write_all(begun.as_bytes()).unwrap();
    until_closed(socket);
    let answer = exchange(&server, body.as_bytes());
    assert!(
        answer.starts_with("HTTP/1.1 408 ") && answer.contains("\"code\":\"timeout\""),
        "{answer}"
    );
    server.client().accepted(&message("roman", "tim", "still here"));
}

#[test]
fn a_socket_that_is_half_closed_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), TINY);
    for bytes in [String::new(), format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n", server.host())] {
        let mut socket = connect(&server);
        socket.write_all(bytes.as_bytes()).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        until_closed(socket);
    }
    assert_eq!(server.client().get("/healthz").status, 200);
}

#[test]
fn idle_connections_are_closed_for_active_ones() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{TINY}max_connections = 8\nworkers = 2\n");
    let server = Server::with_config(folder.path(), &config);
    let idle: Vec<_> = (0..24).map(|_| connect(&server)).collect();
    // With so few places, those that were accepted after it can take its own before it has asked.
    let answer = (0..24).find_map(|_| server.client().try_get("/healthz").ok());
    assert_eq!(answer.unwrap().status, 200);
    idle.into_iter().for_each(|socket| drop(until_closed(socket)));
}

/// Its requests are answered until nothing more fits between the two; then it is let go.
#[test]
fn who_asks_without_ever_reading_is_shed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), TINY);
    let mut socket = connect(&server);
    // The answer names the place, so that it is as large as the question.
    let place = "a".repeat(16 << 10);
    let request = format!("GET /{place} HTTP/1.1\r\nHost: {}\r\n\r\n", server.host());
    let many = request.repeat(10);
    let error = loop {
        if let Err(error) = socket.write_all(many.as_bytes()) {
            break error;
        }
    };
    assert!(
        matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "the server closed it: {error}"
    );
    assert_eq!(server.client().get("/healthz").status, 200);
}

#[test]
fn there_is_an_end_to_streams_in_all_and_for_one_caller() {
    let folder = tempfile::tempdir().unwrap();
    let hash = |token: &str| -> String {
        Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let operator = |name: &str| {
        format!("[[auth.tokens]]\noperator = \"{name}\"\nsha256 = \"{}\"\n", hash(name))
    };
    let config = "[http]\nmax_streams = 3\nmax_streams_per_caller = 2\n".to_owned();
    let config = config + &operator("ann") + &operator("bob");
    let server = Server::with_config(folder.path(), &config);
    let host = server.host();
    // Opened, and read until it has begun.
    let open = |token: &str| {
        let mut socket = connect(&server);
        let head = format!("GET /bus/log/stream HTTP/1.1\r\nHost: {host}\r\n");
        write!(socket, "{head}Authorization: Bearer {token}\r\n\r\n").unwrap();
        let mut output = Vec::new();
        let mut piece = [0; 1024];
        while !output.windows(6).any(|found| found == b"retry:") {
            let count = socket.read(&mut piece).unwrap();
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&output));
            output.extend_from_slice(&piece[..count]);
        }
        socket
    };
    let refused = |token: &str, status: u16| {
        let answer = server.client().bearing(token).get("/bus/log/stream");
        let code = json!("too_many_streams");
        assert_eq!((answer.status, &answer.body["code"]), (status, &code), "{answer:?}");
    };
    let ann = [open("ann"), open("ann")];
    refused("ann", 429);
    let _bob = open("bob");
    refused("bob", 503);
    drop(ann);
    // That they left is noticed by what is written to them.
    let bob = server.client().bearing("bob");
    let again = || bob.try_get("/bus/log/stream?until=yesterday").unwrap().status == 200;
    while !again() {
        bob.send(&message("human", "tim", "anybody there?"));
    }
}
