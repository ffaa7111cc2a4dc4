//! Raw message from standard input.
//!
//! Missing header fields are inserted before its own bytes; the rest is sent unchanged, so that the
//! bus validates what was written.

use std::io::{IsTerminal, Read};

use a2a_protocol::{Envelope, Protocol, Report, limits};
use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use super::{OutgoingMessage, Sender, new_id, now};
use crate::cli::stdout::sanitize;

/// Reads a message. Input that is not a JSON object is refused here, with the protocol's
/// violations.
pub(super) fn read(sender: &Sender) -> anyhow::Result<Result<OutgoingMessage, Report>> {
    if std::io::stdin().is_terminal() {
        anstream::eprintln!("Reading a message from the terminal; end with Ctrl-D.");
    }
    let mut bytes = Vec::new();
    let most = limits::MESSAGE_BYTES as u64 + 1;
    let input = std::io::stdin().lock();
    input.take(most).read_to_end(&mut bytes).context("cannot read standard input")?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        bail!("standard input is empty; write a message such as {{\"type\": …, \"payload\": …}}");
    }
    if bytes.len() > limits::MESSAGE_BYTES {
        // The excess is counted, not stored.
        let rest = std::io::stdin().lock().take(limits::COUNTED_BYTES as u64);
        let rest = std::io::copy(&mut { rest }, &mut std::io::sink());
        let rest = rest.context("cannot read standard input")?;
        let total = bytes.len().saturating_add(usize::try_from(rest).unwrap_or(usize::MAX));
        return Ok(Err(Report::too_large(total)));
    }
    filled(&bytes, sender)
}

fn filled(bytes: &[u8], sender: &Sender) -> anyhow::Result<Result<OutgoingMessage, Report>> {
    let given = match serde_json::from_slice::<Value>(bytes) {
        Ok(given @ Value::Object(_)) => given,
        _ => {
            return Ok(Envelope::parse(bytes).map(|message| OutgoingMessage {
                from: message.from.agent_id.to_string(),
                bytes: bytes.to_vec(),
                message: Value::Null,
            }));
        }
    };
    let from = match (given["from"]["agentId"].as_str(), &sender.from) {
        (Some(claimed), Some(wanted)) if claimed != wanted.as_str() => {
            let claimed = sanitize(claimed);
            bail!(
                "the message is from `{claimed}`, and --from says `{wanted}`; leave one of them out"
            )
        }
        (Some(claimed), _) => claimed.to_owned(),
        _ => sender.name().to_owned(),
    };
    let header = [
        ("protocol", json!(Protocol::V1)),
        ("messageId", json!(new_id())),
        ("correlationId", json!(new_id())),
        ("timestamp", json!(now())),
        ("from", json!({ "agentId": from })),
        ("priority", json!("normal")),
    ];
    let missing = header.into_iter().filter(|(name, _)| given.get(*name).is_none());
    let missing: Map<_, _> = missing.map(|(name, value)| (name.to_owned(), value)).collect();
    let bytes = joined(&missing, bytes);
    let mut message = given;
    missing.into_iter().for_each(|(name, value)| message[name] = value);
    Ok(Ok(OutgoingMessage { from, bytes, message }))
}

/// Inserts fields at the start of an object.
fn joined(fields: &Map<String, Value>, object: &[u8]) -> Vec<u8> {
    let Some(at) = object.iter().position(|byte| *byte == b'{').filter(|_| !fields.is_empty())
    else {
        return object.to_vec();
    };
    let rest = &object[at + 1..];
    let is_empty = rest.trim_ascii_start().starts_with(b"}");
    let mut text = Value::Object(fields.clone()).to_string().into_bytes();
    text.pop();
    text.extend_from_slice(if is_empty { b"" } else { b"," });
    text.extend_from_slice(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_are_inserted_and_other_bytes_kept() {
        let one = Map::from_iter([("a".to_owned(), json!(1))]);
        for (object, expected) in [
            (" {\"b\": 1.0, \"b\":2}\n", "{\"a\":1,\"b\": 1.0, \"b\":2}\n"),
            ("{ }", "{\"a\":1 }"),
            ("{}", "{\"a\":1}"),
        ] {
            let text = String::from_utf8(joined(&one, object.as_bytes())).unwrap();
            assert_eq!(text, expected);
        }
        assert_eq!(joined(&Map::new(), b" {}"), b" {}");
    }
}
