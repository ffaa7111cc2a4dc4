//! `POST /bus/messages`: submit a message, respond with its receipt.

use crate::openapi::{Operation, named};
use a2a_protocol::{AgentId, Kind, Receipt};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};
use std::time::Instant;

use a2a_actors::{BusSystem, Submission};
use a2a_protocol::limits::{COUNTED_BYTES, MESSAGE_BYTES};
use actix_web::{HttpRequest, HttpResponse, post, web};
use futures_util::StreamExt;

use crate::auth::BusCaller;
use crate::observability::trace;
use crate::problem::{answer, bad_body};

#[post("/bus/messages")]
pub(crate) async fn send(
    who: BusCaller,
    request: HttpRequest,
    body: web::Payload,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let submission = read(body).await.map_err(|error| bad_body(&error))?;
    let submission = match trace::given(request.headers()) {
        Some(given) => submission.with_trace(Some(given)),
        None => trace::record_in_span(submission),
    };
    Ok(answer(&bus.send(who.caller(), submission).await))
}

/// Reads at most the size limit of a message; further bytes are counted, not kept.
async fn read(mut body: web::Payload) -> Result<Submission, actix_web::error::PayloadError> {
    let mut bytes = Vec::new();
    let mut total = 0;
    while let Some(chunk) = body.next().await {
        let chunk = chunk?;
        total += chunk.len();
        if total <= MESSAGE_BYTES {
            bytes.extend_from_slice(&chunk);
        } else if total > COUNTED_BYTES {
            // The rest is not read.

            break;
        }
    }
    // From here on the time counts for the bus, not for the sender.
    let since = Instant::now();
    if total > MESSAGE_BYTES {
        return Ok(Submission::too_large(&bytes, total, since));
    }
    Ok(Submission::from_json(&bytes, since))
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let examples: Map<_, _> = Kind::ALL
        .iter()
        .map(|kind| (kind.to_string(), json!({ "value": kind.example_message() })))
        .collect();
    let envelope =
        json!({ "application/json": { "schema": named("Envelope"), "examples": examples } });
    let receipt: Value = schemas.subschema_for::<Receipt>().into();
    vec![
        Operation::new("POST", "/bus/messages", "sendMessage", "messages", "Send a message")
            .description("Answered when the message is on disk. At most 262,144 bytes.")
            .header(
                "A2A-On-Behalf-Of",
                schemas.subschema_for::<AgentId>().into(),
                "For operators: the agent in whose name it is sent",
            )
            .request(envelope, true)
            .json(202, "Accepted: `delivered` or `queued`", &receipt)
            .json(200, "Accepted before: `duplicate`", &receipt)
            .problems(&[400, 404, 408, 409, 422]),
    ]
}
