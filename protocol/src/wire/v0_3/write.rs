//! Writes the domain model in either form of 0.3, without building anything in between.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Old, Shape, proto_state_word, role_word, state_word, wrap_data};
use crate::operation::{
    ArtifactUpdate, Authentication, PushConfig, Reply, StatusUpdate, StreamEvent, TaskPage,
};
use crate::task::{Artifact, Content, Message, Part, Task, TaskStatus};
use crate::wire::encode::What;
use crate::wire::{Method, opt};

/// Writes a reply or an event.
pub(in crate::wire) fn serialize<S: Serializer>(
    shape: Shape,
    what: &What<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match (what, shape) {
        (What::Event(event, last), _) => stream_event(shape, event, *last, serializer),
        // 0.3 lists tasks over HTTP+JSON as a bare array.
        (What::RestReply(_, Reply::Tasks(page)), _) => {
            Each(shape, &page.tasks).serialize(serializer)
        }
        (What::RestReply(_, Reply::Deleted), _) => serializer.serialize_map(Some(0))?.end(),
        (What::Reply(method, reply) | What::RestReply(method, reply), _) => {
            let wrapped = shape == Shape::Proto
                && matches!(method, Method::SendMessage | Method::StreamMessage);
            match reply {
                Reply::Task(task) if wrapped => one("task", &Old(shape, &**task), serializer),
                Reply::Message(message) if wrapped => {
                    one("message", &Old(shape, &**message), serializer)
                }
                Reply::Task(task) => Old(shape, &**task).serialize(serializer),
                Reply::Message(message) => Old(shape, &**message).serialize(serializer),
                Reply::Tasks(page) => Old(shape, page).serialize(serializer),
                Reply::Push(config) => Old(shape, config).serialize(serializer),
                Reply::Pushes { configs, .. } => match shape {
                    Shape::Kind => Each(shape, configs).serialize(serializer),
                    Shape::Proto => one("configs", &Each(shape, configs), serializer),
                },
                Reply::Deleted => serializer.serialize_unit(),
                Reply::Planned { task, objective } => {
                    // Readers of ProtoJSON refuse what the proto file has not; the task's
                    // metadata names the objective.
                    let objective = objective.as_deref().filter(|_| shape == Shape::Kind);
                    opt::planned(&Old(shape, &**task), objective, serializer)
                }
                Reply::Answered(message) => one("message", &Old(shape, &**message), serializer),
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
        // The words of OPT are the same everywhere.
        (StreamEvent::Objective(_), _) => event.serialize(serializer),
        (StreamEvent::Task(task), Shape::Kind) => Old(shape, &**task).serialize(serializer),
        (StreamEvent::Message(said), Shape::Kind) => Old(shape, &**said).serialize(serializer),
        (StreamEvent::StatusUpdate(update), Shape::Kind) => {
            Status(shape, update, last).serialize(serializer)
        }
        (StreamEvent::ArtifactUpdate(update), Shape::Kind) => {
            Old(shape, &**update).serialize(serializer)
        }
        (StreamEvent::Task(task), Shape::Proto) => one("task", &Old(shape, &**task), serializer),
        (StreamEvent::Message(said), Shape::Proto) => {
            one("message", &Old(shape, &**said), serializer)
        }
        (StreamEvent::StatusUpdate(update), Shape::Proto) => {
            one("statusUpdate", &Status(shape, update, last), serializer)
        }
        (StreamEvent::ArtifactUpdate(update), Shape::Proto) => {
            one("artifactUpdate", &Old(shape, &**update), serializer)
        }
    }
}

/// An object of one field.
fn one<S: Serializer>(key: &str, value: &impl Serialize, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(key, value)?;
    map.end()
}

/// Many of the same.
struct Each<'a, T>(Shape, &'a [T]);

impl<'a, T> Serialize for Each<'a, T>
where
    Old<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.1.iter().map(|item| Old(self.0, item)))
    }
}

impl<'a, T> Serialize for Old<'a, Arc<T>>
where
    Old<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, shared) = *self;
        Old(shape, &**shared).serialize(serializer)
    }
}

fn optional<M: SerializeMap>(
    map: &mut M,
    key: &str,
    value: Option<&impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

fn kind<M: SerializeMap>(map: &mut M, shape: Shape, word: &str) -> Result<(), M::Error> {
    match shape {
        Shape::Kind => map.serialize_entry("kind", word),
        Shape::Proto => Ok(()),
    }
}

impl Serialize for Old<'_, Task> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, task) = *self;
        let mut map = serializer.serialize_map(None)?;
        kind(&mut map, shape, "task")?;
        map.serialize_entry("id", &task.id)?;
        map.serialize_entry("contextId", &task.context_id)?;
        map.serialize_entry("status", &Old(shape, &task.status))?;
        if !task.artifacts.is_empty() {
            map.serialize_entry("artifacts", &Each(shape, &task.artifacts))?;
        }
        if !task.history.is_empty() {
            map.serialize_entry("history", &Each(shape, &task.history))?;
        }
        optional(&mut map, "metadata", task.metadata.as_ref())?;
        map.end()
    }
}

impl Serialize for Old<'_, TaskPage> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, page) = *self;
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("tasks", &Each(shape, &page.tasks))?;
        map.serialize_entry("nextPageToken", &page.next_page_token)?;
        map.serialize_entry("pageSize", &page.page_size)?;
        map.serialize_entry("totalSize", &page.total_size)?;
        map.end()
    }
}

impl Serialize for Old<'_, TaskStatus> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, status) = *self;
        let mut map = serializer.serialize_map(None)?;
        let word = match shape {
            Shape::Kind => state_word(status.state),
            Shape::Proto => proto_state_word(status.state),
        };
        map.serialize_entry("state", word)?;
        let message = status.message.as_ref().map(|message| Old(shape, message));
        optional(&mut map, "message", message.as_ref())?;
        map.serialize_entry("timestamp", &status.timestamp)?;
        map.end()
    }
}

impl Serialize for Old<'_, Message> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, message) = *self;
        let mut map = serializer.serialize_map(None)?;
        kind(&mut map, shape, "message")?;
        map.serialize_entry("messageId", &message.message_id)?;
        optional(&mut map, "contextId", message.context_id.as_ref())?;
        optional(&mut map, "taskId", message.task_id.as_ref())?;
        let (role, parts) = match shape {
            Shape::Kind => (role_word(message.role), "parts"),
            Shape::Proto => (message.role.as_str(), "content"),
        };
        map.serialize_entry("role", role)?;
        map.serialize_entry(parts, &Each(shape, &message.parts))?;
        optional(&mut map, "metadata", message.metadata.as_ref())?;
        if !message.extensions.is_empty() {
            map.serialize_entry("extensions", &message.extensions)?;
        }
        // The proto file has no such field, and its readers refuse what it has not.
        if shape == Shape::Kind && !message.reference_task_ids.is_empty() {
            map.serialize_entry("referenceTaskIds", &message.reference_task_ids)?;
        }
        map.end()
    }
}

impl Serialize for Old<'_, Part> {
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
                map.serialize_entry("file", &File(shape, part))?;
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
                    Shape::Proto => map.serialize_entry("data", &Inner { data: value })?,
                }
            }
        }
        optional(&mut map, "metadata", metadata)?;
        map.end()
    }
}

/// The message that the proto file puts around data.
#[derive(Serialize)]
struct Inner<'a> {
    data: &'a serde_json::Value,
}

/// The file of a part that is one.
struct File<'a>(Shape, &'a Part);

impl Serialize for File<'_> {
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

impl Serialize for Old<'_, Artifact> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, artifact) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("artifactId", &artifact.artifact_id)?;
        optional(&mut map, "name", artifact.name.as_ref())?;
        optional(&mut map, "description", artifact.description.as_ref())?;
        map.serialize_entry("parts", &Each(shape, &artifact.parts))?;
        optional(&mut map, "metadata", artifact.metadata.as_ref())?;
        if !artifact.extensions.is_empty() {
            map.serialize_entry("extensions", &artifact.extensions)?;
        }
        map.end()
    }
}

/// A status update and whether it is the last event.
struct Status<'a>(Shape, &'a StatusUpdate, bool);

impl Serialize for Status<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, update, last) = *self;
        let mut map = serializer.serialize_map(None)?;
        kind(&mut map, shape, "status-update")?;
        map.serialize_entry("taskId", &update.task_id)?;
        map.serialize_entry("contextId", &update.context_id)?;
        map.serialize_entry("status", &Old(shape, &update.status))?;
        map.serialize_entry("final", &last)?;
        optional(&mut map, "metadata", update.metadata.as_ref())?;
        map.end()
    }
}

impl Serialize for Old<'_, ArtifactUpdate> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(shape, update) = *self;
        let mut map = serializer.serialize_map(None)?;
        kind(&mut map, shape, "artifact-update")?;
        map.serialize_entry("taskId", &update.task_id)?;
        map.serialize_entry("contextId", &update.context_id)?;
        map.serialize_entry("artifact", &Old(shape, &update.artifact))?;
        map.serialize_entry("append", &update.append)?;
        map.serialize_entry("lastChunk", &update.last_chunk)?;
        optional(&mut map, "metadata", update.metadata.as_ref())?;
        map.end()
    }
}

impl Serialize for Old<'_, PushConfig> {
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
        map.serialize_entry("pushNotificationConfig", &Wish(config))?;
        map.end()
    }
}

/// The inner part of a wish to be told.
struct Wish<'a>(&'a PushConfig);

impl Serialize for Wish<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        optional(&mut map, "id", self.0.id.as_ref())?;
        map.serialize_entry("url", &self.0.url)?;
        optional(&mut map, "token", self.0.token.as_ref())?;
        let authentication = self.0.authentication.as_ref().map(Schemes);
        optional(&mut map, "authentication", authentication.as_ref())?;
        map.end()
    }
}

struct Schemes<'a>(&'a Authentication);

impl Serialize for Schemes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schemes", &[&self.0.scheme])?;
        optional(&mut map, "credentials", self.0.credentials.as_ref())?;
        map.end()
    }
}
