//! From the parameters of a call to an [`Operation`], or to everything that is wrong with them.

mod check;
mod message;
mod opt;
mod push;

use serde::Deserialize as _;

use self::check::{Check, Place};
use super::explain::{self, Complaint, Node};
use super::read::{Count, Object, Opt, Plain, Push, Send, Str, Word};
use super::{Dialect, Method, Version, v0_3};
use crate::fault::Fault;
use crate::operation::{CancelTask, GetTask, ListPushes, ListTasks, Operation, PushKey, Subscribe};
use crate::task::{ContextId, Label, TaskState};
use crate::violation::{Code, Violation};

/// A call, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Which of several agents behind one address is meant.
    pub tenant: Option<String>,
    /// What is wanted.
    pub operation: Operation,
    /// How the caller writes, and so how it wants to be answered.
    pub dialect: Dialect,
}

/// What a path says besides the method; it goes before what the body says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) task: Option<String>,
    pub(super) config: Option<String>,
}

/// Reads the `params` of a call.
///
/// # Errors
/// [`Fault::InvalidParams`] with the place, the kind and a sentence for each violation.
pub fn decode(version: Version, method: Method, params: Option<&str>) -> Result<Decoded, Fault> {
    decode_named(version, method, params, &Named::default())
}

/// Reads a text as one of the types of [`super::read`], or says in detail why it cannot.
macro_rules! read {
    ($shape:ident, $params:expr) => {
        match serde_json::from_str::<Object<$shape<'_>>>($params) {
            Ok(Object(read)) => read,
            Err(_) => {
                return Err(explained($params, |node| Object::<$shape<'_>>::deserialize(node).err()))
            }
        }
    };
}

pub(super) fn decode_named(
    version: Version,
    method: Method,
    params: Option<&str>,
    named: &Named,
) -> Result<Decoded, Fault> {
    let given = params.map(str::trim).filter(|params| !matches!(*params, "" | "null"));
    let params = match given {
        Some(params) => params,
        None if needs_params(method, named) => return Err(absent(method, version)),
        None => "{}",
    };
    if let Some(violation) = explain::nul(params) {
        return Err(Fault::InvalidParams(vec![violation]));
    }
    match method {
        Method::SendMessage | Method::StreamMessage => {
            message::send(version, method, read!(Send, params))
        }
        Method::SetPush => push::set(version, read!(Push, params), named),
        _ if method.is_opt() => opt::asked(version, method, read!(Opt, params)),
        _ => plain(version, method, read!(Plain, params), named),
    }
}

/// Reads parameters that came as the pairs of a query.
pub(super) fn decode_query(
    version: Version,
    method: Method,
    pairs: Vec<(String, String)>,
    named: &Named,
) -> Result<Decoded, Fault> {
    let fields = pairs.into_iter().map(|(key, value)| (key, Node::Text(value))).collect();
    let node = Node::Fields(fields);
    let read = Plain::deserialize(&node)
        .map_err(|complaint| Fault::InvalidParams(vec![complaint.into_violation()]))?;
    plain(version, method, read, named)
}

fn explained(params: &str, read: impl Fn(&Node) -> Option<Complaint>) -> Fault {
    Fault::InvalidParams(vec![explain::why(params, read)])
}

fn needs_params(method: Method, named: &Named) -> bool {
    match method {
        Method::ListTasks | Method::ListObjectives | Method::ExtendedCard => false,
        Method::SendMessage | Method::StreamMessage | Method::SetPush => true,
        _ => named.task.is_none(),
    }
}

fn absent(method: Method, version: Version) -> Fault {
    let first = match (method, version) {
        (Method::SendMessage | Method::StreamMessage, _) => "message",
        (Method::SetPush, _) => "taskId",
        (Method::CreateObjective, _) => "name",
        (Method::CreatePlan, _) => "objectiveId",
        (Method::AddTasks, _) => "planId",
        (Method::GetPush | Method::ListPushes | Method::DeletePush, Version::V1_0) => "taskId",
        _ => "id",
    };
    let message = format!(
        "The parameters are missing. `{}` takes an object with at least `{first}`.",
        method.rpc_name(version)
    );
    Fault::InvalidParams(vec![Violation::new("", Code::Missing, message)])
}

/// Every method whose parameters are a few plain values.
fn plain(
    version: Version,
    method: Method,
    read: Plain<'_>,
    named: &Named,
) -> Result<Decoded, Fault> {
    let mut check = Check::new();
    let tenant = filled(read.tenant.as_ref()).map(str::to_owned);
    let operation = match method {
        Method::ListTasks => list_tasks(&mut check, version, &read).map(Operation::ListTasks),
        Method::GetTask => {
            let id = task_of(&mut check, "id", read.id.as_ref(), named);
            let history_length = history_length(&mut check, read.history_length);
            id.map(|id| Operation::GetTask(GetTask { id, history_length }))
        }
        Method::CancelTask => {
            let id = task_of(&mut check, "id", read.id.as_ref(), named);
            check.depth(Place::Key(&Place::Root, "metadata"), read.metadata.as_ref());
            id.map(|id| Operation::CancelTask(CancelTask { id, metadata: read.metadata }))
        }
        Method::Subscribe => task_of(&mut check, "id", read.id.as_ref(), named)
            .map(|id| Operation::Subscribe(Subscribe { id, after: None })),
        Method::GetPush => {
            let needed = version == Version::V1_0;
            push_key(&mut check, version, &read, named, needed).map(Operation::GetPush)
        }
        Method::DeletePush => {
            push_key(&mut check, version, &read, named, true).map(Operation::DeletePush)
        }
        Method::ListPushes => list_pushes(&mut check, version, &read, named),
        // The others have parameters of their own; only the card is left, which has none.
        _ => Some(Operation::ExtendedCard),
    };
    let operation = check.finish(operation)?;
    Ok(Decoded { tenant, operation, dialect: version.dialect() })
}

/// A text that says something; ProtoJSON writes what is not set as an empty one.
fn filled<'a>(text: Option<&'a Str<'_>>) -> Option<&'a str> {
    text.map(|text| &*text.0).filter(|text| !text.is_empty())
}

/// The task a call is about: the path says it, or the field.
fn task_of(
    check: &mut Check,
    field: &'static str,
    written: Option<&Str<'_>>,
    named: &Named,
) -> Option<Label> {
    let place = Place::Key(&Place::Root, field);
    let written = filled(written);
    match (&named.task, written) {
        (Some(path), Some(body)) if path != body => {
            let message = "This is not the task that the path names. Leave it out.";
            check.wrong(&place, Code::Mismatch, message);
            None
        }
        (Some(text), _) => check.label(&place, Some(text)),
        (None, text) => check.needed_label(&place, text),
    }
}

fn push_key(
    check: &mut Check,
    version: Version,
    read: &Plain<'_>,
    named: &Named,
    id_needed: bool,
) -> Option<PushKey> {
    let (task_field, task, id_field, id) = match version {
        Version::V1_0 => ("taskId", read.task_id.as_ref(), "id", read.id.as_ref()),
        Version::V0_3 => {
            let id = read.push_notification_config_id.as_ref();
            ("id", read.id.as_ref(), "pushNotificationConfigId", id)
        }
    };
    let task_id = task_of(check, task_field, task, named);
    let place = Place::Key(&Place::Root, id_field);
    let id = match named.config.as_deref().or_else(|| filled(id)) {
        None if id_needed => check.needed_label(&place, None).map(Some),
        None => Some(None),
        text => check.label(&place, text).map(Some),
    };
    Some(PushKey { task_id: task_id?, id: id? })
}

fn list_pushes(
    check: &mut Check,
    version: Version,
    read: &Plain<'_>,
    named: &Named,
) -> Option<Operation> {
    let task_id = match version {
        Version::V1_0 => task_of(check, "taskId", read.task_id.as_ref(), named),
        Version::V0_3 => task_of(check, "id", read.id.as_ref(), named),
    };
    if version == Version::V0_3 {
        // Its answer is the bare list, which cannot say that there is more.
        let (page_size, page_token) = (None, None);
        return Some(Operation::ListPushes(ListPushes {
            task_id: task_id?,
            page_size,
            page_token,
        }));
    }
    // Unlike that of `ListTasks` this page size has no presence: 0 is "not set".
    let asked = read.page_size.as_ref().filter(|size| size.0 != 0);
    let page_size = page_size(check, asked);
    let page_token = filled(read.page_token.as_ref()).map(str::to_owned);
    Some(Operation::ListPushes(ListPushes { task_id: task_id?, page_size, page_token }))
}

fn list_tasks(check: &mut Check, version: Version, read: &Plain<'_>) -> Option<ListTasks> {
    let root = Place::Root;
    let context_id = filled(read.context_id.as_ref()).and_then(|text| {
        let good = ContextId::try_from(text);
        check.taken(&Place::Key(&root, "contextId"), good)
    });
    let status = read.status.as_ref().and_then(|word| state(check, version, word));
    let after = filled(read.status_timestamp_after.as_ref()).and_then(|text| {
        let place = Place::Key(&root, "statusTimestampAfter");
        let message =
            "This is not an RFC 3339 timestamp. Write it like `2026-02-21T18:30:00.000Z`.";
        text.parse().map_err(|_| check.wrong(&place, Code::BadTimestamp, message)).ok()
    });
    Some(ListTasks {
        context_id,
        status,
        page_size: page_size(check, read.page_size.as_ref()),
        page_token: filled(read.page_token.as_ref()).map(str::to_owned),
        history_length: history_length(check, read.history_length.as_ref().map(|n| Count(n.0))),
        status_timestamp_after: after,
        include_artifacts: read.include_artifacts.as_ref().is_some_and(|flag| flag.0),
    })
}

/// A state to look for, in the words of either version; "unspecified" looks for any.
fn state(check: &mut Check, version: Version, word: &Word<'_>) -> Option<TaskState> {
    let known = match word {
        Word::Text(text) if matches!(&**text, "" | "TASK_STATE_UNSPECIFIED") => return None,
        Word::Number(0) => return None,
        Word::Text(text) => v0_3::state_of(text).or_else(|| TaskState::from_word(text)),
        // The order of the values is that of their numbers.
        Word::Number(number) => {
            let index = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
            index.and_then(|index| TaskState::ALL.get(index).copied())
        }
    };
    if known.is_none() {
        let words = TaskState::ALL.iter().map(|&state| match version {
            Version::V1_0 => state.as_str(),
            Version::V0_3 => v0_3::state_word(state),
        });
        check.not_one_of(&Place::Key(&Place::Root, "status"), word, words);
    }
    known
}

fn page_size(check: &mut Check, asked: Option<&Count>) -> Option<u32> {
    let Count(size) = asked?;
    match u32::try_from(*size) {
        Ok(size @ 1..=100) => Some(size),
        _ => {
            let place = Place::Key(&Place::Root, "pageSize");
            let message = format!("A page has 1 to 100 entries, not {size}. Leave it out for 50.");
            check.wrong(&place, Code::NotAllowed, message);
            None
        }
    }
}

fn history_length(check: &mut Check, asked: Option<Count>) -> Option<usize> {
    check.history_length(&Place::Root, asked)
}
