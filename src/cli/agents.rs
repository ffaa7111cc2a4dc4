//! `openclaw-a2a agents`: lists agents with their profile, presence and pending messages.

mod remove;

use anstyle::{AnsiColor, Style};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

use a2a_protocol::AgentId;

use super::human::timestamp;
use super::server::Server;
use super::server_locator::ServerLocator;
use super::table::{Cell, Table, fields};
use super::{Answer, Format, Global, format};

/// List agents: role, squad, sessions and pending messages
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a agents
  openclaw-a2a agents tim
  openclaw-a2a agents remove tim
  openclaw-a2a agents --format jsonl | jq 'select(.pending > 0)'

A running server is asked (see a2a.addr in the state folder). PENDING counts what waits or is being handled;
`openclaw-a2a inbox ID` shows it.

Exit codes: 0 success, 1 there is no such agent, 2 the server could not be asked.")]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,

    /// Show only this agent, with every field
    #[arg(value_name = "ID")]
    agent: Option<AgentId>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Remove an agent from the directory
    Remove(remove::Args),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentPage {
    agents: Vec<Box<RawValue>>,
    next_cursor: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentRow {
    agent_id: String,
    role: Option<String>,
    squad: Option<String>,
    tier: Option<String>,
    #[serde(default)]
    c_suite: bool,
    #[serde(default)]
    capabilities: Vec<String>,
    presence: String,
    last_seen: Option<DateTime<Utc>>,
    sessions: usize,
    pending: usize,
    #[serde(default)]
    pending_bytes: u64,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    if let Some(Verb::Remove(args)) = &args.verb {
        return remove::run(args, global);
    }
    let server = ServerLocator::from_options(global)?.require_server()?;
    match &args.agent {
        Some(agent) => show(&server, agent, global.format),
        None => list(&server, global.format),
    }
}

fn list(server: &Server, format: Format) -> anyhow::Result<Answer> {
    let agents = all(server)?;
    format::list(format, "agents", &agents, |out| {
        if agents.is_empty() {
            writeln!(out, "no agents yet; an agent is listed once it connects or takes messages")?;
            return Ok(());
        }
        let mut table =
            Table::new(["ID", "PRESENCE", "SESSIONS", "PENDING", "SQUAD", "TIER", "ROLE"]);
        for agent in &agents {
            let agent: AgentRow = format::read(agent)?;
            let text = |text: Option<String>| Cell::from(text.unwrap_or_default());
            table.row([
                Cell::fixed(&agent.agent_id),
                presence(&agent.presence),
                agent.sessions.to_string().into(),
                agent.pending.to_string().into(),
                text(agent.squad),
                text(agent.tier),
                text(agent.role),
            ]);
        }
        table.write(out)
    })?;
    Ok(Answer::Yes)
}

/// All agents, page by page.
fn all(server: &Server) -> anyhow::Result<Vec<Box<RawValue>>> {
    let (mut agents, mut cursor) = (Vec::new(), String::new());
    loop {
        let page: AgentPage = server.ask("/bus/agents", &[("cursor", cursor)])?;
        agents.extend(page.agents);
        cursor = page.next_cursor;
        if cursor.is_empty() {
            return Ok(agents);
        }
    }
}

fn presence(word: &str) -> Cell {
    let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
    Cell::from(word).styled(if word == "online" { green } else { Style::new().dimmed() })
}

fn show(server: &Server, agent: &AgentId, format: Format) -> anyhow::Result<Answer> {
    let found: Box<RawValue> = server.ask(&format!("/bus/agents/{agent}"), &[])?;
    format::document(format, found.get(), |out| {
        let agent: AgentRow = format::read(&found)?;
        let bold = Style::new().bold();
        writeln!(out, "{bold}{}{bold:#}", agent.agent_id)?;
        let capabilities = agent.capabilities.join(", ");
        let pending = match agent.pending {
            0 => "0".to_owned(),
            some => format!("{some} ({} bytes)", agent.pending_bytes),
        };
        fields(
            out,
            &[
                ("presence", Some(agent.presence)),
                ("last seen", agent.last_seen.map(timestamp)),
                ("role", agent.role),
                ("squad", agent.squad),
                ("tier", agent.tier),
                ("c-suite", agent.c_suite.then(|| "yes".to_owned())),
                ("capabilities", Some(capabilities).filter(|text| !text.is_empty())),
                ("sessions", Some(agent.sessions.to_string())),
                ("pending", Some(pending)),
            ],
        )?;
        if agent.pending > 0 {
            writeln!(out, "\nnext: openclaw-a2a inbox {}", agent.agent_id)?;
        }
        Ok(())
    })?;
    Ok(Answer::Yes)
}
