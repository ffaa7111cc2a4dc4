//! Translation of an A2A task to the `task_request` that is sent to the agent.

use std::sync::Arc;

use a2a_protocol::body::{Complexity, TaskContext, TaskRequest, TaskType};
use a2a_protocol::task::{ContextId, Message, OpaqueId, Role, Task};
use a2a_protocol::{
    AgentId, Body, CorrelationId, Envelope, Extensible, MessageId, NonBlank, Priority, Protocol,
    Recipient, Sender, TaskId, Title, limits,
};
use serde::Serialize;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Now;

/// The maximum size in bytes of a message in the request; larger parts stay with the task. With the
/// longest description it is below the limit of a bus message.
const CARRIED_BYTES: usize = 96 * 1024;
/// The maximum length of the description.
const DESCRIPTION_CHARS: usize = 16_384;

/// The description of a message without text.
const NO_TEXT: &str = "(no text; see context.a2a)";

/// Whether a description from [`task_request`] certainly is the whole text of its message.
#[must_use]
pub fn describes_whole(description: &str) -> bool {
    description.len() < DESCRIPTION_CHARS && description != NO_TEXT
}

/// The input for a request.
#[derive(Debug)]
pub struct Request<'a> {
    /// The task; its latest user message is the request.
    pub task: &'a Task,
    /// The name the request is sent under.
    pub principal: &'a AgentId,
    /// The agent that must do it.
    pub agent: &'a AgentId,
    /// The conversation on the bus.
    pub correlation: CorrelationId,
    /// Earlier messages of related tasks, for an agent that needs the history.
    pub earlier_messages: &'a [Message],
    /// The A2A version of the call, sent as `context.a2aVersion` if the agent needs it.
    pub version: Option<&'a str>,
}

/// The request does not fit into a bus message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot travel over the bus: {0}")]
pub struct BadRequest(String);

/// The id of the request for a task because of one caller's message. `before` is how often that
/// message id was used for the task already. The id is the same after a restart, so that a repeated
/// dispatch is a duplicate.
#[must_use]
pub fn dispatch_id(task: TaskId, message: &OpaqueId, before: usize) -> MessageId {
    let mut bytes = *task.as_uuid().as_bytes();
    let (_, low) = bytes.split_at_mut(9);
    let mixed = xxh3_64_with_seed(message.as_str().as_bytes(), before as u64);
    for (byte, mixed) in low.iter_mut().zip(mixed.to_be_bytes()) {
        *byte ^= mixed;
    }
    // Version and variant are in the first nine bytes.
    MessageId::try_from(uuid::Uuid::from_bytes(bytes))
        .unwrap_or_else(|_| unreachable!("a task's id is of version 7"))
}

/// A request, ready to be sent.
#[derive(Debug)]
pub struct TaskDispatch {
    /// The `task_request`.
    pub message: Envelope,
    /// Whether it contains everything about the task, so that the task can be rebuilt from it.
    pub whole: bool,
}

/// Builds the `task_request` of a task.
///
/// # Errors
/// The message breaks a limit of the bus even without its large parts.
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
            Extensible::<TaskContext>::from_value(&carried).map_err(|error| bad(&error))?
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

/// Fast path: the A2A message unchanged, if there is no history and it fits. `None` otherwise.
fn whole(
    message: &Message,
    earlier: &[&Message],
    request: &Request<'_>,
) -> Option<Extensible<TaskContext>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Whole<'a> {
        a2a: &'a Message,
        context_id: &'a ContextId,
        #[serde(skip_serializing_if = "Option::is_none")]
        a2a_version: Option<&'a str>,
        /// Lets the task service rebuild the task from the journal.
        a2a_whole: bool,
    }
    // The task's own metadata is not sent.
    if !earlier.is_empty() || request.task.metadata.is_some() {
        return None;
    }
    let (context_id, a2a_version) = (&request.task.context_id, request.version);
    let whole = Whole { a2a: message, context_id, a2a_version, a2a_whole: true };
    let context = Extensible::new(TaskContext::default(), &whole).ok()?;
    (context.as_json().len() <= CARRIED_BYTES).then_some(context)
}

/// The A2A message with the parts that fit, the context id, and the history.
fn context(message: &Message, earlier: &[&Message], request: &Request<'_>) -> Value {
    let mut budget = CARRIED_BYTES;
    let carried_message = carried(message, &mut budget);
    let mut context = json!({ "a2a": carried_message, "contextId": request.task.context_id });
    if let Some(version) = request.version {
        context["a2aVersion"] = version.into();
    }
    if !earlier.is_empty() {
        // The newest first while they fit, then in original order.
        let mut kept: Vec<Value> = Vec::new();
        for message in earlier.iter().rev().take(100) {
            kept.push(carried(message, &mut budget));
        }
        kept.reverse();
        context["history"] = kept.into();
    }
    context
}

/// A message in which parts that do not fit are replaced by references.
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

/// Nesting levels around a part in a bus message.
const ENCLOSING_LEVELS: usize = 8;

/// Whether a value is within the limits for all values on the bus.
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

/// The text in one line, cut to the length of a title.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(4 * limits::TITLE_CHARS));
    for word in text.split_whitespace() {
        if line.len() >= 4 * limits::TITLE_CHARS {
            break; // no character has more bytes
        }
        if !line.is_empty() {
            line.push(' ');
        }
        // A longer word than a title ends it.
        line.push_str(beginning(word, limits::TITLE_CHARS));
    }
    line.truncate(beginning(&line, limits::TITLE_CHARS).len());
    line
}

/// The first `chars` characters of a text.
fn beginning(text: &str, chars: usize) -> &str {
    if text.len() <= chars {
        return text;
    }
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// Replaces U+0000, which no text on the bus may contain.
fn clean(text: String) -> String {
    if !text.contains('\0') {
        return text;
    }
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests;
