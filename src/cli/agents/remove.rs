//! `openclaw-a2a agents remove`: removes an agent from the directory.

use a2a_protocol::AgentId;
use serde_json::Value;

use crate::cli::server_locator::ServerLocator;
use crate::cli::{Answer, Global, format};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a agents remove tim
  openclaw-a2a agents remove tim --drop

Refused while the agent is connected or has messages in flight, is listed in the configuration, or messages
wait for it. The log says who removed it. It can come back at any time, as a new agent.

Exit codes: 0 it is removed, 1 there is none or it cannot be removed now, 2 the server could not be asked.")]
pub(super) struct Args {
    /// The agent
    #[arg(value_name = "ID")]
    agent: AgentId,
    /// Drop its pending messages and notify their senders
    #[arg(long)]
    drop: bool,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let server = ServerLocator::from_options(global)?.require_server()?;
    let Args { agent, drop } = args;
    let query = if *drop { "?drop=true" } else { "" };
    let answer = server.delete(&format!("/bus/agents/{agent}{query}"))?;
    format::document(global.format, answer.get(), |out| {
        let removed: Value = format::read(&answer)?;
        match removed["dropped"].as_u64().unwrap_or_default() {
            0 => writeln!(out, "{agent} is removed")?,
            count => writeln!(out, "{agent} is removed, and {count} messages for it are dropped")?,
        }
        Ok(())
    })?;
    Ok(Answer::Yes)
}
