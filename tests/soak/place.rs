//! Where the server is right now, and speaking to it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than any answer takes, a full disk included.
const TOO_LONG: Duration = Duration::from_secs(60);

/// Shared by all threads.
#[derive(Default)]
pub(crate) struct Place {
    url: Mutex<Option<String>>,
    changed: Condvar,
    over: AtomicBool,
    /// By how many seconds the server's clock is ahead of ours.
    pub(crate) ahead: AtomicI64,
}

impl Place {
    /// The server is there, or no more.
    pub(crate) fn set(&self, url: Option<String>) {
        *self.url.lock().unwrap() = url;
        self.changed.notify_all();
    }

    /// No thread begins anything from now on.
    pub(crate) fn finish(&self) {
        self.over.store(true, Relaxed);
        self.changed.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// A client of the server, as soon as there is one; `None` when the run is over.
    pub(crate) fn client(&self) -> Option<Client> {
        let mut url = self.url.lock().unwrap();
        loop {
            if self.is_over() {
                return None;
            }
            if let Some(url) = &*url {
                return Some(Client::new(url));
            }
            url = self.changed.wait_timeout(url, Duration::from_millis(100)).unwrap().0;
        }
    }

    /// Lets so much time pass; less when the run is over.
    pub(crate) fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut url = self.url.lock().unwrap();
        while !self.is_over() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            url = self.changed.wait_timeout(url, left).unwrap().0;
        }
    }

    /// A valid message with new ids, at the server's time.
    pub(crate) fn message(&self, from: &str, to: Value, kind: &str, payload: Value) -> Value {
        let ahead = chrono::Duration::seconds(self.ahead.load(Relaxed));
        json!({
            "protocol": "openclaw.a2a.v1",
            "messageId": new_id(),
            "correlationId": new_id(),
            "timestamp": (chrono::Utc::now() + ahead).to_rfc3339(),
            "from": {"agentId": from},
            "to": to,
            "type": kind,
            "priority": "normal",
            "payload": payload,
        })
    }
}

pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Speaks HTTP to one life of the server.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) url: String,
    agent: ureq::Agent,
}

/// A status and a body; `null` when the body is no JSON.
pub(crate) type Answer = (u16, Value);

impl Client {
    pub(crate) fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(TOO_LONG));
        Self { url: url.to_owned(), agent: config.build().into() }
    }

    /// `None` when there is no answer.
    pub(crate) fn get(&self, path: &str) -> Option<Answer> {
        read(self.agent.get(format!("{}{path}", self.url)).call().ok()?)
    }

    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Option<Answer> {
        read(self.open(path, body)?)
    }

    /// The same, without reading the answer.
    pub(crate) fn open(&self, path: &str, body: &[u8]) -> Option<ureq::http::Response<ureq::Body>> {
        let request = self.agent.post(format!("{}{path}", self.url));
        request.header("content-type", "application/json").send(body).ok()
    }

    pub(crate) fn send(&self, message: &Value) -> Option<Answer> {
        self.post("/bus/messages", message.to_string().as_bytes())
    }

    /// What is in an inbox; `None` when there is no answer.
    pub(crate) fn take(&self, agent: &str, limit: usize, wait: &str) -> Option<Vec<Value>> {
        let path = format!("/bus/agents/{agent}/inbox?limit={limit}&wait={wait}");
        let (_, mut body) = self.get(&path)?;
        Some(body["messages"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Whether the acknowledgement is durable.
    pub(crate) fn acknowledge(&self, agent: &str, id: &str) -> bool {
        let answer = self.post(&format!("/bus/agents/{agent}/inbox/{id}/ack"), b"");
        answer.is_some_and(|(status, _)| status == 200)
    }
}

fn read(response: ureq::http::Response<ureq::Body>) -> Option<Answer> {
    let (head, mut body) = response.into_parts();
    let text = body.with_config().limit(1 << 30).read_to_string().ok()?;
    Some((head.status.as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null)))
}
