//! Decodes rows of tasks. A value that cannot be decoded is an error that names row and column.

use std::str::FromStr;
use std::sync::Arc;

use a2a_protocol::task::{ContextId, Task, TaskStatus, UtcMillis};
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

use crate::{Queued, Repeated, StoredTask, TaskStoreError, columns};

/// The small columns that [`stored`] reads, in its order. The artifacts and the history follow.
pub(crate) const COLUMNS: &str = "id, context_id, status_state, status_message, \
     status_timestamp, created_at, updated_at, owner, principal, agent, correlation_id, version, \
     last_event, queue_order, queued_at, dispatched, worked_ms, working_since, heard, \
     metadata, trace, spoken_version";

/// The whole history as a JSON array: the column of the task followed by its `task_messages`.
/// `NULL` for an empty one.
macro_rules! history {
    () => {
        "iif(history IS NULL, NULL, '[' || concat_ws(',', \
         nullif(substr(history, 2, length(history) - 2), ''), \
         (SELECT group_concat(message, ',' ORDER BY number) FROM task_messages \
         WHERE task_id = tasks.id)) || ']') AS history"
    };
}

/// The history, as in the macro.
pub(crate) const HISTORY: &str = history!();

/// [`COLUMNS`] and the large columns.
pub(crate) const ALL_COLUMNS: &str = concat!(
    "id, context_id, status_state, status_message, \
     status_timestamp, created_at, updated_at, owner, principal, agent, correlation_id, version, \
     last_event, queue_order, queued_at, dispatched, worked_ms, working_since, heard, metadata, \
     trace, spoken_version, artifacts, ",
    history!()
);

pub(crate) fn damaged(row: &Row<'_>, column: &str) -> TaskStoreError {
    let id = row.get_ref(0).ok().and_then(|id| id.as_str().ok()).unwrap_or("?");
    TaskStoreError::Damaged { what: format!("{column} of the row of {id}") }
}

fn name_of(row: &Row<'_>, at: usize) -> String {
    row.as_ref().column_name(at).unwrap_or("?").to_owned()
}

pub(crate) fn text<'a>(row: &'a Row<'_>, at: usize) -> Result<Option<&'a str>, TaskStoreError> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        value => value.as_str().map(Some).map_err(|_| damaged(row, &name_of(row, at))),
    }
}

pub(crate) fn some<T>(row: &Row<'_>, at: usize, value: Option<T>) -> Result<T, TaskStoreError> {
    value.ok_or_else(|| damaged(row, &name_of(row, at)))
}

/// A value in its `FromStr` form, or `NULL`.
pub(crate) fn parsed_or_null<T: FromStr>(
    row: &Row<'_>,
    at: usize,
) -> Result<Option<T>, TaskStoreError> {
    let parse = |text: &str| text.parse().map_err(|_| damaged(row, &name_of(row, at)));
    text(row, at)?.map(parse).transpose()
}

pub(crate) fn parsed<T: FromStr>(row: &Row<'_>, at: usize) -> Result<T, TaskStoreError> {
    some(row, at, parsed_or_null(row, at)?)
}

/// A value as JSON, or `NULL`.
pub(crate) fn json_or_null<T: DeserializeOwned>(
    row: &Row<'_>,
    at: usize,
) -> Result<Option<T>, TaskStoreError> {
    let read = |text: &str| serde_json::from_str(text).map_err(|_| damaged(row, &name_of(row, at)));
    text(row, at)?.map(read).transpose()
}

pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> Result<T, TaskStoreError> {
    some(row, at, json_or_null(row, at)?)
}

/// A number in the range of `T`.
pub(crate) fn number<T: TryFrom<i64>>(row: &Row<'_>, at: usize) -> Result<T, TaskStoreError> {
    T::try_from(row.get(at)?).map_err(|_| damaged(row, &name_of(row, at)))
}

/// A task from [`ALL_COLUMNS`]. A query that leaves out a large column selects `NULL` in its place.
pub(crate) fn stored(row: &Row<'_>) -> Result<StoredTask, TaskStoreError> {
    let context = some(row, 1, text(row, 1)?.and_then(|id| ContextId::try_from(id).ok()))?;
    let state = some(row, 2, text(row, 2)?.and_then(columns::to_state))?;
    let queued = match (row.get(13)?, parsed_or_null::<UtcMillis>(row, 14)?) {
        (Some(order), Some(at)) => Some(Queued { order, at }),
        (None, None) => None,
        _ => return Err(damaged(row, "queue_order and queued_at")),
    };
    let task = Task {
        id: parsed(row, 0)?,
        context_id: context,
        status: TaskStatus { state, message: json_or_null(row, 3)?, timestamp: parsed(row, 4)? },
        artifacts: json_or_null(row, 22)?.unwrap_or_default(),
        history: json_or_null(row, 23)?.unwrap_or_default(),
        metadata: json_or_null(row, 19)?,
    };
    Ok(StoredTask {
        task: Arc::new(task),
        owner: some(row, 7, text(row, 7)?)?.into(),
        principal: parsed(row, 8)?,
        agent: parsed(row, 9)?,
        spoken_version: text(row, 21)?.map(Arc::from),
        correlation: parsed(row, 10)?,
        trace: parsed_or_null(row, 20)?.map(Arc::new),
        version: number(row, 11)?,
        last_event: number(row, 12)?,
        queued,
        dispatched: row.get(15)?,
        worked_ms: number(row, 16)?,
        working_since: parsed_or_null(row, 17)?,
        applied_seqs: json_or_null(row, 18)?.unwrap_or_default(),
        created: parsed(row, 5)?,
        updated: parsed(row, 6)?,
    })
}

/// The result of a message, from its columns `task_id` and `answer`.
pub(crate) fn repeated(row: &Row<'_>) -> Result<Repeated, TaskStoreError> {
    match parsed_or_null(row, 0)? {
        Some(task) => Ok(Repeated::Task(task)),
        None => Ok(Repeated::Answer(json(row, 1)?)),
    }
}
