//! `/bus/agents/{id}/inbox`: take messages, then acknowledge or nack each.

use crate::openapi::{Operation, array, literal, named, number, object, text};
use schemars::SchemaGenerator;
use std::time::Duration;

use a2a_actors::{BusSystem, Delivery, DeliveryView};
use a2a_protocol::{AgentId, MessageId};
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, get, post, web};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::admission::quota::Quotas;
use crate::admission::waiting_call::WaitingCall;
use crate::auth::{BusCaller, revoked};
use crate::duration;
use crate::problem::{Reason, agent_id, inbox_problem, no_such_agent, refuse};

const LONGEST_WAIT: Duration = Duration::from_secs(60);
const MOST: usize = 100;

#[derive(Deserialize)]
struct Take {
    wait: Option<String>,
    limit: Option<usize>,
    /// List without a lease: nothing is taken.
    #[serde(default)]
    peek: bool,
}

#[derive(Serialize)]
struct Messages<'a> {
    messages: Vec<TakenMessage<'a>>,
}

#[derive(Serialize)]
struct TakenMessage<'a> {
    seq: u64,
    sender: &'a AgentId,
    attempt: u32,
    traceparent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
    message: &'a RawValue,
}

/// A message as `peek` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PeekedMessage<'a> {
    seq: u64,
    sender: &'a AgentId,
    attempts: u32,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_in_ms: Option<u64>,
    message: &'a RawValue,
}

#[get("/bus/agents/{id}/inbox")]
pub(crate) async fn take(
    who: BusCaller,
    agent: web::Path<String>,
    query: web::Query<Take>,
    bus: web::Data<BusSystem>,
    quotas: web::Data<Quotas>,
    request: HttpRequest,
) -> actix_web::Result<HttpResponse> {
    let agent = agent_id(&agent)?;
    who.must_be(&agent)?;
    let wait = match query.wait.as_deref().map(duration::parse_or_seconds) {
        None => Duration::ZERO,
        Some(Some(wait)) => wait.min(LONGEST_WAIT),
        Some(None) => {
            let detail = "`wait` is a time such as 30s, 500ms or 1m.";
            return Err(refuse(StatusCode::BAD_REQUEST, "bad_request", detail));
        }
    };
    let limit = query.limit.unwrap_or(10).clamp(1, MOST);
    if query.peek {
        if !wait.is_zero() {
            let detail = "Looking (`peek`) does not wait; leave `wait` out, or take messages.";
            return Err(refuse(StatusCode::BAD_REQUEST, "bad_request", detail));
        }
        return peek(agent, limit, &bus).await;
    }
    // Without tokens, all callers of one inbox count as one.
    let caller = who.owner().unwrap_or_else(|| format!("agent:{agent}"));
    let pull = async {
        tokio::select! {
            biased;
            deliveries = bus.pull(agent, limit, wait) => deliveries.map_err(inbox_problem),
            () = who.until_revoked() => Err(revoked()),
        }
    };
    let deliveries = if wait.is_zero() {
        pull.await?
    } else {
        WaitingCall::begin(&request, &quotas, Some(caller))?.run(pull).await??
    };
    Ok(HttpResponse::Ok().json(Messages { messages: taken(&deliveries) }))
}

/// Lists the inbox without taking anything.
async fn peek(agent: AgentId, limit: usize, bus: &BusSystem) -> actix_web::Result<HttpResponse> {
    let view = bus.peek(agent.clone(), limit).await.ok_or_else(|| no_such_agent(&agent))?;
    let seen = view.deliveries.iter().filter_map(|DeliveryView { delivery, state, due }| {
        Some(PeekedMessage {
            seq: delivery.seq,
            sender: &delivery.sender,
            attempts: delivery.attempt,
            state,
            due_in_ms: due.map(|due| u64::try_from(due.as_millis()).unwrap_or(u64::MAX)),
            // An accepted message is JSON, so none is left out.
            message: serde_json::from_slice(&delivery.bytes).ok()?,
        })
    });
    let seen: Vec<_> = seen.collect();
    Ok(HttpResponse::Ok().json(json!({ "messages": seen, "pending": view.pending })))
}

fn taken(deliveries: &[Delivery]) -> Vec<TakenMessage<'_>> {
    deliveries
        .iter()
        .filter_map(|delivery| {
            // An accepted message is JSON, so none is left out.
            let message = serde_json::from_slice::<&RawValue>(&delivery.bytes).ok()?;
            let trace = delivery.trace();
            Some(TakenMessage {
                seq: delivery.seq,
                sender: &delivery.sender,
                attempt: delivery.attempt,
                traceparent: trace.traceparent(),
                tracestate: trace.tracestate().map(str::to_owned),
                message,
            })
        })
        .collect()
}

/// Agent and message of the path; the inbox must be the caller's.
fn ids(who: &BusCaller, path: &(String, String)) -> actix_web::Result<(AgentId, MessageId)> {
    let agent = agent_id(&path.0)?;
    who.must_be(&agent)?;
    let id = path.1.parse::<MessageId>();
    let id = id.map_err(|error| refuse(StatusCode::BAD_REQUEST, "bad_uuid", &error.to_string()))?;
    Ok((agent, id))
}

#[post("/bus/agents/{id}/inbox/{message}/ack")]
pub(crate) async fn acknowledge(
    who: BusCaller,
    path: web::Path<(String, String)>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let (agent, id) = ids(&who, &path)?;
    bus.acknowledge(agent, id).await.map_err(inbox_problem)?;
    Ok(HttpResponse::Ok().json(json!({ "messageId": id, "event": "acknowledged" })))
}

#[post("/bus/agents/{id}/inbox/{message}/nack")]
pub(crate) async fn reject(
    who: BusCaller,
    path: web::Path<(String, String)>,
    reason: Reason,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let (agent, id) = ids(&who, &path)?;
    let reason = reason.or("given back without a reason");
    bus.reject(agent, id, reason).await.map_err(inbox_problem)?;
    Ok(HttpResponse::Ok().json(json!({ "messageId": id, "event": "attempt_failed" })))
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let wait = json!({ "type": "string", "pattern": "^([0-9]{1,9}|([0-9]{1,9}(ms|s|min|m|h|d|w)){1,3})$", "default": "0s" });
    let settled = |schemas: &mut SchemaGenerator, event: &str| {
        object(&[
            ("messageId", schemas.subschema_for::<MessageId>().into()),
            ("event", literal(event)),
        ])
    };
    let mut taken = object(&[
        ("seq", number()),
        ("sender", schemas.subschema_for::<AgentId>().into()),
        ("message", named("Envelope")),
    ]);
    // The first three for a message that was taken, the others for `peek`.
    taken["properties"]["attempt"] = json!({ "type": "integer", "minimum": 1 });
    taken["properties"]["traceparent"] = text();
    taken["properties"]["tracestate"] = text();
    taken["properties"]["attempts"] = number();
    taken["properties"]["state"] =
        json!({ "type": "string", "enum": ["taken", "pausing", "waiting"] });
    taken["properties"]["dueInMs"] = number();
    let mut inbox = object(&[("messages", array(&taken))]);
    inbox["properties"]["pending"] = number();
    let limit = json!({ "type": "integer", "minimum": 0, "default": 10 });
    vec![
        Operation::new("GET", "/bus/agents/{agent}/inbox", "takeMessages", "messages", "Take messages")
            .description("Each is leased to the taker for a minute (`[delivery] lease_seconds`); acknowledge or nack it. Asking makes the agent known if the directory is open.")
            .query("wait", wait, "How long to wait for the first, such as `30s`; at most a minute")
            .query("limit", limit, "How many, 1 to 100; others are taken for the nearest of these")
            .query("peek", json!({ "type": "boolean", "default": false }), "Look only: no lease, no attempt counted; not with `wait`")
            .json(200, "What was taken, or is there; perhaps nothing", &inbox),
        Operation::new("POST", "/bus/agents/{agent}/inbox/{messageId}/ack", "acknowledge", "messages", "Acknowledge a message")
            .description("Answered when that is on disk; the message is never redelivered.")
            .json(200, "On disk", &settled(schemas, "acknowledged")),
        Operation::new("POST", "/bus/agents/{agent}/inbox/{messageId}/nack", "giveBack", "messages", "Nack a message: the attempt failed")
            .reason()
            .json(200, "It is redelivered after a pause, or becomes a dead letter", &settled(schemas, "attempt_failed")),
    ]
}
