//! `openclaw-a2a token`: creates, lists and revokes tokens.
//!
//! It edits the token file, which a running server watches. No restart is needed, and no server has
//! to run.

mod first_token;
mod name_check;

use std::io::Write;

use a2a_gateway::auth::tokens::{Principal, StoredToken, TokenFile, TokenHash};
use anyhow::{Context, bail};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use openclaw_a2a::config::{Config, StateDir};
use serde_json::json;
use serde_json::value::to_raw_value;

use super::duration::after;
use super::server_locator::ServerLocator;
use super::stdout::{note, sanitize};
use super::table::{Cell, Table};
use super::{Answer, Format, Global, format};

/// Prefix of every token, by which people and secret scanners recognize one.
const PREFIX: &str = "oca_";
/// Maximum number of tokens in the file.
const MOST: usize = 10_000;
const LONGEST_NOTE: usize = 200;

/// Create, list or revoke tokens of agents, A2A clients and operators
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a token create --agent tim
  openclaw-a2a token create --client acme --expires 30d \\
    --note 'the order desk'
  openclaw-a2a token create --operator david
  openclaw-a2a token list
  openclaw-a2a token revoke 1f0c9a7be2d4

From the first token on, every call to a server on this state folder needs one. Where agents are
connected to a running server without, the first token is refused unless --yes is given: it cuts them
off until each has a token. A running server notices changes at once; a token that was revoked or has
expired also loses its open streams.

Agents, clients and operators share one list of names, whatever their case: `tim` cannot be a client
where there is an agent `Tim`. A running server is asked which agents it knows.

Exit codes: 0 success, 1 there is no such token (revoke), 2 it could not be done.")]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Create a token and print it; it is shown once and not stored
    Create(Create),
    /// List tokens with their holders
    List,
    /// Revoke a token
    Revoke {
        /// Token id, as `token list` shows it
        id: String,
    },
}

#[derive(clap::Args)]
struct Create {
    #[command(flatten)]
    holder: Holder,

    /// Lifetime: 90s, 15m, 12h, 30d, 2w [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,

    /// Note about its purpose
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// Create the first token although agents without one are connected: they are disconnected
    #[arg(long)]
    yes: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Holder {
    /// For this agent: sends under this name and reads its own inbox
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// For a program that speaks A2A: has its own tasks, without access to the bus
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// For a person: has access to everything
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let state = StateDir::find(global.state_dir.clone());
    let file = global.config.clone().unwrap_or_else(|| state.config_file());
    let config = Config::read(&file, global.config.is_some())?;
    let tokens = TokenFile::below(state.path());
    match &args.verb {
        Verb::Create(args) => {
            let locator = ServerLocator::with_config(global, &config)?;
            create(args, &config, &tokens, &locator, global.format)
        }
        Verb::List => list(&config, &tokens, global.format),
        Verb::Revoke { id } => revoke(id, &config, &tokens, global.format),
    }
}

fn create(
    args: &Create,
    config: &Config,
    file: &TokenFile,
    locator: &ServerLocator,
    format: Format,
) -> anyhow::Result<Answer> {
    let Holder { agent, client, operator } = &args.holder;
    let principal = Principal::named(agent.as_deref(), client.as_deref(), operator.as_deref())?;
    let now = Utc::now();
    let expires = args.expires.as_deref().map(|text| expiry(now, text)).transpose()?;
    let note = args.note.as_deref().map(str::trim).filter(|note| !note.is_empty());
    if note.is_some_and(|n| n.chars().count() > LONGEST_NOTE || n.chars().any(char::is_control)) {
        bail!("--note has at most {LONGEST_NOTE} characters, all on one line");
    }
    let stored = file.read()?.unwrap_or_default();
    name_check::must_be_free(&principal, &stored, config)?;
    // A server also has the names of agents without a token.
    let server = name_check::server(locator)?;
    let status = server.as_ref().map(|server| name_check::ask(server, &principal)).transpose()?;
    let is_first = first_token::is_next(file, config)?;
    if let Some(server) = server.as_ref().filter(|_| is_first) {
        first_token::refuse_cutting_off(server, args.yes)?;
    }
    let token = new_token()?;
    let hash = TokenHash::of(&token);
    file.change(|tokens| {
        if tokens.len() >= MOST {
            bail!("there are {MOST} tokens already; revoke some of them first");
        }
        name_check::must_be_free(&principal, tokens, config)?;
        let note = note.map(str::to_owned);
        tokens.push(StoredToken::new(hash, &principal, now, expires, note));
        Ok(())
    })?;
    if status == Some(name_check::NameStatus::Withheld)
        && let Err(taken) =
            locator.server_for(&token).and_then(|server| name_check::ask(&server, &principal))
    {
        // The new token is allowed to query names, so the check that the server refused before is
        // repeated with it.
        file.change(|tokens| {
            tokens.retain(|token| token.id != hash.id());
            anyhow::Ok(())
        })?;
        return Err(taken);
    }
    if is_first {
        first_token::explain(server.is_some());
    }
    let (id, until) = (hash.id(), expires.map(shown));
    if format == Format::Text {
        let until =
            until.map_or("until it is revoked".to_owned(), |until| format!("until {until}"));
        let place = file.path().display();
        anstream::eprintln!("{id} for {principal}, good {until}; its hash is in {place}.");
        anstream::eprintln!("It is shown only this once:");
        writeln!(anstream::stdout(), "{token}")?;
    } else {
        let made =
            json!({"id": id, "holder": principal.to_string(), "token": token, "expires": until});
        writeln!(anstream::stdout(), "{made}")?;
    }
    Ok(Answer::Yes)
}

/// Generates 256 random bits.
fn new_token() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).ok().context("the system gives no random numbers")?;
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{PREFIX}{}", digits.concat()))
}

/// Expiry of a token created now, at most ten years ahead.
fn expiry(now: DateTime<Utc>, text: &str) -> anyhow::Result<DateTime<Utc>> {
    let longest = now + TimeDelta::days(3_660);
    match after(now, text).filter(|expiry| *expiry <= longest) {
        Some(expiry) => Ok(expiry),
        None => {
            bail!("--expires {text:?} is no time such as 90s, 15m, 12h or 30d, up to ten years")
        }
    }
}

fn shown(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn list(config: &Config, file: &TokenFile, format: Format) -> anyhow::Result<Answer> {
    let configured = config.tokens().map_err(anyhow::Error::msg)?;
    let mut fixed: Vec<_> =
        configured.iter().map(|(hash, known)| (known.principal.to_string(), hash.id())).collect();
    fixed.sort();
    let mut table = Table::new(["ID", "WHOSE", "MADE", "EXPIRES", "NOTE"]);
    let mut items = Vec::new();
    for (holder, id) in fixed {
        items.push(to_raw_value(&json!({"id": id, "holder": holder, "configured": true}))?);
        table.row([id.into(), holder.into(), "in a2a.toml".into(), "never".into(), "".into()]);
    }
    for token in file.read()?.unwrap_or_default() {
        let holder = token.principal()?.to_string();
        let (id, created, expires) = (&token.id, shown(token.created), token.expires.map(shown));
        items.push(to_raw_value(&json!({"id": id, "holder": holder, "created": created,
            "expires": expires, "note": token.note}))?);
        let is_expired = token.expires.is_some_and(|expires| expires <= Utc::now());
        let expires = if is_expired { Some("expired".to_owned()) } else { expires };
        let expires = expires.unwrap_or_else(|| "never".to_owned());
        let note = token.note.as_deref().unwrap_or_default();
        let (id, created) = (Cell::fixed(id), Cell::fixed(created));
        table.row([id, holder.into(), created, Cell::fixed(expires), note.into()]);
    }
    format::list(format, "tokens", &items, |out| table.write(out))?;
    Ok(Answer::Yes)
}

fn revoke(id: &str, config: &Config, file: &TokenFile, format: Format) -> anyhow::Result<Answer> {
    let configured = config.tokens().map_err(anyhow::Error::msg)?;
    if configured.iter().any(|(hash, _)| hash.id() == id) {
        bail!("{id} is in a2a.toml; remove it there and restart the server");
    }
    if !file.read()?.unwrap_or_default().iter().any(|token| token.id == id) {
        anstream::eprintln!("error: there is no token {}; see `token list`", sanitize(id));
        return Ok(Answer::No);
    }
    let left = file.change(|tokens| {
        tokens.retain(|token| token.id != id);
        anyhow::Ok(tokens.len())
    })?;
    let answer = json!({"id": id, "revoked": true}).to_string();
    format::document(format, &answer, |out| Ok(writeln!(out, "{id} is revoked")?))?;
    if left == 0 && configured.is_empty() {
        let file = file.path().display();
        note(&format!(
            "no token is left, so nobody is let in; to ask for none again, delete {file} and start the server anew"
        ));
    }
    Ok(Answer::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_token_is_long_and_unique() {
        let [a, b] = [new_token().unwrap(), new_token().unwrap()];
        assert_ne!(a, b);
        assert!(a.starts_with(PREFIX) && a.len() == PREFIX.len() + 64, "{a}");
    }

    #[test]
    fn expiry_requires_a_unit_and_is_bounded() {
        let now = Utc::now();
        assert_eq!(expiry(now, "30d").unwrap(), now + TimeDelta::days(30));
        assert_eq!(expiry(now, "1w").unwrap(), now + TimeDelta::weeks(1));
        assert_eq!(expiry(now, "90s").unwrap(), now + TimeDelta::seconds(90));
        for bad in ["", "d", "0d", "-1d", "1.5h", "1M", "30", "99999d", "99999999999999999999d"] {
            assert!(expiry(now, bad).is_err(), "{bad}");
        }
    }
}
