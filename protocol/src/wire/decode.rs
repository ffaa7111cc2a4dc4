//! Decodes the parameters of a call into an [`Operation`], or lists all violations.

mod message;
mod opt;
mod param_errors;
mod push;

use serde::Deserialize as _;

use self::param_errors::{ParamErrors, ParamPath};
use super::param_error::{self, JsonTree, ParamError};
use super::params::{
    CommonParams, Count, EnumValue, Object, OptParams, PushParams, SendParams, Str,
};
use super::{Dialect, Method, Version, v0_3};
use crate::fault::Fault;
use crate::operation::{CancelTask, GetTask, ListPushes, ListTasks, Operation, PushKey, Subscribe};
use crate::task::{ContextId, OpaqueId, TaskState};
use crate::validate::violation::{Code, Violation};

/// A decoded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Selects one of several agents behind one address.
    pub tenant: Option<String>,
    /// The operation.
    pub operation: Operation,
    /// The form that the caller uses, and so the form of the reply.
    pub dialect: Dialect,
}

/// Ids in the path of a request; they take precedence over the body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PathIds {
    pub(super) task: Option<String>,
    pub(super) config: Option<String>,
}

/// Decodes the `params` of a call.
///
/// # Errors
/// [`Fault::InvalidParams`] with path, code and advice for each violation.
pub fn decode(version: Version, method: Method, params: Option<&str>) -> Result<Decoded, Fault> {
    decode_named(version, method, params, &PathIds::default())
}

/// Parses a text as one of the types of [`super::params`]; on failure returns a detailed fault.
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
    path_ids: &PathIds,
) -> Result<Decoded, Fault> {
    let given = params.map(str::trim).filter(|params| !matches!(*params, "" | "null"));
    let params = match given {
        Some(params) => params,
        None if needs_params(method, path_ids) => return Err(absent(method, version)),
        None => "{}",
    };
    if let Some(violation) = param_error::find_nul(params) {
        return Err(Fault::InvalidParams(vec![violation]));
    }
    match method {
        Method::SendMessage | Method::StreamMessage => {
            message::send(version, method, read!(SendParams, params))
        }
        Method::SetPush => push::set(version, read!(PushParams, params), path_ids),
        _ if method.is_opt() => opt::decode_opt(version, method, read!(OptParams, params)),
        _ => plain(version, method, read!(CommonParams, params), path_ids),
    }
}

/// Decodes parameters given as the pairs of a query.
pub(super) fn decode_query(
    version: Version,
    method: Method,
    pairs: Vec<(String, String)>,
    path_ids: &PathIds,
) -> Result<Decoded, Fault> {
    let fields = pairs.into_iter().map(|(key, value)| (key, JsonTree::Text(value))).collect();
    let node = JsonTree::Fields(fields);
    let read = CommonParams::deserialize(&node)
        .map_err(|error| Fault::InvalidParams(vec![error.into_violation()]))?;
    plain(version, method, read, path_ids)
}

fn explained(params: &str, read: impl Fn(&JsonTree) -> Option<ParamError>) -> Fault {
    Fault::InvalidParams(vec![param_error::describe(params, read)])
}

fn needs_params(method: Method, path_ids: &PathIds) -> bool {
    match method {
        Method::ListTasks | Method::ListObjectives | Method::ExtendedCard => false,
        Method::SendMessage | Method::StreamMessage | Method::SetPush => true,
        _ => path_ids.task.is_none(),
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

/// Decodes the methods whose parameters are a few plain values.
fn plain(
    version: Version,
    method: Method,
    read: CommonParams<'_>,
    path_ids: &PathIds,
) -> Result<Decoded, Fault> {
    let mut errors = ParamErrors::new();
    let tenant = filled(read.tenant.as_ref()).map(str::to_owned);
    let operation = match method {
        Method::ListTasks => list_tasks(&mut errors, version, &read).map(Operation::ListTasks),
        Method::GetTask => {
            let id = task_of(&mut errors, "id", read.id.as_ref(), path_ids);
            let history_length = history_length(&mut errors, read.history_length);
            id.map(|id| Operation::GetTask(GetTask { id, history_length }))
        }
        Method::CancelTask => {
            let id = task_of(&mut errors, "id", read.id.as_ref(), path_ids);
            errors.check_metadata_depth(
                ParamPath::Key(&ParamPath::Root, "metadata"),
                read.metadata.as_ref(),
            );
            id.map(|id| Operation::CancelTask(CancelTask { id, metadata: read.metadata }))
        }
        Method::Subscribe => task_of(&mut errors, "id", read.id.as_ref(), path_ids)
            .map(|id| Operation::Subscribe(Subscribe { id, after: None })),
        Method::GetPush => {
            let needed = version == Version::V1_0;
            push_key(&mut errors, version, &read, path_ids, needed).map(Operation::GetPush)
        }
        Method::DeletePush => {
            push_key(&mut errors, version, &read, path_ids, true).map(Operation::DeletePush)
        }
        Method::ListPushes => list_pushes(&mut errors, version, &read, path_ids),
        // All other methods are decoded elsewhere, except the card, which has no parameters.
        _ => Some(Operation::ExtendedCard),
    };
    let operation = errors.finish(operation)?;
    Ok(Decoded { tenant, operation, dialect: version.dialect() })
}

/// A text that is not empty; ProtoJSON writes an unset field as an empty one.
fn filled<'a>(text: Option<&'a Str<'_>>) -> Option<&'a str> {
    text.map(|text| &*text.0).filter(|text| !text.is_empty())
}

/// The task of a call, from the path or from the field.
fn task_of(
    errors: &mut ParamErrors,
    field: &'static str,
    written: Option<&Str<'_>>,
    path_ids: &PathIds,
) -> Option<OpaqueId> {
    let path = ParamPath::Key(&ParamPath::Root, field);
    let written = filled(written);
    match (&path_ids.task, written) {
        (Some(in_path), Some(in_body)) if in_path != in_body => {
            let message = "This is not the task that the path names. Leave it out.";
            errors.wrong(&path, Code::Mismatch, message);
            None
        }
        (Some(text), _) => errors.optional_id(&path, Some(text)),
        (None, text) => errors.required_id(&path, text),
    }
}

fn push_key(
    errors: &mut ParamErrors,
    version: Version,
    read: &CommonParams<'_>,
    path_ids: &PathIds,
    id_needed: bool,
) -> Option<PushKey> {
    let (task_field, task, id_field, id) = match version {
        Version::V1_0 => ("taskId", read.task_id.as_ref(), "id", read.id.as_ref()),
        Version::V0_3 => {
            let id = read.push_notification_config_id.as_ref();
            ("id", read.id.as_ref(), "pushNotificationConfigId", id)
        }
    };
    let task_id = task_of(errors, task_field, task, path_ids);
    let path = ParamPath::Key(&ParamPath::Root, id_field);
    let id = match path_ids.config.as_deref().or_else(|| filled(id)) {
        None if id_needed => errors.required_id(&path, None).map(Some),
        None => Some(None),
        text => errors.optional_id(&path, text).map(Some),
    };
    Some(PushKey { task_id: task_id?, id: id? })
}

fn list_pushes(
    errors: &mut ParamErrors,
    version: Version,
    read: &CommonParams<'_>,
    path_ids: &PathIds,
) -> Option<Operation> {
    let task_id = match version {
        Version::V1_0 => task_of(errors, "taskId", read.task_id.as_ref(), path_ids),
        Version::V0_3 => task_of(errors, "id", read.id.as_ref(), path_ids),
    };
    if version == Version::V0_3 {
        // The reply of 0.3 is a bare list without a page token, so it is not paged.
        let (page_size, page_token) = (None, None);
        return Some(Operation::ListPushes(ListPushes {
            task_id: task_id?,
            page_size,
            page_token,
        }));
    }
    // Unlike that of `ListTasks` this page size has no presence: 0 is "not set".
    let asked = read.page_size.as_ref().filter(|size| size.0 != 0);
    let page_size = page_size(errors, asked);
    let page_token = filled(read.page_token.as_ref()).map(str::to_owned);
    Some(Operation::ListPushes(ListPushes { task_id: task_id?, page_size, page_token }))
}

fn list_tasks(
    errors: &mut ParamErrors,
    version: Version,
    read: &CommonParams<'_>,
) -> Option<ListTasks> {
    let root = ParamPath::Root;
    let context_id = filled(read.context_id.as_ref()).and_then(|text| {
        let good = ContextId::try_from(text);
        errors.accept(&ParamPath::Key(&root, "contextId"), good)
    });
    let status = read.status.as_ref().and_then(|value| state(errors, version, value));
    let after = filled(read.status_timestamp_after.as_ref()).and_then(|text| {
        let path = ParamPath::Key(&root, "statusTimestampAfter");
        let message =
            "This is not an RFC 3339 timestamp. Write it like `2026-02-21T18:30:00.000Z`.";
        text.parse().map_err(|_| errors.wrong(&path, Code::BadTimestamp, message)).ok()
    });
    Some(ListTasks {
        context_id,
        status,
        page_size: page_size(errors, read.page_size.as_ref()),
        page_token: filled(read.page_token.as_ref()).map(str::to_owned),
        history_length: history_length(errors, read.history_length.as_ref().map(|n| Count(n.0))),
        status_timestamp_after: after,
        include_artifacts: read.include_artifacts.as_ref().is_some_and(|flag| flag.0),
    })
}

/// A state filter with the names of either version; "unspecified" is no filter.
fn state(errors: &mut ParamErrors, version: Version, value: &EnumValue<'_>) -> Option<TaskState> {
    let known = match value {
        EnumValue::Text(text) if matches!(&**text, "" | "TASK_STATE_UNSPECIFIED") => return None,
        EnumValue::Number(0) => return None,
        EnumValue::Text(text) => v0_3::state_from_name(text).or_else(|| TaskState::from_name(text)),
        // `ALL` is in the order of the numbers of the proto file.
        EnumValue::Number(number) => {
            let index = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
            index.and_then(|index| TaskState::ALL.get(index).copied())
        }
    };
    if known.is_none() {
        let names = TaskState::ALL.iter().map(|&state| match version {
            Version::V1_0 => state.as_str(),
            Version::V0_3 => v0_3::state_name(state),
        });
        errors.not_one_of(&ParamPath::Key(&ParamPath::Root, "status"), value, names);
    }
    known
}

fn page_size(errors: &mut ParamErrors, asked: Option<&Count>) -> Option<u32> {
    let Count(size) = asked?;
    match u32::try_from(*size) {
        Ok(size @ 1..=100) => Some(size),
        _ => {
            let path = ParamPath::Key(&ParamPath::Root, "pageSize");
            let message = format!("A page has 1 to 100 entries, not {size}. Leave it out for 50.");
            errors.wrong(&path, Code::NotAllowed, message);
            None
        }
    }
}

fn history_length(errors: &mut ParamErrors, asked: Option<Count>) -> Option<usize> {
    errors.history_length(&ParamPath::Root, asked)
}
