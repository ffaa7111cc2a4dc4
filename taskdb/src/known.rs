//! What the writer wrote last of the tasks that go on, so that it need not look at a row before
//! it changes it, nor write again what has not changed: a history can be long, and most changes
//! are of the status, or add to it.
//!
//! It forgets freely; then the row is read, and everything is written once more.

use std::collections::HashMap;
use std::sync::Arc;

use a2a_protocol::TaskId;
use a2a_protocol::task::{Message, Task};

use super::StoredTask;

/// How many tasks are remembered. They are shared with whoever handed them over.
const MOST: usize = 1_024;

#[derive(Default)]
pub(super) struct Known {
    tasks: HashMap<TaskId, Kept>,
}

struct Kept {
    stored: StoredTask,
    /// Nobody wants to be told of it.
    unpushed: bool,
    /// All of its history stands in its row.
    in_one_piece: bool,
}

/// What is known of a task before it is changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) version: u64,
    pub(super) last_event: u64,
    /// What never changes is as in the change.
    pub(super) is_same: bool,
}

/// Which of the large columns an update has to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) artifacts: bool,
    pub(super) history: History,
    /// It is known that all of the history stands in the row.
    pub(super) in_one_piece: bool,
}

/// How a history differs from what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// Not at all.
    Same,
    /// From this place on there is more.
    More(usize),
    /// In some other way, or nobody knows.
    Other,
}

/// Whether both are the same thing, or alike.
fn alike<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl History {
    fn between(old: &[Arc<Message>], new: &[Arc<Message>]) -> Self {
        let goes_on = old.len() <= new.len() && old.iter().zip(new).all(|(a, b)| alike(a, b));
        match goes_on {
            true if old.len() == new.len() => Self::Same,
            // A row without a history says nothing of any that stands elsewhere.
            true if !old.is_empty() => Self::More(old.len()),
            _ => Self::Other,
        }
    }
}

impl Known {
    /// What the row of the task says; `None` when it has to be read.
    pub(super) fn before(&self, changed: &StoredTask) -> Option<Before> {
        let Kept { stored, .. } = self.tasks.get(&changed.id())?;
        Some(Before {
            version: stored.version,
            last_event: stored.last_event,
            is_same: stored.is_same(changed),
        })
    }

    /// What differs between the row, which is of version `before`, and the task.
    pub(super) fn changed(&self, before: u64, task: &Task) -> Changed {
        match self.tasks.get(&task.id) {
            Some(Kept { stored, in_one_piece, .. }) if stored.version == before => {
                let (old, new) = (&stored.task.artifacts, &task.artifacts);
                let same = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| alike(a, b));
                let history = History::between(&stored.task.history, &task.history);
                Changed { artifacts: !same, history, in_one_piece: *in_one_piece }
            }
            _ => Changed { artifacts: true, history: History::Other, in_one_piece: false },
        }
    }

    /// Whether it is known that nobody wants to be told of the task.
    pub(super) fn is_unpushed(&self, id: TaskId) -> bool {
        self.tasks.get(&id).is_some_and(|kept| kept.unpushed)
    }

    /// Somebody wants to be told of the task.
    pub(super) fn push(&mut self, id: TaskId) {
        if let Some(kept) = self.tasks.get_mut(&id) {
            kept.unpushed = false;
        }
    }

    pub(super) fn note(&mut self, stored: StoredTask, unpushed: bool, in_one_piece: bool) {
        if stored.task.status.state.is_terminal() {
            self.tasks.remove(&stored.id());
            return;
        }
        if self.tasks.len() >= MOST {
            self.tasks.clear();
        }
        self.tasks.insert(stored.id(), Kept { stored, unpushed, in_one_piece });
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }

    pub(super) fn forget_all(&mut self) {
        self.tasks.clear();
    }
}
