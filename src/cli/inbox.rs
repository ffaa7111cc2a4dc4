//! `openclaw-a2a inbox`: what waits for an agent, or for a person; taking it, and settling it.
//!
//! Looking is what it does unless told otherwise, and looking takes nothing.

use a2a_protocol::{AgentId, MessageId};
use anstyle::{AnsiColor, Style};
use chrono::TimeDelta;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::human::{gist, short, span};
use super::server::Server;
use super::server_locator::ServerLocator;
use super::stdout::{Out, sanitize};
use super::table::{Cell, Table};
use super::{Answer, Format, Global, format};

/// See what waits for an agent, without taking it; take it, and say what became of it
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a inbox tim                      what waits; nothing is taken
  openclaw-a2a inbox operator                 what agents answered to people
  openclaw-a2a inbox tim --take 1 --wait 30s  take one, waiting for it if need be
  openclaw-a2a inbox tim --ack 0192a4c8-7e1a-7b3c-9d4e-000000000001
  openclaw-a2a inbox tim --nack 0192a4c8-7e1a-7b3c-9d4e-000000000001 \\
    --reason 'not now'

Whoever takes a message has it for 60 seconds; it is handed out again unless it is acknowledged (--ack) or
given back (--nack) by then. Taking what an agent's own code should get keeps it from that code.

Exit codes: 0 success, also when nothing waits, 1 there is no such agent or the message is in nobody's hands,
2 it could not be done.")]
pub(super) struct Args {
    /// Whose it is: an agent's, or `operator` and `human` for people
    agent: AgentId,

    /// Take up to so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    take: Option<u8>,
    /// Wait so long for the first: 30s, 500ms, 1m
    #[arg(long, value_name = "TIME", requires = "take")]
    wait: Option<String>,
    /// At most so many when looking
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, conflicts_with = "take",
        value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
    /// Acknowledge this message: it is never handed out again
    #[arg(long, value_name = "MESSAGE", conflicts_with = "take")]
    ack: Option<MessageId>,
    /// Give this message back: that was a failed attempt
    #[arg(long, value_name = "MESSAGE", conflicts_with_all = ["take", "ack"])]
    nack: Option<MessageId>,
    /// Why it is given back
    #[arg(long, value_name = "TEXT", requires = "nack")]
    reason: Option<String>,
}

#[derive(Deserialize)]
struct InboxPage {
    messages: Vec<Box<RawValue>>,
    pending: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PeekedMessage {
    seq: u64,
    sender: String,
    attempts: u32,
    state: String,
    due_in_ms: Option<i64>,
    message: Value,
}

#[derive(Deserialize)]
struct TakenMessage {
    seq: u64,
    sender: String,
    attempt: u32,
    message: Value,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let server = ServerLocator::from_options(global)?.require_server()?;
    let (agent, format) = (&args.agent, global.format);
    match (args.take, args.ack, args.nack) {
        (Some(take), ..) => self::take(&server, agent, take, args.wait.as_deref(), format),
        (_, Some(id), _) => settle(&server, agent, (id, "ack"), &json!({}), format),
        (.., Some(id)) => {
            let reason = args.reason.as_ref();
            let body = reason.map_or(json!({}), |reason| json!({ "reason": reason }));
            settle(&server, agent, (id, "nack"), &body, format)
        }
        _ => peek(&server, agent, args.limit, format),
    }
}

fn peek(server: &Server, agent: &AgentId, limit: u8, format: Format) -> anyhow::Result<Answer> {
    let question = [("peek", "true".to_owned()), ("limit", limit.to_string())];
    let found: InboxPage = server.ask(&format!("/bus/agents/{agent}/inbox"), &question)?;
    let messages = &found.messages;
    format::list(format, "messages", messages, |out| {
        if messages.is_empty() {
            writeln!(out, "nothing waits for {agent}")?;
            return Ok(());
        }
        let mut table =
            Table::new(["SEQ", "STATE", "ATTEMPTS", "FROM", "TYPE", "MESSAGE", "ABOUT"]);
        for message in messages {
            let peeked: PeekedMessage = format::read(message)?;
            table.row([
                peeked.seq.to_string().into(),
                state_cell(&peeked),
                peeked.attempts.to_string().into(),
                peeked.sender.into(),
                text(&peeked.message["type"]).into(),
                text(&peeked.message["messageId"]).into(),
                gist(&peeked.message).into(),
            ]);
        }
        table.write(out)?;
        let more = found.pending.unwrap_or_default().saturating_sub(messages.len() as u64);
        if more > 0 {
            writeln!(out, "and {more} more (--limit)")?;
        }
        Ok(())
    })?;
    Ok(Answer::Yes)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// How it stands, and for how long.
fn state_cell(peeked: &PeekedMessage) -> Cell {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    let left = peeked.due_in_ms.map(|ms| span(TimeDelta::milliseconds(ms)));
    let (words, style) = match (peeked.state.as_str(), left) {
        ("taken", Some(left)) => (format!("taken, {left} left"), colour(AnsiColor::Cyan)),
        ("pausing", Some(left)) => (format!("again in {left}"), colour(AnsiColor::Yellow)),
        (state, _) => (state.to_owned(), Style::new()),
    };
    Cell::from(words).styled(style)
}

fn take(
    server: &Server,
    agent: &AgentId,
    take: u8,
    wait: Option<&str>,
    format: Format,
) -> anyhow::Result<Answer> {
    let mut question = vec![("limit", take.to_string())];
    question.extend(wait.map(|wait| ("wait", wait.to_owned())));
    let found: InboxPage = server.ask(&format!("/bus/agents/{agent}/inbox"), &question)?;
    format::list(format, "messages", &found.messages, |out| {
        if found.messages.is_empty() {
            writeln!(out, "nothing waits for {agent}")?;
        }
        found.messages.iter().try_for_each(|message| write(agent, &format::read(message)?, out))
    })?;
    Ok(Answer::Yes)
}

fn write(agent: &AgentId, taken: &TakenMessage, out: &mut Out) -> anyhow::Result<()> {
    let (bold, message) = (Style::new().bold(), &taken.message);
    writeln!(
        out,
        "{bold}{}  {}  from {}{bold:#}  {} (attempt {})",
        taken.seq,
        short(text(&message["type"]), 32),
        short(&taken.sender, 64),
        gist(message),
        taken.attempt,
    )?;
    for line in serde_json::to_string_pretty(&message["payload"])?.lines() {
        writeln!(out, "  {}", sanitize(line))?;
    }
    let id = short(text(&message["messageId"]), 64);
    writeln!(out, "  next: openclaw-a2a inbox {agent} --ack {id}")?;
    Ok(())
}

fn settle(
    server: &Server,
    agent: &AgentId,
    (id, how): (MessageId, &str),
    body: &Value,
    format: Format,
) -> anyhow::Result<Answer> {
    let answer = server.call(&format!("/bus/agents/{agent}/inbox/{id}/{how}"), body)?;
    format::document(format, answer.get(), |out| {
        let done = if how == "ack" { "is acknowledged" } else { "is given back" };
        writeln!(out, "{id} {done}")?;
        Ok(writeln!(out, "\nnext: openclaw-a2a log show {id}")?)
    })?;
    Ok(Answer::Yes)
}
