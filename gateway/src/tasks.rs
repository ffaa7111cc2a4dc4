//! `/bus/tasks`: what is owed, how far it is, and calling it off.

use std::sync::Arc;

use a2a_actors::{BusSystem, CancelError, TaskFilter};
use a2a_policy::Task;
use a2a_protocol::fault::Fault;
use a2a_protocol::{BadUuid, TaskId, TaskState};
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, delete, get, post, web};
use serde::Deserialize;
use serde_json::json;

use super::a2a::A2a;
use super::auth::Who;
use super::problem::{Reason, agent_id, cursor, refuse, status_of};

const MOST: usize = 1_000;

#[derive(Deserialize)]
struct Filter {
    agent: Option<String>,
    state: Option<TaskState>,
    correlation: Option<String>,
    overdue: Option<bool>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[get("/bus/tasks")]
pub(super) async fn list(
    who: Who,
    filter: web::Query<Filter>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let asked = filter.agent.as_deref().map(agent_id).transpose()?;
    // An agent sees its own.
    let agent = asked.or_else(|| who.agent().cloned());
    if let Some(agent) = &agent {
        who.must_be(agent)?;
    }
    let limit = filter.limit.unwrap_or(50).clamp(1, MOST);
    let correlation = filter.correlation.as_deref().map(str::parse).transpose();
    let correlation = correlation.map_err(|error: BadUuid| {
        refuse(StatusCode::BAD_REQUEST, "bad_uuid", &error.to_string())
    })?;
    let wanted = TaskFilter { agent, state: filter.state, correlation, overdue: filter.overdue };
    let (tasks, next) = bus.tasks_page(wanted, cursor(filter.cursor.as_deref())?, limit).await;
    let next = next.map(|place| place.to_string()).unwrap_or_default();
    Ok(HttpResponse::Ok().json(json!({ "tasks": tasks, "nextCursor": next })))
}

#[get("/bus/tasks/{id}")]
pub(super) async fn show(
    who: Who,
    id: web::Path<String>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let id = task_id(&id)?;
    let concerns = |task: &Task| who.agent().is_none_or(|agent| task.concerns(agent));
    // Somebody else's looks like none.
    let task = bus.task(id).await.filter(concerns).ok_or_else(|| {
        refuse(StatusCode::NOT_FOUND, "unknown_task", &format!("There is no task {id}."))
    })?;
    Ok(HttpResponse::Ok().json(task))
}

#[post("/bus/tasks/{id}/cancel")]
pub(super) async fn cancel(
    who: Who,
    id: web::Path<String>,
    reason: Reason,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let id = task_id(&id)?;
    let by = who.agent().cloned();
    let cancelled = bus.cancel_task(id, by, reason.or("no reason given")).await;
    cancelled.map_err(|error| {
        let (status, code) = match &error {
            CancelError::Refused(refusal) => {
                (status_of(refusal.outcome()), refusal.outcome().as_str())
            }
            CancelError::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        refuse(status, code, &error.to_string())
    })?;
    Ok(HttpResponse::Ok().json(json!({ "taskId": id, "state": "cancelled" })))
}

pub(super) fn task_id(text: &str) -> actix_web::Result<TaskId> {
    text.parse::<TaskId>()
        .map_err(|error| refuse(StatusCode::BAD_REQUEST, "bad_uuid", &error.to_string()))
}

/// The A2A task behind a `task_request`, whole, for the agent that does it.
#[get("/bus/tasks/{id}/a2a")]
pub(super) async fn whole(
    who: Who,
    agent: web::Query<ForAgent>,
    id: web::Path<String>,
    a2a: web::Data<A2a>,
) -> actix_web::Result<HttpResponse> {
    let id = task_id(&id)?;
    let none = || refuse(StatusCode::NOT_FOUND, "unknown_task", &format!("There is no task {id}."));
    let asked = agent.agent.as_deref().map(agent_id).transpose()?;
    let agent = match (who.agent(), asked) {
        (Some(agent), _) => Some(agent.clone()),
        (None, asked) => asked,
    };
    let task = match agent {
        Some(agent) => a2a.tasks().get_as_agent(&agent, id).await,
        None => a2a.tasks().whole(id).await.map(|stored| Arc::unwrap_or_clone(stored.task)),
    };
    Ok(HttpResponse::Ok().json(task.map_err(|_| none())?))
}

/// Deletes an A2A task that has ended, with its artifacts, history and webhooks.
#[delete("/bus/tasks/{id}/a2a")]
pub(super) async fn remove(
    who: Who,
    id: web::Path<String>,
    a2a: web::Data<A2a>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let id = task_id(&id)?;
    let by = who.owner().unwrap_or_else(|| "a person of this machine".to_owned());
    a2a.tasks().delete(id, &by).await.map_err(|fault| {
        let (status, code) = match &fault {
            Fault::TaskNotFound { .. } => (StatusCode::NOT_FOUND, "unknown_task"),
            Fault::Unsupported { .. } => (StatusCode::CONFLICT, "illegal_transition"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        refuse(status, code, &fault.to_string())
    })?;
    Ok(HttpResponse::Ok().json(json!({ "taskId": id, "deleted": true })))
}

#[derive(Deserialize)]
struct ForAgent {
    agent: Option<String>,
}
