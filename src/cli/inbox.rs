//! `openclaw-a2a inbox`: lists, takes and settles messages of an agent or a person.
//!
//! Listing is the default and takes nothing.

use std::time::{Duration, Instant};

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
use super::{Answer, Format, Global, duration, format};

/// Maximum wait of one call to the server.
const LONGEST_CALL: Duration = Duration::from_secs(60);
/// Maximum of --wait.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 86_400);

/// List, take, acknowledge or return messages of an inbox
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a inbox tim                      list its messages; nothing is taken
  openclaw-a2a inbox operator                 list what agents answered to people
  openclaw-a2a inbox tim --take 1 --wait 30s  take one, waiting for it if need be
  openclaw-a2a inbox tim --ack 0192a4c8-7e1a-7b3c-9d4e-000000000001
  openclaw-a2a inbox tim --nack 0192a4c8-7e1a-7b3c-9d4e-000000000001 \\
    --reason 'not now'

A message that is taken is leased for 60 seconds; it is redelivered unless it is acknowledged (--ack) or
returned (--nack) by then. Taking a message keeps it from the agent's own code.

Exit codes: 0 success, also when nothing waits, 1 there is no such agent or the message is not leased,
2 it could not be done.")]
pub(super) struct Args {
    /// Owner of the inbox: an agent, or `operator` and `human` for people
    agent: AgentId,

    /// Take at most N messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    take: Option<u8>,
    /// Wait for the first message: 500ms, 30s, 5m, 1h
    #[arg(long, value_name = "TIME", requires = "take", value_parser = wait)]
    wait: Option<Duration>,
    /// Maximum number of messages listed
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, conflicts_with = "take",
        value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
    /// Acknowledge this message: it is not delivered again
    #[arg(long, value_name = "MESSAGE", conflicts_with = "take")]
    ack: Option<MessageId>,
    /// Return this message as a failed attempt
    #[arg(long, value_name = "MESSAGE", conflicts_with_all = ["take", "ack"])]
    nack: Option<MessageId>,
    /// Reason for returning it
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
        (Some(take), ..) => self::take(&server, agent, take, args.wait, format),
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
                Cell::fixed(text(&peeked.message["messageId"])),
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

/// State of a message, and its remaining time.
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

fn wait(text: &str) -> Result<Duration, String> {
    let wait = duration::parse_or_seconds(text).filter(|wait| *wait <= LONGEST_WAIT);
    wait.ok_or_else(|| "a time such as 500ms, 30s, 5m or 1h, at most 7d".to_owned())
}

fn take(
    server: &Server,
    agent: &AgentId,
    take: u8,
    wait: Option<Duration>,
    format: Format,
) -> anyhow::Result<Answer> {
    let deadline = Instant::now() + wait.unwrap_or_default();
    // A call waits for at most `LONGEST_CALL`, so a longer wait is several calls.
    let found = loop {
        let left = deadline.saturating_duration_since(Instant::now()).min(LONGEST_CALL);
        let mut question = vec![("limit", take.to_string())];
        question.extend(wait.map(|_| ("wait", format!("{}ms", left.as_millis()))));
        let found: InboxPage = server.ask(&format!("/bus/agents/{agent}/inbox"), &question)?;
        if !found.messages.is_empty() || Instant::now() >= deadline {
            break found;
        }
    };
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
        let done = if how == "ack" {
            "is acknowledged"
        } else {
            "is returned: it is delivered again, or is a dead letter after the last attempt"
        };
        writeln!(out, "{id} {done}")?;
        Ok(writeln!(out, "\nnext: openclaw-a2a log show {id}")?)
    })?;
    Ok(Answer::Yes)
}
