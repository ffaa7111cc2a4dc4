//! What HTTP may cost and whom it answers: every limit of the edge, with its default.

use std::time::Duration;

/// The limits of the edge.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Connections at once; beyond that those that do nothing are closed.
    pub connections: usize,
    /// Requests being answered at once; further ones are refused.
    pub requests: usize,
    /// Threads that answer; `None` for one a core.
    pub workers: Option<usize>,
    /// How long a request's head may take.
    pub head: Duration,
    /// How long a request's body may take.
    pub body: Duration,
    /// How long a connection may do nothing.
    pub idle: Duration,
    /// How long a reader may take nothing of what it asked for.
    pub stalled: Duration,
    /// How large a request's head may be.
    pub head_bytes: usize,
    /// How large the body of an A2A request may be. Those of the bus have a limit of their own.
    pub body_bytes: usize,
    /// Streams at once.
    pub streams: usize,
    /// Streams of one caller at once.
    pub streams_per_caller: usize,
    /// Calls that wait for an event, at once.
    pub waiting: usize,
    /// Waiting calls of one caller at once.
    pub waiting_per_caller: usize,
    /// Bytes of answers that their callers have not taken yet.
    pub unread: usize,
    /// The same of one caller.
    pub unread_per_caller: usize,
    /// Names under which the server is called, besides those of this machine: `name` or `name:port`.
    pub hosts: Vec<String>,
    /// Whose pages may call it, such as `https://console.example.org`.
    pub origins: Vec<String>,
    /// Its own address for others, such as `https://bus.example.org`.
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
