//! Inserts, updates and deletes tasks and the message ids that requested them.

use a2a_protocol::TaskId;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::Message;
use rusqlite::{Connection, params};

use super::batch::{Batch, Result, done_if, json, json_or_null, list_or_null};
use super::row_cache::{ChangedColumns, HistoryChange, TaskVersion};
use super::{history, validate};
use crate::{
    InvalidWrite, NewEvent, Repeated, SentMessage, StoredTask, WriteOutcome, columns, key_of, read,
};

const INSERT: &str = "INSERT INTO tasks (id, context_id, status_state, status_message, \
     status_timestamp, created_at, updated_at, owner, principal, agent, correlation_id, version, \
     last_event, queue_order, queued_at, dispatched, worked_ms, working_since, metadata, \
     artifacts, history, heard, trace, spoken_version) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, \
     ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24) ON CONFLICT (id) DO NOTHING";

macro_rules! update {
    ($($large:literal)*) => {
        concat!(
            "UPDATE tasks SET status_state = ?2, status_message = ?3, status_timestamp = ?4, \
             updated_at = ?5, version = ?6, last_event = ?7, queue_order = ?8, queued_at = ?9, \
             dispatched = ?10, worked_ms = ?11, working_since = ?12, metadata = ?13, \
             heard = ?14",
            $($large,)*
            // Only the version that the update was made for.
            " WHERE id = ?1 AND version = ?6 - 1"
        )
    };
}

impl Batch<'_> {
    pub(super) fn create(
        &mut self,
        mut stored: StoredTask,
        message: Option<SentMessage>,
        events: &[NewEvent],
        push: &[PushConfig],
    ) -> Result<WriteOutcome> {
        let valid =
            validate::follows((0, 0), &stored, events).and_then(|()| validate::have_ids(push));
        if let Err(invalid) = valid {
            // A repeat or a conflict takes precedence over an invalid write.
            if let Some(repeated) = self.repeat_of(&stored, message.as_ref())? {
                return Ok(WriteOutcome::Repeated(repeated));
            }
            return Ok(match self.stored_version(&stored)? {
                Some(before) => WriteOutcome::Conflict { version: Some(before.version) },
                None => WriteOutcome::Refused(invalid),
            });
        }
        stored.clear_queue_position();
        // Nearly every message id is new, so it is inserted first and looked up only on a conflict.
        let is_new = self.insert(&stored)?;
        if !is_new || !self.insert_message_id(&stored, message.as_ref())? {
            if is_new {
                self.delete(stored.id())?;
            }
            return match self.repeat_of(&stored, message.as_ref())? {
                Some(repeated) => Ok(WriteOutcome::Repeated(repeated)),
                None => self.conflict(&stored),
            };
        }
        for config in push {
            self.upsert_push(stored.id(), config)?;
        }
        self.insert_events(stored.id(), events, push.is_empty())?;
        self.row_cache.insert(stored, push.is_empty(), true);
        Ok(WriteOutcome::Done)
    }

    /// The conflict with the stored version of the task.
    fn conflict(&mut self, stored: &StoredTask) -> Result<WriteOutcome> {
        self.row_cache.remove(stored.id());
        let version = self.stored_version(stored)?.map(|before| before.version);
        Ok(WriteOutcome::Conflict { version })
    }

    pub(super) fn update(
        &mut self,
        mut stored: StoredTask,
        expected: u64,
        events: &[NewEvent],
        message: Option<SentMessage>,
    ) -> Result<WriteOutcome> {
        let cached = self.row_cache.version_of(&stored);
        let before = cached.map_or_else(|| self.stored_version(&stored), |cached| Ok(Some(cached)));
        let before = match before? {
            Some(before) if before.version == expected => before,
            other => return Ok(WriteOutcome::Conflict { version: other.map(|task| task.version) }),
        };
        if !before.is_same {
            return Ok(WriteOutcome::Refused(InvalidWrite::Identity));
        }
        let (version, last_event) = (before.version, before.last_event);
        if let Err(invalid) = validate::follows((version, last_event), &stored, events) {
            return Ok(WriteOutcome::Refused(invalid));
        }
        stored.clear_queue_position();
        let mut changed = self.row_cache.changed_columns(expected, &stored.task);
        changed.history = history::change_to_write(&stored.task, changed);
        if !self.update_row(&stored, changed)? {
            // Another program changed the row.
            return self.conflict(&stored);
        }
        let history_inline = self.insert_messages(&stored.task, changed)?;
        self.insert_message_id(&stored, message.as_ref())?;
        let has_no_push = self.row_cache.has_no_push(stored.id());
        self.insert_events(stored.id(), events, has_no_push)?;
        self.row_cache.insert(stored, has_no_push, history_inline);
        Ok(WriteOutcome::Done)
    }

    /// The result of an earlier message with the same id.
    fn repeat_of(
        &self,
        stored: &StoredTask,
        message: Option<&SentMessage>,
    ) -> Result<Option<Repeated>> {
        let Some(message) = message else { return Ok(None) };
        find_repeat(self.sql, &stored.owner, stored.agent.as_str(), message)
    }

    /// `false` when the id is already stored.
    fn insert_message_id(
        &self,
        stored: &StoredTask,
        message: Option<&SentMessage>,
    ) -> Result<bool> {
        let Some(message) = message else { return Ok(true) };
        let id = stored.id().to_string();
        let at = columns::of_moment(stored.updated);
        let inserted = self
            .sql
            .prepare_cached(
                "INSERT INTO sent_messages (owner, agent, message_id, task_id, at, fingerprint) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                &*stored.owner,
                stored.agent.as_str(),
                message.id.as_str(),
                id,
                at,
                message.fingerprint.map(columns::of_hash),
            ])?;
        Ok(inserted == 1)
    }

    fn stored_version(&self, stored: &StoredTask) -> Result<Option<TaskVersion>> {
        let mut statement = self.sql.prepare_cached(
            "SELECT id, version, last_event, owner = ?2 AND principal = ?3 AND agent = ?4 \
             AND correlation_id = ?5 AND created_at = ?6 AND context_id = ?7 \
             FROM tasks WHERE id = ?1",
        )?;
        let mut rows = statement.query(params![
            stored.id().to_string(),
            &*stored.owner,
            stored.principal.as_str(),
            stored.agent.as_str(),
            stored.correlation.to_string(),
            columns::of_moment(stored.created),
            stored.context().as_str(),
        ])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let (version, last_event) = (read::number(row, 1)?, read::number(row, 2)?);
        Ok(Some(TaskVersion { version, last_event, is_same: row.get(3)? }))
    }

    /// `false` when the task id is already stored.
    fn insert(&self, stored: &StoredTask) -> Result<bool> {
        let task = &stored.task;
        let inserted = self.sql.prepare_cached(INSERT)?.execute(params![
            task.id.to_string(),
            task.context_id.as_str(),
            columns::of_state(task.status.state),
            json_or_null(task.status.message.as_ref())?,
            columns::of_moment(task.status.timestamp),
            columns::of_moment(stored.created),
            columns::of_moment(stored.updated),
            &*stored.owner,
            stored.principal.as_str(),
            stored.agent.as_str(),
            stored.correlation.to_string(),
            columns::of_number(stored.version),
            columns::of_number(stored.last_event),
            stored.queued.map(|queued| queued.order),
            stored.queued.map(|queued| columns::of_moment(queued.at)),
            stored.dispatched,
            columns::of_number(stored.worked_ms),
            stored.working_since.map(columns::of_moment),
            json_or_null(task.metadata.as_ref())?,
            list_or_null(&task.artifacts)?,
            list_or_null(&task.history)?,
            list_or_null(&stored.applied_seqs)?,
            stored.trace.as_ref().map(ToString::to_string),
            stored.spoken_version.as_deref(),
        ])?;
        Ok(inserted == 1)
    }

    /// Updates the small columns, and of the large ones those that changed. `false` when the row
    /// has another version than the one before.
    fn update_row(&self, stored: &StoredTask, changed: ChangedColumns) -> Result<bool> {
        let task = &stored.task;
        let rewrites_history = changed.history == HistoryChange::Rewritten;
        let statement = match (changed.artifacts, rewrites_history) {
            (false, false) => update!(),
            (true, false) => update!(", artifacts = ?15"),
            (false, true) => update!(", history = ?15"),
            (true, true) => update!(", artifacts = ?15, history = ?16"),
        };
        let mut statement = self.sql.prepare_cached(statement)?;
        let mut next = 0;
        let mut bind = |value: &dyn rusqlite::ToSql| {
            next += 1;
            statement.raw_bind_parameter(next, value)
        };
        bind(&task.id.to_string())?;
        bind(&columns::of_state(task.status.state))?;
        bind(&json_or_null(task.status.message.as_ref())?)?;
        bind(&columns::of_moment(task.status.timestamp))?;
        bind(&columns::of_moment(stored.updated))?;
        bind(&columns::of_number(stored.version))?;
        bind(&columns::of_number(stored.last_event))?;
        bind(&stored.queued.map(|queued| queued.order))?;
        bind(&stored.queued.map(|queued| columns::of_moment(queued.at)))?;
        bind(&stored.dispatched)?;
        bind(&columns::of_number(stored.worked_ms))?;
        bind(&stored.working_since.map(columns::of_moment))?;
        bind(&json_or_null(task.metadata.as_ref())?)?;
        bind(&list_or_null(&stored.applied_seqs)?)?;
        if changed.artifacts {
            bind(&list_or_null(&task.artifacts)?)?;
        }
        if rewrites_history {
            bind(&list_or_null(history::inline_part(task))?)?;
        }
        Ok(statement.raw_execute()? == 1)
    }

    pub(super) fn answer(&mut self, id: TaskId, message: &Message) -> Result<WriteOutcome> {
        let (task, answer) = (id.to_string(), json(message)?);
        self.sql
            .prepare_cached(
                "UPDATE sent_messages SET task_id = NULL, answer = ?2, \
                 at = (SELECT updated_at FROM tasks WHERE id = ?1) WHERE task_id = ?1",
            )?
            .execute(params![task, answer])?;
        self.delete(id)
    }

    pub(super) fn answer_without_task(
        &self,
        stored: &StoredTask,
        message: &SentMessage,
        answer: &Message,
    ) -> Result<WriteOutcome> {
        if let Some(repeated) = self.repeat_of(stored, Some(message))? {
            return Ok(WriteOutcome::Repeated(repeated));
        }
        let at = columns::of_moment(stored.updated);
        self.sql
            .prepare_cached(
                "INSERT INTO sent_messages (owner, agent, message_id, answer, at, fingerprint) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                &*stored.owner,
                stored.agent.as_str(),
                message.id.as_str(),
                json(answer)?,
                at,
                message.fingerprint.map(columns::of_hash),
            ])?;
        Ok(WriteOutcome::Done)
    }

    /// Deletes a task. Foreign keys cascade to its other rows.
    pub(super) fn delete(&mut self, id: TaskId) -> Result<WriteOutcome> {
        self.row_cache.remove(id);
        let mut statement = self.sql.prepare_cached("DELETE FROM tasks WHERE id = ?1")?;
        Ok(done_if(statement.execute([id.to_string()])? == 1))
    }
}

/// The result of an earlier message with the same id; `None` when the id is new.
pub(crate) fn find_repeat(
    sql: &Connection,
    owner: &str,
    agent: &str,
    message: &SentMessage,
) -> Result<Option<Repeated>> {
    let mut statement = sql.prepare_cached(
        "SELECT task_id, answer, fingerprint FROM sent_messages \
         WHERE owner = ?1 AND agent = ?2 AND message_id = ?3",
    )?;
    let mut rows = statement.query([owner, agent, message.id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let stored: Option<i64> = row.get(2)?;
    if message.differs_from(stored.map(columns::to_hash)) {
        return Ok(Some(Repeated::DifferentContent));
    }
    read::repeated(row).map(Some)
}

/// The keys of all stored message ids; `None` when they are more than `most`.
pub(crate) fn message_keys(sql: &Connection, most: usize) -> Result<Option<Vec<u64>>> {
    let mut statement = sql.prepare("SELECT owner, agent, message_id FROM sent_messages")?;
    let mut rows = statement.query([])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        if keys.len() >= most {
            return Ok(None);
        }
        let [owner, agent, message] =
            [0, 1, 2].map(|at| row.get_ref(at).and_then(|text| Ok(text.as_str()?)));
        keys.push(key_of(owner?, agent?, message?));
    }
    Ok(Some(keys))
}
