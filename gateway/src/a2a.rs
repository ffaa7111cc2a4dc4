//! A2A over HTTP: JSON-RPC and HTTP+JSON, 0.3 and 1.0, for every agent of the bus.
//!
//! ```text
//! POST /a2a, /agents/{id}/a2a           rpc    ┐
//! /…, /v1/…, /agents/{id}/…, /{id}/…    rest   ├─▶ call::perform ─▶ the task service
//! /.well-known/agent-card.json          card   ┘         └▶ sse, for what streams
//! ```
//!
//! `a2a_protocol::wire` defines the wire format, the task service does the work; this folder
//! translates between them.

mod body;
mod call;
mod card;
mod extensions;
pub(crate) mod operations;
mod path;
mod push_dispatcher;
mod rest;
mod revision;
mod rpc;
mod sse;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use a2a_actors::BusSystem;
use a2a_actors::tasks::TaskSystem;
use a2a_protocol::AgentId;
use a2a_protocol::wire::Version;

use a2a_webhooks::Webhooks;

pub use push_dispatcher::PushDispatcher;

pub(super) use card::{agent_card, host_card};
pub(super) use rest::anything;
use revision::Revision;
pub(super) use rpc::{agent_call, host_call};

/// Settings of the A2A endpoints.
#[derive(Debug, Clone)]
pub struct A2aSettings {
    /// The host's own agent.
    pub host: AgentId,
    /// Offered versions, the preferred one first.
    pub versions: Vec<Version>,
    /// Streams are offered.
    pub streaming: bool,
    /// Webhooks are offered.
    pub push: bool,
    /// URIs of extensions that every caller must activate.
    pub required_extensions: Vec<String>,
    /// Media types that agents take, such as `text/*`.
    pub input_modes: Vec<String>,
    /// Calls per batch.
    pub batch: usize,
    /// Interval of keep-alives on an idle stream.
    pub keep_alive: Duration,
    /// Tokens are required: the card declares that, and an extended card is offered.
    pub secured: bool,
    /// Public base URL, such as `https://bus.example.org`; `None` to derive it from the request.
    pub url: Option<String>,
    /// The server listens with TLS.
    pub tls: bool,
}

/// Default input modes of agents.
const INPUT_MODES: &[&str] = &[
    "text/plain",
    "application/json",
    "text/*",
    "image/*",
    "audio/*",
    "video/*",
    "application/pdf",
    "application/octet-stream",
];

impl A2aSettings {
    /// Everything offered, nothing required.
    #[must_use]
    pub fn new(host: AgentId) -> Self {
        Self {
            host,
            versions: Version::ALL.iter().rev().copied().collect(),
            streaming: true,
            push: true,
            required_extensions: Vec::new(),
            input_modes: INPUT_MODES.iter().map(|&mode| mode.to_owned()).collect(),
            batch: 50,
            keep_alive: Duration::from_secs(15),
            secured: false,
            url: None,
            tls: false,
        }
    }
}

/// Shared state of the A2A routes.
#[derive(Clone)]
pub struct A2a {
    tasks: TaskSystem,
    bus: BusSystem,
    webhooks: Arc<Webhooks>,
    settings: Arc<A2aSettings>,
    /// Last modification of the host's card.
    revision: Arc<Revision>,
}

impl A2a {
    /// For this bus and its task service.
    #[must_use]
    pub fn new(
        bus: BusSystem,
        tasks: TaskSystem,
        webhooks: Arc<Webhooks>,
        settings: A2aSettings,
    ) -> Self {
        let revision = Arc::default();
        Self { tasks, bus, webhooks, settings: Arc::new(settings), revision }
    }

    /// The bus.
    pub(super) fn bus(&self) -> &BusSystem {
        &self.bus
    }

    /// What calls webhooks.
    pub(super) fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    /// The task service.
    pub(super) fn tasks(&self) -> &TaskSystem {
        &self.tasks
    }
}
