//! Calls that wait for messages, for presence: an agent is online while one of its calls waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When a call that waited for messages ended; `None` while it waits.
#[derive(Debug, Default)]
pub(crate) struct Poll(Mutex<Option<Instant>>);

impl Poll {
    /// How long ago it ended; `None` while it waits.
    pub(crate) fn ended(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }
}

/// Held by the call: when it is dropped, by its answer or with its connection, the call has ended.
#[derive(Debug, Default)]
pub(crate) struct Polling(Arc<Poll>);

impl Polling {
    pub(crate) fn poll(&self) -> Arc<Poll> {
        Arc::clone(&self.0)
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}
