//! OpenAPI descriptions of the A2A routes, derived from the tables of `a2a_protocol::wire`.

use a2a_protocol::card::AgentCard;
use a2a_protocol::wire::describe::{self, Endpoint};
use a2a_protocol::wire::{Method, Version, rest};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use crate::openapi::{Operation, named, object, text};

/// Descriptions of every A2A route.
pub(crate) fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let mut operations = cards(schemas);
    for (prefix, suffix) in [("", ""), ("/agents/{agent}", "OfAgent")] {
        operations.push(rpc(&format!("{prefix}/a2a"), suffix));
        for (version, below) in [(Version::V1_0, ""), (Version::V0_3, "/v1")] {
            for place in describe::endpoints(version) {
                operations.push(http(version, &format!("{prefix}{below}"), suffix, place, schemas));
            }
        }
    }
    operations.push(rpc("/agents/{agent}", "AtBaseOfAgent"));
    operations
}

fn cards(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let card: Value = schemas.subschema_for::<AgentCard>().into();
    let at = |path: &str, id: &str, summary: &str| {
        Operation::new("GET", path.to_owned(), id, "A2A", summary)
            .description("In a form that clients of both versions read.")
            .header(
                "If-None-Match",
                json!({ "type": "string" }),
                "The `ETag` of the card that is known",
            )
            .json(200, "The card", &card)
            .response(304, "It is the one that is known", Value::Null)
    };
    vec![
        at("/.well-known/agent-card.json", "hostCard", "Show the card of the host").public(),
        at("/agents/{agent}/.well-known/agent-card.json", "agentCard", "Show the card of an agent"),
        at("/agents/{agent}", "agentCardAtBase", "Show the card at the base of the agent"),
    ]
}

/// The schemas of JSON-RPC requests and responses.
pub(crate) fn schemas() -> Map<String, Value> {
    let mut names: Vec<&str> = Vec::new();
    for &method in Method::ALL {
        names.extend(Version::ALL.iter().rev().map(|&version| method.rpc_name(version)));
    }
    // The names of OPT are the same in both versions.
    names.dedup();
    let id = json!({ "type": ["string", "number", "null"] });
    let version = json!({ "type": "string", "const": "2.0" });
    let call = json!({
        "type": "object",
        "required": ["jsonrpc", "method"],
        "properties": {
            "jsonrpc": version,
            "id": id,
            "method": { "type": "string", "enum": names },
            "params": { "type": "object" },
        },
    });
    let error = object(&[("code", json!({ "type": "integer" })), ("message", text())]);
    let answer = json!({
        "type": "object",
        "required": ["jsonrpc", "id"],
        "properties": { "jsonrpc": version, "id": id, "result": {}, "error": error },
        "oneOf": [{ "required": ["result"] }, { "required": ["error"] }],
    });
    Map::from_iter([("JsonRpcCall".to_owned(), call), ("JsonRpcAnswer".to_owned(), answer)])
}

fn rpc(path: &str, suffix: &str) -> Operation {
    let streams = Method::ALL.iter().filter(|method| method.streams());
    let streams: Vec<_> = streams.map(|method| method.rpc_name(Version::V1_0)).collect();
    let about = format!(
        "Both versions; the method's name shows which. {} (and what they are called in 0.3) are answered by a stream \
         of events, one answer each. `objectives/…` and `plans/…` are of the OPT extension.",
        streams.join(", ")
    );
    let one_or_many = |one: &str| {
        let one = named(one);
        json!({ "oneOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    };
    let of = if suffix.is_empty() { "the host's own agent" } else { "an agent" };
    let content = json!({
        "application/json": { "schema": one_or_many("JsonRpcAnswer") },
        "text/event-stream": { "schema": { "description": "`data`: a JSON-RPC answer." } },
    });
    let call = Operation::new(
        "POST",
        path.to_owned(),
        format!("rpc{suffix}"),
        "A2A",
        format!("Call {of} over JSON-RPC 2.0"),
    );
    with_headers(call.description(about), Version::ALL)
        .json_request(&one_or_many("JsonRpcCall"))
        .response(200, "The answer, also where it is an error", content)
        .response(204, "Nothing: it was a notification", Value::Null)
        .problems(&[408, 413])
}

fn http(
    version: Version,
    prefix: &str,
    suffix: &str,
    place: Endpoint,
    schemas: &mut SchemaGenerator,
) -> Operation {
    let Endpoint { method, verb, path } = place;
    let name = method.rpc_name(Version::V1_0);
    let (tag, mark) = match version {
        Version::V1_0 => ("A2A 1.0", ""),
        Version::V0_3 => ("A2A 0.3", "V03"),
    };
    // Subscribing has two verbs, and operation ids are unique.
    let by = if method == Method::Subscribe && verb == "POST" { "ByPost" } else { "" };
    let id = format!("a2a{name}{by}{mark}{suffix}");
    let media = rest::media_type(version);
    let mut call =
        with_headers(Operation::new(verb, format!("{prefix}{path}"), id, tag, name), &[version]);
    for (name, schema, about) in describe::query(method, schemas) {
        call = call.query(name, schema, about);
    }
    if let Some(body) = describe::body(version, method, schemas) {
        let required = method != Method::CancelTask;
        call = call
            .request(
                json!({ media: { "schema": body }, "application/json": { "schema": body } }),
                required,
            )
            .problems(&[408, 413]);
    }
    call = if method.streams() {
        let event = describe::event(version, schemas);
        let data = event["$ref"].as_str().map_or_else(
            || "`data`: as A2A 0.3 has it.".to_owned(),
            |to| format!("`id`: the number of the event; `data`: {to}"),
        );
        call.events("What happens, as it happens", &data)
    } else {
        let answer = describe::answer(version, method, schemas);
        call.response(200, "What came of it", json!({ media: { "schema": answer } }))
    };
    for &status in describe::ERROR_STATUSES {
        call.refused(status, media, &describe::error(version));
    }
    call.problems(&[400])
}

fn with_headers(call: Operation, versions: &[Version]) -> Operation {
    let versions: Vec<_> = versions.iter().map(|version| version.as_str()).collect();
    let version = json!({ "type": "string", "enum": versions });
    call.header(
        "A2A-Version",
        version,
        "The version of A2A that is spoken. A number behind these two is ignored; another version than the path or the method says is refused",
    )
    .header(
        "A2A-Extensions",
        json!({ "type": "string" }),
        "URIs of extensions to activate, with commas between them",
    )
    .header(
        "Last-Event-ID",
        json!({ "type": "integer", "minimum": 0 }),
        "For streams: continue after this event",
    )
}
