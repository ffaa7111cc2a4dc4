//! `/bus/log/stream`: from where to where, filters, slow readers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::{Server, id_of, message, stderr};

/// Longer than anything takes here; a test that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(60);

/// A reader of server-sent events.
pub(crate) struct Stream {
    lines: Box<dyn BufRead>,
    pub(crate) id: u64,
}

impl Stream {
    pub(crate) fn open(server: &Server, query: &str, last: Option<u64>) -> Self {
        Self::try_open(server, query, last).expect("a place")
    }

    /// The same; `None` when there is no place.
    pub(crate) fn try_open(server: &Server, query: &str, last: Option<u64>) -> Option<Self> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(TOO_LONG));
        let agent: ureq::Agent = config.build().into();
        let mut request = agent.get(format!("{}/bus/log/stream?{query}", server.url()));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.call().unwrap();
        if response.status() == 503 {
            return None;
        }
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut stream = Self { lines: Box::new(BufReader::new(reader)), id: 0 };
        // The position is sent before anything happens.
        assert_eq!(stream.line().unwrap(), "retry: 1000");
        let place = stream.line().unwrap();
        stream.id = place.strip_prefix("id: ").unwrap().parse().unwrap();
        Some(stream)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Value> {
        loop {
            let line = self.line()?;
            if let Some(id) = line.strip_prefix("id: ") {
                self.id = id.parse().unwrap();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let event: Value = serde_json::from_str(data).unwrap();
                assert_eq!(event["seq"], json!(self.id));
                return Some(event);
            }
        }
    }

    fn take(&mut self, count: usize) -> Vec<Value> {
        (0..count).map(|_| self.next().unwrap()).collect()
    }
}

fn words(events: &[Value]) -> Vec<&str> {
    let word = |event: &Value| if event["event"].is_null() { "outcome" } else { "event" };
    events.iter().map(|event| event[word(event)].as_str().unwrap()).collect()
}

#[test]
fn lines_come_as_they_are_written_and_a_reader_resumes_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "[limits]\nburst = 1000\n");
    server.inbox("tim", "");
    server.accepted(&message("roman", "tim", "before"));
    let mut stream = Stream::open(&server, "", None);
    let sent = message("roman", "tim", "during");
    server.accepted(&sent);
    let event = stream.next().unwrap();
    assert_eq!((&event["outcome"], &event["message"]), (&json!("queued"), &sent));
    assert_eq!(event["deliveries"], Value::Null, "a line of the log, as it is");
    for taken in server.inbox("tim", "wait=10s") {
        server.settle("tim", id_of(&taken), "ack");
    }
    let more = stream.take(4);
    assert_eq!(words(&more), ["delivered", "delivered", "acknowledged", "acknowledged"]);
    let place = stream.id;
    drop(stream);
    let missed: Vec<_> = (0..100).map(|i| message("roman", "tim", &i.to_string())).collect();
    missed.iter().for_each(|sent| drop(server.accepted(sent)));
    let mut stream = Stream::open(&server, "", Some(place));
    let came = stream.take(100);
    assert!(came.iter().zip(&missed).all(|(event, sent)| event["message"] == *sent));
    // From a moment on; and from the very start.
    let since = came[50]["time"].as_str().unwrap();
    let first = Stream::open(&server, &format!("since={since}"), None).next().unwrap();
    assert!(first["seq"].as_u64() <= came[50]["seq"].as_u64() && first["time"] == came[50]["time"]);
    let seqs: Vec<_> = Stream::open(&server, "", Some(0)).take(50);
    assert!(seqs.windows(2).all(|pair| pair[0]["seq"].as_u64() < pair[1]["seq"].as_u64()));
    assert_eq!(words(&seqs)[0], "joined");
}

#[test]
fn a_filtered_stream_has_what_is_wanted_with_its_events() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "");
    for agent in ["tim", "ann"] {
        server.inbox(agent, "");
    }
    let mut stream = Stream::open(&server, "agent=tim&text=wanted", None);
    server.accepted(&message("roman", "ann", "wanted by nobody"));
    server.accepted(&message("roman", "tim", "no"));
    let sent = message("roman", "tim", "Wanted");
    server.accepted(&sent);
    for agent in ["ann", "tim"] {
        for taken in server.inbox(agent, "wait=10s") {
            server.settle(agent, id_of(&taken), "ack");
        }
    }
    let came = stream.take(3);
    assert_eq!(words(&came), ["queued", "delivered", "acknowledged"]);
    assert!(came.iter().all(|event| event["messageId"] == sent["messageId"]));
    // Over when its time is, without what is later.
    let until = came[2]["time"].as_str().unwrap().to_owned();
    server.accepted(&message("roman", "tim", "too late"));
    let mut ended = Stream::open(&server, &format!("until={until}"), Some(0));
    while let Some(event) = ended.next() {
        assert!(event["time"].as_str().unwrap() < until.as_str(), "{event}");
    }
}

#[test]
fn a_stopping_server_ends_its_streams_and_does_not_wait_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mut stream = Stream::open(&server, "", None);
    let begun = Instant::now();
    assert_eq!(server.terminate().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    while stream.line().is_some() {}
}

#[test]
fn stalled_reader_is_cut_off_and_the_bus_continues() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[limits]\nburst = 100000\nper_agent_per_minute = 1000000\nper_pair_per_minute = 1000000\n\
                  [http]\nstalled_seconds = 1\nidle_seconds = 1\n[breaker]\nenabled = false\n";
    let server = Server::with_config(folder.path(), config);
    server.inbox("tim", "");
    // More than all buffers on the way hold together.
    let big = "x".repeat(30_000);
    for _ in 0..200 {
        let mut long = message("roman", "tim", &big);
        long["payload"]["metadata"] = json!({"https://example.org/x": vec![big.clone(); 5]});
        server.accepted(&long);
    }
    let mut slow = TcpStream::connect(server.host()).unwrap();
    slow.set_read_timeout(Some(TOO_LONG)).unwrap();
    let head = format!("host: {}\r\nlast-event-id: 0\r\n\r\n", server.host());
    slow.write_all(format!("GET /bus/log/stream HTTP/1.1\r\n{head}").as_bytes()).unwrap();
    let begun = Instant::now();
    while !stderr(folder.path()).contains("cut off") {
        assert!(begun.elapsed() < TOO_LONG, "not cut off");
        // No other reader notices.
        assert_eq!(server.get("/readyz").status, 200);
        server.accepted(&message("roman", "tim", "meanwhile"));
    }
    // What was on its way may still be read, and then there is an end, clean or not.
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(begun.elapsed() < TOO_LONG);
    assert!(rest.len() < 36_000_000, "not everything was sent to it");
    // On a connection that is not being closed just now.
    assert_eq!(server.client().send(&message("roman", "tim", "still there")).status, 202);
}

#[test]
fn there_is_an_end_to_how_many_follow() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let streams: Vec<_> = (0..64).map(|_| Stream::open(&server, "", None)).collect();
    let refused = server.get("/bus/log/stream");
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("unavailable")));
    drop(streams);
    let begun = Instant::now();
    let free = || server.try_get("/bus/log/stream?until=yesterday").is_ok_and(|a| a.status == 200);
    // Something must be written before those that left are noticed.
    loop {
        server.inbox("tim", "");
        server.send(&message("roman", "tim", "hi"));
        if free() {
            break;
        }
        assert!(begun.elapsed() < TOO_LONG);
    }
}
