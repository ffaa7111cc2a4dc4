//! Inserts and updates objectives with their plans and plan tasks. A row that does not apply rolls
//! back the whole change.

use a2a_protocol::TaskId;
use a2a_protocol::opt::PlanTask;
use rusqlite::{OptionalExtension, params};

use super::batch::{Batch, Result, json_or_null, list_or_null};
use super::validate::{self, ObjectiveRevision};
use crate::{
    InvalidWrite, ObjectiveChange, StoredObjective, StoredPlan, WriteOutcome, columns, read,
};

/// Whether a row is valid.
type Validity<T = ()> = std::result::Result<T, InvalidWrite>;

impl Batch<'_> {
    pub(super) fn objective(&mut self, change: &ObjectiveChange) -> Result<WriteOutcome> {
        let before = self.stored_revision(&change.objective)?;
        if let Err(outcome) = validate::objective_follows(before, change) {
            return Ok(outcome);
        }
        self.savepoint(|batch| {
            let stored = &change.objective;
            batch.upsert_objective(stored)?;
            for plan in &change.plans {
                if let Err(invalid) = batch.upsert_plan(stored, plan)? {
                    return Ok(WriteOutcome::Refused(invalid));
                }
            }
            for task in &change.tasks {
                if let Err(invalid) = batch.upsert_plan_task(stored, task)? {
                    return Ok(WriteOutcome::Refused(invalid));
                }
            }
            Ok(WriteOutcome::Done)
        })
    }

    fn stored_revision(&self, stored: &StoredObjective) -> Result<Option<ObjectiveRevision>> {
        let mut statement = self.sql.prepare_cached(
            "SELECT id, revision, owner = ?2 AND principal = ?3 AND agent = ?4 \
             AND created_at = ?5 FROM objectives WHERE id = ?1",
        )?;
        let mut rows = statement.query(params![
            stored.objective.id.as_str(),
            &*stored.owner,
            stored.principal.as_str(),
            stored.agent.as_str(),
            columns::of_moment(stored.objective.created_at),
        ])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(ObjectiveRevision { revision: read::number(row, 1)?, is_same: row.get(2)? }))
    }

    fn upsert_objective(&self, stored: &StoredObjective) -> Result<()> {
        let objective = &stored.objective;
        let mut statement = self.sql.prepare_cached(
            "INSERT INTO objectives (id, name, description, status, metadata, created_at, \
             updated_at, owner, principal, agent, revision) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, \
             description = excluded.description, status = excluded.status, \
             metadata = excluded.metadata, updated_at = excluded.updated_at, \
             revision = excluded.revision",
        )?;
        statement.execute(params![
            objective.id.as_str(),
            objective.name,
            objective.description,
            objective.status.as_str(),
            json_or_null(objective.metadata.as_ref())?,
            columns::of_moment(objective.created_at),
            columns::of_moment(objective.updated_at),
            &*stored.owner,
            stored.principal.as_str(),
            stored.agent.as_str(),
            columns::of_number(stored.revision),
        ])?;
        Ok(())
    }

    fn upsert_plan(&self, of: &StoredObjective, stored: &StoredPlan) -> Result<Validity> {
        let plan = &stored.plan;
        let (id, objective) = (plan.id.as_str(), plan.objective_id.as_str());
        if plan.objective_id != of.objective.id {
            return Ok(Err(InvalidWrite::WrongParent));
        }
        let created = columns::of_moment(plan.created_at);
        let same = self.query_flag(
            "SELECT objective_id = ?2 AND plan_order = ?3 AND created_at = ?4 \
             FROM plans WHERE id = ?1",
            params![id, objective, stored.order, created],
        )?;
        let position = "SELECT 1 FROM plans WHERE objective_id = ?1 AND plan_order = ?2";
        match same {
            Some(false) => return Ok(Err(InvalidWrite::ObjectiveIdentity)),
            None if self.query_flag(position, params![objective, stored.order])?.is_some() => {
                return Ok(Err(InvalidWrite::PositionTaken));
            }
            Some(true) | None => {}
        }
        let mut statement = self.sql.prepare_cached(
            "INSERT INTO plans (id, objective_id, name, description, status, dependencies, \
             metadata, created_at, updated_at, plan_order, held) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, \
             description = excluded.description, status = excluded.status, \
             dependencies = excluded.dependencies, metadata = excluded.metadata, \
             updated_at = excluded.updated_at, held = excluded.held",
        )?;
        statement.execute(params![
            id,
            objective,
            plan.name,
            plan.description,
            plan.status.as_str(),
            list_or_null(&plan.dependencies)?,
            json_or_null(plan.metadata.as_ref())?,
            created,
            columns::of_moment(plan.updated_at),
            stored.order,
            stored.held,
        ])?;
        Ok(Ok(()))
    }

    fn upsert_plan_task(&self, of: &StoredObjective, task: &PlanTask) -> Result<Validity> {
        if let Err(invalid) = self.check_position(of, task)? {
            return Ok(Err(invalid));
        }
        let link = match self.task_link(of, task)? {
            Ok(link) => link,
            Err(invalid) => return Ok(Err(invalid)),
        };
        let mut statement = self.sql.prepare_cached(
            "INSERT INTO plan_tasks (id, plan_id, objective_id, name, description, task_index, \
             dependencies, a2a_task_id, metadata, status) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, \
             description = excluded.description, dependencies = excluded.dependencies, \
             a2a_task_id = excluded.a2a_task_id, metadata = excluded.metadata, \
             status = excluded.status",
        )?;
        statement.execute(params![
            task.id.as_str(),
            task.plan_id.as_str(),
            task.objective_id.as_str(),
            task.name,
            task.description,
            task.task_index,
            list_or_null(&task.dependencies)?,
            link.map(|id| id.to_string()),
            json_or_null(task.metadata.as_ref())?,
            task.status.as_str(),
        ])?;
        Ok(Ok(()))
    }

    /// Whether the plan task kept its position, or the position is free.
    fn check_position(&self, of: &StoredObjective, task: &PlanTask) -> Result<Validity> {
        let (id, plan) = (task.id.as_str(), task.plan_id.as_str());
        let objective = task.objective_id.as_str();
        if task.objective_id != of.objective.id {
            return Ok(Err(InvalidWrite::WrongParent));
        }
        let same = self.query_flag(
            "SELECT objective_id = ?2 AND plan_id = ?3 AND task_index = ?4 \
             FROM plan_tasks WHERE id = ?1",
            params![id, objective, plan, task.task_index],
        )?;
        if let Some(same) = same {
            return Ok(if same { Ok(()) } else { Err(InvalidWrite::ObjectiveIdentity) });
        }
        let parent = "SELECT 1 FROM plans WHERE id = ?1 AND objective_id = ?2";
        if self.query_flag(parent, params![plan, objective])?.is_none() {
            return Ok(Err(InvalidWrite::WrongParent));
        }
        let position = "SELECT 1 FROM plan_tasks WHERE plan_id = ?1 AND task_index = ?2";
        let taken = self.query_flag(position, params![plan, task.task_index])?.is_some();
        Ok(if taken { Err(InvalidWrite::PositionTaken) } else { Ok(()) })
    }

    /// The A2A task to reference; `None` when the plan task has ended and its A2A task was deleted.
    fn task_link(&self, of: &StoredObjective, task: &PlanTask) -> Result<Validity<Option<TaskId>>> {
        let Some(id) = task.a2a_task_id else { return Ok(Ok(None)) };
        let name = id.to_string();
        let matches = self.query_flag(
            "SELECT owner = ?2 AND context_id = ?3 FROM tasks WHERE id = ?1",
            params![name, &*of.owner, of.objective.id.as_str()],
        )?;
        match matches {
            None if task.status.is_terminal() => return Ok(Ok(None)),
            None | Some(false) => return Ok(Err(InvalidWrite::TaskLink)),
            Some(true) => {}
        }
        let other = "SELECT 1 FROM plan_tasks WHERE a2a_task_id = ?1 AND id != ?2";
        let busy = self.query_flag(other, params![name, task.id.as_str()])?.is_some();
        Ok(if busy { Err(InvalidWrite::TaskLink) } else { Ok(Some(id)) })
    }

    /// A boolean column of one row; `None` when there is no such row.
    fn query_flag(&self, query: &str, params: impl rusqlite::Params) -> Result<Option<bool>> {
        let mut statement = self.sql.prepare_cached(query)?;
        Ok(statement.query_row(params, |row| row.get(0)).optional()?)
    }

    /// Deletes ended objectives. Foreign keys cascade to their plans and plan tasks.
    pub(super) fn expire_objectives(&mut self, older_than: &str, limit: i64) -> Result<usize> {
        let ended = columns::OBJECTIVE_ENDED;
        let mut statement = self.sql.prepare_cached(&format!(
            "DELETE FROM objectives WHERE id IN (SELECT id FROM objectives WHERE status IN \
             {ended} AND updated_at < ?1 AND NOT EXISTS (SELECT 1 FROM tasks \
             WHERE context_id = objectives.id AND +owner = objectives.owner) \
             ORDER BY updated_at, id LIMIT ?2)"
        ))?;
        Ok(statement.execute(params![older_than, limit])?)
    }
}
