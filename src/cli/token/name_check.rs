//! Check of a token's name against other tokens and a running server.

use std::time::Duration;

use a2a_gateway::auth::tokens::{Principal, StoredToken};
use a2a_policy::{Holder, Names};
use anyhow::bail;
use openclaw_a2a::config::Config;
use serde::Deserialize;

use crate::cli::server::Server;
use crate::cli::server_error::ServerError;
use crate::cli::server_locator::{Located, ServerLocator};

/// Timeout of a call to a server on this machine.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a server's name check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameStatus {
    /// The name is available.
    Free,
    /// This caller is not authorized to check names; repeat with the new token.
    Withheld,
}

#[derive(Deserialize)]
struct InUse {
    name: String,
    holder: Holder,
}

/// Refuses a name that another kind of holder has, in the file or the configuration.
pub(super) fn must_be_free(
    principal: &Principal,
    stored: &[StoredToken],
    config: &Config,
) -> anyhow::Result<()> {
    let mut names = Names::default();
    for agent in config.listed().map_err(anyhow::Error::msg)? {
        names.keep(agent.as_str(), Holder::Agent);
    }
    for (_, known) in config.tokens().map_err(anyhow::Error::msg)?.iter() {
        names.keep(known.principal.name(), known.principal.holder());
    }
    for stored in stored {
        let other = stored.principal()?;
        names.keep(other.name(), other.holder());
    }
    Ok(names.check(principal.name(), principal.holder())?)
}

/// The running server of this state folder, if it answers.
pub(super) fn server(locator: &ServerLocator) -> anyhow::Result<Option<Server>> {
    Ok(match locator.locate()?.0 {
        Located::Server(server) => Some(server.with_timeout(CALL_TIMEOUT)),
        Located::NotRunning | Located::Unresponsive => None,
    })
}

/// Checks a name on a server.
///
/// # Errors
/// When another kind of holder has the name.
pub(super) fn ask(server: &Server, principal: &Principal) -> anyhow::Result<NameStatus> {
    let path = format!("/bus/names/{}", percent(principal.name()));
    match server.ask::<InUse>(&path, &[]) {
        Ok(InUse { name, holder }) => {
            let mut names = Names::default();
            names.keep(&name, holder);
            names.check(principal.name(), principal.holder())?;
            Ok(NameStatus::Free)
        }
        Err(error) => match error.downcast_ref::<ServerError>() {
            Some(refusal) if refusal.status == 404 => Ok(NameStatus::Free),
            Some(refusal) if refusal.code == "name_taken" => bail!("{error}"),
            Some(refusal) if matches!(refusal.status, 401 | 403) => Ok(NameStatus::Withheld),
            _ => Err(error),
        },
    }
}

/// Percent-encodes a name, which may contain letters of any script.
fn percent(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let shown = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    name.bytes().map(shown).collect()
}
