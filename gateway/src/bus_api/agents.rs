//! `/bus/agents` and `/bus/access`: list, show, register and remove agents; explain access.

use crate::openapi::{Operation, array, literal, number, object, text};
use a2a_actors::AgentView;
use a2a_actors::{BusSystem, RegisterError, RemoveError};
use a2a_policy::Explanation;
use a2a_policy::Profile;
use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Kind};
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, delete, get, put, web};
use schemars::SchemaGenerator;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::auth::BusCaller;
use crate::problem::{agent_id, cursor, no_such_agent, refuse};

/// Agents per page by default.
const MOST: usize = 1_000;

#[derive(Deserialize)]
struct PageQuery {
    limit: Option<usize>,
    /// The last id of the page before.
    cursor: Option<String>,
}

#[get("/bus/agents")]
pub(crate) async fn list(
    who: BusCaller,
    page: web::Query<PageQuery>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let limit = page.limit.unwrap_or(MOST).clamp(1, MOST);
    let after = cursor(page.cursor.as_deref())?;
    let (agents, next) = bus.agents_page(who.agent().cloned(), after, limit).await;
    let next = next.as_ref().map(AgentId::as_str).unwrap_or_default();
    Ok(HttpResponse::Ok().json(json!({ "agents": agents, "nextCursor": next })))
}

#[get("/bus/agents/{id}")]
pub(crate) async fn show(
    who: BusCaller,
    agent: web::Path<String>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let agent = agent_id(&agent)?;
    let view = bus.agent_for(who.agent().cloned(), agent.clone()).await;
    let view = view.ok_or_else(|| no_such_agent(&agent))?;
    Ok(HttpResponse::Ok().json(view))
}

/// A profile as a caller sends it: unknown fields are refused.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct GivenProfile {
    role: Option<String>,
    squad: Option<String>,
    tier: Option<String>,
    c_suite: bool,
    capabilities: Vec<String>,
}

#[put("/bus/agents/{id}")]
pub(crate) async fn register(
    who: BusCaller,
    agent: web::Path<String>,
    profile: web::Json<Map<String, Value>>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let agent = agent_id(&agent)?;
    let given: GivenProfile = serde_json::from_value(Value::Object(profile.into_inner()))
        .map_err(|error| refuse(StatusCode::BAD_REQUEST, "bad_request", &error.to_string()))?;
    let GivenProfile { role, squad, tier, c_suite, capabilities } = given;
    let profile = Profile { role, squad, tier, c_suite, capabilities };
    bus.register(agent.clone(), profile.clone()).await.map_err(|error| {
        let (status, code) = match error {
            RegisterError::Refused(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            RegisterError::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        refuse(status, code, &error.to_string())
    })?;
    let mut body = json!(profile);
    body["agentId"] = json!(agent);
    Ok(HttpResponse::Ok().json(body))
}

#[derive(Deserialize)]
struct Removal {
    #[serde(default)]
    drop: bool,
}

#[delete("/bus/agents/{id}")]
pub(crate) async fn remove(
    who: BusCaller,
    agent: web::Path<String>,
    query: web::Query<Removal>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let agent = agent_id(&agent)?;
    let by = who.owner().unwrap_or_else(|| "a person of this machine".to_owned());
    let removed = bus.remove_agent(agent.clone(), query.drop, by).await;
    let dropped = removed.map_err(|error| {
        let (status, code) = match error {
            RemoveError::NoSuchAgent(_) => (StatusCode::NOT_FOUND, "unknown_recipient"),
            RemoveError::Kept(_) | RemoveError::Listed(_) => {
                (StatusCode::CONFLICT, "not_removable")
            }
            RemoveError::AtWork(_) => (StatusCode::CONFLICT, "at_work"),
            RemoveError::Owed { .. } => (StatusCode::CONFLICT, "messages_wait"),
            RemoveError::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        refuse(status, code, &error.to_string())
    })?;
    Ok(HttpResponse::Ok().json(json!({ "agentId": agent, "event": "left", "dropped": dropped })))
}

#[derive(Deserialize)]
struct Question {
    from: String,
    to: String,
    r#type: Kind,
    scope: Option<Scope>,
}

#[get("/bus/access")]
pub(crate) async fn explain(
    who: BusCaller,
    question: web::Query<Question>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let (from, to) = (agent_id(&question.from)?, agent_id(&question.to)?);
    who.must_be(&from)?;
    let explanation = bus.explain(from.clone(), to.clone(), question.r#type, question.scope).await;
    let explanation = explanation.ok_or_else(|| {
        let detail = format!("`{from}` or `{to}` is not known here.");
        refuse(StatusCode::NOT_FOUND, "unknown_recipient", &detail)
    })?;
    Ok(HttpResponse::Ok().json(explanation))
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let view: Value = schemas.subschema_for::<AgentView>().into();
    let agent: Value = schemas.subschema_for::<AgentId>().into();
    let profile: Value = schemas.subschema_for::<Profile>().into();
    let given = json!({
        "type": "object",
        "description": "Everything is optional; anything else is refused.",
        "properties": {
            "role": text(), "squad": text(), "tier": text(),
            "cSuite": { "type": "boolean" }, "capabilities": array(&text()),
        },
        "additionalProperties": false,
    });
    let registered = json!({ "allOf": [profile, object(&[("agentId", agent.clone())])] });
    vec![
        Operation::new("GET", "/bus/agents", "listAgents", "directory", "List agents")
            .description("By id. An agent sees itself and those that it may write to, people see all. A page may be short or empty and still have a `nextCursor`: continue until that is empty.")
            .query("limit", json!({ "type": "integer", "minimum": 0, "default": 1000 }), "How many, 1 to 1,000; others are taken for the nearest")
            .query("cursor", text(), "The `nextCursor` of the page before")
            .json(200, "A page of agents", &object(&[("agents", array(&view)), ("nextCursor", text())])),
        Operation::new("GET", "/bus/agents/{agent}", "showAgent", "directory", "Show an agent").json(
            200,
            "The agent",
            &view,
        ),
        Operation::new(
            "PUT",
            "/bus/agents/{agent}",
            "registerAgent",
            "directory",
            "Register an agent with a profile",
        )
        .description("For people. The agent becomes known by it.")
        .json_request(&given)
        .json(200, "As it is now", &registered)
        .problems(&[408, 413, 415, 422]),
        Operation::new("DELETE", "/bus/agents/{agent}", "removeAgent", "directory", "Remove an agent")
            .description("For people. It is on record who did it; the agent can come back as a new one. Refused while it is connected, is listed in the configuration, or messages wait for it.")
            .query("drop", json!({ "type": "boolean", "default": false }), "Drop the messages that wait for it; their senders are notified")
            .json(200, "It is removed", &object(&[("agentId", agent.clone()), ("event", literal("left")), ("dropped", number())]))
            .problems(&[409]),
        Operation::new("GET", "/bus/access", "explainAccess", "directory", "Explain whether a message is allowed, and by which rule")
            .required_query("from", agent.clone(), "The sender")
            .required_query("to", agent, "The recipient")
            .required_query("type", schemas.subschema_for::<Kind>().into(), "The kind of message")
            .query("scope", schemas.subschema_for::<Scope>().into(), "Of a broadcast")
            .json(200, "The verdict", &schemas.subschema_for::<Explanation>().into())
            .problems(&[404]),
    ]
}
