//! Load generator: 64 connections, each of which sends its next message when its last task has
//! completed.

use std::cell::Cell;
use std::time::Instant;

use futures_util::future::join_all;
use hdrhistogram::Histogram;
use memchr::memmem;

use crate::http::Connection;
use crate::servers::Server;

/// Numbers its messages, so that each has new text.
pub struct Generator {
    connections: usize,
    sent: Cell<u64>,
}

impl Generator {
    /// A generator with this many concurrent connections.
    pub fn new(connections: usize) -> Self {
        Self { connections, sent: Cell::default() }
    }

    /// Tasks per second, and the latencies in microseconds.
    pub async fn run(&mut self, server: &Server, requests: usize) -> (f64, Histogram<u64>) {
        let address = server.address();
        let connections = (0..self.connections).map(|_| Connection::open(address));
        let connections = join_all(connections).await;
        let left = Cell::new(requests);
        let start = Instant::now();
        let senders = connections.into_iter().map(|mut connection| {
            let (left, sent) = (&left, &self.sent);
            async move {
                let mut times = Vec::new();
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    sent.set(sent.get() + 1);
                    let (request, text) = request(sent.get());
                    let begun = Instant::now();
                    connection.post(address, server.path(), &request).await;
                    let answer = connection.answer().await;
                    times.push(begun.elapsed());
                    check(answer, &text);
                }
                times
            }
        });
        let times = join_all(senders).await;
        let rate = requests as f64 / start.elapsed().as_secs_f64();
        let mut histogram = Histogram::new(3).unwrap_or_else(|error| panic!("{error}"));
        for time in times.into_iter().flatten() {
            let recorded = histogram.record(time.as_micros() as u64);
            recorded.unwrap_or_else(|error| panic!("{error}"));
        }
        (rate, histogram)
    }
}

/// A request for a new task, and the text that its artifact must contain.
fn request(number: u64) -> (String, String) {
    let id = uuid::Uuid::now_v7();
    // New text each time: repeated text would trip the breaker as a loop.
    let text = format!("the kinds of message number {number}");
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"SendMessage","params":{{"message":{{"messageId":"{id}","role":"ROLE_USER","parts":[{{"text":"echo {text}"}}]}}}}}}"#
    );
    (request, text)
}

/// Checks that the response is a completed task with the expected artifact.
fn check(answer: &[u8], text: &str) {
    let has = |what: &[u8], from: usize| memmem::find(&answer[from..], what).map(|at| from + at);
    let artifacts = has(br#""artifacts":[{"#, 0);
    let whole = has(br#""state":"TASK_STATE_COMPLETED""#, 0).is_some()
        && artifacts.is_some_and(|from| has(text.as_bytes(), from).is_some());
    assert!(whole, "no completed task: {}", String::from_utf8_lossy(answer));
}
