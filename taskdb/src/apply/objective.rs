//! Objectives with their plans and tasks, row by row: one row that does not fit takes the others
//! of its change back.

use a2a_protocol::TaskId;
use a2a_protocol::opt::PlanTask;
use rusqlite::{OptionalExtension, params};

use super::{Batch, Result, json_or_null, list_or_null};
use crate::objective::{Before, follows};
use crate::{Misfit, ObjectiveChange, StoredObjective, StoredPlan, Written, row, word};

/// Whether a row fits.
type Fit<T = ()> = std::result::Result<T, Misfit>;

impl Batch<'_> {
    pub(super) fn objective(&mut self, change: &ObjectiveChange) -> Result<Written> {
        if let Err(misfit) = follows(self.objective_before(&change.objective)?, change) {
            return Ok(misfit);
        }
        self.wholly(|batch| {
            let stored = &change.objective;
            batch.keep_objective(stored)?;
            for plan in &change.plans {
                if let Err(misfit) = batch.keep_plan(stored, plan)? {
                    return Ok(Written::Refused(misfit));
                }
            }
            for task in &change.tasks {
                if let Err(misfit) = batch.keep_plan_task(stored, task)? {
                    return Ok(Written::Refused(misfit));
                }
            }
            Ok(Written::Done)
        })
    }

    fn objective_before(&self, stored: &StoredObjective) -> Result<Option<Before>> {
        let mut statement = self.sql.prepare_cached(
            "SELECT id, revision, owner = ?2 AND principal = ?3 AND agent = ?4 \
             AND created_at = ?5 FROM objectives WHERE id = ?1",
        )?;
        let mut rows = statement.query(params![
            stored.objective.id.as_str(),
            &*stored.owner,
            stored.principal.as_str(),
            stored.agent.as_str(),
            word::of_moment(stored.objective.created_at),
        ])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(Before { revision: row::number(row, 1)?, is_same: row.get(2)? }))
    }

    fn keep_objective(&self, stored: &StoredObjective) -> Result<()> {
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
            word::of_moment(objective.created_at),
            word::of_moment(objective.updated_at),
            &*stored.owner,
            stored.principal.as_str(),
            stored.agent.as_str(),
            word::of_number(stored.revision),
        ])?;
        Ok(())
    }

    fn keep_plan(&self, of: &StoredObjective, stored: &StoredPlan) -> Result<Fit> {
        let plan = &stored.plan;
        let (id, objective) = (plan.id.as_str(), plan.objective_id.as_str());
        if plan.objective_id != of.objective.id {
            return Ok(Err(Misfit::Stray));
        }
        let created = word::of_moment(plan.created_at);
        let same = self.look(
            "SELECT objective_id = ?2 AND plan_order = ?3 AND created_at = ?4 \
             FROM plans WHERE id = ?1",
            params![id, objective, stored.order, created],
        )?;
        let place = "SELECT 1 FROM plans WHERE objective_id = ?1 AND plan_order = ?2";
        match same {
            Some(false) => return Ok(Err(Misfit::ObjectiveIdentity)),
            None if self.look(place, params![objective, stored.order])?.is_some() => {
                return Ok(Err(Misfit::PlaceTaken));
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
            word::of_moment(plan.updated_at),
            stored.order,
            stored.held,
        ])?;
        Ok(Ok(()))
    }

    fn keep_plan_task(&self, of: &StoredObjective, task: &PlanTask) -> Result<Fit> {
        if let Err(misfit) = self.place_of(of, task)? {
            return Ok(Err(misfit));
        }
        let link = match self.link(of, task)? {
            Ok(link) => link,
            Err(misfit) => return Ok(Err(misfit)),
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

    /// Whether the task is where it was, or its plan has room for it.
    fn place_of(&self, of: &StoredObjective, task: &PlanTask) -> Result<Fit> {
        let (id, plan) = (task.id.as_str(), task.plan_id.as_str());
        let objective = task.objective_id.as_str();
        if task.objective_id != of.objective.id {
            return Ok(Err(Misfit::Stray));
        }
        let same = self.look(
            "SELECT objective_id = ?2 AND plan_id = ?3 AND task_index = ?4 \
             FROM plan_tasks WHERE id = ?1",
            params![id, objective, plan, task.task_index],
        )?;
        if let Some(same) = same {
            return Ok(if same { Ok(()) } else { Err(Misfit::ObjectiveIdentity) });
        }
        let parent = "SELECT 1 FROM plans WHERE id = ?1 AND objective_id = ?2";
        if self.look(parent, params![plan, objective])?.is_none() {
            return Ok(Err(Misfit::Stray));
        }
        let place = "SELECT 1 FROM plan_tasks WHERE plan_id = ?1 AND task_index = ?2";
        let taken = self.look(place, params![plan, task.task_index])?.is_some();
        Ok(if taken { Err(Misfit::PlaceTaken) } else { Ok(()) })
    }

    /// The A2A task to name: none when it ended and is gone.
    fn link(&self, of: &StoredObjective, task: &PlanTask) -> Result<Fit<Option<TaskId>>> {
        let Some(id) = task.a2a_task_id else { return Ok(Ok(None)) };
        let name = id.to_string();
        let fitting = self.look(
            "SELECT owner = ?2 AND context_id = ?3 FROM tasks WHERE id = ?1",
            params![name, &*of.owner, of.objective.id.as_str()],
        )?;
        match fitting {
            None if task.status.is_terminal() => return Ok(Ok(None)),
            None | Some(false) => return Ok(Err(Misfit::Link)),
            Some(true) => {}
        }
        let other = "SELECT 1 FROM plan_tasks WHERE a2a_task_id = ?1 AND id != ?2";
        let busy = self.look(other, params![name, task.id.as_str()])?.is_some();
        Ok(if busy { Err(Misfit::Link) } else { Ok(Some(id)) })
    }

    /// What a question about one row says; `None` when there is no such row.
    fn look(&self, question: &str, params: impl rusqlite::Params) -> Result<Option<bool>> {
        let mut statement = self.sql.prepare_cached(question)?;
        Ok(statement.query_row(params, |row| row.get(0)).optional()?)
    }

    /// What is below an objective goes with it: the schema says so.
    pub(super) fn expire_objectives(&mut self, older_than: &str, limit: i64) -> Result<usize> {
        let ended = word::OBJECTIVE_ENDED;
        let mut statement = self.sql.prepare_cached(&format!(
            "DELETE FROM objectives WHERE id IN (SELECT id FROM objectives WHERE status IN \
             {ended} AND updated_at < ?1 AND NOT EXISTS (SELECT 1 FROM tasks \
             WHERE context_id = objectives.id AND +owner = objectives.owner) \
             ORDER BY updated_at, id LIMIT ?2)"
        ))?;
        Ok(statement.execute(params![older_than, limit])?)
    }
}
