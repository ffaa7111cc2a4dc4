//! `/bus/agents/{id}/session`: a session of an agent in any language, over WebSocket.
//!
//! `registry` limits and finds sessions, `frame` parses and writes frames, `connection` runs one
//! connection, `end` closes it, `remote` is the agent runtime on the bus. Frames:
//! `docs/sessions.md`.

mod connection;
mod end;
mod frame;
mod registry;
mod remote;

use crate::openapi::Operation;
use a2a_actors::BusSystem;
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, get, web};

use crate::auth::BusCaller;
use crate::problem::{agent_id, inbox_problem, refuse};
use connection::{AgentConnection, ConnectionParts, FRAME_BYTES};
use registry::SessionRefused;
use remote::RemoteAgent;

pub use registry::{SessionRegistry, SessionSettings};

#[get("/bus/agents/{id}/session")]
pub(crate) async fn connect(
    who: BusCaller,
    agent: web::Path<String>,
    request: HttpRequest,
    body: web::Payload,
    bus: web::Data<BusSystem>,
    registry: web::Data<SessionRegistry>,
) -> actix_web::Result<HttpResponse> {
    let agent = agent_id(&agent)?;
    let caller = who.speaking_for(&agent)?;
    let (response, ws, incoming) = actix_ws::handle(&request, body).map_err(|error| {
        let detail = format!("This is a WebSocket; connect to it as one. {error}");
        refuse(StatusCode::UPGRADE_REQUIRED, "upgrade_required", &detail)
    })?;
    let incoming = incoming.max_frame_size(FRAME_BYTES).aggregate_continuations();
    let incoming = incoming.max_continuation_size(FRAME_BYTES);
    let permit = registry.clone().into_inner().enter(&agent).map_err(session_refused)?;
    let bus = bus.get_ref().clone();
    let remote = RemoteAgent::attach(bus.clone(), agent.clone()).await.map_err(inbox_problem)?;
    let (stops, settings) = (registry.stops(), *registry.settings());
    let parts =
        ConnectionParts { ws, incoming, permit, remote, stops, bus, caller, agent, settings };
    actix_web::rt::spawn(async move {
        tokio::select! {
            () = AgentConnection::new(parts).run() => {}
            // A revoked token ends the session.
            () = who.until_revoked() => {}
        }
    });
    Ok(response)
}

fn session_refused(error: SessionRefused) -> actix_web::Error {
    let code = match error {
        SessionRefused::OfTheAgent(_) => "too_many_sessions",
        SessionRefused::AtAll(_) => "server_full",
        SessionRefused::Stopping => "unavailable",
    };
    refuse(StatusCode::SERVICE_UNAVAILABLE, code, &error.to_string())
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "GET",
            "/bus/agents/{agent}/session",
            "openSession",
            "messages",
            "Open a session of the agent over WebSocket",
        )
        .description("Frames: docs/sessions.md.")
        .response(101, "The session begins", serde_json::Value::Null)
        .problems(&[426]),
    ]
}
