//! `openclaw-a2a task list`: lists tasks of both origins, the last changed first.

use std::collections::HashSet;

use a2a_protocol::task::TaskState as A2aState;
use a2a_protocol::{AgentId, AssignmentState, CorrelationId};
use anstyle::{AnsiColor, Style};
use anyhow::bail;

use super::lookup::{TaskOrigin, TaskPage, TaskRow, a2a_state};
use crate::cli::human::timestamp;
use crate::cli::server::{Parameters, Server};
use crate::cli::server_locator::ServerLocator;
use crate::cli::table::{Cell, Table};
use crate::cli::{Answer, Global, format};

/// Maximum page size of A2A tasks.
const PAGE: usize = 100;
/// Maximum page size of the ledger.
const LEDGER: usize = 1_000;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a task list
  openclaw-a2a task list --agent tim --state working
  openclaw-a2a task list --overdue
  openclaw-a2a task list --of a2a \\
    --context 0192a4c8-7e1a-7b3c-9d4e-000000000005
  openclaw-a2a task list --format jsonl | jq 'select(.of == \"bus\") | .taskId'

OF says which sort a task is: `a2a`, asked for by an A2A caller, or `bus`, asked for by an agent or a person on the
bus. One of A2A that is being worked on is in the ledger of the bus as well; it is shown once, as A2A reports it,
unless --of bus asks for the ledger. FOR asked for it, BY does it.

Exit codes: 0 success, 2 the server could not be asked.")]
pub(super) struct Args {
    /// Agent that is the assignee or takes part
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// State, such as working, requested, input-required or completed
    #[arg(long, value_name = "STATE", value_parser = state_filter)]
    state: Option<StateFilter>,
    /// Conversation: a contextId of A2A, or a correlationId of the bus
    #[arg(long, value_name = "ID")]
    context: Option<String>,
    /// Maximum number of tasks
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Only tasks of the bus that are overdue: past their deadline, or without news for too long
    #[arg(long)]
    overdue: bool,
    /// Origin of the task
    #[arg(long, value_name = "SORT")]
    of: Option<TaskOrigin>,
}

/// The states that a name selects, per origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StateFilter {
    a2a: Option<A2aState>,
    bus: Option<AssignmentState>,
}

fn state_filter(word: &str) -> Result<StateFilter, String> {
    let plain = word.to_ascii_lowercase().replace('_', "-");
    // The origins spell some states differently; either spelling selects both.
    let same =
        |one: &str| one == plain || (one.starts_with("cancel") && plain.starts_with("cancel"));
    let a2a = A2aState::ALL.iter().copied().find(|state| same(&a2a_state(*state)));
    let bus = AssignmentState::ALL.iter().copied().find(|state| same(state.as_str()));
    if a2a.is_none() && bus.is_none() {
        let mut all: Vec<_> = AssignmentState::ALL.iter().map(ToString::to_string).collect();
        all.extend(A2aState::ALL.iter().map(|state| a2a_state(*state)));
        all.sort();
        all.dedup();
        return Err(format!("this must be one of {}", all.join(", ")));
    }
    Ok(StateFilter { a2a, bus })
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let wants = |of: TaskOrigin| args.of.is_none_or(|only| only == of);
    let fits = |of: TaskOrigin| match (args.state, of) {
        (None, _) => true,
        (Some(state), TaskOrigin::A2a) => state.a2a.is_some(),
        (Some(state), TaskOrigin::Bus) => state.bus.is_some(),
    };
    if let Some(of) = args.of.filter(|of| !fits(*of)) {
        bail!("no task of the sort `{}` is ever in that state; leave --of out", of.word());
    }
    let server = ServerLocator::from_options(global)?.require_server()?;
    let mut rows = Vec::new();
    // Only the ledger marks tasks as overdue; A2A tasks end after a timeout.
    if wants(TaskOrigin::A2a) && fits(TaskOrigin::A2a) && !args.overdue {
        rows.extend(a2a_tasks(&server, args)?);
    }
    if wants(TaskOrigin::Bus) && fits(TaskOrigin::Bus) {
        let shown: HashSet<_> = rows.iter().map(|row: &TaskRow| row.id).collect();
        let others = bus_tasks(&server, args)?;
        rows.extend(others.into_iter().filter(|row| !shown.contains(&row.id)));
    }
    rows.sort_by(|a, b| b.changed.cmp(&a.changed).then(b.id.cmp(&a.id)));
    rows.truncate(args.limit);
    let (rows, raw): (Vec<_>, Vec<_>) = rows.into_iter().map(TaskRow::apart).unzip();
    format::list(global.format, "tasks", &raw, |out| {
        if rows.is_empty() {
            writeln!(out, "there are no such tasks")?;
            return Ok(());
        }
        let mut table = Table::new(["ID", "OF", "STATE", "FOR", "BY", "CHANGED", "ABOUT"]);
        rows.into_iter().for_each(|row| table.row(row));
        table.write(out)
    })?;
    Ok(Answer::Yes)
}

impl TaskRow {
    /// Cells for text, raw JSON for programs.
    fn apart(self) -> ([Cell; 7], Box<serde_json::value::RawValue>) {
        let style = state_style(&self.state);
        let cells = [
            Cell::fixed(self.id.to_string()),
            self.of.word().into(),
            Cell::from(self.state).styled(style),
            self.owner.into(),
            self.agent.into(),
            Cell::fixed(timestamp(self.changed)),
            self.about.into(),
        ];
        (cells, self.raw)
    }
}

/// Colour of a state: green completed, red failed or refused, yellow waiting for input.
fn state_style(state: &str) -> Style {
    let colour = match state {
        "completed" => AnsiColor::Green,
        "failed" | "declined" | "rejected" => AnsiColor::Red,
        "blocked" | "input-required" | "auth-required" | "reopened" => AnsiColor::Yellow,
        "working" | "accepted" => AnsiColor::Cyan,
        _ => return Style::new(),
    };
    Style::new().fg_color(Some(colour.into()))
}

fn a2a_tasks(server: &Server, args: &Args) -> anyhow::Result<Vec<TaskRow>> {
    let mut question = agent_of(args);
    question.extend(args.context.clone().map(|context| ("context", context)));
    let state = args.state.and_then(|state| state.a2a);
    question.extend(state.map(|state| ("state", state.as_str().to_owned())));
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    while rows.len() < args.limit {
        let limit = PAGE.min(args.limit - rows.len());
        let place = [("limit", limit.to_string()), ("cursor", cursor)];
        let page = ask(server, "/bus/tasks/a2a", &[question.as_slice(), &place].concat())?;
        for raw in &page.tasks {
            rows.push(TaskRow::of_a2a(raw)?);
        }
        cursor = page.next_cursor;
        if cursor.is_empty() {
            break;
        }
    }
    Ok(rows)
}

fn bus_tasks(server: &Server, args: &Args) -> anyhow::Result<Vec<TaskRow>> {
    let mut question = agent_of(args);
    if let Some(context) = &args.context {
        // A context id that is no UUID can only be of A2A.
        let Ok(correlation) = context.parse::<CorrelationId>() else { return Ok(Vec::new()) };
        question.push(("correlation", correlation.to_string()));
    }
    let state = args.state.and_then(|state| state.bus);
    question.extend(state.map(|state| ("state", state.to_string())));
    question.extend(args.overdue.then(|| ("overdue", "true".to_owned())));
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    while rows.len() < args.limit {
        let limit = LEDGER.min(args.limit - rows.len());
        let place = [("limit", limit.to_string()), ("cursor", cursor)];
        let page = ask(server, "/bus/tasks", &[question.as_slice(), &place].concat())?;
        for raw in &page.tasks {
            rows.push(TaskRow::of_bus(raw)?);
        }
        cursor = page.next_cursor;
        if cursor.is_empty() {
            break;
        }
    }
    Ok(rows)
}

fn agent_of(args: &Args) -> Vec<(&'static str, String)> {
    args.agent.iter().map(|agent| ("agent", agent.to_string())).collect()
}

fn ask(server: &Server, path: &str, question: Parameters<'_>) -> anyhow::Result<TaskPage> {
    server.ask(path, question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_filter_accepts_names_of_both_origins() {
        let state = |word| state_filter(word).map(|wanted| (wanted.a2a, wanted.bus));
        assert_eq!(state("working"), Ok((Some(A2aState::Working), Some(AssignmentState::Working))));
        assert_eq!(state("input_required"), Ok((Some(A2aState::InputRequired), None)));
        assert_eq!(state("requested"), Ok((None, Some(AssignmentState::Requested))));
        for word in ["canceled", "cancelled"] {
            assert_eq!(
                state(word),
                Ok((Some(A2aState::Canceled), Some(AssignmentState::Cancelled)))
            );
        }
        assert!(state("done").unwrap_err().contains("completed"));
    }
}
