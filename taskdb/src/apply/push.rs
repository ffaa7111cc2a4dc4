//! Who wants to be told of a task, and what they are still to be told.
//!
//! Only the oldest entry of a configuration has a time; the next one gets its own when that is
//! gone. So nobody hears a later event first, and a webhook that is silent costs no search.

use a2a_protocol::TaskId;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::{Label, Moment};
use rusqlite::{OptionalExtension, params};

use super::{Batch, Result, done_if, json};
use crate::{NewEvent, Written, check, word};

impl Batch<'_> {
    pub(super) fn put_push(&mut self, task: TaskId, config: &PushConfig) -> Result<Written> {
        if let Err(misfit) = check::named(std::slice::from_ref(config)) {
            return Ok(Written::Refused(misfit));
        }
        let mut statement = self.sql.prepare_cached("SELECT 1 FROM tasks WHERE id = ?1")?;
        if !statement.exists([task.to_string()])? {
            return Ok(Written::Missing);
        }
        self.keep_push(task, config)?;
        Ok(Written::Done)
    }

    pub(super) fn keep_push(&mut self, task: TaskId, config: &PushConfig) -> Result<()> {
        self.known.push(task);
        let kept = PushConfig { task_id: Some(task.as_uuid().into()), ..config.clone() };
        let id = config.id.as_ref().map(Label::as_str);
        self.sql
            .prepare_cached(
                "INSERT INTO push_configs (task_id, id, config) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (task_id, id) DO UPDATE SET config = excluded.config",
            )?
            .execute(params![task.to_string(), id, json(&kept)?])?;
        Ok(())
    }

    pub(super) fn delete_push(&mut self, task: TaskId, id: &Label) -> Result<Written> {
        let mut statement =
            self.sql.prepare_cached("DELETE FROM push_configs WHERE task_id = ?1 AND id = ?2")?;
        Ok(done_if(statement.execute(params![task.to_string(), id.as_str()])? == 1))
    }

    /// Keeps the events, and puts each into the outbox once for everybody who wants to be told;
    /// `unpushed` when it is known that nobody does.
    pub(super) fn keep_events(
        &self,
        task: TaskId,
        events: &[NewEvent],
        unpushed: bool,
    ) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let task = task.to_string();
        let configs = if unpushed { Vec::new() } else { self.configs(&task)? };
        let mut keep = self.sql.prepare_cached(
            "INSERT INTO task_events (task_id, number, at, event) VALUES (?1, ?2, ?3, ?4)",
        )?;
        let mut tell = self.sql.prepare_cached(
            "INSERT INTO push_outbox (task_id, config_id, number, at, attempts, next_at) \
             VALUES (?1, ?2, ?3, ?4, 0, CASE WHEN EXISTS (SELECT 1 FROM push_outbox \
             WHERE task_id = ?1 AND config_id = ?2) THEN NULL ELSE ?4 END)",
        )?;
        for event in events {
            let (number, at) = (word::of_number(event.number), word::of_moment(event.at));
            keep.execute(params![task, number, at, json(&event.event)?])?;
            for config in &configs {
                tell.execute(params![task, config, number, at])?;
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

    pub(super) fn pushed(&mut self, outbox: u64) -> Result<Written> {
        let config: Option<(String, String)> = self
            .sql
            .prepare_cached("DELETE FROM push_outbox WHERE id = ?1 RETURNING task_id, config_id")?
            .query_row([word::of_number(outbox)], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((task, config)) = config else { return Ok(Written::Missing) };
        self.sql
            .prepare_cached(
                "UPDATE push_outbox SET next_at = at WHERE next_at IS NULL AND id = \
                 (SELECT min(id) FROM push_outbox WHERE task_id = ?1 AND config_id = ?2)",
            )?
            .execute([task, config])?;
        Ok(Written::Done)
    }

    pub(super) fn push_later(
        &mut self,
        outbox: u64,
        attempts: u32,
        next: Moment,
    ) -> Result<Written> {
        let mut statement = self.sql.prepare_cached(
            "UPDATE push_outbox SET attempts = ?2, next_at = ?3 \
             WHERE id = ?1 AND next_at IS NOT NULL",
        )?;
        let next = word::of_moment(next);
        Ok(done_if(statement.execute(params![word::of_number(outbox), attempts, next])? == 1))
    }
}
