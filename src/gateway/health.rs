//! `GET /healthz`: the program answers. `GET /readyz`: it also accepts messages.

use a2a_actors::BusSystem;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use serde_json::json;

use super::problem::problem;

#[get("/healthz")]
pub(super) async fn live() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

#[get("/readyz")]
pub(super) async fn ready(bus: web::Data<BusSystem>) -> HttpResponse {
    if bus.stats().is_writing() {
        return HttpResponse::Ok().json(json!({ "status": "ready" }));
    }
    let detail = "The journal cannot be written, so nothing is accepted. If this stays, see the program's log and start it anew.";
    problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
}
