//! Health checks: `GET /healthz` for liveness, `GET /readyz` for readiness to accept messages and
//! tasks.

use crate::openapi::{Operation, literal, object, text};
use std::time::Duration;

use a2a_actors::{BusSystem, Writing};
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use serde_json::{Map, Value, json};

use crate::a2a::A2a;
use crate::observability::http_metrics::{HttpMetrics, Phase};
use crate::problem::problem_with;

/// The router answers in microseconds, behind a burst in milliseconds.
const ANSWER: Duration = Duration::from_secs(2);

#[get("/healthz")]
pub(crate) async fn live() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

/// The state of one part of the program.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// Its state as a label.
    state: &'static str,
    /// What is wrong with it; `None` when it is healthy.
    fault: Option<String>,
    /// Whether readiness depends on it.
    needed: bool,
}

impl Part {
    pub(crate) fn is_well(&self) -> bool {
        self.fault.is_none()
    }

    /// Whether readiness depends on it.
    pub(crate) fn is_needed(&self) -> bool {
        self.needed
    }

    fn needed(name: &'static str, state: &'static str, fault: Option<String>) -> Self {
        Self { name, state, fault, needed: true }
    }
}

/// The state of every part, in the order of the response.
pub(crate) async fn parts(http_metrics: &HttpMetrics, bus: &BusSystem, a2a: &A2a) -> Vec<Part> {
    let phase = http_metrics.phase();
    let moves = "The server is starting or stopping. Ask again, or ask another one.";
    let mut parts = vec![
        Part::needed("server", phase.as_str(), (phase != Phase::Ready).then(|| moves.to_owned())),
        store("journal", bus.stats().journal(), "is accepted"),
        of_bus(bus).await,
        store("task_store", a2a.tasks().stats().store(), "of a task is accepted"),
        index(bus),
    ];
    // Checked last, because a part may end while the others are asked.
    for ended in bus.liveness().ended() {
        let detail = format!("{ended}. The program ends by itself; start it again.");
        let part = Part::needed(ended.part, "ended", Some(detail));
        match parts.iter_mut().find(|known| known.name == ended.part) {
            Some(known) => *known = part,
            None => parts.push(part),
        }
    }
    parts
}

fn store(name: &'static str, writing: Writing, accepted: &str) -> Part {
    let fault = match writing {
        Writing::Yes => None,
        Writing::Refusing => Some(format!(
            "The last write failed, so nothing {accepted}. It is tried again several times a second; if this stays, see the program's log and look at the disk."
        )),
        Writing::Stalled(took) => Some(format!(
            "A write has been under way for {:.1} s. Nothing {accepted} before it ends; look at the disk.",
            took.as_secs_f64()
        )),
        Writing::Broken => Some(format!(
            "An fsync failed, so what the disk holds is not known and nothing {accepted}. Start the program anew: it recovers what was promised."
        )),
    };
    Part::needed(name, writing.as_str(), fault)
}

/// Whether the router answers and would accept a message.
async fn of_bus(bus: &BusSystem) -> Part {
    let (state, fault) = match tokio::time::timeout(ANSWER, bus.refuses()).await {
        Ok(Ok(None)) => ("accepting", None),
        Ok(Ok(Some(why))) => ("refusing", Some(why.to_owned())),
        Ok(Err(_)) => ("ended", Some("The router has ended; nothing is accepted.".to_owned())),
        Err(_) => {
            let detail = format!("The router has not answered for {} s.", ANSWER.as_secs());
            ("silent", Some(detail))
        }
    };
    Part::needed("bus", state, fault)
}

/// Messages are accepted without it.
fn index(bus: &BusSystem) -> Part {
    let reader = bus.reader();
    let fault = reader.index_fault().map(|fault| {
        format!(
            "The journal's index cannot be written ({fault}); {} lines are in the log alone. Messages are accepted; it is tried again after pauses of up to a minute. Look at the disk.",
            reader.unindexed()
        )
    });
    let state = if fault.is_some() { "failing" } else { "writing" };
    Part { name: "index", state, fault, needed: false }
}

#[get("/readyz")]
pub(crate) async fn ready(
    http_metrics: web::Data<HttpMetrics>,
    bus: web::Data<BusSystem>,
    a2a: web::Data<A2a>,
) -> HttpResponse {
    let all = parts(&http_metrics, &bus, &a2a).await;
    let parts: Map<_, _> =
        all.iter().map(|part| (part.name.to_owned(), json!(part.state))).collect();
    let why = |needed: bool| -> Vec<Value> {
        let faulty = all.iter().filter(|part| part.needed == needed);
        let faults = faulty.filter_map(|part| Some((part.name, part.fault.as_ref()?)));
        faults.map(|(part, detail)| json!({ "part": part, "detail": detail })).collect()
    };
    let (reasons, degraded) = (why(true), why(false));
    let Some(first) = reasons.first() else {
        let mut body = json!({ "status": "ready", "parts": parts });
        if !degraded.is_empty() {
            body["degraded"] = degraded.into();
        }
        return HttpResponse::Ok().json(body);
    };
    let detail = first["detail"].as_str().unwrap_or_default().to_owned();
    let mut more = vec![("parts", Value::from(parts)), ("reasons", reasons.into())];
    if !degraded.is_empty() {
        more.push(("degraded", degraded.into()));
    }
    problem_with(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &detail, more)
}

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations() -> Vec<Operation> {
    let states = object(&[
        ("server", text()),
        ("journal", text()),
        ("bus", text()),
        ("task_store", text()),
        ("index", text()),
    ]);
    vec![
        Operation::new("GET", "/healthz", "isAlive", "server", "Check that the program answers")
            .public()
            .json(200, "It does", &object(&[("status", literal("ok"))])),
        Operation::new("GET", "/readyz", "isReady", "server", "Check that messages are accepted")
            .public()
            .description("503 while a message sent now would not be accepted: the server starts or stops, the last write failed, one takes longer than 5 s, or a part of the program has ended. `reasons` states which part and why. `degraded` names what does not work though messages are accepted.")
            .json(200, "It does", &object(&[("status", literal("ready")), ("parts", states)])),
    ]
}
