//! Write-behind limit: counts the ended tasks that were returned to callers before their commit.
//!
//! When the journal has both the agent's answer and a request that contains the whole task, a
//! crash loses nothing. The caller then gets its reply at once, and the store gets the task in a
//! larger batch. A read of more than one task first waits until the store has caught up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Uncommitted ends that may be returned; the next one waits for its commit.
const MAX_UNCOMMITTED: usize = 1_024;

/// Counter shared by the service and its readers.
#[derive(Debug, Clone, Default)]
pub(in crate::tasks) struct WriteBehindLimit(Arc<AtomicUsize>);

/// Permit for one returned, uncommitted task; released on drop.
#[derive(Debug)]
pub(in crate::tasks) struct WriteBehindPermit(Arc<AtomicUsize>);

impl WriteBehindLimit {
    /// `None` when the limit is reached.
    pub(in crate::tasks) fn acquire(&self) -> Option<WriteBehindPermit> {
        // Only the service actor increments, so the check and the increment need not be atomic.
        if self.0.load(Relaxed) >= MAX_UNCOMMITTED {
            return None;
        }
        self.0.fetch_add(1, Relaxed);
        Some(WriteBehindPermit(Arc::clone(&self.0)))
    }

    /// Whether the store has everything that callers have seen. A caller with a reply never reads
    /// a stale zero: the increment precedes the reply, which is sent over a channel.
    pub(in crate::tasks) fn is_zero(&self) -> bool {
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
    fn write_behind_limit_reached_refuses_until_a_permit_is_released() {
        let limit = WriteBehindLimit::default();
        assert!(limit.is_zero());
        let mut permits: Vec<WriteBehindPermit> = std::iter::from_fn(|| limit.acquire()).collect();
        assert_eq!(permits.len(), MAX_UNCOMMITTED);
        permits.pop();
        assert!(limit.acquire().is_some(), "one was written");
        drop(permits);
        assert!(limit.is_zero());
    }
}
