//! Where a history stands: in the row of its task, and while that is open what came later in rows
//! of its own. So a word more is a row more, however long the history is.

use std::sync::Arc;

use a2a_protocol::task::{Message, Task};
use rusqlite::params;

use super::{Batch, Result, json};
use crate::known::{Changed, History};
use crate::word;

/// What is to be written of a history that changed so. When the task ends, all of it goes into
/// its row.
pub(super) fn written(task: &Task, changed: Changed) -> History {
    let is_over = task.status.state.is_terminal();
    match changed.history {
        History::Same if is_over && !changed.in_one_piece => History::Other,
        History::More(_) if is_over => History::Other,
        other => other,
    }
}

/// What of a history stands in the row itself: all of it when the task is over, and until then
/// only its beginning, since every change moves the whole row.
pub(super) fn in_the_row(task: &Task) -> &[Arc<Message>] {
    let most = if task.status.state.is_terminal() { usize::MAX } else { 1 };
    &task.history[..task.history.len().min(most)]
}

impl Batch<'_> {
    /// Writes what of the history does not stand in the row; whether there is nothing of it.
    pub(super) fn keep_history(&self, task: &Task, changed: Changed) -> Result<bool> {
        let from = match changed.history {
            History::Same => return Ok(changed.in_one_piece),
            History::More(from) => from,
            History::Other => {
                if !changed.in_one_piece {
                    let mut forget =
                        self.sql.prepare_cached("DELETE FROM task_messages WHERE task_id = ?1")?;
                    forget.execute([task.id.to_string()])?;
                }
                in_the_row(task).len()
            }
        };
        let mut keep = self.sql.prepare_cached(
            "INSERT INTO task_messages (task_id, number, message) VALUES (?1, ?2, ?3)",
        )?;
        let id = task.id.to_string();
        for (number, message) in (0..).zip(&task.history).skip(from) {
            keep.execute(params![id, word::of_number(number), json(message)?])?;
        }
        Ok(from == task.history.len())
    }
}
