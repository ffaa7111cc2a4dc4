//! Wire form of A2A 1.0: the serde form of the domain model plus a few wrappers.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::encode::Outgoing;
use super::{Method, opt};
use crate::operation::{PushConfig, Reply};

/// The reply to a send: a task or a message, named by its field.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum SendResult<'a, T> {
    Task(&'a T),
    Message(&'a T),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PushPage<'a> {
    configs: &'a [PushConfig],
    next_page_token: &'a str,
}

pub(super) fn serialize<S: Serializer>(
    outgoing: &Outgoing<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match outgoing {
        Outgoing::Event(event, _) => event.serialize(serializer),
        Outgoing::RestReply(_, Reply::Deleted) => serializer.serialize_map(Some(0))?.end(),
        Outgoing::Reply(method, reply) | Outgoing::RestReply(method, reply) => match reply {
            Reply::Task(task) => match method {
                Method::SendMessage | Method::StreamMessage => {
                    SendResult::Task(&**task).serialize(serializer)
                }
                _ => task.serialize(serializer),
            },
            Reply::Message(message) => SendResult::Message(&**message).serialize(serializer),
            Reply::Tasks(page) => page.serialize(serializer),
            Reply::Push(config) => config.serialize(serializer),
            Reply::Pushes { configs, next_page_token } => {
                PushPage { configs, next_page_token }.serialize(serializer)
            }
            Reply::Deleted => serializer.serialize_unit(),
            Reply::Planned { task, objective } => {
                opt::planned(&**task, objective.as_deref(), serializer)
            }
            Reply::Answered(message) => SendResult::Message(&**message).serialize(serializer),
            Reply::Objective(objective) => opt::objective(*method, objective, serializer),
            Reply::Objectives(page) => page.serialize(serializer),
            Reply::Plan(plan) => opt::plan(*method, plan, serializer),
        },
    }
}
