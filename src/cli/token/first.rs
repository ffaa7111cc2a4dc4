//! The first token: from then on a running server asks everyone for one, and agents that are
//! connected without are cut off.

use a2a_gateway::auth::tokens::TokenFile;
use anyhow::bail;
use openclaw_a2a::config::Config;
use serde::Deserialize;

use crate::cli::server::Server;
use crate::cli::stdout::note;

/// How many names a refusal lists.
const LISTED: usize = 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    agents: Vec<Agent>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    agent_id: String,
    #[serde(default)]
    connected: bool,
}

/// Whether no token exists yet, so that callers are not asked for any.
pub(super) fn is_next(file: &TokenFile, config: &Config) -> anyhow::Result<bool> {
    let configured = config.tokens().map_err(anyhow::Error::msg)?;
    Ok(configured.is_empty() && file.read()?.is_none())
}

/// Refuses to cut off agents that are connected without a token, unless that is meant.
pub(super) fn cuts_nobody_off(server: &Server, yes: bool) -> anyhow::Result<()> {
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

/// The agents that are connected at this moment.
fn connected(server: &Server) -> anyhow::Result<Vec<String>> {
    let (mut online, mut cursor) = (Vec::new(), None);
    loop {
        let question: Vec<_> = cursor.take().map(|cursor| ("cursor", cursor)).into_iter().collect();
        let page: Page = server.ask("/bus/agents", &question)?;
        let here = page.agents.into_iter().filter(|agent| agent.connected);
        online.extend(here.map(|agent| agent.agent_id));
        match page.next_cursor.filter(|cursor| !cursor.is_empty()) {
            Some(next) => cursor = Some(next),
            None => return Ok(online),
        }
    }
}

/// Says what the first token changes.
pub(super) fn explain(running: bool) {
    let who = if running { "the running server" } else { "a server on this state folder" };
    note(&format!(
        "this is the first token: from now on {who} asks every call for one. Make one for each agent (openclaw-a2a token create --agent ID) and for yourself (--operator NAME), and give it as OPENCLAW_TOKEN, or as `Authorization: Bearer …`"
    ));
}
