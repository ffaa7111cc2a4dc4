//! An agent's inbox over HTTP: take messages, then acknowledge or give back each.

use std::time::Duration;

use a2a_actors::{BusSystem, Letter};
use a2a_protocol::{AgentId, MessageId};
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, post, web};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::problem::{inbox_problem, problem};

const LONGEST_WAIT: Duration = Duration::from_secs(60);
const MOST: usize = 100;

#[derive(Deserialize)]
struct Take {
    wait: Option<String>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Messages<'a> {
    messages: Vec<Taken<'a>>,
}

#[derive(Serialize)]
struct Taken<'a> {
    seq: u64,
    sender: &'a AgentId,
    attempt: u32,
    message: &'a RawValue,
}

#[get("/bus/agents/{id}/inbox")]
pub(super) async fn take(
    agent: web::Path<String>,
    query: web::Query<Take>,
    bus: web::Data<BusSystem>,
) -> HttpResponse {
    let agent = match agent.parse::<AgentId>() {
        Ok(agent) => agent,
        Err(error) => return problem(StatusCode::BAD_REQUEST, "bad_agent_id", &error.to_string()),
    };
    let wait = match query.wait.as_deref().map(duration) {
        None => Duration::ZERO,
        Some(Some(wait)) => wait.min(LONGEST_WAIT),
        Some(None) => {
            let detail = "`wait` is a time such as 30s, 500ms or 1m.";
            return problem(StatusCode::BAD_REQUEST, "bad_request", detail);
        }
    };
    let limit = query.limit.unwrap_or(10).clamp(1, MOST);
    match bus.pull(agent, limit, wait).await {
        Ok(letters) => HttpResponse::Ok().json(Messages { messages: taken(&letters) }),
        Err(error) => inbox_problem(error),
    }
}

fn taken(letters: &[Letter]) -> Vec<Taken<'_>> {
    letters
        .iter()
        .filter_map(|letter| {
            // An accepted message is JSON, so none is left out.
            let message = serde_json::from_slice::<&RawValue>(&letter.bytes).ok()?;
            let (seq, attempt) = (letter.seq, letter.attempt);
            Some(Taken { seq, sender: &letter.sender, attempt, message })
        })
        .collect()
}

/// `30s`, `500ms`, `2m`, or bare seconds.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    match &text[digits..] {
        "ms" => Some(Duration::from_millis(number)),
        "" | "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        _ => None,
    }
}

/// The two ids of a path, or the code and the sentence of what is wrong with one.
fn ids(path: &(String, String)) -> Result<(AgentId, MessageId), (&'static str, String)> {
    let agent = path.0.parse::<AgentId>().map_err(|error| ("bad_agent_id", error.to_string()))?;
    let id = path.1.parse::<MessageId>().map_err(|error| ("bad_uuid", error.to_string()))?;
    Ok((agent, id))
}

#[post("/bus/agents/{id}/inbox/{message}/ack")]
pub(super) async fn acknowledge(
    path: web::Path<(String, String)>,
    bus: web::Data<BusSystem>,
) -> HttpResponse {
    let (agent, id) = match ids(&path) {
        Ok(ids) => ids,
        Err((code, detail)) => return problem(StatusCode::BAD_REQUEST, code, &detail),
    };
    match bus.acknowledge(agent, id).await {
        Ok(()) => HttpResponse::Ok().json(json!({ "messageId": id, "event": "acknowledged" })),
        Err(error) => inbox_problem(error),
    }
}

#[derive(Deserialize, Default)]
struct Rejection {
    reason: Option<String>,
}

#[post("/bus/agents/{id}/inbox/{message}/nack")]
pub(super) async fn reject(
    path: web::Path<(String, String)>,
    body: Result<web::Bytes, actix_web::Error>,
    bus: web::Data<BusSystem>,
) -> HttpResponse {
    let (agent, id) = match ids(&path) {
        Ok(ids) => ids,
        Err((code, detail)) => return problem(StatusCode::BAD_REQUEST, code, &detail),
    };
    let body = match body {
        Ok(body) => body,
        Err(error) => {
            let status = error.as_response_error().status_code();
            let code =
                if status == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "bad_request" };
            return problem(status, code, &error.to_string());
        }
    };
    let rejection: Rejection = if body.is_empty() {
        Rejection::default()
    } else {
        match serde_json::from_slice(&body) {
            Ok(rejection) => rejection,
            Err(_) => {
                let detail = "The body is empty, or JSON such as {\"reason\": \"…\"}.";
                return problem(StatusCode::BAD_REQUEST, "bad_request", detail);
            }
        }
    };
    let reason = rejection.reason.unwrap_or_else(|| "given back without a reason".into());
    let reason: String = reason.chars().take(2_000).collect();
    match bus.reject(agent, id, reason).await {
        Ok(()) => HttpResponse::Ok().json(json!({ "messageId": id, "event": "attempt_failed" })),
        Err(error) => inbox_problem(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!(duration("30s"), Some(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        assert_eq!(duration("5"), Some(Duration::from_secs(5)));
        for bad in ["", "s", "-1s", "1h", "1.5s", "99999999999999999999s"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
