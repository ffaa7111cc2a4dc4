//! `openclaw-a2a dead-letters`: lists, shows, retries and drops dead letters.

use a2a_protocol::AgentId;
use anstyle::Style;
use anyhow::bail;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::server::Server;
use super::server_locator::ServerLocator;
use super::stdout::{Out, note, sanitize};
use super::table::{Table, fields};
use super::{Answer, Format, Global, format};

/// List, retry or drop dead letters
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a dead-letters list
  openclaw-a2a dead-letters show 17
  openclaw-a2a dead-letters retry 17
  openclaw-a2a dead-letters drop 17 tim

SEQ is the number of the message's record, as `list` and `openclaw-a2a log` show it. AGENT is the recipient;
it may be left out where only one recipient has that number. A dead letter that asked for a task asks for it again.

Exit codes: 0 success, 1 there is no such dead letter or its task went on without it, 2 it could not be done.")]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List dead letters
    List,
    /// Show a dead letter: its message and the reason
    Show(LetterRef),
    /// Retry a dead letter: redeliver it with all its attempts
    Retry(LetterRef),
    /// Drop a dead letter; the log keeps it
    Drop(LetterRef),
}

#[derive(clap::Args)]
struct LetterRef {
    /// Sequence number of its record
    seq: u64,
    /// Recipient [default: the only recipient of that number]
    agent: Option<AgentId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeadLetters {
    dead_letters: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeadLetter {
    seq: u64,
    message_id: String,
    sender: String,
    agent_id: String,
    attempts: u32,
    reason: String,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let server = ServerLocator::from_options(global)?.require_server()?;
    let all = server.ask::<DeadLetters>("/bus/dead-letters", &[])?.dead_letters;
    match &args.verb {
        Verb::List => list(&all, global.format),
        Verb::Show(wanted) => match find(&all, wanted)? {
            Some((raw, letter)) => show(&server, raw, &letter, global.format),
            None => Ok(Answer::No),
        },
        Verb::Retry(wanted) => resolve(&server, &all, wanted, "retry", global.format),
        Verb::Drop(wanted) => resolve(&server, &all, wanted, "drop", global.format),
    }
}

fn list(all: &[Box<RawValue>], format: Format) -> anyhow::Result<Answer> {
    format::list(format, "deadLetters", all, |out| {
        if all.is_empty() {
            writeln!(out, "there are no dead letters")?;
            return Ok(());
        }
        let mut table = Table::new(["SEQ", "FROM", "AGENT", "ATTEMPTS", "REASON"]);
        for letter in all {
            let letter: DeadLetter = format::read(letter)?;
            table.row([
                letter.seq.to_string().into(),
                letter.sender.into(),
                letter.agent_id.into(),
                letter.attempts.to_string().into(),
                letter.reason.into(),
            ]);
        }
        table.write(out)
    })?;
    Ok(Answer::Yes)
}

/// Finds the dead letter that is named, and notes when there is none.
fn find<'a>(
    all: &'a [Box<RawValue>],
    wanted: &LetterRef,
) -> anyhow::Result<Option<(&'a RawValue, DeadLetter)>> {
    let mut found = Vec::new();
    for raw in all {
        let letter: DeadLetter = format::read(raw)?;
        let is_theirs = wanted.agent.as_ref().is_none_or(|agent| agent.as_str() == letter.agent_id);
        if letter.seq == wanted.seq && is_theirs {
            found.push((&**raw, letter));
        }
    }
    if found.len() > 1 {
        let agents: Vec<_> = found.iter().map(|(_, letter)| letter.agent_id.as_str()).collect();
        bail!("{} is a dead letter of {}; name one of them", wanted.seq, agents.join(", "));
    }
    if found.is_empty() {
        let whose = wanted.agent.as_ref().map(|agent| format!(" of {agent}")).unwrap_or_default();
        let list = "openclaw-a2a dead-letters list";
        note(&format!("there is no dead letter {}{whose}; see `{list}`", wanted.seq));
    }
    Ok(found.pop())
}

fn show(
    server: &Server,
    raw: &RawValue,
    letter: &DeadLetter,
    format: Format,
) -> anyhow::Result<Answer> {
    let mut whole: Value = format::read(raw)?;
    let record: Option<Value> = server.find(&format!("/bus/log/{}", letter.message_id), &[])?;
    whole["message"] = record.map_or(Value::Null, |mut page| page["records"][0]["message"].take());
    format::document(format, &whole.to_string(), |out| write(letter, &whole["message"], out))?;
    Ok(Answer::Yes)
}

fn write(letter: &DeadLetter, message: &Value, out: &mut Out) -> anyhow::Result<()> {
    let bold = Style::new().bold();
    writeln!(out, "{bold}dead letter {}{bold:#}", letter.seq)?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    fields(
        out,
        &[
            ("message", Some(letter.message_id.clone())),
            ("type", text(&message["type"])),
            ("from", Some(letter.sender.clone())),
            ("to", Some(letter.agent_id.clone())),
            ("conversation", text(&message["correlationId"])),
            ("task", text(&message["payload"]["taskId"])),
            ("attempts", Some(letter.attempts.to_string())),
            ("reason", Some(letter.reason.clone())),
        ],
    )?;
    writeln!(out, "\n{bold}payload{bold:#}")?;
    for line in serde_json::to_string_pretty(&message["payload"])?.lines() {
        writeln!(out, "  {}", sanitize(line))?;
    }
    let (seq, agent) = (letter.seq, sanitize(&letter.agent_id));
    writeln!(out, "\nnext: openclaw-a2a dead-letters retry {seq} {agent}")?;
    Ok(())
}

fn resolve(
    server: &Server,
    all: &[Box<RawValue>],
    wanted: &LetterRef,
    what: &str,
    format: Format,
) -> anyhow::Result<Answer> {
    let Some((_, letter)) = find(all, wanted)? else { return Ok(Answer::No) };
    let DeadLetter { seq, agent_id, message_id, .. } = letter;
    let answer = server.call(&format!("/bus/dead-letters/{seq}/{agent_id}/{what}"), &json!({}))?;
    format::document(format, answer.get(), |out| {
        let agent = sanitize(&agent_id);
        match what {
            "retry" => writeln!(out, "{seq} is sent to {agent} again")?,
            _ => writeln!(out, "{seq} of {agent} is dropped")?,
        }
        Ok(writeln!(out, "\nnext: openclaw-a2a log show {}", sanitize(&message_id))?)
    })?;
    Ok(Answer::Yes)
}
