//! Storage of message histories.
//!
//! The row of a task holds the first message of its history while the task is open. Later messages
//! are rows of `task_messages`, so appending one costs the same however long the history is. When
//! the task ends, the whole history moves into its row.

use std::sync::Arc;

use a2a_protocol::task::{Message, Task};
use rusqlite::params;

use super::batch::{Batch, Result, json};
use super::row_cache::{ChangedColumns, HistoryChange};
use crate::columns;

/// The change to write: an ended task gets its whole history in its row.
pub(super) fn change_to_write(task: &Task, changed: ChangedColumns) -> HistoryChange {
    let is_over = task.status.state.is_terminal();
    match changed.history {
        HistoryChange::Unchanged if is_over && !changed.history_inline => HistoryChange::Rewritten,
        HistoryChange::Appended(_) if is_over => HistoryChange::Rewritten,
        other => other,
    }
}

/// The part of a rewritten history that goes into the row of the task: all of it when the task has
/// ended, and its first message before, since SQLite moves the whole row with every update.
pub(super) fn inline_part(task: &Task) -> &[Arc<Message>] {
    let most = if task.status.state.is_terminal() { usize::MAX } else { 1 };
    &task.history[..task.history.len().min(most)]
}

impl Batch<'_> {
    /// Writes the messages that are not in the row of the task. Returns whether there are none.
    pub(super) fn insert_messages(&self, task: &Task, changed: ChangedColumns) -> Result<bool> {
        let from = match changed.history {
            HistoryChange::Unchanged => return Ok(changed.history_inline),
            HistoryChange::Appended(from) => from,
            HistoryChange::Rewritten => {
                if !changed.history_inline {
                    let mut delete =
                        self.sql.prepare_cached("DELETE FROM task_messages WHERE task_id = ?1")?;
                    delete.execute([task.id.to_string()])?;
                }
                inline_part(task).len()
            }
        };
        let mut insert = self.sql.prepare_cached(
            "INSERT INTO task_messages (task_id, number, message) VALUES (?1, ?2, ?3)",
        )?;
        let id = task.id.to_string();
        for (number, message) in (0..).zip(&task.history).skip(from) {
            insert.execute(params![id, columns::of_number(number), json(message)?])?;
        }
        Ok(from == task.history.len())
    }
}
