//! Searchable fields of a message record: agents, kind, ids.
//!
//! A record contains its message verbatim, and a refused message may have any content, so that no
//! structure can be assumed. Most messages are well-formed, and parsing them must be fast: the
//! indexer parses each message without precomputed terms ([`crate::index::terms`]), and a search
//! each candidate.

use std::borrow::Cow;
use std::collections::HashMap;

use a2a_protocol::{CorrelationId, Kind, MessageId, Outcome, TaskId};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The searchable fields of a record, apart from its text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Facets<'a> {
    /// The sender, `from`, `to` and the recipients; with repetitions.
    pub agents: Vec<Cow<'a, str>>,
    pub kind: Option<Kind>,
    pub message_id: Option<MessageId>,
    pub correlation: Option<CorrelationId>,
    pub task: Option<TaskId>,
}

/// Time and outcome of a record, which have fixed positions.
pub(crate) fn time_and_outcome(line: &[u8]) -> Option<(DateTime<Utc>, Option<Outcome>)> {
    let rest = line.strip_prefix(b"{\"seq\":")?;
    let rest = &rest[memchr::memchr(b',', rest)?..];
    let rest = rest.strip_prefix(b",\"time\":\"")?;
    let time = std::str::from_utf8(rest.get(..24)?).ok()?;
    let time = DateTime::parse_from_rfc3339(time).ok()?.to_utc();
    let word = rest.get(24..)?.strip_prefix(b"\",\"outcome\":\"");
    let word = word.and_then(|rest| rest.get(..memchr::memchr(b'"', rest)?));
    let outcome = word.and_then(|word| Outcome::from_name(std::str::from_utf8(word).ok()?));
    Some((time, outcome))
}

/// The time of a record; `None` if the line is not a record.
#[must_use]
pub fn time_of(line: &str) -> Option<DateTime<Utc>> {
    time_and_outcome(line.as_bytes()).map(|(time, _)| time)
}

/// A string that borrows from the line unless something in it was escaped.
#[derive(Deserialize)]
struct JsonStr<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordFields<'a> {
    #[serde(borrow)]
    by: Option<JsonStr<'a>>,
    #[serde(borrow)]
    message_id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow, default)]
    recipients: Vec<Party<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    from: Option<Party<'a>>,
    #[serde(borrow)]
    to: Option<Party<'a>>,
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    #[serde(borrow)]
    correlation_id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    payload: Option<Payload<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Party<'a> {
    #[serde(borrow)]
    agent_id: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    #[serde(borrow)]
    task_id: Option<JsonStr<'a>>,
}

/// Parses the searchable fields of a record.
pub(crate) fn facets(line: &[u8]) -> Facets<'_> {
    match serde_json::from_slice::<RecordFields<'_>>(line) {
        Ok(record) => of_record(record),
        // A message of another structure, or with a duplicate key.
        Err(_) => serde_json::from_slice(line).map(of_any).unwrap_or_default(),
    }
}

fn of_record(record: RecordFields<'_>) -> Facets<'_> {
    let RecordFields { by, message_id, message, recipients } = record;
    let parse = |word: &Option<JsonStr<'_>>| word.as_ref().and_then(|word| word.0.parse().ok());
    let mut facets = Facets { message_id: parse(&message_id), ..Facets::default() };
    facets.agents.extend(by.map(|word| word.0));
    let agents = recipients.into_iter().filter_map(|party| party.agent_id);
    facets.agents.extend(agents.map(|word| word.0));
    let Some(Message { from, to, kind, correlation_id, payload }) = message else { return facets };
    for party in [from, to].into_iter().flatten() {
        facets.agents.extend(party.agent_id.map(|word| word.0));
    }
    facets.kind = kind.and_then(|word| Kind::from_name(&word.0));
    facets.correlation = correlation_id.and_then(|word| word.0.parse().ok());
    facets.task = payload.and_then(|payload| payload.task_id?.0.parse().ok());
    facets
}

/// Parses level by level: a message may be nested deeper than serde_json parses at once.
fn of_any(record: &RawValue) -> Facets<'static> {
    let text = |value: Option<&RawValue>| serde_json::from_str::<String>(value?.get()).ok();
    let record = fields(record);
    let field = |of: &Fields<'_>, name: &str| text(of.get(name).copied());
    let message = record.get("message").map(|message| fields(message)).unwrap_or_default();
    let payload = message.get("payload").map(|payload| fields(payload)).unwrap_or_default();
    let recipients = record.get("recipients").map(|list| serde_json::from_str(list.get()));
    let recipients: Vec<&RawValue> = recipients.and_then(Result::ok).unwrap_or_default();
    let parties = ["from", "to"].into_iter().filter_map(|name| message.get(name).copied());
    let names = parties.chain(recipients).filter_map(|party| field(&fields(party), "agentId"));
    Facets {
        agents: field(&record, "by").into_iter().chain(names).map(Cow::Owned).collect(),
        kind: field(&message, "type").and_then(|word| Kind::from_name(&word)),
        message_id: field(&record, "messageId").and_then(|id| id.parse().ok()),
        correlation: field(&message, "correlationId").and_then(|id| id.parse().ok()),
        task: field(&payload, "taskId").and_then(|id| id.parse().ok()),
    }
}

/// The unparsed fields of an object; of duplicate keys the last.
type Fields<'a> = HashMap<String, &'a RawValue>;

fn fields(value: &RawValue) -> Fields<'_> {
    serde_json::from_str(value.get()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000001";

    #[test]
    fn message_of_any_structure_is_parsed_as_far_as_possible() {
        for message in [
            format!(
                r#"{{"from":{{"agentId":"ro\u006dan"}},"to":{{"agentId":"tim"}},"type":"broadcast","correlationId":"{}","payload":{{"taskId":"{ID}","x":[1]}}}}"#,
                ID.to_uppercase()
            ),
            format!(
                r#"{{"from":{{"agentId":"roman"}},"to":{{"agentId":"tim","agentId":"tim"}},"type":"broadcast","correlationId":"{ID}","payload":{{"taskId":"{ID}"}}}}"#
            ),
        ] {
            let line = format!(
                r#"{{"seq":1,"outcome":"delivered","messageId":"{ID}","by":"bob","message":{message},"recipients":[{{"agentId":"ann","outcome":"queued"}}]}}"#
            );
            let mut found = facets(line.as_bytes());
            found.agents.sort();
            assert_eq!(found.agents, ["ann", "bob", "roman", "tim"]);
            assert_eq!((found.kind, found.message_id), (Some(Kind::Broadcast), ID.parse().ok()));
            assert_eq!((found.correlation, found.task), (ID.parse().ok(), ID.parse().ok()));
        }
        for message in ["7", "[]", r#"{"from":"roman","to":[],"type":5,"payload":"x"}"#] {
            let line = format!(r#"{{"by":"bob","message":{message},"recipients":[]}}"#);
            assert_eq!(facets(line.as_bytes()).agents, ["bob"], "{message}");
        }
        assert_eq!(facets(b"no line"), Facets::default());
    }

    #[test]
    fn deep_nesting_hides_no_field() {
        for depth in [126, 127, 128, 5_000] {
            let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            for message in [
                deep.clone(),
                format!(r#"{{"from":{deep},"type":"broadcast"}}"#),
                format!(r#"{{"type":7,"type":"broadcast","payload":{deep}}}"#),
            ] {
                let line = format!(
                    r#"{{"messageId":"{ID}","by":"bob","message":{message},"recipients":[{{"agentId":"ann"}}]}}"#
                );
                let found = facets(line.as_bytes());
                assert_eq!(found.agents, ["bob", "ann"], "{depth}");
                assert_eq!(found.message_id, ID.parse().ok(), "{depth}");
                let kind = message.contains("broadcast").then_some(Kind::Broadcast);
                assert_eq!(found.kind, kind, "{depth}");
            }
        }
    }

    #[test]
    fn time_and_outcome_are_where_they_are_written() {
        let line = br#"{"seq":12,"time":"2026-02-21T18:30:00.007Z","outcome":"queued","by":"x"}"#;
        let (time, outcome) = time_and_outcome(line).unwrap();
        assert_eq!((time.timestamp_millis(), outcome), (1_771_698_600_007, Some(Outcome::Queued)));
        assert_eq!(time_and_outcome(b"{}"), None);
    }
}
