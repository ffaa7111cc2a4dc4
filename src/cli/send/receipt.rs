//! Receipt of a sent message, with the next command to run.

use a2a_protocol::{Kind, Report};
use anstyle::Style;
use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::cli::human::{short, span, style_of};
use crate::cli::server_error::ServerError;
use crate::cli::stdout::{Out, sanitize};
use crate::cli::table::fields;
use crate::cli::{Answer, Format, format};

/// Maximum recipients listed by name.
const MOST_NAMES: usize = 10;

/// Prints the bus's receipt for `message`.
///
/// # Errors
/// When the answer is no receipt: the caller was not authorized, or the request was malformed.
pub(super) fn show(
    status: u16,
    answer: &str,
    message: &Value,
    format: Format,
) -> anyhow::Result<Answer> {
    let mut receipt: Value = serde_json::from_str(answer).unwrap_or_default();
    if !receipt["outcome"].is_string() {
        return Err(ServerError::from_response(status, answer).into());
    }
    // Fill in ids that a refusal does not contain.
    for (name, value) in [
        ("messageId", &message["messageId"]),
        ("correlationId", &message["correlationId"]),
        ("taskId", &message["payload"]["taskId"]),
    ] {
        if let (None, Some(text)) = (receipt.get(name), value.as_str()) {
            receipt[name] = json!(text);
        }
    }
    format::document(format, &receipt.to_string(), |out| write(&receipt, message, out))?;
    Ok(if (200..300).contains(&status) { Answer::Yes } else { Answer::No })
}

/// Prints the violations of input that is no message; nothing was sent.
pub(super) fn refused_unsent(report: &Report, format: Format) -> anyhow::Result<Answer> {
    let receipt = json!({
        "outcome": "invalid",
        "reason": "This is no message; nothing was sent.",
        "errors": report.violations(),
    });
    format::document(format, &receipt.to_string(), |out| write(&receipt, &Value::Null, out))?;
    Ok(Answer::No)
}

fn write(receipt: &Value, message: &Value, out: &mut Out) -> anyhow::Result<()> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let outcome = receipt["outcome"].as_str().unwrap_or_default();
    let (style, bold) = (style_of(outcome), Style::new().bold());
    let kind = message["type"].as_str().unwrap_or("message");
    writeln!(out, "{style}{}{style:#}  {}", short(outcome, 32), short(kind, 32))?;
    fields(
        out,
        &[
            ("message", text(&message["messageId"])),
            ("conversation", text(&message["correlationId"])),
            ("task", text(&receipt["taskId"])),
            ("from", text(&message["from"]["agentId"])),
            ("to", recipients(receipt, outcome, message)),
            ("record", receipt["seq"].as_u64().map(|seq| seq.to_string())),
            ("reason", text(&receipt["reason"])),
            ("try again in", receipt["retryAfterMs"].as_i64().map(wait)),
        ],
    )?;
    for error in receipt["errors"].as_array().into_iter().flatten() {
        let path = error["path"].as_str().filter(|path| !path.is_empty()).unwrap_or("(the whole)");
        let (code, message_text) = (text(&error["code"]), text(&error["message"]));
        let message_text = sanitize(&message_text.unwrap_or_default());
        let (path, code) = (short(path, 200), short(&code.unwrap_or_default(), 32));
        writeln!(
            out,
            "  {bold}{path}{bold:#}  {code}: {message_text}{}",
            suggestion(error, &message_text)
        )?;
    }
    if let Some(next) = next(outcome, receipt, message) {
        writeln!(out, "\nnext: {}", sanitize(&next))?;
    }
    Ok(())
}

fn wait(ms: i64) -> String {
    span(TimeDelta::milliseconds(ms))
}

/// The suggested value, unless the message contains it already.
fn suggestion(error: &Value, message_text: &str) -> String {
    match error["suggestion"].as_str() {
        Some(word) if !message_text.contains(word) => {
            format!(" Did you mean {}?", short(word, 100))
        }
        _ => String::new(),
    }
}

fn recipients(receipt: &Value, outcome: &str, message: &Value) -> Option<String> {
    let all = receipt["recipients"].as_array().filter(|all| !all.is_empty());
    let Some(all) = all else {
        let reached_none = outcome == "delivered" && message["to"].is_null();
        return reached_none.then(|| "no agent: none belongs to its scope".to_owned());
    };
    let one = |recipient: &Value| {
        let [agent, outcome] = ["agentId", "outcome"].map(|key| recipient[key].as_str());
        format!("{} ({})", agent.unwrap_or("?"), outcome.unwrap_or("?"))
    };
    let mut names: Vec<_> = all.iter().take(MOST_NAMES).map(one).collect();
    if all.len() > MOST_NAMES {
        names.push(format!("and {} more", all.len() - MOST_NAMES));
    }
    Some(names.join(", "))
}

/// Kind of an invalid message, as written or as suggested.
fn a_kind(written: Option<&str>, receipt: &Value) -> Option<Kind> {
    let errors = receipt["errors"].as_array().into_iter().flatten();
    let meant = errors.filter(|error| error["path"] == "/type");
    let mut meant = meant.filter_map(|error| error["suggestion"].as_str());
    written.and_then(Kind::from_name).or_else(|| meant.find_map(Kind::from_name))
}

/// The most useful next command.
fn next(outcome: &str, receipt: &Value, message: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let from = text(&message["from"]["agentId"]);
    let to = text(&message["to"]["agentId"]);
    let kind = text(&message["type"]);
    let words = match outcome {
        "delivered" | "queued" | "duplicate" => match text(&receipt["taskId"]) {
            Some(task) if kind.as_deref() == Some("task_request") => format!("task show {task}"),
            _ => format!("log thread {}", text(&message["correlationId"])?),
        },
        "invalid" => match a_kind(kind.as_deref(), receipt) {
            Some(kind) => format!("schema {kind}"),
            None => "schema".to_owned(),
        },
        "unknown_recipient" => "agents".to_owned(),
        "forbidden"
            if receipt["reason"].as_str().is_some_and(|why| why.contains("access rule")) =>
        {
            format!("access explain {} {} {}", from?, to?, kind?)
        }
        "forbidden" => "send --help".to_owned(),
        "unknown_task" | "not_assignee" | "illegal_transition" => {
            format!("task show {}", text(&receipt["taskId"])?)
        }
        "circuit_open" => format!("breaker show {}", text(&receipt["circuit"])?),
        "queue_full" => format!("inbox {}", to?),
        _ => return None,
    };
    Some(format!("openclaw-a2a {words}"))
}
