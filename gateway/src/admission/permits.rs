//! Semaphores of working requests: a shared one, and small reserves for health checks and
//! operators.
//!
//! A permit is held while a handler works. It is released when a call begins to wait and when a
//! response is made: waiting calls and unread bytes have quotas of their own.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::HttpMessage;
use actix_web::HttpRequest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reserve for `/healthz` and `/readyz`.
const HEALTH: usize = 16;
/// Reserve for operators.
const OPERATORS: usize = 32;

/// The semaphores.
#[derive(Debug)]
pub(super) struct WorkPermits {
    shared: Arc<Semaphore>,
    health: Arc<Semaphore>,
    operators: Arc<Semaphore>,
}

/// The permit of one request, which its handler can release early.
#[derive(Clone)]
pub(crate) struct WorkPermit(Rc<Cell<Option<OwnedSemaphorePermit>>>);

impl WorkPermits {
    pub(super) fn new(most: usize) -> Self {
        let semaphore =
            |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self { shared: semaphore(most), health: semaphore(HEALTH), operators: semaphore(OPERATORS) }
    }

    /// Acquires a permit for a request to this path. `is_operator` is evaluated only when all
    /// others are taken.
    pub(super) fn acquire(
        &self,
        path: &str,
        is_operator: impl FnOnce() -> bool,
    ) -> Option<WorkPermit> {
        let permit = |semaphore: &Arc<Semaphore>| Arc::clone(semaphore).try_acquire_owned().ok();
        let of_health = || matches!(path, "/healthz" | "/readyz").then(|| permit(&self.health));
        let permit = permit(&self.shared)
            .or_else(|| of_health().flatten())
            .or_else(|| if is_operator() { permit(&self.operators) } else { None });
        permit.map(|permit| WorkPermit(Rc::new(Cell::new(Some(permit)))))
    }
}

impl WorkPermit {
    /// Releases it.
    pub(super) fn release(&self) {
        self.0.take();
    }

    /// Releases the permit of this request.
    pub(crate) fn release_of(request: &HttpRequest) {
        if let Some(permit) = request.extensions().get::<Self>() {
            permit.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_and_operators_find_a_permit_when_the_others_are_taken() {
        let permits = WorkPermits::new(1);
        let only = permits.acquire("/a2a", || false).unwrap();
        assert!(permits.acquire("/a2a", || false).is_none());
        assert!(permits.acquire("/metrics", || true).is_some());
        let health: Vec<_> =
            (0..HEALTH).map(|_| permits.acquire("/healthz", || false).unwrap()).collect();
        assert!(permits.acquire("/healthz", || false).is_none());
        assert!(permits.acquire("/readyz", || true).is_some());
        drop(health);
        only.release();
        assert!(permits.acquire("/a2a", || unreachable!("there is a permit")).is_some());
    }
}
