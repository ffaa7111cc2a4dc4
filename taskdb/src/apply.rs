//! What each write does to the rows, inside the transaction of its batch.
//!
//! Whether a write fits is looked up before its first row is touched, so that one that does not
//! leaves nothing to take back.

mod history;
mod objective;
mod push;
mod together;

use a2a_protocol::TaskId;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::{Message, Moment};
use rusqlite::{Connection, params};
use serde::Serialize;

use super::key_of;
use super::known::{Before, Changed, History, Known};
use super::{
    Misfit, NewEvent, Repeated, SentMessage, StoredTask, TaskStoreError, Write, Written, check,
    row, word,
};

type Result<T> = std::result::Result<T, TaskStoreError>;

pub(super) struct Batch<'a> {
    sql: &'a Connection,
    known: &'a mut Known,
    care: Care,
    /// A part did not fit and was not taken back.
    spoiled: bool,
}

/// Whether parts of a batch can be taken back by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// They cannot: one that does not fit spoils the batch.
    Trusting,
    /// They can. SQLite keeps a copy of every page they touch for that.
    PartByPart,
}

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
            // The row is the one that the change was made for.
            " WHERE id = ?1 AND version = ?6 - 1"
        )
    };
}

impl<'a> Batch<'a> {
    pub(super) fn new(sql: &'a Connection, known: &'a mut Known, care: Care) -> Self {
        Self { sql, known, care, spoiled: false }
    }

    /// Whether the transaction must not be committed.
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    pub(super) fn apply(&mut self, write: Write) -> Result<Written> {
        match write {
            Write::Create { stored, message, events, push } => {
                self.create(stored, message, &events, &push)
            }
            Write::Update { stored, expected, events, message } => {
                self.update(stored, expected, &events, message)
            }
            Write::Answer { id, message } => self.answer(id, &message),
            Write::AnswerAtOnce { stored, message, answer } => {
                self.answer_at_once(&stored, &message, &answer)
            }
            Write::Delete(id) => self.delete(id),
            Write::PutPush { task, config } => self.put_push(task, &config),
            Write::DeletePush { task, id } => self.delete_push(task, &id),
            Write::Pushed { outbox } => self.pushed(outbox),
            Write::PushLater { outbox, attempts, next } => self.push_later(outbox, attempts, next),
            Write::Objective(change) => self.objective(&change),
            Write::Together(writes) => self.together(writes),
            Write::Expire { older_than, limit } => self.expire(older_than, limit),
        }
    }

    fn create(
        &mut self,
        mut stored: StoredTask,
        message: Option<SentMessage>,
        events: &[NewEvent],
        push: &[PushConfig],
    ) -> Result<Written> {
        let fits = check::follows((0, 0), &stored, events).and_then(|()| check::named(push));
        if let Err(misfit) = fits {
            // That it was heard, or that there is one already, is said first.
            if let Some(repeated) = self.heard(&stored, message.as_ref())? {
                return Ok(Written::Repeated(repeated));
            }
            return Ok(match self.before(&stored)? {
                Some(before) => Written::Conflict { version: Some(before.version) },
                None => Written::Refused(misfit),
            });
        }
        stored.hide_place();
        // Nearly every message is new; whether it was heard before is looked up when its row shows it.
        let is_new = self.insert(&stored)?;
        if !is_new || !self.hear(&stored, message.as_ref())? {
            if is_new {
                self.delete(stored.id())?;
            }
            return match self.heard(&stored, message.as_ref())? {
                Some(repeated) => Ok(Written::Repeated(repeated)),
                None => self.conflict(&stored),
            };
        }
        for config in push {
            self.keep_push(stored.id(), config)?;
        }
        self.keep_events(stored.id(), events, push.is_empty())?;
        self.known.note(stored, push.is_empty(), true);
        Ok(Written::Done)
    }

    /// Another version of the task stands there, or none.
    fn conflict(&mut self, stored: &StoredTask) -> Result<Written> {
        self.known.forget(stored.id());
        let version = self.before(stored)?.map(|before| before.version);
        Ok(Written::Conflict { version })
    }

    fn update(
        &mut self,
        mut stored: StoredTask,
        expected: u64,
        events: &[NewEvent],
        message: Option<SentMessage>,
    ) -> Result<Written> {
        let known = self.known.before(&stored);
        let before = match known.map_or_else(|| self.before(&stored), |known| Ok(Some(known)))? {
            Some(before) if before.version == expected => before,
            other => return Ok(Written::Conflict { version: other.map(|task| task.version) }),
        };
        if !before.is_same {
            return Ok(Written::Refused(Misfit::Identity));
        }
        let (version, last_event) = (before.version, before.last_event);
        if let Err(misfit) = check::follows((version, last_event), &stored, events) {
            return Ok(Written::Refused(misfit));
        }
        stored.hide_place();
        let mut changed = self.known.changed(expected, &stored.task);
        changed.history = history::written(&stored.task, changed);
        if !self.rewrite(&stored, changed)? {
            // Somebody else's hand was at the row.
            return self.conflict(&stored);
        }
        let in_one_piece = self.keep_history(&stored.task, changed)?;
        self.hear(&stored, message.as_ref())?;
        let unpushed = self.known.is_unpushed(stored.id());
        self.keep_events(stored.id(), events, unpushed)?;
        self.known.note(stored, unpushed, in_one_piece);
        Ok(Written::Done)
    }

    /// What came of the message, if it was heard before.
    fn heard(
        &self,
        stored: &StoredTask,
        message: Option<&SentMessage>,
    ) -> Result<Option<Repeated>> {
        let Some(message) = message else { return Ok(None) };
        heard(self.sql, &stored.owner, stored.agent.as_str(), message)
    }

    /// `false` when it was heard before.
    fn hear(&self, stored: &StoredTask, message: Option<&SentMessage>) -> Result<bool> {
        let Some(message) = message else { return Ok(true) };
        let id = stored.id().to_string();
        let at = word::of_moment(stored.updated);
        let heard = self
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
                message.fingerprint.map(word::of_hash),
            ])?;
        Ok(heard == 1)
    }

    fn before(&self, stored: &StoredTask) -> Result<Option<Before>> {
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
            word::of_moment(stored.created),
            stored.context().as_str(),
        ])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let (version, last_event) = (row::number(row, 1)?, row::number(row, 2)?);
        Ok(Some(Before { version, last_event, is_same: row.get(3)? }))
    }

    /// `false` when there is a task of this id.
    fn insert(&self, stored: &StoredTask) -> Result<bool> {
        let task = &stored.task;
        let inserted = self.sql.prepare_cached(INSERT)?.execute(params![
            task.id.to_string(),
            task.context_id.as_str(),
            word::of_state(task.status.state),
            json_or_null(task.status.message.as_ref())?,
            word::of_moment(task.status.timestamp),
            word::of_moment(stored.created),
            word::of_moment(stored.updated),
            &*stored.owner,
            stored.principal.as_str(),
            stored.agent.as_str(),
            stored.correlation.to_string(),
            word::of_number(stored.version),
            word::of_number(stored.last_event),
            stored.queued.map(|queued| queued.order),
            stored.queued.map(|queued| word::of_moment(queued.at)),
            stored.dispatched,
            word::of_number(stored.worked_ms),
            stored.working_since.map(word::of_moment),
            json_or_null(task.metadata.as_ref())?,
            list_or_null(&task.artifacts)?,
            list_or_null(&task.history)?,
            list_or_null(&stored.heard)?,
            stored.trace.as_ref().map(ToString::to_string),
            stored.spoken_version.as_deref(),
        ])?;
        Ok(inserted == 1)
    }

    /// Writes what can change, and of the large columns those that did; `false` when there is no
    /// task of the version before.
    fn rewrite(&self, stored: &StoredTask, changed: Changed) -> Result<bool> {
        let task = &stored.task;
        let anew = changed.history == History::Other;
        let statement = match (changed.artifacts, anew) {
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
        bind(&word::of_state(task.status.state))?;
        bind(&json_or_null(task.status.message.as_ref())?)?;
        bind(&word::of_moment(task.status.timestamp))?;
        bind(&word::of_moment(stored.updated))?;
        bind(&word::of_number(stored.version))?;
        bind(&word::of_number(stored.last_event))?;
        bind(&stored.queued.map(|queued| queued.order))?;
        bind(&stored.queued.map(|queued| word::of_moment(queued.at)))?;
        bind(&stored.dispatched)?;
        bind(&word::of_number(stored.worked_ms))?;
        bind(&stored.working_since.map(word::of_moment))?;
        bind(&json_or_null(task.metadata.as_ref())?)?;
        bind(&list_or_null(&stored.heard)?)?;
        if changed.artifacts {
            bind(&list_or_null(&task.artifacts)?)?;
        }
        if anew {
            bind(&list_or_null(history::in_the_row(task))?)?;
        }
        Ok(statement.raw_execute()? == 1)
    }

    fn answer(&mut self, id: TaskId, message: &Message) -> Result<Written> {
        let (task, answer) = (id.to_string(), json(message)?);
        self.sql
            .prepare_cached(
                "UPDATE sent_messages SET task_id = NULL, answer = ?2, \
                 at = (SELECT updated_at FROM tasks WHERE id = ?1) WHERE task_id = ?1",
            )?
            .execute(params![task, answer])?;
        self.delete(id)
    }

    fn answer_at_once(
        &self,
        stored: &StoredTask,
        message: &SentMessage,
        answer: &Message,
    ) -> Result<Written> {
        if let Some(repeated) = self.heard(stored, Some(message))? {
            return Ok(Written::Repeated(repeated));
        }
        let at = word::of_moment(stored.updated);
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
                message.fingerprint.map(word::of_hash),
            ])?;
        Ok(Written::Done)
    }

    /// The rows about the task go with it: the schema says so.
    fn delete(&mut self, id: TaskId) -> Result<Written> {
        self.known.forget(id);
        let mut statement = self.sql.prepare_cached("DELETE FROM tasks WHERE id = ?1")?;
        Ok(done_if(statement.execute([id.to_string()])? == 1))
    }

    fn expire(&mut self, older_than: Moment, limit: usize) -> Result<Written> {
        let moment = word::of_moment(older_than);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let ended = word::ENDED;
        let tasks = self
            .sql
            .prepare_cached(&format!(
                "DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE status_state IN \
                 {ended} AND status_timestamp < ?1 ORDER BY status_timestamp, id LIMIT ?2)"
            ))?
            .execute(params![moment, limit])?;
        let left = limit.saturating_sub_unsigned(tasks as u64);
        let answers = self
            .sql
            .prepare_cached(
                "DELETE FROM sent_messages WHERE (owner, agent, message_id) IN \
                 (SELECT owner, agent, message_id FROM sent_messages WHERE answer IS NOT NULL \
                 AND at < ?1 ORDER BY at, owner, agent, message_id LIMIT ?2)",
            )?
            .execute(params![moment, left])?;
        let left = left.saturating_sub_unsigned(answers as u64);
        let objectives = self.expire_objectives(&moment, left)?;
        Ok(Written::Expired(tasks + answers + objectives))
    }
}

/// What came of a message, if it was heard before.
pub(super) fn heard(
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
    let known: Option<i64> = row.get(2)?;
    if message.differs_from(known.map(word::to_hash)) {
        return Ok(Some(Repeated::Other));
    }
    row::repeated(row).map(Some)
}

/// The keys of all messages that were heard; `None` when they are more than `most`.
pub(super) fn heard_keys(sql: &Connection, most: usize) -> Result<Option<Vec<u64>>> {
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

fn done_if(done: bool) -> Written {
    if done { Written::Done } else { Written::Missing }
}

fn json(value: &impl Serialize) -> Result<String> {
    // Most values fit without another look for room.
    let mut json = Vec::with_capacity(512);
    let written = serde_json::to_writer(&mut json, value).map_err(Into::into);
    let text = written.and_then(|()| String::from_utf8(json).map_err(Into::into));
    text.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error).into())
}

fn json_or_null(value: Option<&impl Serialize>) -> Result<Option<String>> {
    value.map(json).transpose()
}

fn list_or_null<T: Serialize>(list: &[T]) -> Result<Option<String>> {
    if list.is_empty() { Ok(None) } else { json(&list).map(Some) }
}
