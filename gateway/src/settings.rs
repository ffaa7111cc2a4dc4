//! Settings of the HTTP edge: every limit, with its default.

use std::time::Duration;

/// The limits of the edge.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Open connections; beyond that idle ones are evicted.
    pub connections: usize,
    /// Requests in flight; beyond that they are refused.
    pub requests: usize,
    /// Worker threads; `None` for one per core.
    pub workers: Option<usize>,
    /// Deadline of a request's head.
    pub head: Duration,
    /// Deadline of a request's body.
    pub body: Duration,
    /// How long a connection may be idle.
    pub idle: Duration,
    /// How long a reader may stall before its connection is closed.
    pub stalled: Duration,
    /// Largest head of a request, in bytes.
    pub head_bytes: usize,
    /// Largest body of an A2A request, in bytes. Messages of the bus have a limit of their own.
    pub body_bytes: usize,
    /// Open streams.
    pub streams: usize,
    /// Open streams per caller.
    pub streams_per_caller: usize,
    /// Calls that wait for an event.
    pub waiting: usize,
    /// Waiting calls per caller.
    pub waiting_per_caller: usize,
    /// Unread bytes of responses.
    pub unread: usize,
    /// Unread bytes per caller.
    pub unread_per_caller: usize,
    /// Accepted values of `Host`, besides the names of this machine: `name` or `name:port`.
    pub hosts: Vec<String>,
    /// Accepted origins, such as `https://console.example.org`.
    pub origins: Vec<String>,
    /// Public base URL, such as `https://bus.example.org`; `None` to derive it from the request.
    pub url: Option<String>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connections: 10_000,
            requests: 10_000,
            workers: None,
            head: Duration::from_secs(5),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            stalled: Duration::from_secs(30),
            head_bytes: 32 << 10,
            body_bytes: 4 << 20,
            streams: 4_096,
            streams_per_caller: 256,
            waiting: 10_000,
            waiting_per_caller: 100,
            unread: 512 << 20,
            unread_per_caller: 64 << 20,
            hosts: Vec::new(),
            origins: Vec::new(),
            url: None,
        }
    }
}
