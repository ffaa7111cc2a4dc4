//! HTTP: decode, call the bus, encode. Nothing here decides anything about a message.

pub mod a2a;
mod a2a_tasks;
mod agents;
pub mod auth;
mod circuits;
mod connections;
mod dead_letters;
mod guard;
mod health;
mod inbox;
mod known;
pub mod log;
mod messages;
mod metrics;
mod names;
mod observe;
pub mod openapi;
mod problem;
mod quota;
mod schemas;
mod session;
mod settings;
mod tasks;
mod trace;
mod vitals;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;

use a2a_actors::{BusSystem, Parts};
use a2a_protocol::limits::MESSAGE_BYTES;
use actix_web::web::{self, JsonConfig, PathConfig, PayloadConfig, QueryConfig, ServiceConfig};

use crate::auth::tokens::KeyRing;
use a2a::A2a;
use auth::Failures;

pub use connections::Connections;
pub use guard::{Guard, guard};
pub use inbox::duration;
pub use log::{LogSettings, Redaction};
pub use observe::observe;
pub use quota::{Exceeded, Quota, Quotas, Resource, Share};
pub use session::{Lobby, SessionSettings};
pub use settings::HttpSettings;
pub use vitals::{Phase, Vitals};

/// What the routes share.
#[derive(Clone)]
pub struct Edge {
    bus: BusSystem,
    a2a: web::Data<A2a>,
    keys: web::Data<KeyRing>,
    failures: web::Data<Failures>,
    log: web::Data<LogSettings>,
    quotas: web::Data<Quotas>,
    guard: web::Data<Guard>,
    settings: web::Data<HttpSettings>,
    lobby: web::Data<Lobby>,
    vitals: web::Data<Vitals>,
}

impl Edge {
    /// The edge of the bus behind `a2a`, at `address`.
    ///
    /// # Errors
    /// A sentence about the setting that makes no sense.
    pub fn new(
        a2a: A2a,
        keys: Arc<KeyRing>,
        log: LogSettings,
        settings: HttpSettings,
        lobby: Arc<Lobby>,
        tls: bool,
        address: SocketAddr,
    ) -> Result<Self, String> {
        let connections = Arc::new(Connections::new(&settings));
        Ok(Self {
            bus: a2a.bus().clone(),
            a2a: web::Data::new(a2a),
            keys: web::Data::from(keys),
            failures: web::Data::new(Failures::default()),
            log: web::Data::new(log),
            quotas: web::Data::new(Quotas::new(&settings)),
            guard: web::Data::new(Guard::new(&settings, tls, address)?),
            settings: web::Data::new(settings),
            lobby: web::Data::from(lobby),
            vitals: web::Data::new(Vitals::new(connections)),
        })
    }

    /// The parts of the program that it cannot do without.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        self.bus.parts()
    }

    /// How it is.
    #[must_use]
    pub fn vitals(&self) -> Arc<Vitals> {
        Arc::clone(&self.vitals)
    }
}

/// Adds the routes of the bus; with tokens, nobody gets in without one. The application around
/// them is wrapped in `guard`, and that in `observe`.
pub fn routes(config: &mut ServiceConfig, edge: Edge) {
    let Edge { bus, a2a, keys, failures, log, quotas, guard, settings, lobby, vitals } = edge;
    config
        .app_data(web::Data::new(bus))
        .app_data(a2a)
        .app_data(keys)
        .app_data(failures)
        .app_data(log)
        .app_data(quotas)
        .app_data(guard)
        .app_data(settings)
        .app_data(lobby)
        .app_data(vitals)
        .app_data(JsonConfig::default().error_handler(problem::bad_json))
        .app_data(PathConfig::default().error_handler(problem::bad_path))
        .app_data(QueryConfig::default().error_handler(problem::bad_query))
        .app_data(PayloadConfig::default().limit(MESSAGE_BYTES))
        // Tried in this order; these two are called most.
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
        .service(a2a_tasks::list)
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
        .service(session::connect)
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
