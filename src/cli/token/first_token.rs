//! Creation of the first token: from then on a running server requires tokens and disconnects
//! agents without one.

use a2a_gateway::auth::tokens::TokenFile;
use anyhow::bail;
use openclaw_a2a::config::Config;
use serde::Deserialize;

use crate::cli::server::Server;
use crate::cli::stdout::note;

/// Maximum names in a refusal.
const LISTED: usize = 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConnectedPage {
    agents: Vec<ConnectedAgent>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConnectedAgent {
    agent_id: String,
    #[serde(default)]
    connected: bool,
}

/// Whether no token exists yet.
pub(super) fn is_next(file: &TokenFile, config: &Config) -> anyhow::Result<bool> {
    let configured = config.tokens().map_err(anyhow::Error::msg)?;
    Ok(configured.is_empty() && file.read()?.is_none())
}

/// Refuses to disconnect agents without a token, unless `yes`.
pub(super) fn refuse_cutting_off(server: &Server, yes: bool) -> anyhow::Result<()> {
    let online = connected(server)?;
    if online.is_empty() || yes {
        return Ok(());
    }
    let more = match online.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (count, names) = (online.len(), online[..online.len().min(LISTED)].join(", "));
    bail!(
        "this is the first token: from then on every call needs one, and the running server cuts off what is connected without. {count} connected: {names}{more}. If that is meant, give --yes; then make a token for each (openclaw-a2a token create --agent ID) and start it again with the token"
    )
}

/// Agents connected now.
fn connected(server: &Server) -> anyhow::Result<Vec<String>> {
    let (mut online, mut cursor) = (Vec::new(), None);
    loop {
        let question: Vec<_> = cursor.take().map(|cursor| ("cursor", cursor)).into_iter().collect();
        let page: ConnectedPage = server.ask("/bus/agents", &question)?;
        let here = page.agents.into_iter().filter(|agent| agent.connected);
        online.extend(here.map(|agent| agent.agent_id));
        match page.next_cursor.filter(|cursor| !cursor.is_empty()) {
            Some(next) => cursor = Some(next),
            None => return Ok(online),
        }
    }
}

/// Notes what the first token changes.
pub(super) fn explain(running: bool) {
    let who = if running { "the running server" } else { "a server on this state folder" };
    note(&format!(
        "this is the first token: from now on {who} asks every call for one. Make one for each agent (openclaw-a2a token create --agent ID) and for yourself (--operator NAME), and give it as OPENCLAW_TOKEN, or as `Authorization: Bearer …`"
    ));
}
