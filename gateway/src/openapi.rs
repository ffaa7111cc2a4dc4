//! The HTTP surface as an OpenAPI 3.1 document, made from one table of calls.
//!
//! ```text
//! bus, log, a2a   the table: a Call for each route
//! call            how a row is written, and the Operation Object it becomes
//! shared          what many of them have in common
//! ```
//!
//! Schemas come from the types that are answered (schemars), so nothing is described twice. The
//! document is served, printed by `openclaw-a2a schema --openapi`, and kept as
//! `docs/openapi.json`; tests hold table, routes and answers together.

mod a2a;
mod bus;
pub(crate) mod known_calls;
mod log;
mod operation;
mod shared;

use std::sync::LazyLock;

use a2a_protocol::schema;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpResponse, get};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

/// Where the document keeps its schemas.
const SCHEMAS: &str = "/components/schemas";

/// Made once: generating it takes longer than sending it.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));

/// `GET /openapi.json`. Everybody may read it.
#[get("/openapi.json")]
pub(super) async fn show() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/json")
        .insert_header((CACHE_CONTROL, "max-age=3600"))
        .body(DOCUMENT.as_str())
}

fn rows(schemas: &mut SchemaGenerator) -> Vec<operation::Call> {
    [bus::calls(schemas), log::calls(), a2a::calls(schemas)].concat()
}

/// Each call: its verb, its path, and the parameters it takes.
pub(super) fn calls() -> Vec<(&'static str, String, Vec<String>)> {
    let rows = rows(&mut schema::answers(SCHEMAS));
    rows.into_iter().map(|call| (call.verb(), call.path(), call.parameters())).collect()
}

/// The document.
#[must_use]
pub fn document() -> Value {
    let mut schemas = schema::answers(SCHEMAS);
    let calls = rows(&mut schemas);
    let mut paths = Map::new();
    for call in &calls {
        let item = paths.entry(call.path()).or_insert_with(|| json!({}));
        item[call.verb().to_ascii_lowercase()] = call.operation(&mut schemas);
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

An answer that says no is `application/problem+json` (RFC 9457) whose `code` is the outcome, except \
for faults of A2A itself, which have A2A's own form. Bodies are read as JSON whatever their \
`Content-Type`, except for `PUT`.

Not written down here: the tenant of A2A 1.0 before a path (`/{tenant}/message:send`), which means the \
same as `/agents/{agent}/message:send`; a slash behind `/a2a`; the frames of a session's WebSocket \
(docs/sessions.md).";

fn tags() -> Value {
    let tag = |(name, about): (&str, &str)| json!({ "name": name, "description": about });
    let tags = [
        ("messages", "Sending, and taking what was sent"),
        ("directory", "BusCaller is there, and who may write to whom"),
        ("oversight", "Tasks, circuits and dead letters: what people see and stop"),
        ("log", "The record of everything. With tokens, for operators"),
        ("server", "The server itself; nobody needs a token for it"),
        ("A2A", "JSON-RPC and agent cards, both versions"),
        ("A2A 1.0", "HTTP+JSON"),
        ("A2A 0.3", "HTTP+JSON, below `/v1`"),
    ];
    tags.map(tag).into()
}

/// Every schema that is referred to: those of answers, those of messages, and a few of HTTP alone.
fn components(mut schemas: SchemaGenerator) -> Map<String, Value> {
    let mut all = schemas.take_definitions(true);
    let (envelope, definitions) = schema::envelope_within(SCHEMAS);
    all.extend(definitions);
    all.insert("Envelope".into(), envelope);
    all.insert("Problem".into(), operation::problem());
    all.extend(log::schemas());
    all.extend(a2a::schemas());
    all.sort_keys();
    all
}

/// A reference to one of [`components`].
fn named(name: &str) -> Value {
    json!({ "$ref": format!("#{SCHEMAS}/{name}") })
}

/// An object with exactly these fields, or more in later versions.
fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<_, _> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "required": names, "properties": properties })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn word(word: &str) -> Value {
    json!({ "type": "string", "const": word })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn number() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}
