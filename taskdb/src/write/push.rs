//! Push configurations, events and the outbox of webhook deliveries.
//!
//! Only the oldest outbox entry of a configuration has a due time; the next one gets its own when
//! that is removed. So a webhook receives events in order, and the backlog of one that does not
//! answer costs no search.

use a2a_protocol::TaskId;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::{OpaqueId, UtcMillis};
use rusqlite::{OptionalExtension, params};

use super::batch::{Batch, Result, done_if, json};
use super::validate;
use crate::{NewEvent, WriteOutcome, columns};

impl Batch<'_> {
    pub(super) fn put_push(&mut self, task: TaskId, config: &PushConfig) -> Result<WriteOutcome> {
        if let Err(invalid) = validate::have_ids(std::slice::from_ref(config)) {
            return Ok(WriteOutcome::Refused(invalid));
        }
        let mut statement = self.sql.prepare_cached("SELECT 1 FROM tasks WHERE id = ?1")?;
        if !statement.exists([task.to_string()])? {
            return Ok(WriteOutcome::Missing);
        }
        self.upsert_push(task, config)?;
        Ok(WriteOutcome::Done)
    }

    pub(super) fn upsert_push(&mut self, task: TaskId, config: &PushConfig) -> Result<()> {
        self.row_cache.add_push(task);
        let stored = PushConfig { task_id: Some(task.as_uuid().into()), ..config.clone() };
        let id = config.id.as_ref().map(OpaqueId::as_str);
        self.sql
            .prepare_cached(
                "INSERT INTO push_configs (task_id, id, config) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (task_id, id) DO UPDATE SET config = excluded.config",
            )?
            .execute(params![task.to_string(), id, json(&stored)?])?;
        Ok(())
    }

    pub(super) fn delete_push(&mut self, task: TaskId, id: &OpaqueId) -> Result<WriteOutcome> {
        let mut statement =
            self.sql.prepare_cached("DELETE FROM push_configs WHERE task_id = ?1 AND id = ?2")?;
        Ok(done_if(statement.execute(params![task.to_string(), id.as_str()])? == 1))
    }

    /// Inserts the events, and one outbox entry per event and push configuration. With
    /// `has_no_push` the configurations are not looked up.
    pub(super) fn insert_events(
        &self,
        task: TaskId,
        events: &[NewEvent],
        has_no_push: bool,
    ) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let task = task.to_string();
        let configs = if has_no_push { Vec::new() } else { self.configs(&task)? };
        let mut insert = self.sql.prepare_cached(
            "INSERT INTO task_events (task_id, number, at, event) VALUES (?1, ?2, ?3, ?4)",
        )?;
        let mut enqueue = self.sql.prepare_cached(
            "INSERT INTO push_outbox (task_id, config_id, number, at, attempts, next_at) \
             VALUES (?1, ?2, ?3, ?4, 0, CASE WHEN EXISTS (SELECT 1 FROM push_outbox \
             WHERE task_id = ?1 AND config_id = ?2) THEN NULL ELSE ?4 END)",
        )?;
        for event in events {
            let (number, at) = (columns::of_number(event.number), columns::of_moment(event.at));
            insert.execute(params![task, number, at, json(&event.event)?])?;
            for config in &configs {
                enqueue.execute(params![task, config, number, at])?;
            }
        }
        Ok(())
    }

    fn configs(&self, task: &str) -> Result<Vec<String>> {
        let mut statement = self
            .sql
            .prepare_cached("SELECT id FROM push_configs WHERE task_id = ?1 ORDER BY position")?;
        let configs = statement.query_map([task], |row| row.get(0))?;
        Ok(configs.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn push_done(&mut self, outbox: u64) -> Result<WriteOutcome> {
        let config: Option<(String, String)> = self
            .sql
            .prepare_cached("DELETE FROM push_outbox WHERE id = ?1 RETURNING task_id, config_id")?
            .query_row([columns::of_number(outbox)], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((task, config)) = config else { return Ok(WriteOutcome::Missing) };
        self.sql
            .prepare_cached(
                "UPDATE push_outbox SET next_at = at WHERE next_at IS NULL AND id = \
                 (SELECT min(id) FROM push_outbox WHERE task_id = ?1 AND config_id = ?2)",
            )?
            .execute([task, config])?;
        Ok(WriteOutcome::Done)
    }

    pub(super) fn push_retry(
        &mut self,
        outbox: u64,
        attempts: u32,
        next: UtcMillis,
    ) -> Result<WriteOutcome> {
        let mut statement = self.sql.prepare_cached(
            "UPDATE push_outbox SET attempts = ?2, next_at = ?3 \
             WHERE id = ?1 AND next_at IS NOT NULL",
        )?;
        let next = columns::of_moment(next);
        Ok(done_if(statement.execute(params![columns::of_number(outbox), attempts, next])? == 1))
    }
}
