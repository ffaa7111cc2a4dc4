//! `openclaw-a2a task delete`: removes an A2A task that has ended from the task store.

use a2a_protocol::TaskId;

use super::{Named, no_task};
use crate::cli::place::Place;
use crate::cli::{Answer, Global, format};

pub(super) fn run(task: TaskId, global: &Global) -> anyhow::Result<Answer> {
    let server = Place::of(global)?.must_have_server()?;
    let Some(answer) = server.delete_found(&format!("/bus/tasks/{task}/a2a"))? else {
        return Ok(no_task(&Named { task, agent: None }));
    };
    format::document(global.format, answer.get(), |out| {
        writeln!(out, "task {task} is deleted")?;
        Ok(writeln!(out, "\nnext: openclaw-a2a log --task {task}")?)
    })?;
    Ok(Answer::Yes)
}
