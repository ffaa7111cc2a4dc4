//! The HTTP edge of the bus: decode, call the bus, encode. It decides nothing about a message.
//!
//! ```text
//!            observability::request_span   counts, times, traces every request
//!                        │
//!               admission::guard           permit, head, Host, Origin, body deadline
//!                        │
//!        auth (BusCaller, A2aCaller)       token → caller
//!          ┌─────────────┼──────────────┐
//!       bus_api         a2a         sessions
//!       /bus/…     /a2a, /agents/…   WebSocket
//!          └─────────────┼──────────────┘
//!              BusSystem, TaskSystem
//! ```
//!
//! `openapi` collects the description of every route from the file of its handler.

pub mod a2a;
mod admission;
pub mod auth;
mod bus_api;
pub mod duration;
mod observability;
pub mod openapi;
mod problem;
mod sessions;
mod settings;

use std::net::SocketAddr;
use std::sync::Arc;

use a2a_actors::{BusSystem, Liveness};
use a2a_protocol::limits::MESSAGE_BYTES;
use actix_web::web::{self, JsonConfig, PathConfig, PayloadConfig, QueryConfig, ServiceConfig};

use a2a::A2a;
use auth::BadTokenLimiter;
use auth::tokens::TokenRegistry;
use bus_api::{agents, circuits, dead_letters, inbox, messages, names, schemas, tasks};
use observability::{health, metrics};

pub use admission::connections::Connections;
pub use admission::guard::{Guard, guard};
pub use admission::quota::{Exceeded, Quota, Quotas, Resource, Share};
pub use bus_api::log::{self, LogSettings, Redaction};
pub use observability::http_metrics::{HttpMetrics, Phase};
pub use observability::request_span::observe;
pub use sessions::{SessionRegistry, SessionSettings};
pub use settings::HttpSettings;

/// Shared state of the routes.
#[derive(Clone)]
pub struct AppState {
    bus: BusSystem,
    a2a: web::Data<A2a>,
    keys: web::Data<TokenRegistry>,
    failures: web::Data<BadTokenLimiter>,
    log: web::Data<LogSettings>,
    quotas: web::Data<Quotas>,
    guard: web::Data<Guard>,
    settings: web::Data<HttpSettings>,
    sessions: web::Data<SessionRegistry>,
    http_metrics: web::Data<HttpMetrics>,
}

impl AppState {
    /// The state for the bus behind `a2a`, listening at `address`.
    ///
    /// # Errors
    /// A sentence about the setting that is not valid.
    pub fn new(
        a2a: A2a,
        keys: Arc<TokenRegistry>,
        log: LogSettings,
        settings: HttpSettings,
        sessions: Arc<SessionRegistry>,
        tls: bool,
        address: SocketAddr,
    ) -> Result<Self, String> {
        let connections = Arc::new(Connections::new(&settings));
        Ok(Self {
            bus: a2a.bus().clone(),
            a2a: web::Data::new(a2a),
            keys: web::Data::from(keys),
            failures: web::Data::new(BadTokenLimiter::default()),
            log: web::Data::new(log),
            quotas: web::Data::new(Quotas::new(&settings)),
            guard: web::Data::new(Guard::new(&settings, tls, address)?),
            settings: web::Data::new(settings),
            sessions: web::Data::from(sessions),
            http_metrics: web::Data::new(HttpMetrics::new(connections)),
        })
    }

    /// The parts of the program whose end makes it stop.
    #[must_use]
    pub fn liveness(&self) -> &Liveness {
        self.bus.liveness()
    }

    /// Counters and phase of the edge.
    #[must_use]
    pub fn http_metrics(&self) -> Arc<HttpMetrics> {
        Arc::clone(&self.http_metrics)
    }
}

/// Registers all routes. The application around them is wrapped in [`guard`], and that in
/// [`observe`].
pub fn routes(config: &mut ServiceConfig, edge: AppState) {
    let AppState { bus, a2a, keys, failures, log, quotas, guard, settings, sessions, http_metrics } =
        edge;
    config
        .app_data(web::Data::new(bus))
        .app_data(a2a)
        .app_data(keys)
        .app_data(failures)
        .app_data(log)
        .app_data(quotas)
        .app_data(guard)
        .app_data(settings)
        .app_data(sessions)
        .app_data(http_metrics)
        .app_data(JsonConfig::default().error_handler(problem::bad_json))
        .app_data(PathConfig::default().error_handler(problem::bad_path))
        .app_data(QueryConfig::default().error_handler(problem::bad_query))
        .app_data(PayloadConfig::default().limit(MESSAGE_BYTES))
        // Matched in this order; these two are called most.
        .service(a2a::host_call)
        .service(messages::send)
        .service(agents::list)
        .service(agents::show)
        .service(agents::register)
        .service(agents::remove)
        .service(agents::explain)
        .service(names::list)
        .service(names::show)
        .service(tasks::list)
        .service(tasks::list_a2a)
        .service(tasks::show)
        .service(tasks::cancel)
        .service(circuits::list)
        .service(circuits::reset)
        .service(circuits::trip)
        .service(dead_letters::list)
        .service(dead_letters::resolve)
        .service(inbox::take)
        .service(inbox::acknowledge)
        .service(inbox::reject)
        .service(sessions::connect)
        .service(log::page)
        .service(log::current_head)
        .service(log::verify)
        .service(log::stream::stream)
        .service(log::rebuild::rebuild)
        .service(log::message)
        .service(log::circuit)
        .service(health::live)
        .service(health::ready)
        .service(metrics::show)
        .service(schemas::show)
        .service(openapi::show)
        .service(tasks::whole)
        .service(tasks::remove)
        .service(a2a::host_card)
        .service(a2a::agent_card)
        .service(a2a::agent_call)
        .default_service(web::to(a2a::anything));
}
