//! Check of token names: agents, clients and operators share one namespace.

use a2a_gateway::auth::tokens::{TokenFile, Tokens};
use openclaw_a2a::config::Config;
use serde::Deserialize;

use super::finding::{Finding, unreadable};
use crate::cli::server::Server;
use crate::cli::server_locator::ServerLocator;

const NAME: &str = "names";
const NEXT: &str = "revoke the token (openclaw-a2a token list, token revoke ID) and make one under another name, or remove the agent that nobody needs (openclaw-a2a agents remove ID)";

#[derive(Deserialize)]
struct TokenNames {
    refused: Vec<RefusedToken>,
}

#[derive(Deserialize)]
struct RefusedToken {
    token: String,
    name: String,
    holder: String,
    reason: String,
}

/// Reports names refused by the server; without a server, conflicts between the tokens themselves.
pub(super) fn check(
    locator: &ServerLocator,
    config: &Config,
    server: Option<&Server>,
) -> Option<Finding> {
    if let Some(Ok(answer)) = server.map(|server| server.ask::<TokenNames>("/bus/names", &[]))
        && let Some(first) = answer.refused.first()
    {
        let RefusedToken { token, name, holder, reason } = first;
        let detail = format!(
            "token {token} of the {holder} `{name}` is refused: {reason}{}",
            more(answer.refused.len())
        );
        return Some(Finding::problem(NAME, detail, NEXT));
    }
    let file = TokenFile::below(locator.state.path());
    if let Some(denied) = unreadable(NAME, &[file.path()]) {
        return Some(denied);
    }
    let configured = config.tokens().unwrap_or_default();
    let listed = config.listed().unwrap_or_default();
    let made = file.tokens().ok().flatten().unwrap_or_default();
    if configured.is_empty() && made.is_empty() {
        return None;
    }
    let conflicts = Tokens::conflicts(&configured, &made, &listed);
    Some(match conflicts.first() {
        None => Finding::ok(NAME, "every token has a name of its own"),
        Some(first) => {
            let (id, whose, why) = (first.hash.id(), &first.principal, &first.taken);
            let detail = format!("token {id} of {whose}: {why}{}", more(conflicts.len()));
            match conflicts.iter().any(a2a_gateway::auth::tokens::Conflict::refuses) {
                true => Finding::problem(NAME, detail, NEXT),
                false => Finding::warning(NAME, detail, NEXT),
            }
        }
    })
}

fn more(count: usize) -> String {
    match count.saturating_sub(1) {
        0 => String::new(),
        more => format!("; and {more} more"),
    }
}
