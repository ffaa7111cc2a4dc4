//! `GET /bus/agents`: who is there.

use a2a_actors::BusSystem;
use actix_web::{HttpResponse, get, web};
use serde_json::json;

#[get("/bus/agents")]
pub(super) async fn list(bus: web::Data<BusSystem>) -> HttpResponse {
    HttpResponse::Ok().json(json!({ "agents": bus.agents().await }))
}
