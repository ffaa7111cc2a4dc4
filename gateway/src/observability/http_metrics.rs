//! Counters of the HTTP edge, and its phase. Labels are fixed at compile time: no value of a caller
//! ever becomes one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use a2a_actors::Histogram;
use actix_web::http::StatusCode;

use crate::Connections;

/// Phase of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not everything is started yet.
    Starting,
    /// Accepts requests.
    Ready,
    /// Drains requests in flight.
    Stopping,
}

impl Phase {
    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
        }
    }
}

macro_rules! words {
    ($( #[doc = $doc:literal] $name:ident { $( $variant:ident = $word:literal, )+ } )+) => { $(
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $( $variant, )+ }

        impl $name {
            pub(crate) const ALL: &'static [Self] = &[$( Self::$variant, )+];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }
    )+ };
}

words! {
    /// Route label of a path.
    Route {
        Rpc = "a2a_rpc",
        Rest = "a2a_rest",
        Card = "card",
        Messages = "messages",
        Inbox = "inbox",
        Session = "session",
        Agents = "agents",
        Log = "log",
        Bus = "bus",
        Schemas = "schemas",
        Health = "health",
        Metrics = "metrics",
    }
    /// Status class.
    Class {
        Informational = "1xx",
        Success = "2xx",
        Redirection = "3xx",
        ClientError = "4xx",
        ServerError = "5xx",
    }
    /// Why authentication failed.
    Unauthorized {
        Missing = "missing",
        Unknown = "unknown",
        Expired = "expired",
    }
}

impl Route {
    /// Classifies a path by its prefix or suffix; any other path may be A2A over HTTP+JSON.
    pub(crate) fn of(path: &str) -> Self {
        if let Some(bus) = path.strip_prefix("/bus/") {
            return Self::of_bus(bus);
        }
        match path {
            "/healthz" | "/readyz" => Self::Health,
            "/metrics" => Self::Metrics,
            _ if path.trim_end_matches('/').ends_with("/a2a") => Self::Rpc,
            _ if path.starts_with("/schemas/") => Self::Schemas,
            _ if path.ends_with("/.well-known/agent-card.json") => Self::Card,
            _ => Self::Rest,
        }
    }

    fn of_bus(path: &str) -> Self {
        let mut parts = path.split('/');
        match (parts.next(), parts.nth(1)) {
            (Some("messages"), _) => Self::Messages,
            (Some("log"), _) => Self::Log,
            (Some("agents"), Some("inbox")) => Self::Inbox,
            (Some("agents"), Some("session")) => Self::Session,
            (Some("agents"), _) => Self::Agents,
            _ => Self::Bus,
        }
    }
}

impl Class {
    fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            ..200 => Self::Informational,
            200..300 => Self::Success,
            300..400 => Self::Redirection,
            400..500 => Self::ClientError,
            _ => Self::ServerError,
        }
    }
}

/// Counters and phase of the HTTP edge.
#[derive(Debug)]
pub struct HttpMetrics {
    phase: AtomicU8,
    began: SystemTime,
    connections: Arc<Connections>,
    answers: [[AtomicU64; Class::ALL.len()]; Route::ALL.len()],
    took: [Histogram; Route::ALL.len()],
    unauthorized: [AtomicU64; Unauthorized::ALL.len()],
}

impl HttpMetrics {
    pub(crate) fn new(connections: Arc<Connections>) -> Self {
        Self {
            phase: AtomicU8::new(Phase::Starting as u8),
            began: SystemTime::now(),
            connections,
            answers: Default::default(),
            took: std::array::from_fn(|_| Histogram::of_seconds()),
            unauthorized: Default::default(),
        }
    }

    /// Sets the phase to ready.
    pub fn set_ready(&self) {
        self.phase.store(Phase::Ready as u8, Relaxed);
    }

    /// Sets the phase to stopping.
    pub fn set_stopping(&self) {
        self.phase.store(Phase::Stopping as u8, Relaxed);
    }

    /// The phase of the server.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            phase if phase == Phase::Starting as u8 => Phase::Starting,
            phase if phase == Phase::Ready as u8 => Phase::Ready,
            _ => Phase::Stopping,
        }
    }

    /// The connections of the server.
    #[must_use]
    pub fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    pub(crate) fn began(&self) -> SystemTime {
        self.began
    }

    pub(crate) fn answered(&self, route: Route, status: StatusCode, took: Duration) {
        self.answers[route as usize][Class::of(status) as usize].fetch_add(1, Relaxed);
        self.took[route as usize].took(took);
    }

    pub(crate) fn answers(&self, route: Route, class: Class) -> u64 {
        self.answers[route as usize][class as usize].load(Relaxed)
    }

    pub(crate) fn took(&self, route: Route) -> &Histogram {
        &self.took[route as usize]
    }

    pub(crate) fn refused(&self, why: Unauthorized) {
        self.unauthorized[why as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn unauthorized(&self, why: Unauthorized) -> u64 {
        self.unauthorized[why as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_about_one_of_a_few_things() {
        for (path, route) in [
            ("/bus/messages", Route::Messages),
            ("/bus/agents", Route::Agents),
            ("/bus/agents/tim", Route::Agents),
            ("/bus/agents/tim/inbox", Route::Inbox),
            ("/bus/agents/tim/inbox/1/ack", Route::Inbox),
            ("/bus/agents/tim/session", Route::Session),
            ("/bus/log/stream", Route::Log),
            ("/bus/circuits", Route::Bus),
            ("/bus/", Route::Bus),
            ("/bus", Route::Rest),
            ("/a2a", Route::Rpc),
            ("/a2a/", Route::Rpc),
            ("/agents/tim/a2a", Route::Rpc),
            ("/message:send", Route::Rest),
            ("/v1/tasks", Route::Rest),
            ("/.well-known/agent-card.json", Route::Card),
            ("/agents/tim/.well-known/agent-card.json", Route::Card),
            ("/schemas/x.json", Route::Schemas),
            ("/readyz", Route::Health),
            ("/metrics", Route::Metrics),
            ("/any/thing/else", Route::Rest),
            ("", Route::Rest),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }

    #[test]
    fn every_status_has_its_class() {
        for (status, class) in
            [(101, "1xx"), (200, "2xx"), (302, "3xx"), (401, "4xx"), (503, "5xx")]
        {
            assert_eq!(Class::of(StatusCode::from_u16(status).unwrap()).as_str(), class);
        }
    }
}
