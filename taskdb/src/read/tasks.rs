//! Queries for tasks, events, push configurations, the outbox and message ids.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use a2a_protocol::operation::{PushConfig, StreamEvent};
use a2a_protocol::task::{ContextId, Message, OpaqueId, UtcMillis};
use a2a_protocol::{AgentId, TaskId};
use rusqlite::{Connection, Params, Row, ToSql, params, params_from_iter};

use super::page::{PageItem, fill};
use super::pool::Pool;
use super::row::{ALL_COLUMNS, COLUMNS, HISTORY, json, number, parsed, parsed_or_null, stored};
use crate::{
    ListQuery, MAX_PAGE, OutboxEntry, Page, PageToken, Repeated, SentMessage, StoredTask,
    TaskReader, TaskStoreError, columns, write,
};

pub(super) type Result<T> = std::result::Result<T, TaskStoreError>;

/// Implements both reader traits over a pool of connections.
pub(crate) struct SqliteReader {
    pub(super) pool: Pool,
}

impl SqliteReader {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool }
    }
}

/// All rows of a query, decoded by `read`.
pub(super) fn all<T>(
    sql: &Connection,
    query: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = sql.prepare_cached(query)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// One page of the rows of a query, decoded by `read`, and whether there are more.
pub(super) fn page<T: PageItem>(
    sql: &Connection,
    query: &str,
    params: impl Params,
    most: usize,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<(Vec<T>, bool)> {
    let mut statement = sql.prepare_cached(query)?;
    let mut rows = statement.query(params)?;
    let next = || match rows.next() {
        Ok(row) => row.map(&read),
        Err(error) => Some(Err(error.into())),
    };
    fill(most, std::iter::from_fn(next))
}

/// The newest messages of several histories. The query selects a history as its second column, the
/// newest task first; rows are read until there are enough messages.
pub(super) fn newest_messages(
    sql: &Connection,
    query: &str,
    params: impl Params,
    limit: usize,
) -> Result<Vec<Message>> {
    let mut statement = sql.prepare_cached(query)?;
    let mut rows = statement.query(params)?;
    let mut messages = VecDeque::new();
    while messages.len() < limit
        && let Some(row) = rows.next()?
    {
        let history: Vec<Message> = json(row, 1)?;
        history.into_iter().rev().for_each(|message| messages.push_front(message));
    }
    messages.drain(..messages.len().saturating_sub(limit));
    Ok(messages.into())
}

pub(super) fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Adds the queue position to each queued task. Each queue is read once.
fn set_queue_positions(sql: &Connection, tasks: &mut [StoredTask]) -> Result<()> {
    type Queue = (Arc<str>, AgentId, ContextId);
    let mut queues: HashMap<Queue, HashMap<TaskId, usize>> = HashMap::new();
    for (at, stored) in tasks.iter().enumerate().filter(|(_, stored)| stored.queued.is_some()) {
        let queue = (Arc::clone(&stored.owner), stored.agent.clone(), stored.context().clone());
        queues.entry(queue).or_default().insert(stored.id(), at);
    }
    let mut statement = sql.prepare_cached(
        "SELECT id FROM tasks WHERE agent = ?1 AND context_id = ?2 AND owner = ?3 \
         AND queue_order IS NOT NULL ORDER BY queue_order, id",
    )?;
    for ((owner, agent, context), mut wanted) in queues {
        let mut rows = statement.query([agent.as_str(), context.as_str(), &*owner])?;
        let mut position = 0;
        while let Some(row) = rows.next()? {
            position += 1;
            if let Some(at) = wanted.remove(&parsed(row, 0)?) {
                tasks[at].set_queue_position(position);
            }
            if wanted.is_empty() {
                break;
            }
        }
    }
    Ok(())
}

/// The `WHERE` conditions of a list and their values, without the page token.
struct Conditions {
    text: String,
    values: Vec<Box<dyn ToSql>>,
}

impl Conditions {
    fn of(query: &ListQuery) -> Self {
        let mut conditions = Self { text: "1".to_owned(), values: Vec::new() };
        if let Some(owner) = &query.owner {
            // A context has fewer tasks than an owner. The plus keeps SQLite from using the index
            // of owners.
            let column = if query.context.is_some() { "+owner =" } else { "owner =" };
            conditions.and(column, owner.to_string());
        }
        if let Some(agent) = &query.agent {
            conditions.and("agent =", agent.to_string());
        }
        if let Some(context) = &query.context {
            conditions.and("context_id =", context.to_string());
        }
        if let Some(state) = query.status {
            let narrow = query.owner.is_some() || query.context.is_some();
            let column = if narrow { "+status_state =" } else { "status_state =" };
            conditions.and(column, columns::of_state(state));
        }
        if let Some(moment) = query.after {
            conditions.and("status_timestamp >=", columns::of_moment(moment));
        }
        conditions
    }

    fn and(&mut self, condition: &str, value: impl ToSql + 'static) {
        self.text += &format!(" AND {condition} ?");
        self.values.push(Box::new(value));
    }

    fn after_page(&mut self, token: PageToken) {
        self.text += " AND (status_timestamp, id) < (?, ?)";
        self.values.push(Box::new(columns::of_moment(token.moment)));
        self.values.push(Box::new(token.id.to_string()));
    }
}

fn list(sql: &Connection, query: &ListQuery) -> Result<Page> {
    let mut wanted = Conditions::of(query);
    let total: i64 = sql
        .prepare_cached(&format!("SELECT count(*) FROM tasks WHERE {}", wanted.text))?
        .query_row(params_from_iter(&wanted.values), |row| row.get(0))?;
    if let Some(token) = query.page_token {
        wanted.after_page(token);
    }
    let size = query.page_size.clamp(1, MAX_PAGE);
    let artifacts = if query.include_artifacts { "artifacts" } else { "NULL" };
    let history = if query.history_length == Some(0) { "NULL" } else { HISTORY };
    // One row more than the page shows whether there is a next page.
    wanted.values.push(Box::new(at_most(size + 1)));
    let select = format!(
        "SELECT {COLUMNS}, {artifacts}, {history} FROM tasks WHERE {} \
         ORDER BY status_timestamp DESC, id DESC LIMIT ?",
        wanted.text
    );
    let cut = |row: &Row<'_>| {
        let mut stored = stored(row)?;
        Arc::make_mut(&mut stored.task).cut_history(query.history_length);
        Ok(stored)
    };
    let (mut tasks, more) = page(sql, &select, params_from_iter(&wanted.values), size, cut)?;
    set_queue_positions(sql, &mut tasks)?;
    let next_page_token = tasks.last().filter(|_| more).map(PageToken::of);
    Ok(Page { tasks, next_page_token, total_size: total.unsigned_abs() })
}

fn config(row: &Row<'_>) -> Result<PushConfig> {
    json(row, 1)
}

fn outbox_entry(row: &Row<'_>) -> Result<OutboxEntry> {
    Ok(OutboxEntry {
        task: parsed(row, 0)?,
        config: config(row)?,
        outbox: number(row, 2)?,
        number: number(row, 3)?,
        attempts: number(row, 4)?,
        event: Arc::new(json(row, 5)?),
    })
}

impl TaskReader for SqliteReader {
    fn get(&self, id: TaskId) -> Result<Option<StoredTask>> {
        self.pool.with(|sql| {
            let select = format!("SELECT {ALL_COLUMNS} FROM tasks WHERE id = ?1");
            let mut found = all(sql, &select, [id.to_string()], stored)?;
            let Some(mut task) = found.pop() else { return Ok(None) };
            if let Some(queued) = task.queued {
                let before: i64 = sql
                    .prepare_cached(
                        "SELECT count(*) FROM tasks WHERE agent = ?1 AND context_id = ?2 \
                         AND owner = ?3 AND queue_order IS NOT NULL \
                         AND (queue_order, id) < (?4, ?5)",
                    )?
                    .query_row(
                        params![
                            task.agent.as_str(),
                            task.context().as_str(),
                            &*task.owner,
                            queued.order,
                            id.to_string()
                        ],
                        |row| row.get(0),
                    )?;
                task.set_queue_position(before.unsigned_abs() + 1);
            }
            Ok(Some(task))
        })
    }

    fn ended_among(&self, ids: &[TaskId]) -> Result<Vec<TaskId>> {
        let select =
            format!("SELECT 1 FROM tasks WHERE id = ?1 AND status_state IN {}", columns::ENDED);
        self.pool.with(|sql| {
            let mut statement = sql.prepare_cached(&select)?;
            let mut ended = Vec::new();
            for id in ids {
                if statement.exists([id.to_string()])? {
                    ended.push(*id);
                }
            }
            Ok(ended)
        })
    }

    fn list(&self, query: &ListQuery) -> Result<Page> {
        self.pool.with(|sql| list(sql, query))
    }

    fn find_by_context(&self, context: &ContextId, limit: usize) -> Result<Vec<StoredTask>> {
        let select = format!(
            "SELECT {ALL_COLUMNS} FROM tasks WHERE context_id = ?1 \
             ORDER BY created_at DESC, id DESC LIMIT ?2"
        );
        self.pool.with(|sql| {
            let mut tasks = all(sql, &select, params![context.as_str(), at_most(limit)], stored)?;
            set_queue_positions(sql, &mut tasks)?;
            Ok(tasks)
        })
    }

    fn pending_by_context(&self, agent: &AgentId, context: &ContextId) -> Result<Vec<StoredTask>> {
        let select = format!(
            "SELECT {ALL_COLUMNS} FROM tasks WHERE agent = ?1 AND context_id = ?2 \
             AND queue_order IS NOT NULL ORDER BY queue_order, id"
        );
        let find = |sql: &Connection| all(sql, &select, [agent.as_str(), context.as_str()], stored);
        let mut tasks = self.pool.with(find)?;
        let mut positions: HashMap<Arc<str>, u64> = HashMap::new();
        for stored in &mut tasks {
            let position = positions.entry(Arc::clone(&stored.owner)).or_default();
            *position += 1;
            stored.set_queue_position(*position);
        }
        Ok(tasks)
    }

    fn open(&self) -> Result<Vec<StoredTask>> {
        let select = format!(
            "SELECT {ALL_COLUMNS} FROM tasks WHERE status_state IN {} \
             ORDER BY queue_order IS NOT NULL, queue_order, id",
            columns::OPEN
        );
        self.pool.with(|sql| all(sql, &select, [], stored))
    }

    fn events(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<(u64, Arc<StreamEvent>)>> {
        let params = params![id.to_string(), columns::of_number(after), at_most(limit)];
        let select = "SELECT task_id, number, event FROM task_events \
             WHERE task_id = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
        let event = |row: &Row<'_>| Ok((number(row, 1)?, Arc::new(json(row, 2)?)));
        let stored = self.pool.with(|sql| all(sql, select, params, event))?;
        if !stored.is_empty() {
            return Ok(stored);
        }
        let ended = self
            .get(id)?
            .filter(|stored| stored.last_event > after && stored.has_derivable_events());
        let derived = ended.iter().flat_map(StoredTask::derived_events);
        Ok(derived.filter(|(number, _)| *number > after).take(limit).collect())
    }

    fn push(&self, task: TaskId, id: &OpaqueId) -> Result<Option<PushConfig>> {
        let select = "SELECT task_id, config FROM push_configs WHERE task_id = ?1 AND id = ?2";
        let params = params![task.to_string(), id.as_str()];
        self.pool.with(|sql| Ok(all(sql, select, params, config)?.pop()))
    }

    fn pushes(&self, task: TaskId) -> Result<Vec<PushConfig>> {
        let select =
            "SELECT task_id, config FROM push_configs WHERE task_id = ?1 ORDER BY position";
        self.pool.with(|sql| all(sql, select, [task.to_string()], config))
    }

    fn outbox_due(&self, now: UtcMillis, limit: usize) -> Result<Vec<OutboxEntry>> {
        let select = "SELECT waiting.task_id, config, waiting.id, number, attempts, event \
             FROM push_outbox AS waiting \
             JOIN push_configs ON push_configs.task_id = waiting.task_id \
             AND push_configs.id = waiting.config_id \
             JOIN task_events USING (task_id, number) \
             WHERE next_at IS NOT NULL AND next_at <= ?1 ORDER BY next_at, waiting.id LIMIT ?2";
        let params = params![columns::of_moment(now), at_most(limit)];
        self.pool.with(|sql| all(sql, select, params, outbox_entry))
    }

    fn next_due(&self) -> Result<Option<UtcMillis>> {
        let select = "SELECT task_id, next_at FROM push_outbox WHERE next_at IS NOT NULL \
             ORDER BY next_at LIMIT 1";
        let next = |row: &Row<'_>| parsed_or_null(row, 1);
        self.pool.with(|sql| Ok(all(sql, select, [], next)?.pop().flatten()))
    }

    fn message(
        &self,
        owner: &str,
        agent: &AgentId,
        message: &SentMessage,
    ) -> Result<Option<Repeated>> {
        self.pool.with(|sql| write::find_repeat(sql, owner, agent.as_str(), message))
    }

    fn message_keys(&self, most: usize) -> Result<Option<Vec<u64>>> {
        self.pool.with(|sql| write::message_keys(sql, most))
    }

    fn history_of_context(
        &self,
        owner: &str,
        agent: &AgentId,
        context: &ContextId,
        limit: usize,
    ) -> Result<Vec<Message>> {
        let select = format!(
            "SELECT id, {HISTORY} FROM tasks WHERE context_id = ?1 AND agent = ?2 \
             AND +owner = ?3 AND history IS NOT NULL ORDER BY created_at DESC, id DESC"
        );
        let params = [context.as_str(), agent.as_str(), owner];
        self.pool.with(|sql| newest_messages(sql, &select, params, limit))
    }
}
