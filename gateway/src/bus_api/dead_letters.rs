//! `/bus/dead-letters`: what was given up; sending it again, or letting it go.

use a2a_actors::BusSystem;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, post, web};
use serde_json::json;

use crate::auth::BusCaller;
use crate::problem::{agent_id, refuse};

#[get("/bus/dead-letters")]
pub(crate) async fn list(
    who: BusCaller,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    Ok(HttpResponse::Ok().json(json!({ "deadLetters": bus.dead_letters().await })))
}

#[post("/bus/dead-letters/{seq}/{agent}/{what}")]
pub(crate) async fn resolve(
    who: BusCaller,
    path: web::Path<(u64, String, String)>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let (seq, agent, what) = path.into_inner();
    let agent = agent_id(&agent)?;
    let (done, event) = match what.as_str() {
        "retry" => (bus.retry_dead_letter(seq, agent.clone()).await, "returned"),
        "drop" => (bus.drop_dead_letter(seq, agent.clone()).await, "dropped"),
        _ => {
            let detail = "A dead letter can be sent again (`retry`) or let go (`drop`).";
            return Err(refuse(StatusCode::NOT_FOUND, "not_found", detail));
        }
    };
    if !done {
        let detail = format!(
            "There is no dead letter {seq} of `{agent}`, or the task it asked for went on without it."
        );
        return Err(refuse(StatusCode::NOT_FOUND, "not_found", &detail));
    }
    Ok(HttpResponse::Ok().json(json!({ "seq": seq, "agentId": agent, "event": event })))
}
