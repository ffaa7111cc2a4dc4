//! `/bus/log`: page through records, show one message, verify the chain.
//!
//! Records are read, joined with their events and redacted on blocking threads: one response may be
//! many megabytes, and senders of messages must not wait for it.

mod filter;
mod query;
pub(crate) mod rebuild;
mod redact;
pub(crate) mod stream;
mod time;

use crate::openapi::{Operation, array, named, number, object, text};
use a2a_protocol::{Kind, Outcome};
use parking_lot::RwLock;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

use a2a_actors::{BusSystem, circuit_fact};
use a2a_journal::{Head, JournalReader, MAX_PAGE, ReadError, StoredRecord, VerifyError};
use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use chrono::Utc;
use serde_json::json;
use tokio::sync::Semaphore;

pub use filter::{LineHeader, LogFilter};
pub use query::{BadParameter, read_cursor, read_query, write_query};
pub use redact::Redaction;
pub use time::{BadTime, read_time};

use self::query::read_after;
use crate::auth::BusCaller;
use crate::problem::refuse;

/// Concurrent followers of the log.
const MAX_STREAMS: usize = 64;
/// Concurrent searches; further ones wait.
const MAX_SEARCHES: usize = 2;

/// Redaction and limits of the log over HTTP.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Replaced when the configuration is reloaded.
    redaction: Arc<RwLock<Arc<Redaction>>>,
    /// How long a reader may stall before its connection is closed.
    stalled: Duration,
    streams: Arc<Semaphore>,
    /// A search takes a core while it lasts; the bus needs the others.
    searching: Arc<Semaphore>,
    /// A verification reads everything; one at a time is enough.
    verifying: Arc<Semaphore>,
}

impl LogSettings {
    /// Shows everything but what is redacted.
    #[must_use]
    pub fn new(redaction: Redaction, stalled: Duration) -> Self {
        Self {
            redaction: Arc::new(RwLock::new(Arc::new(redaction))),
            stalled,
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            searching: Arc::new(Semaphore::new(MAX_SEARCHES)),
            verifying: Arc::new(Semaphore::new(1)),
        }
    }

    /// Replaces the redaction, also for open streams.
    pub fn hide(&self, redaction: Redaction) {
        *self.redaction.write() = Arc::new(redaction);
    }

    fn redaction(&self) -> Arc<Redaction> {
        Arc::clone(&self.redaction.read())
    }
}

/// The raw query, so that an error can name the parameter.
type Parameters = web::Query<Vec<(String, String)>>;

#[get("/bus/log")]
pub(crate) async fn page(
    who: BusCaller,
    parameters: Parameters,
    bus: web::Data<BusSystem>,
    settings: web::Data<LogSettings>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let pairs = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let query = read_query(pairs, Utc::now(), true).map_err(|bad| bad_parameter(&bad))?;
    search(&bus, &settings, move |reader, redaction| {
        let page = reader.query(&query)?;
        let next = page.next.map(|next| next.to_string()).unwrap_or_default();
        Ok(Some(records(&page.records, redaction, &next)))
    })
    .await
}

#[get("/bus/log/{message}")]
pub(crate) async fn message(
    who: BusCaller,
    id: web::Path<String>,
    parameters: Parameters,
    bus: web::Data<BusSystem>,
    settings: web::Data<LogSettings>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let id = id.parse::<MessageId>();
    let id = id.map_err(|error| {
        let detail = format!("The message's id in the path is {error}.");
        refuse(StatusCode::BAD_REQUEST, "bad_uuid", &detail)
    })?;
    let pairs = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let (from, limit) = read_cursor(pairs).map_err(|bad| bad_parameter(&bad))?;
    let is_first = from.is_none();
    search(&bus, &settings, move |reader, redaction| {
        let trail = reader.message_history(&id, from.unwrap_or_default(), limit)?;
        let is_nowhere = is_first && trail.records.is_empty() && trail.next.is_none();
        let next = trail.next.map(|next| next.to_string()).unwrap_or_default();
        Ok((!is_nowhere).then(|| records(&trail.records, redaction, &next)))
    })
    .await
}

/// The trips and resets of one circuit.
#[get("/bus/circuits/{key}/log")]
pub(crate) async fn circuit(
    who: BusCaller,
    key: web::Path<String>,
    parameters: Parameters,
    bus: web::Data<BusSystem>,
    settings: web::Data<LogSettings>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let key = key.parse::<CircuitKey>();
    let key =
        key.map_err(|error| refuse(StatusCode::BAD_REQUEST, "bad_request", &error.to_string()))?;
    let pairs = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let after = read_after(pairs).map_err(|bad| bad_parameter(&bad))?;
    search(&bus, &settings, move |reader, redaction| {
        let notes = reader.fact_events(&circuit_fact(&key), after)?;
        let shown = notes.lines.iter().map(|line| line.get().to_owned());
        let shown: Vec<_> = shown.map(|line| redaction.apply(line)).collect();
        let next = notes.next.map(|next| next.to_string()).unwrap_or_default();
        Ok(Some(format!("{{\"events\":[{}],\"nextCursor\":\"{next}\"}}", shown.join(","))))
    })
    .await
}

#[get("/bus/log/head")]
pub(crate) async fn current_head(
    who: BusCaller,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let head = bus.reader().head();
    Ok(HttpResponse::Ok().json(json!({ "head": head.to_string(), "seq": head.seq })))
}

#[get("/bus/log/verify")]
pub(crate) async fn verify(
    who: BusCaller,
    parameters: Parameters,
    bus: web::Data<BusSystem>,
    settings: web::Data<LogSettings>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let mut known = Vec::new();
    for (name, value) in parameters.iter() {
        let problem = match name.as_str() {
            "head" => match value.parse::<Head>() {
                Ok(head) => {
                    known.push(head);
                    continue;
                }
                Err(error) => error.to_string(),
            },
            _ => "is not known here; known is head".to_owned(),
        };
        return Err(bad_parameter(&BadParameter { name: name.clone(), problem }));
    }
    let Ok(turn) = Arc::clone(&settings.verifying).try_acquire_owned() else {
        let detail = "The journal is being verified already. Try again when that is done.";
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail));
    };
    let reader = bus.reader();
    let verified = web::block(move || {
        let _turn = turn;
        reader.verify(&known).map(|whole| (whole.unproven(&known), whole))
    });
    match verified.await {
        Ok(Ok((Some(head), whole))) => {
            let problem = unproven(head, whole.from);
            Ok(HttpResponse::Ok().json(json!({ "ok": false, "seq": head.seq, "problem": problem })))
        }
        Ok(Ok((None, whole))) => Ok(HttpResponse::Ok().json(json!({
            "ok": true,
            "records": whole.records,
            "lines": whole.lines,
            "from": whole.from,
            "head": whole.head.to_string(),
        }))),
        Ok(Err(VerifyError::Fault(fault))) => Ok(HttpResponse::Ok().json(json!({
            "ok": false,
            "line": fault.line,
            "seq": fault.seq,
            "problem": fault.to_string(),
        }))),
        Ok(Err(error)) => {
            tracing::error!(%error, "the journal could not be verified");
            let detail = format!("The journal could not be verified: {error}.");
            Err(refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal", &detail))
        }
        Err(_) => Err(unreadable(&ReadError::Closed)),
    }
}

/// Runs a search when it has a permit; `None` if the message does not exist.
async fn search(
    bus: &BusSystem,
    settings: &web::Data<LogSettings>,
    question: impl FnOnce(&dyn JournalReader, &Redaction) -> Result<Option<String>, ReadError>
    + Send
    + 'static,
) -> actix_web::Result<HttpResponse> {
    let turn = Arc::clone(&settings.searching).acquire_owned().await;
    let (reader, settings) = (bus.reader(), settings.clone());
    let answer = web::block(move || {
        let _turn = turn; // the caller may leave before the search ends
        question(reader.as_ref(), &settings.redaction())
    });
    match answer.await.unwrap_or(Err(ReadError::Closed)) {
        Ok(Some(body)) => Ok(HttpResponse::Ok().content_type("application/json").body(body)),
        Ok(None) => {
            let detail = "The log has no such message.";
            Err(refuse(StatusCode::NOT_FOUND, "not_found", detail))
        }
        Err(error) => Err(unreadable(&error)),
    }
}

/// A missing line is not proven to be removed, so the error names what could not be verified.
#[must_use]
pub fn unproven(head: Head, from: u64) -> String {
    format!("head {head} cannot be proven: the log says that lines before {from} were removed")
}

fn unreadable(error: &ReadError) -> actix_web::Error {
    if matches!(error, ReadError::Closed) {
        let detail = "The bus is stopping.";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
    }
    if matches!(error, ReadError::Reopening) {
        let detail = "The log's index failed and is being opened again. Ask again in a moment.";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
    }
    tracing::error!(%error, "the log could not be read");
    let detail = "The log could not be read; the program's own log says why.";
    refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
}

fn bad_parameter(bad: &BadParameter) -> actix_web::Error {
    refuse(StatusCode::BAD_REQUEST, "bad_request", &format!("{bad}."))
}

fn records(records: &[StoredRecord], redaction: &Redaction, next: &str) -> String {
    let shown: Vec<_> =
        records.iter().map(|record| redaction.apply(with_deliveries(record))).collect();
    format!("{{\"records\":[{}],\"nextCursor\":\"{next}\"}}", shown.join(","))
}

/// A record's line with the events so far. Events beyond the limit of one response are counted.
#[must_use]
pub fn with_deliveries(record: &StoredRecord) -> String {
    let events = record.deliveries.iter().map(|event| event.get());
    joined(record.line.get(), events, record.more_deliveries)
}

/// A record's line with the lines of its events, byte for byte as in the log. Each event also gets
/// the time that passed since the record.
pub fn joined<'a>(line: &str, events: impl Iterator<Item = &'a str>, more: u64) -> String {
    let line = line.trim_end();
    let time = a2a_journal::time_of(line);
    let open = line.strip_suffix('}').unwrap_or(line);
    let mut whole = format!("{open},\"deliveries\":[");
    for (n, event) in events.enumerate() {
        if n > 0 {
            whole.push(',');
        }
        let after = time.zip(a2a_journal::time_of(event)).map(|(time, then)| then - time);
        match (event.strip_suffix('}'), after) {
            (Some(open), Some(after)) => {
                // A clock that was set back must not give a negative time.
                let ms = after.num_milliseconds().max(0);
                whole.push_str(&format!("{open},\"afterMs\":{ms}}}"));
            }
            _ => whole.push_str(event),
        }
    }
    whole.push(']');
    if more > 0 {
        whole.push_str(&format!(",\"moreDeliveries\":{more}"));
    }
    whole.push('}');
    whole
}

/// Descriptions of the routes of the log for the OpenAPI document.
pub(crate) fn operations() -> Vec<Operation> {
    let records = object(&[("records", array(&named("Record"))), ("nextCursor", next_cursor())]);
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
        filtered(Operation::new("GET", "/bus/log", "listRecords", "log", "List records, newest first"))
            .description("A page may be short or empty and still have a `nextCursor`: continue until that is empty. An unknown or repeated parameter is refused.")
            .query("limit", limit.clone(), &about)
            .query("cursor", text(), "The `nextCursor` of the page before")
            .json(200, "A page", &records)
            .problems(&[500]),
        stream::operation(),
        Operation::new("GET", "/bus/log/{messageId}", "showRecords", "log", "Show the records of a message, oldest first")
            .query("limit", limit, &about)
            .query("cursor", text(), "The `nextCursor` of the part before")
            .json(200, "Its records", &records)
            .problems(&[500]),
        Operation::new("GET", "/bus/log/head", "showHead", "log", "Show the head of the log, to be kept elsewhere")
            .json(200, "`SEQ:HASH`", &head),
        Operation::new("GET", "/bus/log/verify", "verifyLog", "log", "Verify the hash chain of the log")
            .description("Checks the index. One at a time.")
            .query("head", text(), "A head `SEQ:HASH` that was kept; may be there several times")
            .json(200, "The verdict", &verdict)
            .problems(&[500]),
        rebuild::operation(),
        Operation::new("GET", "/bus/circuits/{key}/log", "showCircuitLog", "log", "List the events of a circuit, oldest first")
            .query("cursor", text(), "The `nextCursor` of the part before")
            .json(200, "Its events", &object(&[("events", array(&named("Event"))), ("nextCursor", next_cursor())]))
            .problems(&[500]),

    ]
}

fn next_cursor() -> Value {
    json!({ "type": "string", "description": "Where to continue; empty at the end." })
}

/// Adds the parameters that filter records.
fn filtered(call: Operation) -> Operation {
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

/// A line of the log as the journal writes it; docs/log.md has every field.
pub(crate) fn schemas() -> Map<String, Value> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_say_how_long_after_the_record_they_happened() {
        let line = |seq: u64, time: &str, word: &str| {
            format!(r#"{{"seq":{seq},"time":"2026-02-21T{time}Z","{word}":"x","hash":"0"}}"#)
        };
        let record = line(1, "18:30:00.100", "outcome");
        let events = [
            line(2, "18:30:00.104", "event"),
            line(3, "18:30:00.099", "event"),
            line(4, "18:31:00.100", "event"),
            r#"{"seq":5,"time":"never"}"#.to_owned(),
        ];
        let whole = joined(&record, events.iter().map(String::as_str), 0);
        let whole: serde_json::Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(whole["seq"], 1);
        let after: Vec<_> =
            whole["deliveries"].as_array().unwrap().iter().map(|event| &event["afterMs"]).collect();
        assert_eq!(json!(after), json!([4, 0, 60_000, null]));
        let alone: serde_json::Value =
            serde_json::from_str(&joined(&record, std::iter::empty(), 0)).unwrap();
        assert_eq!(alone["deliveries"], json!([]));
    }
}
