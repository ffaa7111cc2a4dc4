//! What only 0.3 says: its words, and its two forms of writing.
//!
//! Over JSON-RPC everything has a `kind`. Over HTTP+JSON its SDKs speak the ProtoJSON of its gRPC
//! definition instead, and refuse fields they do not know, so nothing may be added to it.

mod write;

use serde_json::{Map, Value};

use super::Version;
use crate::task::{Metadata, Role, TaskState};

pub(super) use write::serialize;

/// Which of the two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// With `kind`.
    Kind,
    /// ProtoJSON.
    Proto,
}

/// Something to be written in a form of 0.3.
pub(super) struct Old<'a, T: ?Sized>(pub Shape, pub &'a T);

/// The word for a state.
pub(super) const fn state_word(state: TaskState) -> &'static str {
    state.in_a_word()
}

/// The state of this word.
pub(super) fn state_of(word: &str) -> Option<TaskState> {
    TaskState::ALL.iter().copied().find(|&state| state_word(state) == word)
}

/// The word in the proto file, which spells one of them its own way.
const fn proto_state_word(state: TaskState) -> &'static str {
    match state {
        TaskState::Canceled => "TASK_STATE_CANCELLED",
        state => state.as_str(),
    }
}

/// The word for a role.
pub(super) const fn role_word(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Agent => "agent",
    }
}

/// The role of this word.
pub(super) fn role_of(word: &str) -> Option<Role> {
    Role::ALL.iter().copied().find(|&role| role_word(role) == word)
}

/// What to write for a role.
pub(super) const fn role_rule(version: Version) -> &'static str {
    match version {
        Version::V0_3 => "`user` or `agent`",
        Version::V1_0 => "`ROLE_USER` or `ROLE_AGENT`",
    }
}

/// The mark beside a wrapped value; the SDKs of 1.0 use it between the versions, too.
const WRAPPED: &str = "data_part_compat";

/// 0.3 takes only objects as data: anything else goes into `{"value": …}`, and a mark into the
/// metadata so that whoever knows it can take it out again.
fn wrap_data(value: &Value, metadata: Option<&Metadata>) -> Option<(Value, Metadata)> {
    if value.is_object() {
        return None;
    }
    let mut metadata = metadata.cloned().unwrap_or_default();
    metadata.insert(WRAPPED.into(), true.into());
    let wrapped = Map::from_iter([("value".to_owned(), value.clone())]);
    Some((wrapped.into(), metadata))
}

/// Takes such a value out again.
pub(super) fn unwrap_data(value: Value, metadata: &mut Option<Metadata>) -> Value {
    let marked = metadata.as_ref().is_some_and(|fields| fields.get(WRAPPED) == Some(&true.into()));
    let Value::Object(mut fields) = value else { return value };
    if !marked || fields.len() != 1 || !fields.contains_key("value") {
        return Value::Object(fields);
    }
    if let Some(marks) = metadata {
        marks.shift_remove(WRAPPED);
        if marks.is_empty() {
            *metadata = None;
        }
    }
    fields.shift_remove("value").unwrap_or_default()
}
