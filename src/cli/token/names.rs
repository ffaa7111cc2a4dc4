//! Whether a name can be had: by the tokens that are there, and by what a running server knows.

use std::time::Duration;

use a2a_gateway::auth::tokens::{Principal, StoredToken};
use a2a_policy::{Holder, Names};
use anyhow::bail;
use openclaw_a2a::config::Config;
use serde::Deserialize;

use crate::cli::place::{Found, Place};
use crate::cli::refusal::Refusal;
use crate::cli::server::Server;

/// A server on this machine answers at once, or something is wrong with it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server said about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// It can be had.
    Free,
    /// The server does not say so to this caller; ask again with the new token.
    NotToUs,
}

#[derive(Deserialize)]
struct InUse {
    name: String,
    holder: Holder,
}

/// Refuses a name that a token of the file or the configuration has for something else.
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

/// The server on this state folder, if one answers.
pub(super) fn server(place: &Place) -> anyhow::Result<Option<Server>> {
    Ok(match place.look()?.0 {
        Found::Server(server) => Some(server.within(PATIENCE)),
        Found::Nobody | Found::Silent => None,
    })
}

/// Asks a server who has the name.
///
/// # Errors
/// When it stands for something else, with the holder.
pub(super) fn ask(server: &Server, principal: &Principal) -> anyhow::Result<Said> {
    let path = format!("/bus/names/{}", percent(principal.name()));
    match server.ask::<InUse>(&path, &[]) {
        Ok(InUse { name, holder }) => {
            let mut names = Names::default();
            names.keep(&name, holder);
            names.check(principal.name(), principal.holder())?;
            Ok(Said::Free)
        }
        Err(error) => match error.downcast_ref::<Refusal>() {
            Some(refusal) if refusal.status == 404 => Ok(Said::Free),
            Some(refusal) if refusal.code == "name_taken" => bail!("{error}"),
            Some(refusal) if matches!(refusal.status, 401 | 403) => Ok(Said::NotToUs),
            _ => Err(error),
        },
    }
}

/// An operator's name may hold letters of any script.
fn percent(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let shown = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    name.bytes().map(shown).collect()
}
