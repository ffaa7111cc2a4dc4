//! What the writer wrote last of the tasks that go on, so that it need not look at a row before
//! it changes it, nor write again what has not changed: a history can be long, and most changes
//! are of the status.
//!
//! It forgets freely; then the row is read, and everything is written once more.

use std::collections::HashMap;

use a2a_protocol::TaskId;
use a2a_protocol::task::Task;

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
    pub(super) history: bool,
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
        match self.tasks.get(&task.id).map(|kept| &kept.stored) {
            Some(old) if old.version == before => Changed {
                artifacts: old.task.artifacts != task.artifacts,
                history: old.task.history != task.history,
            },
            _ => Changed { artifacts: true, history: true },
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

    pub(super) fn note(&mut self, stored: StoredTask, unpushed: bool) {
        if stored.task.status.state.is_terminal() {
            self.tasks.remove(&stored.id());
            return;
        }
        if self.tasks.len() >= MOST {
            self.tasks.clear();
        }
        self.tasks.insert(stored.id(), Kept { stored, unpushed });
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }

    pub(super) fn forget_all(&mut self) {
        self.tasks.clear();
    }
}
