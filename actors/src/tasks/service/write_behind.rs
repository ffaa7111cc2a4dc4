//! How many callers know more than the store does.
//!
//! When an agent's answer is in the journal and the request it answers carries everything, nothing
//! can be lost any more: its caller is told at once, and the store gets the task with many others.
//! Whoever reads the store for more than one task waits until it has caught up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many ended tasks may be told before the store has them; the next waits for the store.
const MOST: usize = 1_024;

/// The count, for those who write and those who read.
#[derive(Debug, Clone, Default)]
pub(in crate::tasks) struct WriteBehindLimit(Arc<AtomicUsize>);

/// One task that was told; counted as long as this lives.
#[derive(Debug)]
pub(in crate::tasks) struct WriteBehindPermit(Arc<AtomicUsize>);

impl WriteBehindLimit {
    /// Counts one more; `None` when there are enough.
    pub(in crate::tasks) fn go(&self) -> Option<WriteBehindPermit> {
        // Only the service adds, so nobody comes between the look and the change.
        if self.0.load(Relaxed) >= MOST {
            return None;
        }
        self.0.fetch_add(1, Relaxed);
        Some(WriteBehindPermit(Arc::clone(&self.0)))
    }

    /// Whether the store has everything that callers know. Whoever was told sees that it has not:
    /// the count is raised before, and the answer travels over a channel.
    pub(in crate::tasks) fn is_none(&self) -> bool {
        self.0.load(Relaxed) == 0
    }
}

impl Drop for WriteBehindPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_end_to_it() {
        let count = WriteBehindLimit::default();
        assert!(count.is_none());
        let mut told: Vec<WriteBehindPermit> = std::iter::from_fn(|| count.go()).collect();
        assert_eq!(told.len(), MOST);
        told.pop();
        assert!(count.go().is_some(), "one was written");
        drop(told);
        assert!(count.is_none());
    }
}
