//! Latency of the live log stream: from the send and from the receipt to the subscriber.
//!
//! A server with a log that is not empty, senders that wait for their receipts, and one subscriber
//! over HTTP.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use a2a_protocol::{BadUuid, Body, Kind};
use serde_json::json;

use crate::{MIDDLE, agent, ms, write};

const SENDERS: usize = 4;
const MESSAGES: usize = 4_000;
/// Messages per second of all senders.
const A_SECOND: f64 = 200.0;
/// The p99 limit: what users perceive as immediate.
const LIMIT_MS: f64 = 100.0;

/// When a message was sent and when its sender received the receipt.
struct Sent {
    id: String,
    began: Instant,
    receipt: Instant,
}

/// Sorted latencies in milliseconds.
pub(crate) struct Follow {
    since_receipt: Vec<f64>,
    since_send: Vec<f64>,
}

/// Runs the measurement once.
pub(crate) fn run() -> Follow {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    write(folder.path(), MIDDLE, true);
    let (url, stop) = serve(folder.path());
    // Reading its inbox registers the agent, so that it can receive messages.
    let inbox = client().get(format!("{url}/bus/agents/agent-1/inbox")).call();
    assert_eq!(inbox.unwrap_or_else(|error| panic!("{error}")).status(), 200);
    let (seen, arrived) = mpsc::channel();
    let reader = follow(&url);
    std::thread::spawn(move || record_arrivals(reader, &seen));
    let sent: Vec<Sent> = std::thread::scope(|scope| {
        let start = Instant::now();
        let senders = (0..SENDERS).map(|n| {
            scope.spawn({
                let url = &url;
                move || send(url, n, start)
            })
        });
        let senders: Vec<_> = senders.collect();
        senders.into_iter().flat_map(|sender| sender.join().unwrap_or_default()).collect()
    });
    assert_eq!(sent.len(), MESSAGES, "a sender failed");
    let mut seen = HashMap::new();
    while seen.len() < MESSAGES {
        let arrived = arrived.recv_timeout(Duration::from_secs(30));
        let (id, when) = arrived.unwrap_or_else(|_| panic!("{} lines seen", seen.len()));
        seen.insert(id, when);
    }
    stop();
    let sorted = |since: fn(&Sent) -> Instant| {
        // A line may arrive before its sender has read the receipt; that counts as zero.
        let times =
            sent.iter().map(|sent| ms(seen[&sent.id].saturating_duration_since(since(sent))));
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times
    };
    Follow { since_receipt: sorted(|sent| sent.receipt), since_send: sorted(|sent| sent.began) }
}

impl Follow {
    /// Prints the rows and returns them as JSON.
    pub(crate) fn report(&self) -> serde_json::Value {
        let at = |times: &[f64], part: f64| times[((times.len() - 1) as f64 * part) as usize];
        let round = |value: f64| (value * 100.0).round() / 100.0;
        let row = |name: &str, value: f64, note: &str| println!("{name:<52} {value:>12.2}  {note}");
        let (receipt, send) = (&self.since_receipt, &self.since_send);
        let p99 = at(receipt, 0.99);
        let verdict =
            if p99 <= LIMIT_MS { "must be ≤ 100, is" } else { "must be ≤ 100, IS NOT" };
        row("following, from the receipt, p50 (ms)", at(receipt, 0.5), "");
        row("following, from the receipt, p99 (ms)", p99, verdict);
        row("following, from the send, p50 (ms)", at(send, 0.5), "");
        row("following, from the send, p99 (ms)", at(send, 0.99), "");
        row("  … slowest, from the send (ms)", at(send, 1.0), "");
        json!({
            "follow_receipt_p50_ms": round(at(receipt, 0.5)),
            "follow_receipt_p99_ms": round(p99),
            "follow_send_p50_ms": round(at(send, 0.5)),
            "follow_send_p99_ms": round(at(send, 0.99)),
            "follow_ok": p99 <= LIMIT_MS,
        })
    }
}

/// Starts the server on a free port. Returns its URL and a function that stops it.
fn serve(folder: &Path) -> (String, impl FnOnce() + use<>) {
    // Compressing the existing day would disturb the measurement.
    let most = 100_000_000;
    let text = format!(
        "[limits]\nper_agent_per_minute = {most}\nper_pair_per_minute = {most}\nburst = {most}\n[audit]\npack = false\n"
    );
    std::fs::write(folder.join("a2a.toml"), text).unwrap_or_else(|error| panic!("{error}"));
    let child = Command::new(env!("CARGO_BIN_EXE_openclaw-a2a"))
        .args(["serve", "--listen", "127.0.0.1:0", "--state-dir"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{error}"));
    let address = folder.join("a2a.addr");
    let url = loop {
        match std::fs::read_to_string(&address) {
            Ok(url) => break url.trim().to_owned(),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
        if let Ok(Some(status)) = child.try_wait() {
            panic!("the server ended: {status}");
        }
    };
    let stop = move || {
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_file(address);
    };
    (url, stop)
}

fn client() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into()
}

/// Subscribes to the stream; the subscription is active when this returns.
fn follow(url: &str) -> impl BufRead + Send + 'static {
    let response = client().get(format!("{url}/bus/log/stream")).call();
    let response = response.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(response.status(), 200);
    let body = response.into_body().into_with_config().limit(u64::MAX).reader();
    let mut reader = BufReader::new(body);
    let mut line = String::new();
    // The first event has no data: it confirms the subscription.
    while line != "\n" {
        line.clear();
        let read = reader.read_line(&mut line).unwrap_or_else(|error| panic!("{error}"));
        assert!(read > 0, "the stream ended");
    }
    reader
}

/// Records the arrival time of each record until the stream ends.
fn record_arrivals(mut reader: impl BufRead, seen: &mpsc::Sender<(String, Instant)>) {
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        let when = Instant::now();
        if let Some(record) = line.strip_prefix("data: ")
            && let Ok(record) = serde_json::from_str::<serde_json::Value>(record)
            && record.get("outcome").is_some()
            && let Some(id) = record["messageId"].as_str()
            && seen.send((id.to_owned(), when)).is_err()
        {
            return;
        }
        line.clear();
    }
}

/// Sends each message at its scheduled time and waits for its receipt.
fn send(url: &str, n: usize, start: Instant) -> Vec<Sent> {
    let (client, mut all) = (client(), Vec::new());
    for i in (n..MESSAGES).step_by(SENDERS) {
        let (id, message) = message(n);
        let due = start + Duration::from_secs_f64(i as f64 / A_SECOND);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        let request = client.post(format!("{url}/bus/messages"));
        let answer = request.header("content-type", "application/json").send(&message);
        let mut answer = answer.unwrap_or_else(|error| panic!("{error}"));
        let receipt = answer.body_mut().read_to_string().unwrap_or_else(|e| panic!("{e}"));
        let arrived = Instant::now();
        assert_eq!(answer.status(), 202, "{receipt}");
        all.push(Sent { id, began, receipt: arrived });
    }
    all
}

fn new_id<T: TryFrom<uuid::Uuid, Error = BadUuid>>() -> T {
    uuid::Uuid::now_v7().try_into().unwrap_or_else(|error| panic!("{error}"))
}

/// A task request of about 1.1 KB.
fn message(n: usize) -> (String, Vec<u8>) {
    let mut message = Kind::TaskRequest.example_message();
    message.message_id = new_id();
    message.correlation_id = new_id();
    message.timestamp = chrono::Utc::now().into();
    message.from.agent_id = agent(&format!("sender-{n}"));
    message.from.session_key = None;
    if let Some(recipient) = &mut message.to {
        recipient.agent_id = agent("agent-1");
    }
    if let Body::TaskRequest(body) = &mut message.body {
        let text = "Check every field of the seven kinds. ".repeat(10);
        body.task_id = new_id();
        body.description = text.try_into().unwrap_or_else(|error| panic!("{error}"));
    }
    (message.message_id.to_string(), message.to_json())
}
