//! `openclaw-a2a task show`: shows one task of either origin, or of both.

use a2a_protocol::AgentId;
use a2a_protocol::task::Content;
use anstyle::Style;
use serde_json::json;

use super::lookup::{A2aTask, BusTask, TaskLookup, a2a_state};
use super::{TaskRef, no_task};
use crate::cli::human::{short, timestamp};
use crate::cli::server_locator::ServerLocator;
use crate::cli::stdout::{Out, sanitize};
use crate::cli::table::fields;
use crate::cli::{Answer, Global, format};

pub(super) fn run(named: &TaskRef, global: &Global) -> anyhow::Result<Answer> {
    let server = ServerLocator::from_options(global)?.require_server()?;
    let found = TaskLookup::find(&server, named.task, named.agent.as_ref())?;
    if found.is_nothing() {
        return Ok(no_task(named));
    }
    let answer = json!({"taskId": named.task, "a2a": found.a2a, "bus": found.bus});
    format::document(global.format, &answer.to_string(), |out| {
        let bold = Style::new().bold();
        writeln!(out, "{bold}task {}{bold:#}", named.task)?;
        let mut agent = None;
        let mut has_ended = true;
        if let Some(raw) = &found.a2a {
            let shown: A2aTask = format::read(raw)?;
            has_ended = shown.task.status.state.is_terminal();
            write_a2a(&shown, out)?;
            agent = Some(shown.agent_id);
        }
        if let Some(raw) = &found.bus {
            write_bus(&format::read(raw)?, out)?;
        }
        write_next(named, agent.filter(|_| !has_ended).as_ref(), out)
    })?;
    Ok(Answer::Yes)
}

fn write_a2a(shown: &A2aTask, out: &mut Out) -> anyhow::Result<()> {
    let task = &shown.task;
    writeln!(out, "of A2A")?;
    fields(
        out,
        &[
            ("state", Some(a2a_state(task.status.state))),
            ("for", Some(shown.owner.clone())),
            ("by", Some(shown.agent_id.to_string())),
            ("context", Some(task.context_id.to_string())),
            ("on the bus in", Some(shown.correlation_id.clone())),
            ("changed", Some(timestamp(task.status.timestamp.to_utc()))),
            ("status", task.status.message.as_ref().map(|said| said.text())),
        ],
    )?;
    for message in &task.history {
        let text = sanitize(&message.text());
        writeln!(out, "  {}: {text}", message.role.as_str().trim_start_matches("ROLE_"))?;
    }
    for artifact in &task.artifacts {
        let name = artifact.name.as_deref().unwrap_or(artifact.artifact_id.as_str());
        let texts = artifact.parts.iter().filter_map(|part| match &part.content {
            Content::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let texts: Vec<_> = texts.collect();
        writeln!(out, "  artifact {}: {}", short(name, 100), short(&texts.join(" "), 500))?;
    }
    Ok(())
}

fn write_bus(task: &BusTask, out: &mut Out) -> anyhow::Result<()> {
    writeln!(out, "in the ledger of the bus")?;
    let handed_on = task.handed_on_by.join(", ");
    fields(
        out,
        &[
            ("state", Some(task.state.to_string())),
            ("for", Some(task.requester.clone())),
            ("by", Some(task.assignee.clone())),
            ("handed on by", Some(handed_on).filter(|names| !names.is_empty())),
            ("conversation", Some(task.correlation_id.clone())),
            ("changed", Some(timestamp(task.changed))),
            ("deadline", task.deadline.map(timestamp)),
            ("more", Some(task.about()).filter(|text| !text.is_empty())),
        ],
    )
}

fn write_next(named: &TaskRef, watched: Option<&AgentId>, out: &mut Out) -> anyhow::Result<()> {
    let id = named.task;
    match watched {
        Some(agent) => writeln!(out, "\nnext: openclaw-a2a task watch {id} --agent {agent}")?,
        None => writeln!(out, "\nnext: openclaw-a2a log --task {id}")?,
    }
    Ok(())
}
