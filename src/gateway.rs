//! HTTP: decode, call the bus, encode. Nothing here decides anything about a message.

mod agents;
mod health;
mod inbox;
mod log;
mod messages;
mod problem;

use a2a_actors::BusSystem;
use a2a_protocol::limits::MESSAGE_BYTES;
use actix_web::web::{self, PayloadConfig, QueryConfig, ServiceConfig};

/// Adds the routes of the bus.
pub fn routes(config: &mut ServiceConfig, bus: BusSystem) {
    config
        .app_data(web::Data::new(bus))
        .app_data(QueryConfig::default().error_handler(problem::bad_query))
        .app_data(PayloadConfig::default().limit(MESSAGE_BYTES))
        .service(messages::send)
        .service(agents::list)
        .service(inbox::take)
        .service(inbox::acknowledge)
        .service(inbox::reject)
        .service(log::page)
        .service(health::live)
        .service(health::ready)
        .default_service(web::to(problem::no_such_place));
}
