//! A task as the `task_request` that puts it into the agent's session.

use std::sync::Arc;

use a2a_protocol::body::{Complexity, TaskContext, TaskRequest, TaskType};
use a2a_protocol::task::{ContextId, Label, Message, Role, Task};
use a2a_protocol::{
    AgentId, Body, CorrelationId, Envelope, MessageId, NonBlank, Open, Priority, Protocol,
    Recipient, Sender, TaskId, Title, limits,
};
use serde::Serialize;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Now;

/// How much of a message travels with the request, as it is written; larger parts stay with the
/// task. With the longest description it is less than a message of the bus may have.
const CARRIED_BYTES: usize = 96 * 1024;
/// How much of the text is the description as well.
const DESCRIPTION_CHARS: usize = 16_384;

/// The description of a message without any text.
const NO_TEXT: &str = "(no text; see context.a2a)";

/// Whether the description of a request that [`task_request`] made certainly is the whole text of its
/// message.
#[must_use]
pub fn describes_whole(description: &str) -> bool {
    description.len() < DESCRIPTION_CHARS && description != NO_TEXT
}

/// What is asked, of whom, in whose name.
#[derive(Debug)]
pub struct Request<'a> {
    /// The task; the last message of whoever asked is what is asked now.
    pub task: &'a Task,
    /// In whose name it travels.
    pub principal: &'a AgentId,
    /// Who is to do it.
    pub agent: &'a AgentId,
    /// The conversation on the bus.
    pub correlation: CorrelationId,
    /// What was said before about other tasks, for an agent that is to hear of it.
    pub earlier_messages: &'a [Message],
    /// The version of A2A in which it is asked, where its agent is to hear of it, as
    /// `context.a2aVersion`.
    pub version: Option<&'a str>,
}

/// The request cannot be put into a message of the bus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot travel over the bus: {0}")]
pub struct BadRequest(String);

/// The id of the message that hands a task over because of something the caller said, `before`
/// being how often that id was used for the task already. The same after a restart, so that
/// handing it over again is a repeat and not a second request.
#[must_use]
pub fn dispatch_id(task: TaskId, said: &Label, before: usize) -> MessageId {
    let mut bytes = *task.as_uuid().as_bytes();
    let (_, low) = bytes.split_at_mut(9);
    let mixed = xxh3_64_with_seed(said.as_str().as_bytes(), before as u64);
    for (byte, mixed) in low.iter_mut().zip(mixed.to_be_bytes()) {
        *byte ^= mixed;
    }
    // Version and variant stand in the first nine bytes.
    MessageId::try_from(uuid::Uuid::from_bytes(bytes))
        .unwrap_or_else(|_| unreachable!("a task's id is of version 7"))
}

/// A request, ready to be sent.
#[derive(Debug)]
pub struct TaskDispatch {
    /// The message that asks the agent.
    pub message: Envelope,
    /// It carries all that was ever said about the task: whoever has it knows the task.
    pub whole: bool,
}

/// The message that asks the agent for the task.
///
/// # Errors
/// When the message breaks a limit of the bus even without its large parts.
pub fn task_request(request: &Request<'_>, now: Now) -> Result<TaskDispatch, BadRequest> {
    let bad = |error: &dyn std::fmt::Display| BadRequest(error.to_string());
    let history = &request.task.history;
    let Some(at) = history.iter().rposition(|message| message.role == Role::User) else {
        return Err(BadRequest("there is none".into()));
    };
    let (earlier, message) = (&history[..at], &history[at]);
    let same_id =
        |other: &&Arc<Message>| other.role == Role::User && other.message_id == message.message_id;
    let before = earlier.iter().filter(same_id).count();
    let text = clean(message.text());
    let text = if text.trim().is_empty() { NO_TEXT } else { &text };
    let title = one_line(text);
    let description = beginning(text, DESCRIPTION_CHARS).to_owned();
    let earlier_messages = request.earlier_messages.iter();
    let all_before: Vec<&Message> =
        earlier_messages.chain(earlier.iter().map(Arc::as_ref)).collect();
    let whole = whole(message, &all_before, request);
    let carries_all = whole.is_some();
    let context = match whole {
        Some(context) => context,
        None => {
            let carried = context(message, &all_before, request);
            Open::<TaskContext>::from_value(&carried).map_err(|error| bad(&error))?
        }
    };
    let body = TaskRequest {
        task_id: request.task.id,
        title: Title::try_from(title).map_err(|error| bad(&error))?,
        description: NonBlank::try_from(description).map_err(|error| bad(&error))?,
        task_type: TaskType::Analysis,
        complexity: Complexity::Medium,
        deadline: None,
        context: Some(context),
        acceptance_criteria: None,
    };
    let message = Envelope {
        protocol: Protocol::V1,
        message_id: dispatch_id(request.task.id, &message.message_id, before),
        timestamp: now.utc.into(),
        from: Sender { agent_id: request.principal.clone(), role: None, session_key: None },
        to: Some(Recipient { agent_id: request.agent.clone(), role: None }),
        priority: Priority::Normal,
        correlation_id: request.correlation,
        body: Body::TaskRequest(body),
    };
    Ok(TaskDispatch { message, whole: carries_all })
}

/// The A2A message as it is and the conversation, if that is everything and it fits: so it is
/// with most.
fn whole(
    message: &Message,
    earlier: &[&Message],
    request: &Request<'_>,
) -> Option<Open<TaskContext>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Whole<'a> {
        a2a: &'a Message,
        context_id: &'a ContextId,
        #[serde(skip_serializing_if = "Option::is_none")]
        a2a_version: Option<&'a str>,
        /// For the service itself, should it have to make the task anew from the journal.
        a2a_whole: bool,
    }
    // The task's own metadata do not travel.
    if !earlier.is_empty() || request.task.metadata.is_some() {
        return None;
    }
    let (context_id, a2a_version) = (&request.task.context_id, request.version);
    let whole = Whole { a2a: message, context_id, a2a_version, a2a_whole: true };
    let context = Open::new(TaskContext::default(), &whole).ok()?;
    (context.as_json().len() <= CARRIED_BYTES).then_some(context)
}

/// The A2A message with everything that fits, the conversation, and what was said before.
fn context(message: &Message, earlier: &[&Message], request: &Request<'_>) -> Value {
    let mut budget = CARRIED_BYTES;
    let said = carried(message, &mut budget);
    let mut context = json!({ "a2a": said, "contextId": request.task.context_id });
    if let Some(version) = request.version {
        context["a2aVersion"] = version.into();
    }
    if !earlier.is_empty() {
        // The newest first, as long as there is room; then in order again.
        let mut kept: Vec<Value> = Vec::new();
        for message in earlier.iter().rev().take(100) {
            kept.push(carried(message, &mut budget));
        }
        kept.reverse();
        context["history"] = kept.into();
    }
    context
}

/// A message whose parts that do not fit are named instead of carried.
fn carried(message: &Message, budget: &mut usize) -> Value {
    let parts: Vec<Value> = message
        .parts
        .iter()
        .enumerate()
        .map(|(at, part)| {
            let written = serde_json::to_value(part).unwrap_or_default();
            let size = written.to_string().len();
            if size <= *budget && fits(&written, 0) {
                *budget -= size;
                return written;
            }
            json!({ "reference": { "messageId": message.message_id, "part": at, "bytes": size } })
        })
        .collect();
    let bare = Message { parts: Vec::new(), metadata: None, ..message.clone() };
    let mut written = serde_json::to_value(bare).unwrap_or_default();
    written["parts"] = parts.into();
    if let Some(metadata) = &message.metadata {
        let metadata = Value::Object(metadata.clone());
        let size = metadata.to_string().len();
        if size <= *budget && fits(&metadata, 0) {
            *budget -= size;
            written["metadata"] = metadata;
        }
    }
    written
}

/// Levels that lie around a part in a message of the bus.
const ENCLOSING_LEVELS: usize = 8;

/// Whether a value keeps the limits that hold for every value of the bus.
fn fits(value: &Value, depth: usize) -> bool {
    let short = |text: &str| {
        (text.len() <= limits::STRING_CHARS || text.chars().count() <= limits::STRING_CHARS)
            && !text.contains('\0')
    };
    if depth + ENCLOSING_LEVELS > limits::DEPTH {
        return false;
    }
    match value {
        Value::String(text) => short(text),
        Value::Array(items) => {
            items.len() <= limits::ARRAY_ITEMS && items.iter().all(|item| fits(item, depth + 1))
        }
        Value::Object(fields) => {
            fields.iter().all(|(key, value)| short(key) && fits(value, depth + 1))
        }
        _ => true,
    }
}

/// The beginning of a text in one line, as long as a title may be.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(4 * limits::TITLE_CHARS));
    for word in text.split_whitespace() {
        if line.len() >= 4 * limits::TITLE_CHARS {
            break; // no character has more bytes
        }
        if !line.is_empty() {
            line.push(' ');
        }
        // A word longer than a title ends it.
        line.push_str(beginning(word, limits::TITLE_CHARS));
    }
    line.truncate(beginning(&line, limits::TITLE_CHARS).len());
    line
}

/// The first characters of a text.
fn beginning(text: &str, chars: usize) -> &str {
    if text.len() <= chars {
        return text;
    }
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// Without U+0000, which no text of the bus may hold.
fn clean(text: String) -> String {
    if !text.contains('\0') {
        return text;
    }
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(parts: Value) -> Task {
        serde_json::from_value(json!({
            "id": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
            "contextId": "talk",
            "status": {"state": "TASK_STATE_WORKING", "timestamp": "2026-02-21T18:30:00.000Z"},
            "history": [{"messageId": "m1", "role": "ROLE_USER", "parts": parts}],
        }))
        .unwrap()
    }

    fn request(task: &Task) -> Envelope {
        request_in(task, None)
    }

    fn request_in(task: &Task, version: Option<&str>) -> Envelope {
        let envelope = dispatch(task, version).message;
        // It is a message that the bus takes.
        Envelope::parse(&envelope.to_json()).unwrap()
    }

    fn dispatch(task: &Task, version: Option<&str>) -> TaskDispatch {
        let (principal, agent) = ("acme".parse().unwrap(), "tim".parse().unwrap());
        let correlation = "0192a4c8-7e1a-7b3c-9d4e-000000000002".parse().unwrap();
        let (principal, agent) = (&principal, &agent);
        let request =
            Request { task, principal, agent, correlation, earlier_messages: &[], version };
        let now = Now { utc: chrono::DateTime::UNIX_EPOCH, uptime: std::time::Duration::ZERO };
        task_request(&request, now).unwrap()
    }

    #[test]
    fn it_says_whether_it_carries_everything() {
        let small = task(json!([{"text": "Count"}]));
        assert!(dispatch(&small, None).whole);
        assert!(dispatch(&small, Some("0.3")).whole);
        let large = task(json!([{"text": "x".repeat(200_000)}]));
        assert!(!dispatch(&large, None).whole, "a part stays with the task");
        let mut noted = small.clone();
        noted.metadata = json!({"colour": "blue"}).as_object().cloned();
        assert!(!dispatch(&noted, None).whole, "the task's own metadata do not travel");
        let mut again = small.clone();
        again.history.push(again.history[0].clone());
        assert!(!dispatch(&again, None).whole, "more was said before");
    }

    #[test]
    fn a_short_text_is_the_description_word_for_word_and_a_title_is_one_line() {
        let described = |text: &str| {
            let envelope = request(&task(json!([{"text": text}])));
            let Body::TaskRequest(body) = envelope.body else { panic!() };
            (body.title.to_string(), body.description.to_string())
        };
        let (title, description) = described("  Count\n\tthe  kinds ");
        assert_eq!(
            (title.as_str(), description.as_str()),
            ("Count the kinds", "  Count\n\tthe  kinds ")
        );
        assert!(describes_whole(&description));
        assert!(!describes_whole(&described(" \n").1), "there is no text");
        for (letter, count) in [("x", DESCRIPTION_CHARS), ("ü", DESCRIPTION_CHARS + 1)] {
            let (title, description) = described(&letter.repeat(count));
            assert_eq!(title, letter.repeat(limits::TITLE_CHARS));
            assert_eq!(description.chars().count(), DESCRIPTION_CHARS);
            assert!(!describes_whole(&description), "it may have been cut");
        }
    }

    fn context_of(envelope: &Envelope) -> Value {
        let Body::TaskRequest(body) = &envelope.body else { panic!() };
        body.context.as_ref().unwrap().to_value()
    }

    #[test]
    fn an_id_that_is_used_again_leads_to_a_new_request() {
        let mut task = task(json!([{"text": "one"}]));
        let first = request(&task).message_id;
        assert_eq!(request(&task).message_id, first, "the same after a restart");
        let again = task.history[0].clone();
        task.history.push(again);
        assert_ne!(request(&task).message_id, first);
    }

    #[test]
    fn the_message_travels_whole() {
        let parts = json!([{"text": "Count\nthe kinds"}, {"data": {"n": [1, null]}}]);
        let envelope = request(&task(parts.clone()));
        let Body::TaskRequest(body) = &envelope.body else { panic!() };
        assert_eq!(body.title.as_str(), "Count the kinds");
        assert_eq!(&*body.description, "Count\nthe kinds");
        let context = context_of(&envelope);
        assert_eq!(context["a2a"]["parts"], parts);
        assert_eq!(context["contextId"], "talk");
    }

    #[test]
    fn the_version_of_the_caller_travels_along() {
        let task = task(json!([{"text": "hi"}]));
        assert!(context_of(&request(&task)).get("a2aVersion").is_none());
        assert_eq!(context_of(&request_in(&task, Some("0.3")))["a2aVersion"], "0.3");
    }

    #[test]
    fn what_does_not_fit_travels_by_reference() {
        let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
        for part in [
            json!({"raw": "A".repeat(200_000)}),
            json!({"text": "x".repeat(40_000)}),
            json!({"text": "a\u{0}b"}),
            json!({"data": deep}),
            json!({"data": vec![0; 1_001]}),
        ] {
            let context = context_of(&request(&task(json!([part, {"text": "small"}]))));
            assert_eq!(context["a2a"]["parts"][0]["reference"]["part"], 0, "{part:.60}");
            assert_eq!(context["a2a"]["parts"][1]["text"], "small");
        }
    }

    #[test]
    fn the_longest_that_travels_is_a_message_of_the_bus() {
        request(&task(json!([{"text": "\u{1}".repeat(16_000)}, {"data": vec![0; 999]}])));
        request(&task(json!([{"text": "\u{1f980}".repeat(32_768)}])));
    }

    #[test]
    fn handing_over_again_is_another_message_but_the_same_after_a_restart() {
        let id: TaskId = "0192a4c8-7e1a-7b3c-9d4e-000000000003".parse().unwrap();
        let (one, two) = ("m1".try_into().unwrap(), "m2".try_into().unwrap());
        assert_eq!(dispatch_id(id, &one, 0), dispatch_id(id, &one, 0));
        assert_ne!(dispatch_id(id, &one, 0), dispatch_id(id, &two, 0));
    }
}
