//! `/bus/tasks`: list, show and cancel the tasks of the ledger; list, show and delete A2A tasks.
//!
//! A2A itself shows a caller its own tasks at one agent. Operators see all of them, and an agent the
//! tasks it does.

use crate::openapi::{Operation, array, literal, object, text};
use schemars::SchemaGenerator;
use std::sync::Arc;

use a2a_actors::{BusSystem, CancelError, TaskFilter};
use a2a_policy::Assignment;
use a2a_protocol::fault::Fault;
use a2a_protocol::task::{ContextId, Task as A2aTask, TaskState as A2aTaskState};
use a2a_protocol::{AgentId, AssignmentState, BadUuid, TaskId};
use a2a_taskdb::{ListQuery, MAX_PAGE, StoredTask};
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, delete, get, post, web};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::a2a::A2a;
use crate::auth::BusCaller;
use crate::problem::{Reason, agent_id, cursor, refuse, status_of};

const MOST: usize = 1_000;

#[derive(Deserialize)]
struct LedgerFilter {
    agent: Option<String>,
    state: Option<AssignmentState>,
    correlation: Option<String>,
    overdue: Option<bool>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[get("/bus/tasks")]
pub(crate) async fn list(
    who: BusCaller,
    filter: web::Query<LedgerFilter>,
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
pub(crate) async fn show(
    who: BusCaller,
    id: web::Path<String>,
    bus: web::Data<BusSystem>,
) -> actix_web::Result<HttpResponse> {
    let id = task_id(&id)?;
    let concerns = |task: &Assignment| who.agent().is_none_or(|agent| task.concerns(agent));
    // The task of another agent looks like none.
    let task = bus.task(id).await.filter(concerns).ok_or_else(|| {
        refuse(StatusCode::NOT_FOUND, "unknown_task", &format!("There is no task {id}."))
    })?;
    Ok(HttpResponse::Ok().json(task))
}

#[post("/bus/tasks/{id}/cancel")]
pub(crate) async fn cancel(
    who: BusCaller,
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

pub(crate) fn task_id(text: &str) -> actix_web::Result<TaskId> {
    text.parse::<TaskId>()
        .map_err(|error| refuse(StatusCode::BAD_REQUEST, "bad_uuid", &error.to_string()))
}

#[derive(Deserialize)]
struct A2aFilter {
    /// This task alone.
    task: Option<String>,
    agent: Option<String>,
    state: Option<A2aTaskState>,
    context: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskPage<'a> {
    tasks: Vec<ShownTask<'a>>,
    next_cursor: String,
}

/// A task with its owner, agent and conversation, which A2A does not show.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownTask<'a> {
    /// The agent that does it.
    agent_id: &'a AgentId,
    /// The caller that asked for it, such as `client:acme`.
    owner: &'a str,
    /// The conversation of its messages on the bus.
    correlation_id: String,
    task: &'a A2aTask,
}

#[get("/bus/tasks/a2a")]
pub(crate) async fn list_a2a(
    who: BusCaller,
    filter: web::Query<A2aFilter>,
    a2a: web::Data<A2a>,
) -> actix_web::Result<HttpResponse> {
    let asked = filter.agent.as_deref().map(agent_id).transpose()?;
    // An agent sees the tasks it does.
    let agent = asked.or_else(|| who.agent().cloned());
    if let Some(agent) = &agent {
        who.must_be(agent)?;
    }
    if let Some(id) = &filter.task {
        let id = task_id(id)?;
        let found = a2a.tasks().get_any(id).await.ok();
        let found = found.filter(|stored| agent.as_ref().is_none_or(|a| stored.agent == *a));
        return Ok(answer(found.as_slice(), String::new()));
    }
    let bad = |text: String| refuse(StatusCode::BAD_REQUEST, "bad_request", &text);
    let context = filter.context.as_deref().map(ContextId::try_from).transpose();
    let cursor = filter.cursor.as_deref().filter(|cursor| !cursor.is_empty());
    let query = ListQuery {
        agent,
        status: filter.state,
        context: context.map_err(|error| bad(error.to_string()))?,
        page_size: filter.limit.unwrap_or(50).clamp(1, MAX_PAGE),
        page_token: cursor.map(str::parse).transpose().map_err(|_| {
            bad("`cursor` is no `nextCursor` of this list; leave it out to begin anew.".to_owned())
        })?,
        history_length: Some(0),
        ..ListQuery::default()
    };
    let page = a2a.tasks().list_all(query).await.map_err(|_| {
        let detail = "The tasks cannot be read right now; try again later.";
        refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    })?;
    let next = page.next_page_token.map(|token| token.to_string()).unwrap_or_default();
    Ok(answer(&page.tasks, next))
}

fn answer(tasks: &[StoredTask], next_cursor: String) -> HttpResponse {
    let shown = tasks.iter().map(|stored| ShownTask {
        agent_id: &stored.agent,
        owner: &stored.owner,
        correlation_id: stored.correlation.to_string(),
        task: &stored.task,
    });
    HttpResponse::Ok().json(TaskPage { tasks: shown.collect(), next_cursor })
}

/// Shows the whole A2A task behind a `task_request` to the agent that does it.
#[get("/bus/tasks/{id}/a2a")]
pub(crate) async fn whole(
    who: BusCaller,
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
        None => a2a.tasks().get_any(id).await.map(|stored| Arc::unwrap_or_clone(stored.task)),
    };
    Ok(HttpResponse::Ok().json(task.map_err(|_| none())?))
}

/// Deletes an A2A task that has ended, with its artifacts, history and webhooks.
#[delete("/bus/tasks/{id}/a2a")]
pub(crate) async fn remove(
    who: BusCaller,
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

/// Descriptions of the routes above for the OpenAPI document.
pub(crate) fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let task: Value = schemas.subschema_for::<Assignment>().into();
    let agent: Value = schemas.subschema_for::<AgentId>().into();
    let limit = json!({ "type": "integer", "minimum": 0, "default": 50 });
    let id = json!({ "type": "string", "format": "uuid" });
    let shown = object(&[
        ("agentId", agent.clone()),
        ("owner", text()),
        ("correlationId", id.clone()),
        ("task", schemas.subschema_for::<A2aTask>().into()),
    ]);
    let shown = object(&[("tasks", array(&shown)), ("nextCursor", text())]);
    let deleted = object(&[
        ("taskId", schemas.subschema_for::<TaskId>().into()),
        ("deleted", json!({ "type": "boolean" })),
    ]);
    let cancelled = object(&[
        ("taskId", schemas.subschema_for::<TaskId>().into()),
        ("state", literal("cancelled")),
    ]);
    vec![
        Operation::new(
            "GET",
            "/bus/tasks",
            "listLedgerTasks",
            "oversight",
            "List tasks of the ledger, last changed first",
        )
        .query("agent", agent.clone(), "That it has a part in; an agent sees only its own")
        .query("state", schemas.subschema_for::<AssignmentState>().into(), "In this state")
        .query("correlation", id.clone(), "Of this conversation")
        .description("A page may be short or empty and still have a `nextCursor`: continue until that is empty.")
        .query(
            "overdue",
            json!({ "type": "boolean" }),
            "Only those that are marked overdue, or that are not",
        )
        .query("limit", limit.clone(), "How many, 1 to 1,000; others are taken for the nearest")
        .query("cursor", text(), "The `nextCursor` of the page before")
        .json(200, "A page of tasks", &object(&[("tasks", array(&task)), ("nextCursor", text())])),
        Operation::new(
            "GET",
            "/bus/tasks/a2a",
            "listA2aTasks",
            "oversight",
            "List A2A tasks of all callers and agents",
        )
        .query("task", id, "This one alone")
        .query("agent", agent.clone(), "That it does; an agent sees only its own")
        .query("state", schemas.subschema_for::<A2aTaskState>().into(), "In this state")
        .query("context", text(), "Of this conversation")
        .query("limit", limit, "How many, 1 to 100; others are taken for the nearest")
        .query("cursor", text(), "The `nextCursor` of the page before")
        .json(200, "A page, without histories", &shown),
        Operation::new(
            "GET",
            "/bus/tasks/{taskId}",
            "showLedgerTask",
            "oversight",
            "Show a task of the ledger",
        )
        .json(200, "The task", &task),
        Operation::new(
            "GET",
            "/bus/tasks/{taskId}/a2a",
            "showWholeTask",
            "oversight",
            "Show the whole A2A task behind a `task_request`",
        )
        .query("agent", agent, "As this agent sees it; an agent sees it as itself")
        .json(
            200,
            "The task, as A2A 1.0 writes it",
            &schemas.subschema_for::<A2aTask>().into(),
        ),
        Operation::new(
            "DELETE",
            "/bus/tasks/{taskId}/a2a",
            "deleteA2aTask",
            "oversight",
            "Delete an A2A task that has ended",
        )
        .description(
            "For people. Its artifacts, history and webhooks go with it; who deleted it is an \
             event in the log. A task of an objective is deleted when that has ended.",
        )
        .json(200, "It is deleted", &deleted)
        .problems(&[409]),
        Operation::new(
            "POST",
            "/bus/tasks/{taskId}/cancel",
            "cancelLedgerTask",
            "oversight",
            "Cancel a task",
        )
        .reason()
        .json(200, "It is cancelled", &cancelled)
        .problems(&[409]),
    ]
}
