//! HTTP: decode, call the bus, encode. Nothing here decides anything about a message.

mod agents;
mod auth;
mod circuits;
mod dead_letters;
mod health;
mod inbox;
mod log;
mod messages;
mod problem;
mod tasks;

use a2a_actors::BusSystem;
use a2a_protocol::limits::MESSAGE_BYTES;
use actix_web::web::{self, JsonConfig, PayloadConfig, QueryConfig, ServiceConfig};

pub use auth::{Principal, Tokens};

/// Adds the routes of the bus; with tokens, nobody gets in without one.
pub fn routes(config: &mut ServiceConfig, bus: BusSystem, tokens: web::Data<Tokens>) {
    config
        .app_data(web::Data::new(bus))
        .app_data(tokens)
        .app_data(JsonConfig::default().error_handler(problem::bad_json))
        .app_data(QueryConfig::default().error_handler(problem::bad_query))
        .app_data(PayloadConfig::default().limit(MESSAGE_BYTES))
        .service(messages::send)
        .service(agents::list)
        .service(agents::show)
        .service(agents::register)
        .service(agents::explain)
        .service(tasks::list)
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
        .service(log::page)
        .service(health::live)
        .service(health::ready)
        .default_service(web::to(problem::no_such_place));
}
