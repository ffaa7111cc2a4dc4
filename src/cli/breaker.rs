//! `openclaw-a2a breaker`: lists, shows, trips and resets circuits.

use a2a_policy::CircuitKey;
use a2a_protocol::CorrelationId;
use anstyle::Style;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::human::{short, span, style_of, timestamp};
use super::server::Server;
use super::server_locator::ServerLocator;
use super::stdout::{Out, note, sanitize};
use super::table::{Cell, Table, fields};
use super::{Answer, Format, Global, format};

/// List, show, trip or reset circuits
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a breaker list
  openclaw-a2a breaker show correlation:0192a4c8-7e1a-7b3c-9d4e-000000000002
  openclaw-a2a breaker trip 0192a4c8-7e1a-7b3c-9d4e-000000000002 \\
    --reason 'let us talk first'
  openclaw-a2a breaker reset 0192a4c8-7e1a-7b3c-9d4e-000000000002

A KEY is what `breaker list` shows: correlation:ID (the id of a conversation alone will do) or
pair:FROM:TO:CONTENT.

Exit codes: 0 success, 1 it is not stopped (show, reset), 2 it could not be done.")]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List open circuits, the latest first
    List,
    /// Show a circuit: reason, evidence and history
    Show {
        #[arg(value_parser = key)]
        key: CircuitKey,
    },
    /// Reset a circuit, so that its conversation continues
    Reset {
        #[arg(value_parser = key)]
        key: CircuitKey,
    },
    /// Trip a circuit: stop a conversation until it is reset, and notify its participants
    Trip {
        #[arg(value_parser = key)]
        key: CircuitKey,
        /// Reason, for the participants
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// Parses a circuit key; a bare conversation id is one, too.
fn key(text: &str) -> Result<CircuitKey, String> {
    if let Ok(conversation) = text.parse::<CorrelationId>() {
        return Ok(CircuitKey::Correlation(conversation));
    }
    text.parse().map_err(|error: a2a_policy::BadCircuitKey| error.to_string())
}

#[derive(Deserialize)]
struct Circuits {
    circuits: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct CircuitEvents {
    events: Vec<Box<RawValue>>,
    #[serde(rename = "nextCursor", default)]
    next: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CircuitRow {
    key: String,
    state: String,
    reason: String,
    evidence: String,
    since: DateTime<Utc>,
    #[serde(default)]
    participants: Vec<String>,
    retry_after_ms: Option<i64>,
}

impl CircuitRow {
    /// When the circuit closes.
    fn until(&self) -> String {
        match self.retry_after_ms {
            _ if self.state == "half_open" => "lets a few through".to_owned(),
            Some(ms) => format!("tries again in {}", span(TimeDelta::milliseconds(ms))),
            None => "until it is reset".to_owned(),
        }
    }
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let server = ServerLocator::from_options(global)?.require_server()?;
    let format = global.format;
    match &args.verb {
        Verb::List => list(&server, format),
        Verb::Show { key } => show(&server, key, format),
        Verb::Reset { key } => {
            let answer = server.call(&format!("/bus/circuits/{key}/reset"), &json!({}))?;
            format::document(format, answer.get(), |out| Ok(writeln!(out, "{key} is closed")?))?;
            Ok(Answer::Yes)
        }
        Verb::Trip { key, reason } => {
            let body = reason.as_ref().map_or(json!({}), |reason| json!({ "reason": reason }));
            let answer = server.call(&format!("/bus/circuits/{key}/trip"), &body)?;
            format::document(format, answer.get(), |out| {
                writeln!(out, "{key} is stopped")?;
                Ok(writeln!(out, "\nnext: openclaw-a2a breaker reset {key}")?)
            })?;
            Ok(Answer::Yes)
        }
    }
}

fn circuits(server: &Server) -> anyhow::Result<Vec<Box<RawValue>>> {
    Ok(server.ask::<Circuits>("/bus/circuits", &[])?.circuits)
}

fn list(server: &Server, format: Format) -> anyhow::Result<Answer> {
    let circuits = circuits(server)?;
    format::list(format, "circuits", &circuits, |out| {
        if circuits.is_empty() {
            writeln!(out, "no open circuits")?;
            return Ok(());
        }
        let mut table = Table::new(["KEY", "STATE", "REASON", "SINCE", "UNTIL"]);
        for circuit in &circuits {
            let circuit: CircuitRow = format::read(circuit)?;
            let (since, until) = (timestamp(circuit.since), circuit.until());
            table.row([
                Cell::whole(&circuit.key),
                circuit.state.into(),
                circuit.reason.into(),
                Cell::fixed(since),
                until.into(),
            ]);
        }
        table.write(out)
    })?;
    Ok(Answer::Yes)
}

fn show(server: &Server, key: &CircuitKey, format: Format) -> anyhow::Result<Answer> {
    let name = key.to_string();
    let all = circuits(server)?;
    let is_it = |raw: &RawValue| format::read::<CircuitRow>(raw).is_ok_and(|c| c.key == name);
    let Some(found) = all.iter().find(|raw| is_it(raw)) else {
        note(&format!("{name} is not stopped; see `openclaw-a2a breaker list`"));
        return Ok(Answer::No);
    };
    let events = history(server, key)?;
    let mut whole: Value = format::read(found)?;
    whole["events"] = json!(events);
    format::document(format, to_raw_value(&whole)?.get(), |out| {
        write(&format::read(found)?, &events, out)
    })?;
    Ok(Answer::Yes)
}

/// All events of the circuit, oldest first.
fn history(server: &Server, key: &CircuitKey) -> anyhow::Result<Vec<Box<RawValue>>> {
    let (mut events, mut next) = (Vec::new(), "0".to_owned());
    while !next.is_empty() {
        let page: CircuitEvents =
            server.ask(&format!("/bus/circuits/{key}/log"), &[("cursor", next)])?;
        events.extend(page.events);
        next = page.next;
    }
    Ok(events)
}

fn write(circuit: &CircuitRow, events: &[Box<RawValue>], out: &mut Out) -> anyhow::Result<()> {
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let until = circuit.until();
    writeln!(out, "{bold}{}{bold:#}", sanitize(&circuit.key))?;
    fields(
        out,
        &[
            ("state", Some(format!("{}, {until}", circuit.state))),
            ("reason", Some(circuit.reason.clone())),
            ("evidence", Some(circuit.evidence.clone())),
            ("since", Some(timestamp(circuit.since))),
            ("took part", Some(circuit.participants.join(", ")).filter(|names| !names.is_empty())),
        ],
    )?;
    writeln!(out)?;
    for event in events {
        let event: Value = format::read(event)?;
        let text = |name: &str| short(event[name].as_str().unwrap_or("-"), 300);
        let style = style_of(&text("event"));
        writeln!(
            out,
            "{}  {style}{}{style:#}  {}  {dim}line {}{dim:#}",
            text("time"),
            text("event"),
            text("reason"),
            event["seq"]
        )?;
    }
    writeln!(out, "\nnext: openclaw-a2a breaker reset {}", sanitize(&circuit.key))?;
    Ok(())
}
