//! `openclaw-a2a access`: explains whether one agent may write to another.

use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Kind};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::human::{kind, one_of, verdict};
use super::server_locator::ServerLocator;
use super::stdout::sanitize;
use super::{Answer, Global, format};

/// Explain whether one agent may write to another
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Show the decision on a message, and the rule that made it
    #[command(after_help = "\
Examples:
  openclaw-a2a access explain roman tim task_request
  openclaw-a2a access explain roman tim broadcast --scope c-suite

The rules are `[[access]]` in a2a.toml; the first that matches decides.

Exit codes: 0 it may, 1 it may not (the rule is named) or one of them is unknown, 2 the server could not be
asked.")]
    Explain {
        /// Sending agent
        from: AgentId,
        /// Receiving agent
        to: AgentId,
        /// Kind of message, such as task_request
        #[arg(value_parser = kind())]
        kind: Kind,
        /// Scope, for a broadcast
        #[arg(long, value_parser = one_of(Scope::ALL, Scope::as_str))]
        scope: Option<Scope>,
    },
}

#[derive(Deserialize)]
struct Explanation {
    allowed: bool,
    rule: String,
    sentence: String,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let Verb::Explain { from, to, kind, scope } = &args.verb;
    let server = ServerLocator::from_options(global)?.require_server()?;
    let mut question = vec![
        ("from", from.to_string()),
        ("to", to.to_string()),
        ("type", kind.as_str().to_owned()),
    ];
    question.extend(scope.map(|scope| ("scope", scope.as_str().to_owned())));
    let answer: Box<RawValue> = server.ask("/bus/access", &question)?;
    let explained: Explanation = format::read(&answer)?;
    format::document(global.format, answer.get(), |out| {
        let (word, style) = verdict(explained.allowed);
        writeln!(out, "{style}{word}{style:#} by the rule {}", sanitize(&explained.rule))?;
        writeln!(out, "{}", sanitize(&explained.sentence))?;
        Ok(())
    })?;
    Ok(if explained.allowed { Answer::Yes } else { Answer::No })
}
