//! `GET /bus/tasks/a2a`: the tasks that A2A callers asked for, whoever asked and whoever does them.
//!
//! A2A itself shows a caller its own tasks at one agent. People have to see all of them, and an
//! agent what it does.

use a2a_protocol::AgentId;
use a2a_protocol::task::{ContextId, Task, TaskState};
use a2a_taskdb::{ListQuery, MAX_PAGE, StoredTask};
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use serde::{Deserialize, Serialize};

use super::a2a::A2a;
use super::auth::Who;
use super::problem::{agent_id, refuse};
use super::tasks::task_id;

#[derive(Deserialize)]
struct Filter {
    /// This one alone.
    task: Option<String>,
    agent: Option<String>,
    state: Option<TaskState>,
    context: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    tasks: Vec<Shown<'a>>,
    next_cursor: String,
}

/// A task with what A2A does not say of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    /// Who does it.
    agent_id: &'a AgentId,
    /// Who asked for it, such as `client:acme`.
    owner: &'a str,
    /// The conversation of its messages on the bus.
    correlation_id: String,
    task: &'a Task,
}

#[get("/bus/tasks/a2a")]
pub(super) async fn list(
    who: Who,
    filter: web::Query<Filter>,
    a2a: web::Data<A2a>,
) -> actix_web::Result<HttpResponse> {
    let asked = filter.agent.as_deref().map(agent_id).transpose()?;
    // An agent sees what it does.
    let agent = asked.or_else(|| who.agent().cloned());
    if let Some(agent) = &agent {
        who.must_be(agent)?;
    }
    if let Some(id) = &filter.task {
        let id = task_id(id)?;
        let found = a2a.tasks().whole(id).await.ok();
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
    let page = a2a.tasks().survey(query).await.map_err(|_| {
        let detail = "The tasks cannot be read right now; try again later.";
        refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    })?;
    let next = page.next_page_token.map(|token| token.to_string()).unwrap_or_default();
    Ok(answer(&page.tasks, next))
}

fn answer(tasks: &[StoredTask], next_cursor: String) -> HttpResponse {
    let shown = tasks.iter().map(|stored| Shown {
        agent_id: &stored.agent,
        owner: &stored.owner,
        correlation_id: stored.correlation.to_string(),
        task: &stored.task,
    });
    HttpResponse::Ok().json(Page { tasks: shown.collect(), next_cursor })
}
