//! `GET /healthz`: the program answers. `GET /readyz`: it also accepts messages and tasks.

use a2a_actors::BusSystem;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use serde_json::json;

use super::a2a::A2a;
use super::problem::problem_with;
use super::vitals::{Phase, Vitals};

#[get("/healthz")]
pub(super) async fn live() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

/// The parts that must be well, each with whether it is and how it stands.
pub(super) fn parts(
    vitals: &Vitals,
    bus: &BusSystem,
    a2a: &A2a,
) -> [(&'static str, bool, &'static str); 3] {
    let word = |writing: bool| if writing { "writing" } else { "refusing" };
    let (phase, journal) = (vitals.phase(), bus.stats().is_writing());
    let tasks = a2a.tasks().stats().is_writing();
    [
        ("server", phase == Phase::Ready, phase.as_str()),
        ("journal", journal, word(journal)),
        ("task_store", tasks, word(tasks)),
    ]
}

#[get("/readyz")]
pub(super) async fn ready(
    vitals: web::Data<Vitals>,
    bus: web::Data<BusSystem>,
    a2a: web::Data<A2a>,
) -> HttpResponse {
    let all = parts(&vitals, &bus, &a2a);
    let parts: serde_json::Map<_, _> =
        all.iter().map(|(part, _, word)| ((*part).to_owned(), json!(word))).collect();
    let Some((part, ..)) = all.iter().find(|(_, is_well, _)| !is_well) else {
        return HttpResponse::Ok().json(json!({ "status": "ready", "parts": parts }));
    };
    let detail = match *part {
        "server" => "The server is starting or stopping. Ask again, or ask another one.",
        "journal" => {
            "The journal cannot be written, so nothing is accepted. If this stays, see the program's log and start it anew."
        }
        _ => {
            "The task store cannot be written, so no task is accepted. If this stays, see the program's log and look at the disk."
        }
    };
    problem_with(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail, ("parts", parts.into()))
}
