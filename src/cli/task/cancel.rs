//! `openclaw-a2a task cancel`: cancels a task.

use serde_json::json;
use serde_json::value::RawValue;

use super::lookup::{A2aTask, TaskLookup};
use super::{TaskRef, no_task};
use crate::cli::server::Server;
use crate::cli::server_locator::ServerLocator;
use crate::cli::{Answer, Global, format};

pub(super) fn run(
    named: &TaskRef,
    reason: Option<&str>,
    global: &Global,
) -> anyhow::Result<Answer> {
    let server = ServerLocator::from_options(global)?.require_server()?;
    let found = TaskLookup::find(&server, named.task, named.agent.as_ref())?;
    if found.is_nothing() {
        return Ok(no_task(named));
    }
    let answer = cancel(&server, named, &found, reason)?;
    format::document(global.format, answer.get(), |out| {
        writeln!(out, "task {} is cancelled", named.task)?;
        Ok(writeln!(out, "\nnext: openclaw-a2a log --task {}", named.task)?)
    })?;
    Ok(Answer::Yes)
}

/// Cancels an A2A task through A2A, which notifies its caller and updates the ledger.
fn cancel(
    server: &Server,
    named: &TaskRef,
    found: &TaskLookup,
    reason: Option<&str>,
) -> anyhow::Result<Box<RawValue>> {
    let id = named.task;
    let why = reason.map_or(json!({}), |reason| json!({ "reason": reason }));
    match &found.a2a {
        Some(raw) => {
            let A2aTask { agent_id, .. } = format::read(raw)?;
            let body = json!({ "metadata": why });
            server.call(&format!("/agents/{agent_id}/tasks/{id}:cancel"), &body)
        }
        None => server.call(&format!("/bus/tasks/{id}/cancel"), &why),
    }
}
