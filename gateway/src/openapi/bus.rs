//! The table: `/bus` without the log, schemas and the server itself.

use a2a_actors::{AgentView, CircuitView, DeadLetterView};
use a2a_policy::{Circuit, CircuitKey, Explanation, Holder, Profile, Task as LedgerTask};
use a2a_protocol::body::Scope;
use a2a_protocol::task::{Task, TaskState};
use a2a_protocol::{AgentId, Kind, MessageId, Receipt, TaskId, TaskState as LedgerState};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::operation::Call;
use super::{list, named, number, object, text, word};

/// The rows.
pub(super) fn calls(schemas: &mut SchemaGenerator) -> Vec<Call> {
    [messages(schemas), directory(schemas), oversight(schemas), server()].concat()
}

fn messages(schemas: &mut SchemaGenerator) -> Vec<Call> {
    let receipt: Value = schemas.subschema_for::<Receipt>().into();
    let settled = |schemas: &mut SchemaGenerator, event: &str| {
        object(&[
            ("messageId", schemas.subschema_for::<MessageId>().into()),
            ("event", word(event)),
        ])
    };
    let mut taken = object(&[
        ("seq", number()),
        ("sender", schemas.subschema_for::<AgentId>().into()),
        ("message", named("Envelope")),
    ]);
    // The first three where it was taken, the others where somebody only looked.
    taken["properties"]["attempt"] = json!({ "type": "integer", "minimum": 1 });
    taken["properties"]["traceparent"] = text();
    taken["properties"]["tracestate"] = text();
    taken["properties"]["attempts"] = number();
    taken["properties"]["state"] =
        json!({ "type": "string", "enum": ["taken", "pausing", "waiting"] });
    taken["properties"]["dueInMs"] = number();
    let mut inbox = object(&[("messages", list(&taken))]);
    inbox["properties"]["pending"] = number();
    let examples: Map<_, _> = Kind::ALL
        .iter()
        .map(|kind| (kind.to_string(), json!({ "value": kind.example_message() })))
        .collect();
    let envelope =
        json!({ "application/json": { "schema": named("Envelope"), "examples": examples } });
    let wait = json!({ "type": "string", "pattern": "^[0-9]{1,9}(ms|s|m)?$", "default": "0s" });
    let limit = json!({ "type": "integer", "minimum": 0, "default": 10 });
    vec![
        Call::new("POST", "/bus/messages", "sendMessage", "messages", "Send a message")
            .about("Answered when the message is on disk. At most 262,144 bytes.")
            .header("A2A-On-Behalf-Of", schemas.subschema_for::<AgentId>().into(), "For operators: the agent in whose name it is sent")
            .takes(envelope, true)
            .json(202, "Accepted: `delivered` or `queued`", &receipt)
            .json(200, "Accepted before: `duplicate`", &receipt)
            .problems(&[400, 404, 408, 409, 422]),
        Call::new("GET", "/bus/agents/{agent}/inbox", "takeMessages", "messages", "Take messages")
            .about("Each is the taker's for a minute (`[delivery] lease_seconds`); acknowledge it, or give it back. Asking makes the agent known if the directory is open.")
            .query("wait", wait, "How long to wait for the first, such as `30s`; at most a minute")
            .query("limit", limit, "How many, 1 to 100; others are taken for the nearest of these")
            .query("peek", json!({ "type": "boolean", "default": false }), "Look only: no lease, no attempt counted; not with `wait`")
            .json(200, "What was taken, or is there; perhaps nothing", &inbox),
        Call::new("POST", "/bus/agents/{agent}/inbox/{messageId}/ack", "acknowledge", "messages", "Be done with a message")
            .about("Answered when that is on disk; the message is never handed out again.")
            .json(200, "On disk", &settled(schemas, "acknowledged")),
        Call::new("POST", "/bus/agents/{agent}/inbox/{messageId}/nack", "giveBack", "messages", "Give a message back: a failed attempt")
            .reason()
            .json(200, "It will be tried again, or given up", &settled(schemas, "attempt_failed")),
        Call::new("GET", "/bus/agents/{agent}/session", "openSession", "messages", "Be a session of the agent, over WebSocket")
            .about("Frames: docs/sessions.md.")
            .answer(101, "The session begins", Value::Null)
            .problems(&[426]),
    ]
}

fn directory(schemas: &mut SchemaGenerator) -> Vec<Call> {
    let view: Value = schemas.subschema_for::<AgentView>().into();
    let agent: Value = schemas.subschema_for::<AgentId>().into();
    let profile: Value = schemas.subschema_for::<Profile>().into();
    let given = json!({
        "type": "object",
        "description": "Everything is optional; anything else is refused.",
        "properties": {
            "role": text(), "squad": text(), "tier": text(),
            "cSuite": { "type": "boolean" }, "capabilities": list(&text()),
        },
        "additionalProperties": false,
    });
    let holder: Value = schemas.subschema_for::<Holder>().into();
    let held = object(&[("name", text()), ("holder", holder.clone())]);
    let refused = object(&[
        ("token", text()),
        ("name", text()),
        ("holder", holder),
        ("taken", held.clone()),
        ("reason", text()),
    ]);
    let registered = json!({ "allOf": [profile, object(&[("agentId", agent.clone())])] });
    vec![
        Call::new("GET", "/bus/agents", "listAgents", "directory", "BusCaller is there")
            .about("By id. An agent sees itself and those that it may write to, people see all. A page may be short or empty and still have a `nextCursor`: go on until that is empty.")
            .query("limit", json!({ "type": "integer", "minimum": 0, "default": 1000 }), "How many, 1 to 1,000; others are taken for the nearest")
            .query("cursor", text(), "The `nextCursor` of the page before")
            .json(200, "A page of agents", &object(&[("agents", list(&view)), ("nextCursor", text())])),
        Call::new("GET", "/bus/agents/{agent}", "showAgent", "directory", "One agent").json(
            200,
            "The agent",
            &view,
        ),
        Call::new(
            "PUT",
            "/bus/agents/{agent}",
            "registerAgent",
            "directory",
            "Give an agent a profile",
        )
        .about("For people. The agent becomes known by it.")
        .body(&given)
        .json(200, "As it is now", &registered)
        .problems(&[408, 413, 415, 422]),
        Call::new("DELETE", "/bus/agents/{agent}", "removeAgent", "directory", "Remove an agent")
            .about("For people. It is on record who did it; the agent can come back as a new one. Refused while it is connected, is listed in the configuration, or messages wait for it.")
            .query("drop", json!({ "type": "boolean", "default": false }), "Give up the messages that wait for it: their senders are notified")
            .json(200, "It is removed", &object(&[("agentId", agent.clone()), ("event", word("left")), ("dropped", number())]))
            .problems(&[409]),
        Call::new("GET", "/bus/access", "explainAccess", "directory", "May it, and by which rule")
            .must_query("from", agent.clone(), "BusCaller would send")
            .must_query("to", agent, "To whom")
            .must_query("type", schemas.subschema_for::<Kind>().into(), "What")
            .query("scope", schemas.subschema_for::<Scope>().into(), "Of a broadcast")
            .json(200, "The verdict", &schemas.subschema_for::<Explanation>().into())
            .problems(&[404]),
        Call::new("GET", "/bus/names", "listRefusedNames", "directory", "List tokens whose name is taken")
            .about("For people. Agents, A2A clients and operators share one list of names, whatever their case; such a token is refused.")
            .json(200, "The tokens", &object(&[("refused", list(&refused))])),
        Call::new("GET", "/bus/names/{name}", "showName", "directory", "Look up who has a name")
            .about("Whatever its case. Agents and clients can look up their own.")
            .json(200, "BusCaller has it", &held),
    ]
}

fn oversight(schemas: &mut SchemaGenerator) -> Vec<Call> {
    let task: Value = schemas.subschema_for::<LedgerTask>().into();
    let agent: Value = schemas.subschema_for::<AgentId>().into();
    let key: Value = schemas.subschema_for::<CircuitKey>().into();
    let circuit: Value = schemas.subschema_for::<CircuitView>().into();
    let letter: Value = schemas.subschema_for::<DeadLetterView>().into();
    let limit = json!({ "type": "integer", "minimum": 0, "default": 50 });
    let id = json!({ "type": "string", "format": "uuid" });
    let shown = object(&[
        ("agentId", agent.clone()),
        ("owner", text()),
        ("correlationId", id.clone()),
        ("task", schemas.subschema_for::<Task>().into()),
    ]);
    let shown = object(&[("tasks", list(&shown)), ("nextCursor", text())]);
    let deleted = object(&[
        ("taskId", schemas.subschema_for::<TaskId>().into()),
        ("deleted", json!({ "type": "boolean" })),
    ]);
    let called_off = object(&[
        ("taskId", schemas.subschema_for::<TaskId>().into()),
        ("state", word("cancelled")),
    ]);
    let resolved = object(&[
        ("seq", number()),
        ("agentId", agent.clone()),
        ("event", json!({ "type": "string", "enum": ["returned", "dropped"] })),
    ]);
    vec![
        Call::new(
            "GET",
            "/bus/tasks",
            "listLedgerTasks",
            "oversight",
            "Tasks of the ledger, those that changed last first",
        )
        .query("agent", agent.clone(), "That it has a part in; an agent sees only its own")
        .query("state", schemas.subschema_for::<LedgerState>().into(), "In this state")
        .query("correlation", id.clone(), "Of this conversation")
        .about("A page may be short or empty and still have a `nextCursor`: go on until that is empty.")
        .query(
            "overdue",
            json!({ "type": "boolean" }),
            "Only those that are marked overdue, or that are not",
        )
        .query("limit", limit.clone(), "How many, 1 to 1,000; others are taken for the nearest")
        .query("cursor", text(), "The `nextCursor` of the page before")
        .json(200, "A page of tasks", &object(&[("tasks", list(&task)), ("nextCursor", text())])),
        Call::new(
            "GET",
            "/bus/tasks/a2a",
            "listA2aTasks",
            "oversight",
            "Tasks that A2A callers asked for, whoever asked and whoever does them",
        )
        .query("task", id, "This one alone")
        .query("agent", agent.clone(), "That it does; an agent sees only its own")
        .query("state", schemas.subschema_for::<TaskState>().into(), "In this state")
        .query("context", text(), "Of this conversation")
        .query("limit", limit, "How many, 1 to 100; others are taken for the nearest")
        .query("cursor", text(), "The `nextCursor` of the page before")
        .json(200, "A page, without histories", &shown),
        Call::new(
            "GET",
            "/bus/tasks/{taskId}",
            "showLedgerTask",
            "oversight",
            "One task of the ledger",
        )
        .json(200, "The task", &task),
        Call::new(
            "GET",
            "/bus/tasks/{taskId}/a2a",
            "showWholeTask",
            "oversight",
            "The A2A task behind a `task_request`, whole",
        )
        .query("agent", agent, "As this agent sees it; an agent sees it as itself")
        .json(
            200,
            "The task, as A2A 1.0 writes it",
            &schemas.subschema_for::<Task>().into(),
        ),
        Call::new(
            "DELETE",
            "/bus/tasks/{taskId}/a2a",
            "deleteA2aTask",
            "oversight",
            "Delete an A2A task that has ended",
        )
        .about(
            "For people. Its artifacts, history and webhooks go with it; who deleted it is an \
             event in the log. A task of an objective is deleted when that has ended.",
        )
        .json(200, "It is deleted", &deleted)
        .problems(&[409]),
        Call::new(
            "POST",
            "/bus/tasks/{taskId}/cancel",
            "cancelLedgerTask",
            "oversight",
            "Call a task off",
        )
        .reason()
        .json(200, "It is called off", &called_off)
        .problems(&[409]),
        Call::new("GET", "/bus/circuits", "listCircuits", "oversight", "What is stopped, and why")
            .json(
                200,
                "The circuits that are not closed",
                &object(&[("circuits", list(&circuit))]),
            ),
        Call::new("POST", "/bus/circuits/{key}/reset", "resetCircuit", "oversight", "Let it go on")
            .about("For people.")
            .json(200, "It is closed", &object(&[("key", key), ("state", word("closed"))])),
        Call::new(
            "POST",
            "/bus/circuits/{key}/trip",
            "tripCircuit",
            "oversight",
            "Stop it by hand",
        )
        .about("For people. Only a person lets it go on.")
        .reason()
        .json(200, "It is stopped", &schemas.subschema_for::<Circuit>().into()),
        Call::new("GET", "/bus/dead-letters", "listDeadLetters", "oversight", "What was given up")
            .about("For people.")
            .json(200, "The dead letters", &object(&[("deadLetters", list(&letter))])),
        Call::new(
            "POST",
            "/bus/dead-letters/{seq}/{agent}/{what}",
            "resolveDeadLetter",
            "oversight",
            "Send a dead letter again, or let it go",
        )
        .about("For people.")
        .json(200, "It is done", &resolved),
    ]
}

fn server() -> Vec<Call> {
    let schema = json!({ "application/schema+json": { "schema": { "type": "object" } } });
    let metrics =
        json!({ "application/openmetrics-text": { "schema": { "description": "Text." } } });
    let parts = object(&[
        ("server", text()),
        ("journal", text()),
        ("bus", text()),
        ("task_store", text()),
        ("index", text()),
    ]);
    vec![
        Call::new("GET", "/healthz", "isAlive", "server", "Whether the program answers")
            .public()
            .json(200, "It does", &object(&[("status", word("ok"))])),
        Call::new("GET", "/readyz", "isReady", "server", "Whether it accepts messages")
            .public()
            .about("503 while a message sent now would not be accepted: the server starts or stops, the last write failed, one takes longer than 5 s, or a part of the program has ended. `reasons` says which part and why. `degraded` names what does not work though messages are accepted.")
            .json(200, "It does", &object(&[("status", word("ready")), ("parts", parts)])),
        Call::new("GET", "/metrics", "showMetrics", "server", "Numbers for Prometheus")
            .about("For people. Every number: docs/observability.md.")
            .answer(200, "OpenMetrics text", metrics),
        Call::new(
            "GET",
            "/schemas/{name}.json",
            "showSchema",
            "server",
            "A published JSON Schema, by the names of `openclaw-a2a schema`",
        )
        .public()
        .answer(200, "The schema", schema),
        Call::new("GET", "/openapi.json", "describe", "server", "This document").public().json(
            200,
            "OpenAPI 3.1",
            &object(&[("openapi", text()), ("paths", json!({ "type": "object" }))]),
        ),
    ]
}
