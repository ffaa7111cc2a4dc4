//! Refusals: `application/problem+json` (RFC 9457) whose `code` is the outcome.

use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;

use a2a_actors::InboxError;
use a2a_protocol::{AgentId, Outcome, Receipt};
use actix_web::dev::Payload;
use actix_web::error::{
    InternalError, JsonPayloadError, PathError, PayloadError, QueryPayloadError, ResponseError,
};
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, HeaderValue, RETRY_AFTER};
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::openapi::known_calls;

/// Maps every outcome to its status, in one table.
pub(super) fn status_of(outcome: Outcome) -> StatusCode {
    match outcome {
        Outcome::Delivered | Outcome::Queued => StatusCode::ACCEPTED,
        Outcome::Duplicate => StatusCode::OK,
        Outcome::Conflict | Outcome::IllegalTransition | Outcome::CircuitOpen => {
            StatusCode::CONFLICT
        }
        Outcome::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        Outcome::Unauthorized => StatusCode::UNAUTHORIZED,
        Outcome::Forbidden | Outcome::NotAssignee => StatusCode::FORBIDDEN,
        Outcome::UnknownRecipient | Outcome::UnknownTask => StatusCode::NOT_FOUND,
        Outcome::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Outcome::QueueFull | Outcome::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The receipt as a response, or as a problem when the message was not accepted.
pub(super) fn answer(receipt: &Receipt) -> HttpResponse {
    let status = status_of(receipt.outcome);
    if status.is_success() {
        return HttpResponse::build(status).json(receipt);
    }
    let mut body = json!(receipt);
    body["type"] = json!("about:blank");
    body["title"] = json!(receipt.outcome.as_str().replace('_', " "));
    body["status"] = json!(status.as_u16());
    body["detail"] = json!(receipt.reason);
    body["code"] = json!(receipt.outcome);
    let mut response = HttpResponse::build(status);
    if let Some(wait) = receipt.retry_after_ms {
        response.insert_header((RETRY_AFTER, wait.div_ceil(1_000).to_string()));
    }
    problem_body(response, &body)
}

/// A problem that is not about a message.
pub(super) fn problem(status: StatusCode, code: &str, detail: &str) -> HttpResponse {
    problem_body(HttpResponse::build(status), &about(status, code, detail))
}

fn about(status: StatusCode, code: &str, detail: &str) -> Value {
    json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("problem"),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
    })
}

/// A problem with additional members.
pub(super) fn problem_with<'a>(
    status: StatusCode,
    code: &str,
    detail: &str,
    more: impl IntoIterator<Item = (&'a str, Value)>,
) -> HttpResponse {
    let mut body = about(status, code, detail);
    more.into_iter().for_each(|(field, value)| body[field] = value);
    problem_body(HttpResponse::build(status), &body)
}

fn problem_body(mut response: actix_web::HttpResponseBuilder, body: &Value) -> HttpResponse {
    response.content_type("application/problem+json").body(body.to_string())
}

pub(super) fn inbox_problem(error: InboxError) -> actix_web::Error {
    let (status, code) = match error {
        InboxError::NoSuchAgent => (StatusCode::NOT_FOUND, "unknown_recipient"),
        InboxError::NameTaken => (StatusCode::CONFLICT, "name_taken"),
        InboxError::NotTaken => (StatusCode::NOT_FOUND, "not_taken"),
        InboxError::Closed | InboxError::NotDurable => {
            (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
        }
    };
    refuse(status, code, &error.to_string())
}

/// A query parameter of another type.
pub(super) fn bad_query(error: QueryPayloadError, _: &HttpRequest) -> actix_web::Error {
    let detail = error.to_string();
    InternalError::from_response(error, problem(StatusCode::BAD_REQUEST, "bad_request", &detail))
        .into()
}

/// A path segment of another type.
pub(super) fn bad_path(error: PathError, _: &HttpRequest) -> actix_web::Error {
    let detail = error.to_string();
    InternalError::from_response(error, problem(StatusCode::BAD_REQUEST, "bad_request", &detail))
        .into()
}

/// A body that is not JSON, or not of the expected shape.
pub(super) fn bad_json(error: JsonPayloadError, _: &HttpRequest) -> actix_web::Error {
    if let JsonPayloadError::Payload(error) = &error {
        return bad_body(error);
    }
    if let JsonPayloadError::ContentType = &error {
        let detail = "The body must be JSON, and say so: `Content-Type: application/json`.";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_request", detail);
    }
    let status = error.status_code();
    let code = if status == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "bad_request" };
    let response = problem(status, code, &error.to_string());
    InternalError::from_response(error, response).into()
}

/// A body that was not received whole, in time, or within its limit.
pub(super) fn bad_body(error: &PayloadError) -> actix_web::Error {
    match error {
        PayloadError::Io(late) if late.kind() == std::io::ErrorKind::TimedOut => {
            let detail = format!("The request came too slowly: {late}.");
            refuse(StatusCode::REQUEST_TIMEOUT, "timeout", &detail)
        }
        PayloadError::Overflow => {
            refuse(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "The body is too large.")
        }
        error => refuse(StatusCode::BAD_REQUEST, "bad_request", &error.to_string()),
    }
}

/// A problem as the error of a handler, so that `?` returns it.
pub(super) fn refuse(status: StatusCode, code: &str, detail: &str) -> actix_web::Error {
    InternalError::from_response(detail.to_owned(), problem(status, code, detail)).into()
}

/// The cursor of a page; an empty one is `None`.
pub(super) fn cursor<T: FromStr>(text: Option<&str>) -> actix_web::Result<Option<T>> {
    let place = text.filter(|text| !text.is_empty()).map(str::parse).transpose();
    place.map_err(|_| {
        let detail = "`cursor` is no `nextCursor` of this list; leave it out to begin anew.";
        refuse(StatusCode::BAD_REQUEST, "bad_request", detail)
    })
}

/// Parses the agent id of a path or a query.
pub(super) fn agent_id(text: &str) -> actix_web::Result<AgentId> {
    text.parse::<AgentId>()
        .map_err(|error| refuse(StatusCode::BAD_REQUEST, "bad_agent_id", &error.to_string()))
}

/// No agent has this id.
pub(super) fn no_such_agent(agent: &AgentId) -> actix_web::Error {
    refuse(StatusCode::NOT_FOUND, "unknown_recipient", &format!("There is no agent `{agent}`."))
}

/// An optional body `{"reason": "…"}`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    reason: Option<String>,
}

impl Reason {
    /// The reason, truncated, or `nothing` without one.
    pub(super) fn or(self, nothing: &str) -> String {
        self.reason.unwrap_or_else(|| nothing.to_owned()).chars().take(2_000).collect()
    }
}

impl FromRequest for Reason {
    type Error = actix_web::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Self::Error>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let bytes = web::Bytes::from_request(request, payload);
        Box::pin(async move {
            let bytes = bytes.await.map_err(|error| match error.as_error::<PayloadError>() {
                Some(error) => bad_body(error),
                None => refuse(StatusCode::BAD_REQUEST, "bad_request", &error.to_string()),
            })?;
            if bytes.is_empty() {
                return Ok(Self::default());
            }
            let detail = "The body is empty, or JSON such as {\"reason\": \"…\"}.";
            let read = serde_json::from_slice(&bytes);
            read.map_err(|_| refuse(StatusCode::BAD_REQUEST, "bad_request", detail))
        })
    }
}

pub(super) async fn no_such_path(request: HttpRequest) -> HttpResponse {
    let verbs = known_calls::verbs(request.path());
    if !verbs.is_empty() {
        let allowed = verbs.join(", ");
        let detail = format!("This path takes {allowed}.");
        let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &detail);
        if let Ok(allowed) = HeaderValue::from_str(&allowed) {
            response.headers_mut().insert(ALLOW, allowed);
        }
        return response;
    }
    let detail = format!("There is nothing at {} {}.", request.method(), request.path());
    problem(StatusCode::NOT_FOUND, "not_found", &detail)
}
