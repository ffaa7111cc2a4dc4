//! OpenAPI description of HTTP+JSON: endpoints, parameters and JSON Schemas of bodies.
//!
//! The schemas of 1.0 are generated from the types, because its wire form is their serde form. 0.3 is
//! written by hand in two forms (`v0_3.rs`) and has a published schema, so it is only named here.

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::{Method, Version};
use crate::fields::timestamp::Timestamp;
use crate::operation::{PushConfig, StreamEvent, TaskPage};
use crate::opt::Objective;
use crate::task::{Message, Task, TaskState};

/// An endpoint: a verb and a path below the prefix of its version. The path has `{id}` for the task
/// and `{configId}` for a push configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The method.
    pub method: Method,
    /// HTTP verb, such as `POST`.
    pub verb: &'static str,
    /// Path template, such as `/tasks/{id}:cancel`.
    pub path: &'static str,
}

/// All endpoints of [`super::rest::route`]. Subscribing has two verbs.
#[must_use]
pub fn endpoints(version: Version) -> Vec<Endpoint> {
    let card = match version {
        Version::V0_3 => "/card",
        Version::V1_0 => "/extendedAgentCard",
    };
    [
        (Method::SendMessage, "POST", "/message:send"),
        (Method::StreamMessage, "POST", "/message:stream"),
        (Method::ListTasks, "GET", "/tasks"),
        (Method::GetTask, "GET", "/tasks/{id}"),
        (Method::CancelTask, "POST", "/tasks/{id}:cancel"),
        (Method::Subscribe, "GET", "/tasks/{id}:subscribe"),
        (Method::Subscribe, "POST", "/tasks/{id}:subscribe"),
        (Method::SetPush, "POST", "/tasks/{id}/pushNotificationConfigs"),
        (Method::ListPushes, "GET", "/tasks/{id}/pushNotificationConfigs"),
        (Method::GetPush, "GET", "/tasks/{id}/pushNotificationConfigs/{configId}"),
        (Method::DeletePush, "DELETE", "/tasks/{id}/pushNotificationConfigs/{configId}"),
        (Method::ExtendedCard, "GET", card),
    ]
    .into_iter()
    .map(|(method, verb, path)| Endpoint { method, verb, path })
    .collect()
}

/// Query parameters: name, schema, description.
#[must_use]
pub fn query(
    method: Method,
    generator: &mut SchemaGenerator,
) -> Vec<(&'static str, Value, &'static str)> {
    let most = json!({ "type": "integer", "minimum": 0, "maximum": i32::MAX });
    let history = ("historyLength", most, "How many messages of the history, the newest");
    let size = (
        "pageSize",
        json!({ "type": "integer", "minimum": 1, "maximum": 100 }),
        "How many at once",
    );
    let token =
        ("pageToken", json!({ "type": "string" }), "The `nextPageToken` of the page before");
    match method {
        Method::GetTask => vec![history],
        Method::ListTasks => vec![
            ("contextId", json!({ "type": "string" }), "Of this conversation"),
            ("status", generator.subschema_for::<TaskState>().into(), "In this state"),
            size,
            token,
            history,
            (
                "statusTimestampAfter",
                generator.subschema_for::<Timestamp>().into(),
                "Whose status is not older than this",
            ),
            ("includeArtifacts", json!({ "type": "boolean" }), "With what came of them"),
        ],
        Method::ListPushes => vec![size, token],
        _ => Vec::new(),
    }
}

/// Schema of the request body; `None` for methods without one.
#[must_use]
pub fn body(version: Version, method: Method, generator: &mut SchemaGenerator) -> Option<Value> {
    let of_1_0 = version == Version::V1_0;
    Some(match method {
        Method::SendMessage | Method::StreamMessage if of_1_0 => json!({
            "type": "object",
            "required": ["message"],
            "properties": {
                "message": generator.subschema_for::<Message>(),
                "configuration": {
                    "type": "object",
                    "properties": {
                        "acceptedOutputModes": { "type": "array", "items": { "type": "string" } },
                        "taskPushNotificationConfig": generator.subschema_for::<PushConfig>(),
                        "historyLength": { "type": "integer", "minimum": 0 },
                        "returnImmediately": { "type": "boolean", "description": "Do not wait for the work." },
                    },
                },
                "metadata": { "type": "object" },
                "tenant": { "type": "string", "description": "Which agent is meant; the path goes before it." },
            },
        }),
        Method::SetPush if of_1_0 => generator.subschema_for::<PushConfig>().into(),
        Method::SendMessage | Method::StreamMessage | Method::SetPush => json!({
            "type": "object",
            "description": "As A2A 0.3 has it, in the spelling of its JSON Schema or of its ProtoJSON.",
        }),
        Method::CancelTask => json!({
            "type": "object",
            "properties": { "metadata": { "type": "object" } },
        }),
        _ => return None,
    })
}

/// Schema of a successful response that is not a stream.
#[must_use]
pub fn answer(version: Version, method: Method, generator: &mut SchemaGenerator) -> Value {
    if version == Version::V0_3 {
        return json!({ "description": "As A2A 0.3 has it, in the spelling of the request." });
    }
    match method {
        Method::SendMessage => json!({
            "type": "object",
            "description": "A task or a message; where OPT is active also the objective that was made of it.",
            "properties": {
                "task": generator.subschema_for::<Task>(),
                "message": generator.subschema_for::<Message>(),
                "objective": generator.subschema_for::<Objective>(),
            },
            "oneOf": [{ "required": ["task"] }, { "required": ["message"] }],
        }),
        Method::GetTask | Method::CancelTask => generator.subschema_for::<Task>().into(),
        Method::ListTasks => generator.subschema_for::<TaskPage>().into(),
        Method::SetPush | Method::GetPush => generator.subschema_for::<PushConfig>().into(),
        Method::ListPushes => json!({
            "type": "object",
            "required": ["configs", "nextPageToken"],
            "properties": {
                "configs": { "type": "array", "items": generator.subschema_for::<PushConfig>() },
                "nextPageToken": { "type": "string" },
            },
        }),
        _ => json!({ "type": "object" }),
    }
}

/// Schema of the `data` of a stream event.
#[must_use]
pub fn event(version: Version, generator: &mut SchemaGenerator) -> Value {
    match version {
        Version::V1_0 => generator.subschema_for::<StreamEvent>().into(),
        Version::V0_3 => json!({ "type": "object" }),
    }
}

/// The HTTP statuses of errors; [`super::error`] defines when each is used.
pub const ERROR_STATUSES: &[u16] = &[400, 403, 404, 409, 429, 500, 503];

/// Schema of an error response.
#[must_use]
pub fn error(version: Version) -> Value {
    match version {
        Version::V1_0 => json!({
            "type": "object",
            "required": ["error"],
            "properties": { "error": {
                "type": "object",
                "required": ["code", "status", "message", "details"],
                "properties": {
                    "code": { "type": "integer", "description": "The HTTP status." },
                    "status": { "type": "string", "description": "A word of `google.rpc.Code`." },
                    "message": { "type": "string" },
                    "details": { "type": "array", "items": { "type": "object" } },
                },
            } },
        }),
        Version::V0_3 => json!({
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "error": { "type": "string", "description": "The name of the error." },
                "type": { "type": "string", "description": "The same." },
                "code": { "type": "integer", "description": "As in JSON-RPC." },
                "message": { "type": "string" },
                "data": {},
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use crate::wire::rest;

    #[test]
    fn every_place_is_a_route_and_every_method_has_a_place() {
        for &version in Version::ALL {
            let endpoints = endpoints(version);
            for endpoint in &endpoints {
                let path = endpoint.path.replace("{id}", "t-1").replace("{configId}", "c-1");
                let route = rest::route(version, endpoint.verb, &path);
                assert_eq!(route.map(|route| route.method), Ok(endpoint.method), "{endpoint:?}");
            }
            for &method in Method::ALL.iter().filter(|method| !method.is_opt()) {
                assert!(endpoints.iter().any(|endpoint| endpoint.method == method), "{method:?}");
            }
        }
    }

    #[test]
    fn errors_match_the_described_statuses_and_schema() {
        for (version, golden) in [
            (Version::V1_0, include_str!("../../tests/golden/a2a/errors-1.0.json")),
            (Version::V0_3, include_str!("../../tests/golden/a2a/errors-0.3.json")),
        ] {
            let golden: serde_json::Map<String, Value> = serde_json::from_str(golden).unwrap();
            let validator = jsonschema::validator_for(&error(version)).unwrap();
            // Errors of JSON-RPC itself have no HTTP+JSON form.
            for (name, error) in golden.iter().filter(|(_, error)| error.get("http").is_some()) {
                let status = u16::try_from(error["http"].as_u64().unwrap()).unwrap();
                assert!(ERROR_STATUSES.contains(&status), "{name}");
                assert!(validator.is_valid(&error["http+json"]), "{name}");
            }
        }
    }

    #[test]
    fn golden_replies_match_the_described_schemas() {
        let golden = include_str!("../../tests/golden/a2a/replies-1.0.json");
        let golden: Value = serde_json::from_str(golden).unwrap();
        for (name, method) in [
            ("send_task", Method::SendMessage),
            ("send_message", Method::SendMessage),
            ("get_task", Method::GetTask),
            ("cancel_task", Method::CancelTask),
            ("list_tasks", Method::ListTasks),
            ("set_push", Method::SetPush),
            ("get_push", Method::GetPush),
            ("list_pushes", Method::ListPushes),
            ("delete_push over HTTP+JSON", Method::DeletePush),
        ] {
            let mut generator = schema::answers("/$defs");
            let mut described = answer(Version::V1_0, method, &mut generator);
            described["$defs"] = Value::Object(generator.take_definitions(true));
            let validator = jsonschema::validator_for(&described).unwrap();
            let faults: Vec<_> =
                validator.iter_errors(&golden[name]).map(|e| e.to_string()).collect();
            assert!(golden[name].is_object() && faults.is_empty(), "{name}: {faults:?}");
        }
    }
}
