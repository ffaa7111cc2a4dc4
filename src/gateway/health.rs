//! `GET /healthz` and `GET /readyz`.

use actix_web::{HttpResponse, get};
use serde_json::json;

#[get("/healthz")]
pub(super) async fn live() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

#[get("/readyz")]
pub(super) async fn ready() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ready" }))
}
