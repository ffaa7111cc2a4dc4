//! A running server: whether it accepts messages, which version it is, and what waits for a person.

use serde_json::Value;

use super::finding::Finding;
use crate::cli::server::Server;

/// What a server that asks for tokens does not tell everybody.
const TOKEN: &str = "give an operator's token with --token, or in OPENCLAW_TOKEN";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The status and the body; a body that is no JSON is null.
fn ask(server: &Server, path: &str) -> anyhow::Result<(u16, Value)> {
    let mut answer = server.get(path, &[], &[])?;
    let text = answer.body_mut().read_to_string()?;
    Ok((answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_default()))
}

pub(super) fn check(server: &Server) -> Vec<Finding> {
    let (ready, index) = readiness(server);
    [Some(ready), index, Some(version(server))].into_iter().flatten().collect()
}

/// Whether it accepts messages, and what does not work though it does.
fn readiness(server: &Server) -> (Finding, Option<Finding>) {
    const NAME: &str = "server";
    let (said, next) = match ask(server, "/readyz") {
        Ok((200, body)) => {
            let degraded = body["degraded"][0]["detail"].as_str().map(|detail| {
                let next = "make room on the disk, or see what the server's own log says of it";
                Finding::warning("index", detail, next)
            });
            return (Finding::ok(NAME, "it accepts messages"), degraded);
        }
        Ok((status, body)) => {
            let said = body["detail"].as_str().map(str::to_owned);
            let said = said.unwrap_or_else(|| format!("it answers with status {status}"));
            (said, "see how it stands with the disk below, and start the server anew")
        }
        Err(error) => (format!("{error:#}"), "see what its own log says, and start it anew"),
    };
    (Finding::problem(NAME, said, next), None)
}

/// The host's card carries the version of the program that serves it.
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

/// What waits for a person.
pub(super) fn hints(server: &Server) -> Vec<Finding> {
    let letters = listed(server, "/bus/dead-letters", "deadLetters");
    let circuits = listed(server, "/bus/circuits", "circuits");
    vec![
        hint(
            "dead-letters",
            letters,
            "messages were given up",
            "see them with GET /bus/dead-letters, and send each again or drop it",
        ),
        hint(
            "circuits",
            circuits,
            "conversations are stopped",
            "see why with GET /bus/circuits, and reset those that may go on",
        ),
    ]
}

/// How many there are, or why that is not known.
fn listed(server: &Server, path: &str, key: &str) -> Result<usize, (String, &'static str)> {
    match ask(server, path) {
        Ok((200, body)) => Ok(body[key].as_array().map_or(0, Vec::len)),
        Ok((401 | 403, _)) => Err(("the server tells only operators".to_owned(), TOKEN)),
        Ok((status, _)) => {
            let said = format!("{path} answers with status {status}");
            Err((said, "see what the server's own log says"))
        }
        Err(error) => Err((format!("{error:#}"), "see what the server's own log says")),
    }
}

fn hint(
    name: &'static str,
    count: Result<usize, (String, &'static str)>,
    what: &str,
    next: &str,
) -> Finding {
    match count {
        Ok(0) => Finding::ok(name, "none"),
        Ok(count) => Finding::warning(name, format!("{count} {what}"), next),
        Err((said, next)) => Finding::warning(name, said, next),
    }
}
