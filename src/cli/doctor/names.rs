//! Whether every token has a name of its own: agents, clients and operators share one list.

use a2a_gateway::auth::tokens::{TokenFile, Tokens};
use openclaw_a2a::config::Config;
use serde::Deserialize;

use super::denied;
use super::finding::Finding;
use crate::cli::place::Place;
use crate::cli::server::Server;

const NAME: &str = "names";
const NEXT: &str = "revoke the token (openclaw-a2a token list, token revoke ID) and make one under another name, or remove the agent that nobody needs (openclaw-a2a agents remove ID)";

#[derive(Deserialize)]
struct Answer {
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
struct Refused {
    token: String,
    name: String,
    holder: String,
    reason: String,
}

/// What a server refuses; without one, or where it does not say, what the tokens alone show.
pub(super) fn check(place: &Place, config: &Config, server: Option<&Server>) -> Option<Finding> {
    if let Some(Ok(answer)) = server.map(|server| server.ask::<Answer>("/bus/names", &[]))
        && let Some(first) = answer.refused.first()
    {
        let Refused { token, name, holder, reason } = first;
        let detail = format!(
            "token {token} of the {holder} `{name}` is refused: {reason}{}",
            more(answer.refused.len())
        );
        return Some(Finding::problem(NAME, detail, NEXT));
    }
    let file = TokenFile::below(place.state.path());
    if let Some(denied) = denied::unreadable(NAME, &[file.path()]) {
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
