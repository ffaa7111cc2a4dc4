//! `/bus/dead-letters`: list, retry or drop dead letters.

use crate::openapi::{Operation, array, number, object};
use a2a_actors::BusSystem;
use a2a_actors::DeadLetterView;
use a2a_protocol::AgentId;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, post, web};
use schemars::SchemaGenerator;
use serde_json::Value;
use serde_json::json;

use crate::auth::BusCaller;
use crate::problem::{agent_id, refuse};

#[get("/bus/dead-letters")]
pub(crate) async fn list(
    who: BusCaller,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    Ok(HttpResponse::Ok().json(json!({ "deadLetters": bus.dead_letters().await })))
}

#[post("/bus/dead-letters/{seq}/{agent}/{what}")]
pub(crate) async fn resolve(
    who: BusCaller,
    path: web::Path<(u64, String, String)>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let (seq, agent, what) = path.into_inner();
    let agent = agent_id(&agent)?;
    let (done, event) = match what.as_str() {
        "retry" => (bus.retry_dead_letter(seq, agent.clone()).await, "returned"),
        "drop" => (bus.drop_dead_letter(seq, agent.clone()).await, "dropped"),
        _ => {
            let detail = "A dead letter can be sent again (`retry`) or let go (`drop`).";
            return Err(refuse(StatusCode::NOT_FOUND, "not_found", detail));
        }
    };
    if !done {
        let detail = format!(
            "There is no dead letter {seq} of `{agent}`, or the task it asked for went on without it."
        );
        return Err(refuse(StatusCode::NOT_FOUND, "not_found", &detail));
    }
    Ok(HttpResponse::Ok().json(json!({ "seq": seq, "agentId": agent, "event": event })))
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let agent: Value = schemas.subschema_for::<AgentId>().into();
    let dead_letter: Value = schemas.subschema_for::<DeadLetterView>().into();
    let resolved = object(&[
        ("seq", number()),
        ("agentId", agent.clone()),
        ("event", json!({ "type": "string", "enum": ["returned", "dropped"] })),
    ]);
    vec![
        Operation::new(
            "GET",
            "/bus/dead-letters",
            "listDeadLetters",
            "oversight",
            "List dead letters",
        )
        .description("For people.")
        .json(200, "The dead letters", &object(&[("deadLetters", array(&dead_letter))])),
        Operation::new(
            "POST",
            "/bus/dead-letters/{seq}/{agent}/{what}",
            "resolveDeadLetter",
            "oversight",
            "Retry or drop a dead letter",
        )
        .description("For people.")
        .json(200, "It is done", &resolved),
    ]
}
