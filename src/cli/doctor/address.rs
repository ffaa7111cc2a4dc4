//! Check of the server's address: a stale address file, a port in use.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use a2a_gateway::auth::tokens::TokenFile;
use openclaw_a2a::config::{Config, DEFAULT_LISTEN, listen_addresses};

use super::finding::Finding;
use super::port_owner;
use crate::cli::server::Server;
use crate::cli::server_locator::{Located, ServerLocator};

const NAME: &str = "address";

/// Locates the server and reports what was found.
pub(super) fn check(locator: &ServerLocator, config: &Config) -> (Located, Vec<Finding>) {
    let file = locator.state.address_file();
    let (found, why) = match locate(locator) {
        Ok(looked) => looked,
        Err(error) => {
            let next = "run this as the user that the server runs as";
            return (
                Located::Unresponsive,
                vec![Finding::problem(NAME, format!("{error:#}"), next)],
            );
        }
    };
    let findings = match &found {
        Located::Server(_) => {
            let url = std::fs::read_to_string(&file).unwrap_or_default();
            vec![Finding::ok(NAME, format!("a server answers at {}", url.trim()))]
        }
        Located::Unresponsive => vec![Finding::problem(
            NAME,
            why,
            "if it is just starting, wait and look again; otherwise see what its own log says, and stop that process",
        )],
        Located::NotRunning if why.is_empty() => {
            vec![Finding::ok(NAME, "no server runs"), port(locator, config)]
        }
        Located::NotRunning => {
            let next = format!("the next `openclaw-a2a serve` replaces {}", file.display());
            vec![Finding::warning(NAME, why, next), port(locator, config)]
        }
    };
    (found, findings)
}

/// Locates the server, and waits for one that is starting.
fn locate(locator: &ServerLocator) -> anyhow::Result<(Located, String)> {
    let (found, why) = locator.locate()?;
    if matches!(found, Located::Unresponsive)
        && let Some(server) = locator.running_server()?
    {
        return Ok((Located::Server(server), String::new()));
    }
    Ok((found, why))
}

/// Checks whether a server could listen at the configured address.
fn port(locator: &ServerLocator, config: &Config) -> Finding {
    const NAME: &str = "port";
    let text = config.listen();
    let all = match listen_addresses(text) {
        Ok(all) => all,
        Err(error) => {
            let detail = format!("[http] listen = {text:?} is not an address and a port: {error}");
            return Finding::problem(NAME, detail, format!("write one such as {DEFAULT_LISTEN}"));
        }
    };
    let first = all.iter().find(|address| !address.ip().is_loopback()).or(all.first());
    let Some(&address) = first else {
        return Finding::problem(NAME, format!("{text} has no address"), "name another in [http]");
    };
    if !address.ip().is_loopback() && !has_tokens(locator, config) {
        return Finding::problem(
            NAME,
            format!("{address} can be reached by others, and there are no tokens"),
            "listen on 127.0.0.1, or make tokens: openclaw-a2a token create --agent ID",
        );
    }
    match TcpListener::bind(address) {
        Ok(_) if address.port() == 0 => Finding::ok(NAME, "any free port is taken"),
        Ok(_) => Finding::ok(NAME, format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Finding::problem(
            NAME,
            format!("{address} is taken by {}", in_the_way(address)),
            "stop it, or listen elsewhere: `openclaw-a2a serve --listen 127.0.0.1:0`, or `listen` in [http]",
        ),
        Err(error) => Finding::problem(
            NAME,
            format!("nobody can listen on {address}: {error}"),
            "choose another: `openclaw-a2a serve --listen 127.0.0.1:0`, or `listen` in [http]",
        ),
    }
}

fn has_tokens(locator: &ServerLocator, config: &Config) -> bool {
    let made = TokenFile::below(locator.state.path()).read();
    let made = made.is_ok_and(|made| made.is_some_and(|made| !made.is_empty()));
    made || config.tokens().is_ok_and(|tokens| tokens.iter().next().is_some())
}

/// Describes the process that has the port. It gets no token.
fn in_the_way(address: SocketAddr) -> String {
    let who = port_owner::of(address.port());
    let who = who.unwrap_or_else(|| "a program of another user".to_owned());
    match Server::connect(&format!("http://{address}"), None, &[]) {
        Ok(_) => format!("{who}, a server like this one with another state folder"),
        Err(_) => who,
    }
}
