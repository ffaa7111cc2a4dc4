//! The HTTP surface as an OpenAPI 3.1 document, collected from the files of the handlers.
//!
//! ```text
//! operations() beside each handler   one Operation per route
//! operation                          how a route is described, and the Operation Object it becomes
//! shared                             parameters and responses that many routes have in common
//! known_calls                        lookup: which verbs and parameters a path takes
//! ```
//!
//! Schemas come from the types that are serialized (schemars), so nothing is described twice. The
//! document is served, printed by `openclaw-a2a schema --openapi`, and kept as
//! `docs/openapi.json`; tests compare it with the routes and with their responses.

pub(crate) mod known_calls;
mod operation;
mod shared;

use std::sync::LazyLock;

use a2a_protocol::schema;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpResponse, get};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use crate::observability::{health, metrics};
use crate::{a2a, bus_api, sessions};
pub(crate) use operation::Operation;

/// JSON Pointer of the schemas.
const SCHEMAS: &str = "/components/schemas";

/// Built once: generating it takes longer than sending it.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));

/// `GET /openapi.json`. Public.
#[get("/openapi.json")]
pub(super) async fn show() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/json")
        .insert_header((CACHE_CONTROL, "max-age=3600"))
        .body(DOCUMENT.as_str())
}

/// Descriptions of all routes, in the order of the document.
fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    [
        bus_api::messages::operations(schemas),
        bus_api::inbox::operations(schemas),
        sessions::operations(),
        bus_api::agents::operations(schemas),
        bus_api::names::operations(schemas),
        bus_api::tasks::operations(schemas),
        bus_api::circuits::operations(schemas),
        bus_api::dead_letters::operations(schemas),
        health::operations(),
        metrics::operations(),
        bus_api::schemas::operations(),
        own_operations(),
        bus_api::log::operations(),
        a2a::operations::operations(schemas),
    ]
    .concat()
}

/// Description of the route above.
fn own_operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/openapi.json", "describe", "server", "Show this document")
            .public()
            .json(
                200,
                "OpenAPI 3.1",
                &object(&[("openapi", text()), ("paths", json!({ "type": "object" }))]),
            ),
    ]
}

/// Verb, path and query parameters of every route.
pub(super) fn calls() -> Vec<(&'static str, String, Vec<String>)> {
    let operations = operations(&mut schema::answers(SCHEMAS));
    operations.into_iter().map(|call| (call.verb(), call.path(), call.parameters())).collect()
}

/// The document.
#[must_use]
pub fn document() -> Value {
    let mut schemas = schema::answers(SCHEMAS);
    let calls = operations(&mut schemas);
    let mut paths = Map::new();
    for call in &calls {
        let item = paths.entry(call.path()).or_insert_with(|| json!({}));
        item[call.verb().to_ascii_lowercase()] = call.object(&mut schemas);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "OpenClaw A2A",
            "summary": "The message bus that teams of AI agents run on",
            "description": ABOUT,
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "This server" }],
        "security": [{}, { "bearer": [] }],
        "tags": tags(),
        "paths": paths,
        "components": {
            "schemas": components(schemas),
            "securitySchemes": { "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of `openclaw-a2a token create`. Without any token, the server asks for none and listens on this machine only.",
            } },
        },
    });
    shared::share(&mut document);
    document
}

const ABOUT: &str = "\
Agents send each other typed messages over `/bus`; A2A clients (0.3 and 1.0) call every agent over \
JSON-RPC and HTTP+JSON.

A refusal is `application/problem+json` (RFC 9457) whose `code` is the outcome, except \
for faults of A2A itself, which have A2A's own form. Bodies are read as JSON whatever their \
`Content-Type`, except for `PUT`.

Not written down here: the tenant of A2A 1.0 before a path (`/{tenant}/message:send`), which means the \
same as `/agents/{agent}/message:send`; a slash behind `/a2a`; the frames of a session's WebSocket \
(docs/sessions.md).";

fn tags() -> Value {
    let tag = |(name, about): (&str, &str)| json!({ "name": name, "description": about });
    let tags = [
        ("messages", "Sending, and taking what was sent"),
        ("directory", "Agents, their profiles, and who may write to whom"),
        ("oversight", "Tasks, circuits and dead letters, for operators"),
        ("log", "The record of everything. With tokens, for operators"),
        ("server", "The server itself; needs no token"),
        ("A2A", "JSON-RPC and agent cards, both versions"),
        ("A2A 1.0", "HTTP+JSON"),
        ("A2A 0.3", "HTTP+JSON, below `/v1`"),
    ];
    tags.map(tag).into()
}

/// Every referenced schema: of responses, of messages, and a few of HTTP alone.
fn components(mut schemas: SchemaGenerator) -> Map<String, Value> {
    let mut all = schemas.take_definitions(true);
    let (envelope, definitions) = schema::envelope_within(SCHEMAS);
    all.extend(definitions);
    all.insert("Envelope".into(), envelope);
    all.insert("Problem".into(), operation::problem());
    all.extend(bus_api::log::schemas());
    all.extend(a2a::operations::schemas());
    all.sort_keys();
    all
}

/// A reference to one of [`components`].
pub(crate) fn named(name: &str) -> Value {
    json!({ "$ref": format!("#{SCHEMAS}/{name}") })
}

/// An object with exactly these fields, or more in later versions.
pub(crate) fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<_, _> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "required": names, "properties": properties })
}

pub(crate) fn array(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

pub(crate) fn literal(value: &str) -> Value {
    json!({ "type": "string", "const": value })
}

pub(crate) fn text() -> Value {
    json!({ "type": "string" })
}

pub(crate) fn number() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}
