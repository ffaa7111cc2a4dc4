//! Checks of a running server: readiness, version, dead letters and open circuits.

use serde_json::Value;

use super::finding::Finding;
use crate::cli::server::Server;

/// Advice when the server requires an operator's token.
const TOKEN: &str = "give an operator's token with --token, or in OPENCLAW_TOKEN";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Status and JSON body (null when it is not JSON).
fn ask(server: &Server, path: &str) -> anyhow::Result<(u16, Value)> {
    let mut answer = server.get(path, &[], &[])?;
    let text = answer.body_mut().read_to_string()?;
    Ok((answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_default()))
}

pub(super) fn check(server: &Server) -> Vec<Finding> {
    let (ready, index) = readiness(server);
    [Some(ready), index, Some(version(server))].into_iter().flatten().collect()
}

/// Checks readiness, and what is degraded although the server is ready.
fn readiness(server: &Server) -> (Finding, Option<Finding>) {
    const NAME: &str = "server";
    let (detail, next) = match ask(server, "/readyz") {
        Ok((200, body)) => {
            let degraded = body["degraded"][0]["detail"].as_str().map(|detail| {
                let next = "make room on the disk, or see what the server's own log says of it";
                Finding::warning("index", detail, next)
            });
            return (Finding::ok(NAME, "it accepts messages"), degraded);
        }
        Ok((status, body)) => {
            let detail = body["detail"].as_str().map(str::to_owned);
            let detail = detail.unwrap_or_else(|| format!("it answers with status {status}"));
            (detail, "see how it stands with the disk below, and start the server anew")
        }
        Err(error) => (format!("{error:#}"), "see what its own log says, and start it anew"),
    };
    (Finding::problem(NAME, detail, next), None)
}

/// Compares versions. The host's agent card contains the server's version.
fn version(server: &Server) -> Finding {
    const NAME: &str = "version";
    let card = ask(server, "/.well-known/agent-card.json").map(|(_, card)| card);
    match card.ok().as_ref().and_then(|card| card["version"].as_str()) {
        Some(VERSION) => Finding::ok(NAME, format!("the server and this program are {VERSION}")),
        Some(other) => Finding::warning(
            NAME,
            format!("the server is {other}, this program {VERSION}"),
            "start the server anew with this program, or use the one that it was started with",
        ),
        None => Finding::warning(
            NAME,
            "the server does not say which version it is",
            "see whether it is a server of this kind, and start it anew with this program",
        ),
    }
}

/// Reports what needs an operator: dead letters and open circuits.
pub(super) fn hints(server: &Server) -> Vec<Finding> {
    let letters = listed(server, "/bus/dead-letters", "deadLetters");
    let circuits = listed(server, "/bus/circuits", "circuits");
    vec![
        hint(
            "dead-letters",
            letters,
            ["message became a dead letter", "messages became dead letters"],
            "see `openclaw-a2a dead-letters list`; retry or drop each",
        ),
        hint(
            "circuits",
            circuits,
            ["circuit is open", "circuits are open"],
            "see `openclaw-a2a breaker list`; reset those whose cause is gone",
        ),
    ]
}

/// Number of items, or the reason why it could not be read.
fn listed(server: &Server, path: &str, key: &str) -> Result<usize, (String, &'static str)> {
    match ask(server, path) {
        Ok((200, body)) => Ok(body[key].as_array().map_or(0, Vec::len)),
        Ok((401 | 403, _)) => Err(("only operators may read this".to_owned(), TOKEN)),
        Ok((status, _)) => {
            let detail = format!("{path} answers with status {status}");
            Err((detail, "see what the server's own log says"))
        }
        Err(error) => Err((format!("{error:#}"), "see what the server's own log says")),
    }
}

fn hint(
    name: &'static str,
    count: Result<usize, (String, &'static str)>,
    [one, many]: [&str; 2],
    next: &str,
) -> Finding {
    match count {
        Ok(0) => Finding::ok(name, "none"),
        Ok(count) => {
            let what = if count == 1 { one } else { many };
            Finding::warning(name, format!("{count} {what}"), next)
        }
        Err((detail, next)) => Finding::warning(name, detail, next),
    }
}
