//! Cache of the last written state of open tasks.
//!
//! An update compares against it instead of reading the row, and writes only the large columns that
//! changed: a history can be long, and most updates change the status or append to it. On a miss
//! the row is read and all columns are written.

use std::collections::HashMap;
use std::sync::Arc;

use a2a_protocol::TaskId;
use a2a_protocol::task::{Message, Task};

use crate::StoredTask;

/// Cached tasks; at the limit the cache is cleared. They share their memory with the caller's.
const CAPACITY: usize = 1_024;

#[derive(Default)]
pub(crate) struct RowCache {
    rows: HashMap<TaskId, CachedRow>,
}

struct CachedRow {
    stored: StoredTask,
    /// The task has no push configuration.
    has_no_push: bool,
    /// The whole history is in the row of the task, none of it in `task_messages`.
    history_inline: bool,
}

/// The stored version of a task before an update.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskVersion {
    pub(super) version: u64,
    pub(super) last_event: u64,
    /// The immutable columns equal those of the update.
    pub(super) is_same: bool,
}

/// The large columns that an update has to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangedColumns {
    pub(super) artifacts: bool,
    pub(super) history: HistoryChange,
    /// The whole stored history is known to be in the row of the task.
    pub(super) history_inline: bool,
}

/// How a history differs from the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HistoryChange {
    Unchanged,
    /// Messages were appended from this index on.
    Appended(usize),
    /// Any other change, or the stored history is not cached.
    Rewritten,
}

/// Equality that skips the comparison for the same allocation.
fn is_equal<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl HistoryChange {
    fn between(old: &[Arc<Message>], new: &[Arc<Message>]) -> Self {
        let is_prefix = old.len() <= new.len() && old.iter().zip(new).all(|(a, b)| is_equal(a, b));
        match is_prefix {
            true if old.len() == new.len() => Self::Unchanged,
            // An empty column may have messages in `task_messages`.
            true if !old.is_empty() => Self::Appended(old.len()),
            _ => Self::Rewritten,
        }
    }
}

impl RowCache {
    /// The stored version of a task; `None` when its row has to be read.
    pub(super) fn version_of(&self, changed: &StoredTask) -> Option<TaskVersion> {
        let CachedRow { stored, .. } = self.rows.get(&changed.id())?;
        Some(TaskVersion {
            version: stored.version,
            last_event: stored.last_event,
            is_same: stored.is_same(changed),
        })
    }

    /// The large columns in which the task differs from its row of version `before`.
    pub(super) fn changed_columns(&self, before: u64, task: &Task) -> ChangedColumns {
        match self.rows.get(&task.id) {
            Some(CachedRow { stored, history_inline, .. }) if stored.version == before => {
                let (old, new) = (&stored.task.artifacts, &task.artifacts);
                let same =
                    old.len() == new.len() && old.iter().zip(new).all(|(a, b)| is_equal(a, b));
                let history = HistoryChange::between(&stored.task.history, &task.history);
                ChangedColumns { artifacts: !same, history, history_inline: *history_inline }
            }
            _ => ChangedColumns {
                artifacts: true,
                history: HistoryChange::Rewritten,
                history_inline: false,
            },
        }
    }

    /// Whether the task is known to have no push configuration.
    pub(super) fn has_no_push(&self, id: TaskId) -> bool {
        self.rows.get(&id).is_some_and(|row| row.has_no_push)
    }

    /// The task got a push configuration.
    pub(super) fn add_push(&mut self, id: TaskId) {
        if let Some(row) = self.rows.get_mut(&id) {
            row.has_no_push = false;
        }
    }

    /// Caches a written task, unless it has ended.
    pub(super) fn insert(&mut self, stored: StoredTask, has_no_push: bool, history_inline: bool) {
        if stored.task.status.state.is_terminal() {
            self.rows.remove(&stored.id());
            return;
        }
        if self.rows.len() >= CAPACITY {
            self.rows.clear();
        }
        self.rows.insert(stored.id(), CachedRow { stored, has_no_push, history_inline });
    }

    pub(super) fn remove(&mut self, id: TaskId) {
        self.rows.remove(&id);
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
    }
}
