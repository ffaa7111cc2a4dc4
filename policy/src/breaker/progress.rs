//! What the ledger vouches for counts as progress, but not without limit: a task that ends again
//! and again, or a review without an end, leads nowhere.

use a2a_protocol::TaskId;

use super::lru_map::LruMap;
use super::{BreakerInput, WorkProgress};

/// Ends and verdicts of one task that count as progress.
const MOST: u8 = 20;

/// How often each task ended or its work was reviewed.
pub(super) struct Progress {
    ends: LruMap<TaskId, u8>,
}

impl Progress {
    pub(super) fn new(max: usize) -> Self {
        Self { ends: LruMap::new(max) }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.ends.set_max(max);
    }

    /// Whether the end that this message reports counts as progress.
    pub(super) fn counts(&self, input: &BreakerInput<'_>) -> bool {
        let ends = input.task.and_then(|task| self.ends.peek(&task)).copied();
        ends.unwrap_or(0) < MOST
    }

    /// Counts an admitted message.
    pub(super) fn record(&mut self, input: &BreakerInput<'_>) {
        let (WorkProgress::Ends | WorkProgress::Fails, Some(task)) = (input.progress, input.task)
        else {
            return;
        };
        match self.ends.touch(&task) {
            Some(ends) => *ends = ends.saturating_add(1),
            None => drop(self.ends.insert(task, 1)),
        }
    }
}
