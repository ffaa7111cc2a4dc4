//! `openclaw-a2a task`: lists, shows, watches, cancels and deletes tasks of A2A callers and of the
//! bus.

mod cancel;
mod list;
mod lookup;
mod renderer;
mod show;
mod watch;

use a2a_protocol::{AgentId, TaskId};

use lookup::{A2aTask, TaskLookup};

use super::server::Server;
use super::server_locator::ServerLocator;
use super::stdout::note;
use super::{Answer, Global, format};

/// List, show, watch, cancel or delete tasks
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// A task, optionally restricted to an agent.
#[derive(clap::Args)]
struct TaskRef {
    /// Task id
    task: TaskId,
    /// Only if this agent is its assignee or takes part in it
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List tasks, the last changed first
    List(list::Args),
    /// Show a task with its history and artifacts
    #[command(after_help = "\
Examples:
  openclaw-a2a task show 0192a4c8-7e1a-7b3c-9d4e-000000000003
  openclaw-a2a task show 0192a4c8-7e1a-7b3c-9d4e-000000000003 \\
    --format json | jq .bus.state

It is looked for among the tasks of A2A and in the ledger of the bus; one of A2A may be in both.

Exit codes: 0 it was shown, 1 there is none, 2 the server could not be asked.")]
    Show(TaskRef),
    /// Cancel a task: further answers are refused, and its agent is notified
    #[command(after_help = "\
Examples:
  openclaw-a2a task cancel 0192a4c8-7e1a-7b3c-9d4e-000000000003
  openclaw-a2a task cancel 0192a4c8-7e1a-7b3c-9d4e-000000000003 \\
    --reason 'no longer needed'

Exit codes: 0 it is cancelled, 1 there is none or it has ended, 2 it could not be done.")]
    Cancel {
        #[command(flatten)]
        named: TaskRef,
        /// Reason, for the agent
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Delete an A2A task that has ended, with its artifacts and history
    #[command(after_help = "\
Examples:
  openclaw-a2a task delete 0192a4c8-7e1a-7b3c-9d4e-000000000003
  openclaw-a2a task delete 0192a4c8-7e1a-7b3c-9d4e-000000000003 --format json

A running server is asked (see a2a.addr in the state folder). Who deleted it is an event in the log; the messages
of the task on the bus stay there. Without this, tasks that ended are removed after [tasks] ttl_days.

Exit codes: 0 it is deleted, 1 there is none or it has not ended, 2 it could not be done.")]
    Delete {
        /// Task id
        task: TaskId,
    },
    /// Watch a task until it ends: progress bars and messages of its agent
    #[command(after_help = "\
Examples:
  openclaw-a2a task watch 0192a4c8-7e1a-7b3c-9d4e-000000000003 --agent tim
  openclaw-a2a task watch 0192a4c8-7e1a-7b3c-9d4e-000000000003 --agent tim \\
    --format json | jq .statusUpdate

For tasks of A2A. A running server is asked (see a2a.addr in the state folder). On a terminal each tracker of the
task is a bar that moves; elsewhere each change is a line. With --format json each event is a line, as A2A 1.0
writes it. A task that has ended shows its end.

Exit codes: 0 the task is completed, 1 it ended in another way or there is none, 2 it could not be watched.")]
    Watch {
        /// Task id
        task: TaskId,
        /// Assignee [default: the host's own]
        #[arg(long, value_name = "ID")]
        agent: Option<AgentId>,
    },
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    match &args.verb {
        Verb::List(args) => list::run(args, global),
        Verb::Show(named) => show::run(named, global),
        Verb::Cancel { named, reason } => cancel::run(named, reason.as_deref(), global),
        Verb::Delete { task } => delete(*task, global),
        Verb::Watch { task, agent } => watch::run(*task, agent.as_ref(), global),
    }
}

/// Removes an A2A task that has ended from the task store.
fn delete(task: TaskId, global: &Global) -> anyhow::Result<Answer> {
    let server = ServerLocator::from_options(global)?.require_server()?;
    let Some(answer) = server.delete_found(&format!("/bus/tasks/{task}/a2a"))? else {
        return no_a2a_task(&server, task, "deleted");
    };
    format::document(global.format, answer.get(), |out| {
        writeln!(out, "task {task} is deleted")?;
        Ok(writeln!(out, "\nnext: openclaw-a2a log --task {task}")?)
    })?;
    Ok(Answer::Yes)
}

/// Notes that the task is not one of an A2A caller, or does not exist.
fn no_a2a_task(server: &Server, task: TaskId, what: &str) -> anyhow::Result<Answer> {
    let TaskLookup { a2a, bus } = TaskLookup::find(server, task, None)?;
    if let Some(found) = a2a {
        let agent = format::read::<A2aTask>(&found)?.agent_id;
        note(&format!("task {task} is one of the agent `{agent}`: --agent {agent}"));
    } else if bus.is_some() {
        note(&format!(
            "task {task} is not stored for an A2A caller, and only such tasks can be {what}; `openclaw-a2a task show {task}` shows what the bus knows"
        ));
    } else {
        return Ok(no_task(&TaskRef { task, agent: None }));
    }
    Ok(Answer::No)
}

/// Notes that the task does not exist.
fn no_task(named: &TaskRef) -> Answer {
    let whose = named.agent.as_ref().map(|agent| format!(" of {agent}")).unwrap_or_default();
    note(&format!("there is no task {}{whose}; see `openclaw-a2a task list`", named.task));
    Answer::No
}
