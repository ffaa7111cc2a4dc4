//! What the writer wrote last of the tasks that go on, so that it need not write again what has
//! not changed: a history can be long, and most changes are of the status.
//!
//! It forgets freely; then everything is written once more.

use std::collections::HashMap;
use std::sync::Arc;

use a2a_protocol::TaskId;
use a2a_protocol::task::Task;

use super::StoredTask;

/// How many tasks are remembered. They are shared with whoever handed them over.
const MOST: usize = 1_024;

#[derive(Default)]
pub(super) struct Known {
    tasks: HashMap<TaskId, (u64, Arc<Task>)>,
}

/// Which of the large columns an update has to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) artifacts: bool,
    pub(super) history: bool,
}

impl Known {
    /// What differs between the row, which is of version `before`, and the task.
    pub(super) fn changed(&self, before: u64, task: &Task) -> Changed {
        match self.tasks.get(&task.id) {
            Some((version, old)) if *version == before => Changed {
                artifacts: old.artifacts != task.artifacts,
                history: old.history != task.history,
            },
            _ => Changed { artifacts: true, history: true },
        }
    }

    pub(super) fn note(&mut self, stored: &StoredTask) {
        if stored.task.status.state.is_terminal() {
            self.tasks.remove(&stored.id());
            return;
        }
        if self.tasks.len() >= MOST {
            self.tasks.clear();
        }
        self.tasks.insert(stored.id(), (stored.version, Arc::clone(&stored.task)));
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }

    pub(super) fn forget_all(&mut self) {
        self.tasks.clear();
    }
}
