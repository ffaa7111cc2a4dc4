//! `openclaw-a2a token`: make tokens, see whose there are, take them back.
//!
//! It works on the token file, which a running server looks at by itself: nothing has to be
//! restarted, and no server has to be there.

mod first;
mod names;

use std::io::Write;

use a2a_gateway::auth::tokens::{Principal, StoredToken, TokenFile, TokenHash};
use anyhow::{Context, bail};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use openclaw_a2a::config::{Config, StateDir};
use serde_json::json;
use serde_json::value::to_raw_value;

use super::place::Place;
use super::stdout::{harmless, note};
use super::table::Table;
use super::words::after;
use super::{Answer, Format, Global, format};

/// What every token begins with, so that people and scanners know one when they see it.
const PREFIX: &str = "oca_";
/// How many tokens the file may hold.
const MOST: usize = 10_000;
const LONGEST_NOTE: usize = 200;

/// Make, list and revoke the tokens by which agents, A2A clients and operators are known
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
    /// Make a token and print it; it is shown this once and kept nowhere
    Create(Create),
    /// Show whose tokens there are
    List,
    /// Take a token back: from now on it is not accepted
    Revoke {
        /// What `token list` calls it
        id: String,
    },
}

#[derive(clap::Args)]
struct Create {
    #[command(flatten)]
    holder: Holder,

    /// How long it is good: 90s, 15m, 12h, 30d [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,

    /// What to remember about it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// Make the first token although agents are connected without one: they are cut off
    #[arg(long)]
    yes: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Holder {
    /// For this agent: it sends under this name and reads its own inbox
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// For a program that speaks A2A: it has its own tasks, and nothing of the bus
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// For a person: it sees and stops everything
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
            let place = Place::with(global, &config)?;
            create(args, &config, &tokens, &place, global.format)
        }
        Verb::List => list(&config, &tokens, global.format),
        Verb::Revoke { id } => revoke(id, &config, &tokens, global.format),
    }
}

fn create(
    args: &Create,
    config: &Config,
    file: &TokenFile,
    place: &Place,
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
    names::must_be_free(&principal, &stored, config)?;
    // A server knows more names: those of agents that have no token.
    let server = names::server(place)?;
    let said = server.as_ref().map(|server| names::ask(server, &principal)).transpose()?;
    let is_first = first::is_next(file, config)?;
    if let Some(server) = server.as_ref().filter(|_| is_first) {
        first::cuts_nobody_off(server, args.yes)?;
    }
    let token = new_token()?;
    let hash = TokenHash::of(&token);
    file.change(|tokens| {
        if tokens.len() >= MOST {
            bail!("there are {MOST} tokens already; revoke some of them first");
        }
        names::must_be_free(&principal, tokens, config)?;
        let note = note.map(str::to_owned);
        tokens.push(StoredToken::new(hash, &principal, now, expires, note));
        Ok(())
    })?;
    if said == Some(names::Said::NotToUs)
        && let Err(taken) =
            place.server_for(&token).and_then(|server| names::ask(&server, &principal))
    {
        // The one who has the new token may ask, so the server could be asked only now.
        file.change(|tokens| {
            tokens.retain(|token| token.id != hash.id());
            anyhow::Ok(())
        })?;
        return Err(taken);
    }
    if is_first {
        first::explain(server.is_some());
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

/// 256 bits nobody can guess.
fn new_token() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).ok().context("the system gives no random numbers")?;
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{PREFIX}{}", digits.concat()))
}

/// When a token that is made now expires; at most ten years from now.
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
        table.row([id.into(), holder.into(), created.into(), expires.into(), note.into()]);
    }
    format::list(format, "tokens", &items, |out| table.write(out))?;
    Ok(Answer::Yes)
}

fn revoke(id: &str, config: &Config, file: &TokenFile, format: Format) -> anyhow::Result<Answer> {
    let configured = config.tokens().map_err(anyhow::Error::msg)?;
    if configured.iter().any(|(hash, _)| hash.id() == id) {
        bail!("{id} stands in a2a.toml; remove it there and start the server anew");
    }
    if !file.read()?.unwrap_or_default().iter().any(|token| token.id == id) {
        anstream::eprintln!("error: there is no token {}; see `token list`", harmless(id));
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
    fn a_token_is_long_and_never_the_same() {
        let [a, b] = [new_token().unwrap(), new_token().unwrap()];
        assert_ne!(a, b);
        assert!(a.starts_with(PREFIX) && a.len() == PREFIX.len() + 64, "{a}");
    }

    #[test]
    fn how_long_it_is_good_is_read_with_its_unit() {
        let now = Utc::now();
        assert_eq!(expiry(now, "30d").unwrap(), now + TimeDelta::days(30));
        assert_eq!(expiry(now, "90s").unwrap(), now + TimeDelta::seconds(90));
        for bad in ["", "d", "0d", "-1d", "1w", "1.5h", "30", "99999d", "99999999999999999999d"] {
            assert!(expiry(now, bad).is_err(), "{bad}");
        }
    }
}
