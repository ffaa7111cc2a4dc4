//! Applies the writes of one batch inside its transaction.

use a2a_protocol::TaskId;
use a2a_protocol::task::UtcMillis;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::RowCache;
use crate::{TaskStoreError, Write, WriteOutcome, columns};

pub(super) type Result<T> = std::result::Result<T, TaskStoreError>;

/// One batch of writes in its transaction.
pub(crate) struct Batch<'a> {
    pub(super) sql: &'a Connection,
    pub(super) row_cache: &'a mut RowCache,
    savepoints: SavepointMode,
    /// A part did not apply and was not rolled back by itself.
    must_roll_back: bool,
}

/// Whether a write of several rows can be rolled back by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SavepointMode {
    /// No savepoints: a part that does not apply rolls back the whole batch.
    Off,
    /// A savepoint per write of several rows. SQLite copies every page it changes for that.
    PerWrite,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(
        sql: &'a Connection,
        row_cache: &'a mut RowCache,
        savepoints: SavepointMode,
    ) -> Self {
        Self { sql, row_cache, savepoints, must_roll_back: false }
    }

    /// Whether the transaction must not be committed.
    pub(crate) fn must_roll_back(&self) -> bool {
        self.must_roll_back
    }

    pub(crate) fn apply(&mut self, write: Write) -> Result<WriteOutcome> {
        match write {
            Write::Create { stored, message, events, push } => {
                self.create(stored, message, &events, &push)
            }
            Write::Update { stored, expected, events, message } => {
                self.update(stored, expected, &events, message)
            }
            Write::Answer { id, message } => self.answer(id, &message),
            Write::AnswerWithoutTask { stored, message, answer } => {
                self.answer_without_task(&stored, &message, &answer)
            }
            Write::Delete(id) => self.delete(id),
            Write::PutPush { task, config } => self.put_push(task, &config),
            Write::DeletePush { task, id } => self.delete_push(task, &id),
            Write::PushDone { outbox } => self.push_done(outbox),
            Write::PushRetry { outbox, attempts, next } => self.push_retry(outbox, attempts, next),
            Write::Objective(change) => self.objective(&change),
            Write::Atomic(writes) => self.atomic(writes),
            Write::Expire { older_than, limit } => self.expire(older_than, limit),
            Write::Barrier => Ok(WriteOutcome::Done),
        }
    }

    fn atomic(&mut self, writes: Vec<Write>) -> Result<WriteOutcome> {
        let mut touched = Vec::new();
        writes.iter().for_each(|write| cached_tasks(write, &mut touched));
        let outcome = self.savepoint(|batch| {
            let mut all = Vec::with_capacity(writes.len());
            for write in writes {
                let outcome = batch.apply(write)?;
                if !outcome.is_applied() {
                    return Ok(outcome);
                }
                all.push(outcome);
            }
            Ok(WriteOutcome::Atomic(all))
        })?;
        if !outcome.is_applied() {
            // Their cached rows were rolled back.
            touched.into_iter().for_each(|id| self.row_cache.remove(id));
        }
        Ok(outcome)
    }

    /// Runs `work` and rolls back its rows when its outcome is that it did not apply. An error
    /// needs no rollback here: it rolls back the whole transaction.
    pub(super) fn savepoint(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<WriteOutcome>,
    ) -> Result<WriteOutcome> {
        if self.savepoints == SavepointMode::Off {
            let outcome = work(self)?;
            self.must_roll_back |= !outcome.is_applied();
            return Ok(outcome);
        }
        self.sql.prepare_cached("SAVEPOINT whole")?.execute([])?;
        let outcome = work(self)?;
        if !outcome.is_applied() {
            self.sql.prepare_cached("ROLLBACK TO whole")?.execute([])?;
        }
        self.sql.prepare_cached("RELEASE whole")?.execute([])?;
        Ok(outcome)
    }

    fn expire(&mut self, older_than: UtcMillis, limit: usize) -> Result<WriteOutcome> {
        let moment = columns::of_moment(older_than);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let ended = columns::ENDED;
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
        Ok(WriteOutcome::Expired(tasks + answers + objectives))
    }
}

/// The tasks whose cached rows this write may change.
fn cached_tasks(write: &Write, tasks: &mut Vec<TaskId>) {
    match write {
        Write::Create { stored, .. } | Write::Update { stored, .. } => tasks.push(stored.id()),
        Write::Answer { id, .. } | Write::Delete(id) => tasks.push(*id),
        Write::PutPush { task, .. } | Write::DeletePush { task, .. } => tasks.push(*task),
        Write::Atomic(writes) => writes.iter().for_each(|write| cached_tasks(write, tasks)),
        Write::PushDone { .. }
        | Write::PushRetry { .. }
        | Write::AnswerWithoutTask { .. }
        | Write::Objective(_)
        | Write::Expire { .. }
        | Write::Barrier => {}
    }
}

pub(super) fn done_if(done: bool) -> WriteOutcome {
    if done { WriteOutcome::Done } else { WriteOutcome::Missing }
}

pub(super) fn json(value: &impl Serialize) -> Result<String> {
    // Most values fit without growing the buffer.
    let mut json = Vec::with_capacity(512);
    let written = serde_json::to_writer(&mut json, value).map_err(Into::into);
    let text = written.and_then(|()| String::from_utf8(json).map_err(Into::into));
    text.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error).into())
}

pub(super) fn json_or_null(value: Option<&impl Serialize>) -> Result<Option<String>> {
    value.map(json).transpose()
}

pub(super) fn list_or_null<T: Serialize>(list: &[T]) -> Result<Option<String>> {
    if list.is_empty() { Ok(None) } else { json(&list).map(Some) }
}
