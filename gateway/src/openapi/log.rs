//! The table: `/bus/log` and what was noted of a circuit.

use a2a_journal::MAX_PAGE;
use a2a_protocol::{Kind, Outcome};
use serde_json::{Map, Value, json};

use super::operation::Call;
use super::{list, named, number, object, text};

/// The rows.
pub(super) fn calls() -> Vec<Call> {
    let page = object(&[("records", list(&named("Record"))), ("nextCursor", cursor())]);
    let head = object(&[("head", text()), ("seq", number())]);
    let limit = json!({ "type": "integer", "minimum": 0, "default": 50 });
    let about = format!("How many, 1 to {MAX_PAGE}; others are taken for the nearest of these");
    let verdict = json!({
        "type": "object",
        "required": ["ok"],
        "properties": {
            "ok": { "type": "boolean" },
            "records": number(), "lines": number(), "from": number(), "head": text(),
            "line": number(), "seq": { "type": ["integer", "null"] }, "problem": text(),
        },
    });
    vec![
        filtered(Call::new("GET", "/bus/log", "listRecords", "log", "Records, newest first"))
            .about("A page may be short or empty and still have a `nextCursor`: go on until that is empty. What is unknown or there twice is refused.")
            .query("limit", limit.clone(), &about)
            .query("cursor", text(), "The `nextCursor` of the page before")
            .json(200, "A page", &page)
            .problems(&[500]),
        filtered(Call::new("GET", "/bus/log/stream", "followLog", "log", "The log as it grows"))
            .header("Last-Event-ID", number(), "Go on after this line")
            .events("Lines, from now on or from `since`", "`id`: the number of the line; `data`: the line, a Record or an Event. An event without data every 15 seconds.")
            .problems(&[500]),
        Call::new("GET", "/bus/log/{messageId}", "showRecords", "log", "The records of one message, oldest first")
            .query("limit", limit, &about)
            .query("cursor", text(), "The `nextCursor` of the part before")
            .json(200, "Its records", &page)
            .problems(&[500]),
        Call::new("GET", "/bus/log/head", "showHead", "log", "The newest line, to be kept elsewhere")
            .json(200, "`SEQ:HASH`", &head),
        Call::new("GET", "/bus/log/verify", "verifyLog", "log", "Whether anybody changed a line")
            .about("Checks the index. One at a time.")
            .query("head", text(), "A head `SEQ:HASH` that was kept; may be there several times")
            .json(200, "The verdict", &verdict)
            .problems(&[500]),
        Call::new("POST", "/bus/log/rebuild", "rebuildDays", "log", "Have days written to files that only the index holds, for a backup")
            .about("For people. They go to `data/a2a-rebuilt` in the server's state folder; `openclaw-a2a backup` calls this.")
            .body(&object(&[("before", json!({ "type": "string", "format": "date" }))]))
            .json(200, "The names of the files", &object(&[("files", list(&text()))]))
            .problems(&[400, 408, 413, 415, 500]),
        Call::new("GET", "/bus/circuits/{key}/log", "showCircuitLog", "log", "When a circuit was opened and closed, oldest first")
            .query("cursor", text(), "The `nextCursor` of the part before")
            .json(200, "Its events", &object(&[("events", list(&named("Event"))), ("nextCursor", cursor())]))
            .problems(&[500]),
    ]
}

fn cursor() -> Value {
    json!({ "type": "string", "description": "Where to go on; empty at the end." })
}

fn filtered(call: Call) -> Call {
    let time = || json!({ "type": "string", "examples": ["2h", "today", "2026-02-21T18:30:00Z"] });
    let id = || json!({ "type": "string", "format": "uuid" });
    call.query("agent", text(), "Sender or recipient")
        .query("type", json!({ "type": "string", "enum": Kind::ALL }), "The kind of message")
        .query("since", time(), "Not before this")
        .query("until", time(), "Before this")
        .query("correlation", id(), "Of this conversation")
        .query("task", id(), "About this task")
        .query("outcome", json!({ "type": "string", "enum": Outcome::ALL }), "With this outcome")
        .query("text", text(), "With all of these words")
}

/// A line of the log as `journal/src/encode.rs` writes it; docs/log.md has every field.
pub(super) fn schemas() -> Map<String, Value> {
    let line = |about: &str, own: &str, more: Value| {
        let mut line = object(&[
            ("seq", number()),
            ("time", json!({ "type": "string", "format": "date-time" })),
            (own, text()),
            ("prev", text()),
            ("hash", text()),
        ]);
        line["description"] = json!(about);
        if let (Some(fields), Value::Object(more)) = (line["properties"].as_object_mut(), more) {
            fields.extend(more);
        }
        line
    };
    let record = line(
        "One attempt to send a message, and what became of it.",
        "outcome",
        json!({
            "messageId": text(), "by": text(), "via": text(), "bodyHash": text(),
            "message": { "description": "The message as it came." },
            "raw": { "type": "string", "description": "What is no JSON." },
            "bytes": number(), "tookUs": number(),
            "recipients": { "type": "array", "items": { "type": "object" } },
            "reason": text(), "retryAfterMs": number(), "errors": { "type": "array" },
            "deliveries": { "type": "array", "items": named("Event"), "description": "The events so far." },
            "moreDeliveries": number(),
        }),
    );
    let event = line(
        "Something that happened later.",
        "event",
        json!({
            "of": { "type": "integer", "description": "The record it belongs to." },
            "messageId": text(), "agentId": text(), "attempt": number(), "count": number(),
            "reason": text(), "afterMs": number(),
        }),
    );
    Map::from_iter([("Record".to_owned(), record), ("Event".to_owned(), event)])
}
