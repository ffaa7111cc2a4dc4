//! `/bus/circuits`: list, reset and trip circuits.

use crate::openapi::{Operation, array, literal, object};
use a2a_actors::BusSystem;
use a2a_actors::CircuitView;
use a2a_policy::Circuit;
use a2a_policy::CircuitKey;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, post, web};
use schemars::SchemaGenerator;
use serde_json::Value;
use serde_json::json;

use crate::auth::BusCaller;
use crate::problem::{Reason, refuse};

#[get("/bus/circuits")]
pub(crate) async fn list(who: BusCaller, bus: web::Data<BusSystem>) -> HttpResponse {
    let mut circuits = bus.circuits().await;
    if let Some(agent) = who.agent() {
        // An agent sees only circuits it participates in.
        circuits.retain(|view| view.circuit.participants.contains(agent));
    }
    HttpResponse::Ok().json(json!({ "circuits": circuits }))
}

#[post("/bus/circuits/{key}/reset")]
pub(crate) async fn reset(
    who: BusCaller,
    key: web::Path<String>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let key = persons_key(&who, &key)?;
    if !bus.reset_circuit(key.clone()).await {
        let detail = format!("`{key}` is not stopped.");
        return Err(refuse(StatusCode::NOT_FOUND, "not_found", &detail));
    }
    Ok(HttpResponse::Ok().json(json!({ "key": key, "state": "closed" })))
}

#[post("/bus/circuits/{key}/trip")]
pub(crate) async fn trip(
    who: BusCaller,
    key: web::Path<String>,
    reason: Reason,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let key = persons_key(&who, &key)?;
    let circuit = bus.trip_circuit(key, reason.or("stopped by a person")).await;
    let stopping =
        || refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The bus is stopping.");
    Ok(HttpResponse::Ok().json(circuit.ok_or_else(stopping)?))
}

fn persons_key(who: &BusCaller, text: &str) -> actix_web::Result<CircuitKey> {
    who.must_be_a_person()?;
    text.parse::<CircuitKey>()
        .map_err(|error| refuse(StatusCode::BAD_REQUEST, "bad_request", &error.to_string()))
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let key: Value = schemas.subschema_for::<CircuitKey>().into();
    let circuit: Value = schemas.subschema_for::<CircuitView>().into();
    vec![
        Operation::new(
            "GET",
            "/bus/circuits",
            "listCircuits",
            "oversight",
            "List circuits that are not closed",
        )
        .json(
            200,
            "The circuits that are not closed",
            &object(&[("circuits", array(&circuit))]),
        ),
        Operation::new(
            "POST",
            "/bus/circuits/{key}/reset",
            "resetCircuit",
            "oversight",
            "Reset a circuit",
        )
        .description("For people.")
        .json(200, "It is closed", &object(&[("key", key), ("state", literal("closed"))])),
        Operation::new(
            "POST",
            "/bus/circuits/{key}/trip",
            "tripCircuit",
            "oversight",
            "Trip a circuit",
        )
        .description("For people. Only a person resets it.")
        .reason()
        .json(200, "It is open", &schemas.subschema_for::<Circuit>().into()),
    ]
}
