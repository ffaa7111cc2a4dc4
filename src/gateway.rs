//! HTTP: decode, call the bus, encode. Nothing here decides anything about a message.

mod agents;
mod auth;
mod circuits;
mod dead_letters;
mod health;
mod inbox;
pub mod log;
mod messages;
mod problem;
mod session;
mod tasks;

use std::any::Any;
use std::time::Duration;

use a2a_actors::BusSystem;
use a2a_protocol::limits::MESSAGE_BYTES;
use actix_web::rt::net::TcpStream;
use actix_web::web::{self, JsonConfig, PayloadConfig, QueryConfig, ServiceConfig};

pub use auth::{Principal, Tokens};
pub use log::{LogSettings, Redaction};
pub use session::{Lobby, SessionSettings};

/// Adds the routes of the bus; with tokens, nobody gets in without one.
pub fn routes(
    config: &mut ServiceConfig,
    bus: BusSystem,
    tokens: web::Data<Tokens>,
    log: web::Data<LogSettings>,
    lobby: web::Data<Lobby>,
) {
    config
        .app_data(web::Data::new(bus))
        .app_data(tokens)
        .app_data(log)
        .app_data(lobby)
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
        .service(session::connect)
        .service(log::page)
        .service(log::current_head)
        .service(log::verify)
        .service(log::stream::stream)
        .service(log::message)
        .service(health::live)
        .service(health::ready)
        .default_service(web::to(problem::no_such_place));
}

/// Prepares a connection that was just made. What is written goes out at once: a line of the
/// log must not wait until the one before it is confirmed, which can take 40 ms. And the system
/// closes it when the other end takes nothing for twice as long as it may: a reader that stands
/// still must not keep what it was sent for ever. Twice, so that whoever writes to it can say so
/// first.
pub fn prepare_connection(connection: &dyn Any, stalled: Duration) {
    if let Some(connection) = connection.downcast_ref::<TcpStream>() {
        // Where the system cannot do that, a connection is a little slower, and one that stands
        // still costs its buffers and no more.
        let _ = connection.set_nodelay(true);
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(connection).set_tcp_user_timeout(Some(2 * stalled));
        #[cfg(not(target_os = "linux"))]
        let _ = stalled;
    }
}
