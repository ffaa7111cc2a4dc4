//! Wire forms of A2A 0.3, written directly from the domain model.
//!
//! Over JSON-RPC every object has a `kind`. Over HTTP+JSON the SDKs use the ProtoJSON of the gRPC
//! definition instead. They refuse unknown fields, so that form must not have additional ones.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::encode::Outgoing;
use super::{Method, Version, opt};
use crate::operation::{
    ArtifactUpdateEvent, Authentication, PushConfig, Reply, StatusUpdateEvent, StreamEvent,
    TaskPage,
};
use crate::task::{Artifact, Content, Message, Metadata, Part, Role, Task, TaskState, TaskStatus};

/// The two forms of 0.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// JSON Schema form, with `kind`.
    Kind,
    /// ProtoJSON form.
    Proto,
}

/// A value to be written in a form of 0.3.
pub(super) struct V03<'a, T: ?Sized>(pub Shape, pub &'a T);

/// The name of a state.
pub(super) const fn state_name(state: TaskState) -> &'static str {
    state.short_name()
}

/// The state with this name.
pub(super) fn state_from_name(name: &str) -> Option<TaskState> {
    TaskState::ALL.iter().copied().find(|&state| state_name(state) == name)
}

/// The name in the proto file, which spells one state differently.
const fn proto_state_name(state: TaskState) -> &'static str {
    match state {
        TaskState::Canceled => "TASK_STATE_CANCELLED",
        state => state.as_str(),
    }
}

/// The name of a role.
pub(super) const fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Agent => "agent",
    }
}

/// The role with this name.
pub(super) fn role_from_name(name: &str) -> Option<Role> {
    Role::ALL.iter().copied().find(|&role| role_name(role) == name)
}

/// The allowed roles, for violation texts.
pub(super) const fn role_rule(version: Version) -> &'static str {
    match version {
        Version::V0_3 => "`user` or `agent`",
        Version::V1_0 => "`ROLE_USER` or `ROLE_AGENT`",
    }
}

/// Metadata key that marks a wrapped value; the SDKs of 1.0 use it too.
const WRAPPED_MARK: &str = "data_part_compat";

/// Wraps data that is not an object into `{"value": …}`, because 0.3 allows objects only. A mark in
/// the metadata lets the reader unwrap it.
fn wrap_data(value: &Value, metadata: Option<&Metadata>) -> Option<(Value, Metadata)> {
    if value.is_object() {
        return None;
    }
    let mut metadata = metadata.cloned().unwrap_or_default();
    metadata.insert(WRAPPED_MARK.into(), true.into());
    let wrapped = Map::from_iter([("value".to_owned(), value.clone())]);
    Some((wrapped.into(), metadata))
}

/// Unwraps such a value.
pub(super) fn unwrap_data(value: Value, metadata: &mut Option<Metadata>) -> Value {
    let marked =
        metadata.as_ref().is_some_and(|fields| fields.get(WRAPPED_MARK) == Some(&true.into()));
    let Value::Object(mut fields) = value else { return value };
    if !marked || fields.len() != 1 || !fields.contains_key("value") {
        return Value::Object(fields);
    }
    if let Some(marks) = metadata {
        marks.shift_remove(WRAPPED_MARK);
        if marks.is_empty() {
            *metadata = None;
        }
    }
    fields.shift_remove("value").unwrap_or_default()
}

/// Writes a reply or an event.
pub(super) fn serialize<S: Serializer>(
    shape: Shape,
    outgoing: &Outgoing<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match (outgoing, shape) {
        (Outgoing::Event(event, last), _) => stream_event(shape, event, *last, serializer),
        // 0.3 lists tasks over HTTP+JSON as a bare array.
        (Outgoing::RestReply(_, Reply::Tasks(page)), _) => {
            V03List(shape, &page.tasks).serialize(serializer)
        }
        (Outgoing::RestReply(_, Reply::Deleted), _) => serializer.serialize_map(Some(0))?.end(),
        (Outgoing::Reply(method, reply) | Outgoing::RestReply(method, reply), _) => {
            let wrapped = shape == Shape::Proto
                && matches!(method, Method::SendMessage | Method::StreamMessage);
            match reply {
                Reply::Task(task) if wrapped => one("task", &V03(shape, &**task), serializer),
                Reply::Message(message) if wrapped => {
                    one("message", &V03(shape, &**message), serializer)
                }
                Reply::Task(task) => V03(shape, &**task).serialize(serializer),
                Reply::Message(message) => V03(shape, &**message).serialize(serializer),
                Reply::Tasks(page) => V03(shape, page).serialize(serializer),
                Reply::Push(config) => V03(shape, config).serialize(serializer),
                Reply::Pushes { configs, .. } => match shape {
                    Shape::Kind => V03List(shape, configs).serialize(serializer),
                    Shape::Proto => one("configs", &V03List(shape, configs), serializer),
                },
                Reply::Deleted => serializer.serialize_unit(),
                Reply::Planned { task, objective } => {
                    // ProtoJSON readers refuse unknown fields; the task's metadata contains the
                    // objective's id.
                    let objective = objective.as_deref().filter(|_| shape == Shape::Kind);
                    opt::planned(&V03(shape, &**task), objective, serializer)
                }
                Reply::Answered(message) => one("message", &V03(shape, &**message), serializer),
                Reply::Objective(objective) => opt::objective(*method, objective, serializer),
                Reply::Objectives(page) => page.serialize(serializer),
                Reply::Plan(plan) => opt::plan(*method, plan, serializer),
            }
        }
    }
}

fn stream_event<S: Serializer>(
    shape: Shape,
    event: &StreamEvent,
    last: bool,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match (event, shape) {
        // OPT has the same form in every version.
        (StreamEvent::Objective(_), _) => event.serialize(serializer),
        (StreamEvent::Task(task), Shape::Kind) => V03(shape, &**task).serialize(serializer),
        (StreamEvent::Message(message), Shape::Kind) => {
            V03(shape, &**message).serialize(serializer)
        }
        (StreamEvent::StatusUpdate(update), Shape::Kind) => {
            V03StatusUpdate(shape, update, last).serialize(serializer)
        }
        (StreamEvent::ArtifactUpdate(update), Shape::Kind) => {
            V03(shape, &**update).serialize(serializer)
        }
        (StreamEvent::Task(task), Shape::Proto) => one("task", &V03(shape, &**task), serializer),
        (StreamEvent::Message(message), Shape::Proto) => {
            one("message", &V03(shape, &**message), serializer)
        }
        (StreamEvent::StatusUpdate(update), Shape::Proto) => {
            one("statusUpdate", &V03StatusUpdate(shape, update, last), serializer)
        }
        (StreamEvent::ArtifactUpdate(update), Shape::Proto) => {
            one("artifactUpdate", &V03(shape, &**update), serializer)
        }
    }
}

/// Writes an object with one field.
fn one<S: Serializer>(key: &str, value: &impl Serialize, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(key, value)?;
    map.end()
}

/// A list of such values.
struct V03List<'a, T>(Shape, &'a [T]);

impl<'a, T> Serialize for V03List<'a, T>
where
    V03<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.1.iter().map(|item| V03(self.0, item)))
    }
}

impl<'a, T> Serialize for V03<'a, Arc<T>>
where
    V03<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, shared) = *self;
        V03(shape, &**shared).serialize(serializer)
    }
}

fn optional<M: SerializeMap>(
    map: &mut M,
    key: &str,
    value: Option<&impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

fn kind<M: SerializeMap>(map: &mut M, shape: Shape, name: &str) -> Result<(), M::Error> {
    match shape {
        Shape::Kind => map.serialize_entry("kind", name),
        Shape::Proto => Ok(()),
    }
}

impl Serialize for V03<'_, Task> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, task) = *self;
        let mut map = serializer.serialize_map(None)?;
        kind(&mut map, shape, "task")?;
        map.serialize_entry("id", &task.id)?;
        map.serialize_entry("contextId", &task.context_id)?;
        map.serialize_entry("status", &V03(shape, &task.status))?;
        if !task.artifacts.is_empty() {
            map.serialize_entry("artifacts", &V03List(shape, &task.artifacts))?;
        }
        if !task.history.is_empty() {
            map.serialize_entry("history", &V03List(shape, &task.history))?;
        }
        optional(&mut map, "metadata", task.metadata.as_ref())?;
        map.end()
    }
}

impl Serialize for V03<'_, TaskPage> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, page) = *self;
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("tasks", &V03List(shape, &page.tasks))?;
        map.serialize_entry("nextPageToken", &page.next_page_token)?;
        map.serialize_entry("pageSize", &page.page_size)?;
        map.serialize_entry("totalSize", &page.total_size)?;
        map.end()
    }
}

impl Serialize for V03<'_, TaskStatus> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, status) = *self;
        let mut map = serializer.serialize_map(None)?;
        let name = match shape {
            Shape::Kind => state_name(status.state),
            Shape::Proto => proto_state_name(status.state),
        };
        map.serialize_entry("state", name)?;
        let message = status.message.as_ref().map(|message| V03(shape, message));
        optional(&mut map, "message", message.as_ref())?;
        map.serialize_entry("timestamp", &status.timestamp)?;
        map.end()
    }
}

impl Serialize for V03<'_, Message> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, message) = *self;
        let mut map = serializer.serialize_map(None)?;
        kind(&mut map, shape, "message")?;
        map.serialize_entry("messageId", &message.message_id)?;
        optional(&mut map, "contextId", message.context_id.as_ref())?;
        optional(&mut map, "taskId", message.task_id.as_ref())?;
        let (role, parts) = match shape {
            Shape::Kind => (role_name(message.role), "parts"),
            Shape::Proto => (message.role.as_str(), "content"),
        };
        map.serialize_entry("role", role)?;
        map.serialize_entry(parts, &V03List(shape, &message.parts))?;
        optional(&mut map, "metadata", message.metadata.as_ref())?;
        if !message.extensions.is_empty() {
            map.serialize_entry("extensions", &message.extensions)?;
        }
        // The proto file does not have this field, and its readers refuse unknown ones.
        if shape == Shape::Kind && !message.reference_task_ids.is_empty() {
            map.serialize_entry("referenceTaskIds", &message.reference_task_ids)?;
        }
        map.end()
    }
}

impl Serialize for V03<'_, Part> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, part) = *self;
        let mut map = serializer.serialize_map(None)?;
        let mut metadata = part.metadata.as_ref();
        let wrapped;
        match &part.content {
            Content::Text(text) => {
                kind(&mut map, shape, "text")?;
                map.serialize_entry("text", text)?;
            }
            Content::Raw(_) | Content::Url(_) => {
                kind(&mut map, shape, "file")?;
                map.serialize_entry("file", &V03File(shape, part))?;
            }
            Content::Data(value) => {
                kind(&mut map, shape, "data")?;
                wrapped = wrap_data(value, metadata);
                let value = match &wrapped {
                    Some((value, marked)) => {
                        metadata = Some(marked);
                        value
                    }
                    None => value,
                };
                match shape {
                    Shape::Kind => map.serialize_entry("data", value)?,
                    Shape::Proto => map.serialize_entry("data", &ProtoData { data: value })?,
                }
            }
        }
        optional(&mut map, "metadata", metadata)?;
        map.end()
    }
}

/// The wrapper of data in the proto file.
#[derive(Serialize)]
struct ProtoData<'a> {
    data: &'a serde_json::Value,
}

/// The file of a file part.
struct V03File<'a>(Shape, &'a Part);

impl Serialize for V03File<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, part) = self;
        let mut map = serializer.serialize_map(None)?;
        let (bytes, uri) = match shape {
            Shape::Kind => ("bytes", "uri"),
            Shape::Proto => ("fileWithBytes", "fileWithUri"),
        };
        match &part.content {
            Content::Raw(base64) => map.serialize_entry(bytes, base64)?,
            Content::Url(url) => map.serialize_entry(uri, url)?,
            Content::Text(_) | Content::Data(_) => {}
        }
        optional(&mut map, "name", part.filename.as_ref())?;
        optional(&mut map, "mimeType", part.media_type.as_ref())?;
        map.end()
    }
}

impl Serialize for V03<'_, Artifact> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, artifact) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("artifactId", &artifact.artifact_id)?;
        optional(&mut map, "name", artifact.name.as_ref())?;
        optional(&mut map, "description", artifact.description.as_ref())?;
        map.serialize_entry("parts", &V03List(shape, &artifact.parts))?;
        optional(&mut map, "metadata", artifact.metadata.as_ref())?;
        if !artifact.extensions.is_empty() {
            map.serialize_entry("extensions", &artifact.extensions)?;
        }
        map.end()
    }
}

/// A status update, and whether it is the last event.
struct V03StatusUpdate<'a>(Shape, &'a StatusUpdateEvent, bool);

impl Serialize for V03StatusUpdate<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, update, last) = *self;
        let mut map = serializer.serialize_map(None)?;
        kind(&mut map, shape, "status-update")?;
        map.serialize_entry("taskId", &update.task_id)?;
        map.serialize_entry("contextId", &update.context_id)?;
        map.serialize_entry("status", &V03(shape, &update.status))?;
        map.serialize_entry("final", &last)?;
        optional(&mut map, "metadata", update.metadata.as_ref())?;
        map.end()
    }
}

impl Serialize for V03<'_, ArtifactUpdateEvent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, update) = *self;
        let mut map = serializer.serialize_map(None)?;
        kind(&mut map, shape, "artifact-update")?;
        map.serialize_entry("taskId", &update.task_id)?;
        map.serialize_entry("contextId", &update.context_id)?;
        map.serialize_entry("artifact", &V03(shape, &update.artifact))?;
        map.serialize_entry("append", &update.append)?;
        map.serialize_entry("lastChunk", &update.last_chunk)?;
        optional(&mut map, "metadata", update.metadata.as_ref())?;
        map.end()
    }
}

impl Serialize for V03<'_, PushConfig> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, config) = *self;
        let mut map = serializer.serialize_map(Some(2))?;
        match (shape, &config.task_id) {
            (Shape::Kind, task) => optional(&mut map, "taskId", task.as_ref())?,
            (Shape::Proto, Some(task)) => {
                let id = config.id.as_ref().map_or("", |id| id.as_str());
                let name = format!("tasks/{task}/pushNotificationConfigs/{id}");
                map.serialize_entry("name", &name)?;
            }
            (Shape::Proto, None) => {}
        }
        map.serialize_entry("pushNotificationConfig", &V03PushConfig(config))?;
        map.end()
    }
}

/// The inner object of a push notification configuration.
struct V03PushConfig<'a>(&'a PushConfig);

impl Serialize for V03PushConfig<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        optional(&mut map, "id", self.0.id.as_ref())?;
        map.serialize_entry("url", &self.0.url)?;
        optional(&mut map, "token", self.0.token.as_ref())?;
        let authentication = self.0.authentication.as_ref().map(V03Authentication);
        optional(&mut map, "authentication", authentication.as_ref())?;
        map.end()
    }
}

struct V03Authentication<'a>(&'a Authentication);

impl Serialize for V03Authentication<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schemes", &[&self.0.scheme])?;
        optional(&mut map, "credentials", self.0.credentials.as_ref())?;
        map.end()
    }
}
