//! Queries for objectives, plans and plan tasks.

use std::collections::HashMap;

use a2a_protocol::TaskId;
use a2a_protocol::opt::{
    Objective, ObjectiveId, ObjectiveStatus, Plan, PlanStatus, PlanTask, PlanTaskStatus,
};
use a2a_protocol::task::{Message, PlanId, PlanTaskId};
use rusqlite::{Connection, Row, ToSql, params_from_iter};

use super::row::{HISTORY, json_or_null, number, parsed, parsed_or_null, some, text};
use super::tasks::{Result, SqliteReader, all, at_most, newest_messages, page};
use crate::{
    MAX_PAGE, ObjectiveQuery, ObjectiveReader, ObjectiveToken, ObjectiveTree, Objectives, PlanTree,
    StoredObjective, StoredPlan, columns,
};

const OBJECTIVE: &str = "id, name, description, status, metadata, created_at, updated_at, owner, \
     principal, agent, revision";

fn label<T: for<'a> TryFrom<&'a str>>(row: &Row<'_>, at: usize) -> Result<T> {
    some(row, at, text(row, at)?.and_then(|text| T::try_from(text).ok()))
}

fn string(row: &Row<'_>, at: usize) -> Result<String> {
    some(row, at, text(row, at)?.map(str::to_owned))
}

fn string_or_null(row: &Row<'_>, at: usize) -> Result<Option<String>> {
    Ok(text(row, at)?.map(str::to_owned))
}

/// An objective from the columns [`OBJECTIVE`].
fn stored(row: &Row<'_>) -> Result<StoredObjective> {
    let objective = Objective {
        id: label(row, 0)?,
        name: string(row, 1)?,
        description: string_or_null(row, 2)?,
        status: some(row, 3, text(row, 3)?.and_then(ObjectiveStatus::from_name))?,
        plans: None,
        metadata: json_or_null(row, 4)?,
        created_at: parsed(row, 5)?,
        updated_at: parsed(row, 6)?,
    };
    Ok(StoredObjective {
        objective,
        owner: some(row, 7, text(row, 7)?)?.into(),
        principal: parsed(row, 8)?,
        agent: parsed(row, 9)?,
        revision: number(row, 10)?,
    })
}

fn plan(row: &Row<'_>) -> Result<PlanTree> {
    let plan = Plan {
        id: label(row, 0)?,
        objective_id: label(row, 1)?,
        name: string(row, 2)?,
        description: string_or_null(row, 3)?,
        status: some(row, 4, text(row, 4)?.and_then(PlanStatus::from_name))?,
        tasks: None,
        dependencies: json_or_null(row, 5)?.unwrap_or_default(),
        metadata: json_or_null(row, 6)?,
        created_at: parsed(row, 7)?,
        updated_at: parsed(row, 8)?,
    };
    let stored = StoredPlan { plan, order: number(row, 9)?, held: row.get(10)? };
    Ok(PlanTree { stored, tasks: Vec::new() })
}

fn plan_task(row: &Row<'_>) -> Result<PlanTask> {
    Ok(PlanTask {
        id: label(row, 0)?,
        plan_id: label(row, 1)?,
        objective_id: label(row, 2)?,
        name: string(row, 3)?,
        description: string_or_null(row, 4)?,
        task_index: number(row, 5)?,
        dependencies: json_or_null(row, 6)?.unwrap_or_default(),
        a2a_task_id: parsed_or_null(row, 7)?,
        metadata: json_or_null(row, 8)?,
        status: some(row, 9, text(row, 9)?.and_then(PlanTaskStatus::from_name))?,
    })
}

/// The plans of an objective with their tasks, in order of position.
fn plans(sql: &Connection, objective: &ObjectiveId) -> Result<Vec<PlanTree>> {
    let of_it = [objective.as_str()];
    let select = "SELECT id, objective_id, name, description, status, dependencies, metadata, \
         created_at, updated_at, plan_order, held FROM plans WHERE objective_id = ?1 \
         ORDER BY plan_order";
    let mut plans = all(sql, select, of_it, plan)?;
    let select = "SELECT id, plan_id, objective_id, name, description, task_index, dependencies, \
         a2a_task_id, metadata, status FROM plan_tasks WHERE objective_id = ?1 \
         ORDER BY task_index";
    let mut tasks: HashMap<PlanId, Vec<PlanTask>> = HashMap::new();
    for task in all(sql, select, of_it, plan_task)? {
        tasks.entry(task.plan_id.clone()).or_default().push(task);
    }
    for plan in &mut plans {
        plan.tasks = tasks.remove(&plan.stored.plan.id).unwrap_or_default();
    }
    Ok(plans)
}

fn tree(sql: &Connection, stored: StoredObjective) -> Result<ObjectiveTree> {
    let plans = plans(sql, &stored.objective.id)?;
    Ok(ObjectiveTree { stored, plans })
}

fn list(sql: &Connection, query: &ObjectiveQuery) -> Result<Objectives> {
    let (mut conditions, mut values) = ("1".to_owned(), Vec::<Box<dyn ToSql>>::new());
    if let Some(owner) = &query.owner {
        conditions += " AND owner = ?";
        values.push(Box::new(owner.to_string()));
    }
    if let Some(status) = query.status {
        conditions += " AND status = ?";
        values.push(Box::new(status.as_str()));
    }
    if let Some(ObjectiveToken { created, id }) = &query.after {
        conditions += " AND (created_at, id) < (?, ?)";
        values.push(Box::new(columns::of_moment(*created)));
        values.push(Box::new(id.to_string()));
    }
    let size = query.limit.clamp(1, MAX_PAGE);
    // One row more than the page shows whether there is a next page.
    values.push(Box::new(at_most(size + 1)));
    let select = format!(
        "SELECT {OBJECTIVE} FROM objectives WHERE {conditions} \
         ORDER BY created_at DESC, id DESC LIMIT ?"
    );
    let read = |row: &Row<'_>| {
        let stored = stored(row)?;
        if query.with_plans { tree(sql, stored) } else { Ok(ObjectiveTree::bare(stored)) }
    };
    let (objectives, more) = page(sql, &select, params_from_iter(&values), size, read)?;
    let last = objectives.last().filter(|_| more);
    let next = last.map(|tree| ObjectiveToken::of(&tree.stored));
    Ok(Objectives { objectives, next })
}

impl ObjectiveReader for SqliteReader {
    fn objective(&self, id: &ObjectiveId) -> Result<Option<ObjectiveTree>> {
        let select = format!("SELECT {OBJECTIVE} FROM objectives WHERE id = ?1");
        self.pool.with(|sql| {
            let found = all(sql, &select, [id.as_str()], stored)?.pop();
            found.map(|stored| tree(sql, stored)).transpose()
        })
    }

    fn objectives(&self, query: &ObjectiveQuery) -> Result<Objectives> {
        self.pool.with(|sql| list(sql, query))
    }

    fn open_objectives(&self) -> Result<Vec<ObjectiveTree>> {
        let select = format!(
            "SELECT {OBJECTIVE} FROM objectives WHERE status IN {} ORDER BY created_at, id",
            columns::OBJECTIVE_OPEN
        );
        self.pool.with(|sql| {
            let open = all(sql, &select, [], stored)?;
            open.into_iter().map(|stored| tree(sql, stored)).collect()
        })
    }

    fn plan(&self, id: &PlanId) -> Result<Option<ObjectiveId>> {
        let select = "SELECT id, objective_id FROM plans WHERE id = ?1";
        self.pool.with(|sql| Ok(all(sql, select, [id.as_str()], |row| label(row, 1))?.pop()))
    }

    fn plan_task_of(&self, task: TaskId) -> Result<Option<(ObjectiveId, PlanTaskId)>> {
        let select = "SELECT id, objective_id FROM plan_tasks WHERE a2a_task_id = ?1";
        let ids = |row: &Row<'_>| Ok((label(row, 1)?, label(row, 0)?));
        self.pool.with(|sql| Ok(all(sql, select, [task.to_string()], ids)?.pop()))
    }

    fn history_of_plan(&self, id: &PlanId, limit: usize) -> Result<Vec<Message>> {
        let select = format!(
            "SELECT tasks.id, {HISTORY} FROM plan_tasks \
             JOIN tasks ON tasks.id = a2a_task_id WHERE plan_tasks.plan_id = ?1 \
             AND history IS NOT NULL ORDER BY created_at DESC, tasks.id DESC"
        );
        self.pool.with(|sql| newest_messages(sql, &select, [id.as_str()], limit))
    }

    fn history_of_objective(&self, id: &ObjectiveId, limit: usize) -> Result<Vec<Message>> {
        // Another owner may use the same context id, so the tasks are filtered by owner.
        let select = format!(
            "SELECT tasks.id, {HISTORY} FROM tasks WHERE context_id = ?1 \
             AND +owner = (SELECT owner FROM objectives WHERE id = ?1) \
             AND history IS NOT NULL ORDER BY created_at DESC, tasks.id DESC"
        );
        self.pool.with(|sql| newest_messages(sql, &select, [id.as_str()], limit))
    }
}
