//! `/bus/agents/{id}/session`: an agent of any language as a session of the bus, over WebSocket.
//!
//! Here is who may come in. `lobby` knows who is in, `frame` what may be said, `connection` is one
//! of them at work, `end` how it goes. What the frames mean stands in `docs/sessions.md`.

mod connection;
mod end;
mod frame;
mod lobby;

use a2a_actors::BusSystem;
use actix_web::http::StatusCode;
use actix_web::http::header::{HOST, ORIGIN};
use actix_web::{HttpRequest, HttpResponse, get, web};

use super::auth::{Tokens, Who};
use super::problem::{agent_id, inbox_problem, refuse};
use crate::agents::remote::RemoteAgent;
use connection::{Connection, FRAME_BYTES, Parts};
use lobby::NoPlace;

pub use lobby::{Lobby, SessionSettings};

#[get("/bus/agents/{id}/session")]
pub(super) async fn connect(
    who: Who,
    agent: web::Path<String>,
    request: HttpRequest,
    body: web::Payload,
    bus: web::Data<BusSystem>,
    lobby: web::Data<Lobby>,
) -> actix_web::Result<HttpResponse> {
    let agent = agent_id(&agent)?;
    let caller = who.speaking_for(&agent)?;
    refuse_other_origins(&request)?;
    let (response, ws, incoming) = actix_ws::handle(&request, body).map_err(|error| {
        let detail = format!("This is a WebSocket; connect to it as one. {error}");
        refuse(StatusCode::UPGRADE_REQUIRED, "upgrade_required", &detail)
    })?;
    let incoming = incoming.max_frame_size(FRAME_BYTES).aggregate_continuations();
    let incoming = incoming.max_continuation_size(FRAME_BYTES);
    let place = lobby.clone().into_inner().enter(&agent).map_err(no_place)?;
    let bus = bus.get_ref().clone();
    let remote = RemoteAgent::attach(bus.clone(), agent.clone()).await.map_err(inbox_problem)?;
    let (stops, settings) = (lobby.stops(), *lobby.settings());
    let parts = Parts { ws, incoming, place, remote, stops, bus, caller, agent, settings };
    actix_web::rt::spawn(Connection::new(parts).run());
    Ok(response)
}

fn no_place(error: NoPlace) -> actix_web::Error {
    let code = match error {
        NoPlace::OfTheAgent(_) => "too_many_sessions",
        NoPlace::AtAll(_) => "server_full",
        NoPlace::Stopping => "unavailable",
    };
    refuse(StatusCode::SERVICE_UNAVAILABLE, code, &error.to_string())
}

/// A browser says which page it is on; only our own may connect. Where no token is asked for, a
/// name that is not this machine's could have been made to point here by anybody.
fn refuse_other_origins(request: &HttpRequest) -> actix_web::Result<()> {
    let Some(origin) = request.headers().get(ORIGIN) else { return Ok(()) };
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let same =
        origin.zip(host).is_some_and(|((_, origin), host)| origin.eq_ignore_ascii_case(host));
    let asks = request.app_data::<web::Data<Tokens>>().is_some_and(|tokens| !tokens.is_empty());
    if same && (asks || host.is_some_and(is_an_address)) {
        return Ok(());
    }
    let detail = "Pages of another origin may not connect.";
    Err(refuse(StatusCode::FORBIDDEN, "forbidden", detail))
}

/// Whether this is `localhost` or an IP address, with or without a port.
fn is_an_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || bare.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_from_a_name() {
        for address in
            ["localhost", "localhost:7420", "127.0.0.1:1", "[::1]:7420", "[::1]", "10.0.0.1"]
        {
            assert!(is_an_address(address), "{address}");
        }
        for name in [
            "evil.example",
            "evil.example:7420",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "",
        ] {
            assert!(!is_an_address(name), "{name}");
        }
    }
}
