//! Permits for requests that are being answered: one set for everyone, and small reserves so that
//! health checks and operators find a permit when callers have used up that set.
//!
//! A permit is held while a handler works. A call that begins to wait gives it back, and so does an
//! answer that is made: what waits and what is not yet taken has quotas of its own.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::HttpMessage;
use actix_web::HttpRequest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits for `/healthz` and `/readyz` alone, whose handlers answer at once.
const HEALTH: usize = 16;
/// Permits that only operators get, when the others are taken.
const OPERATORS: usize = 32;

/// The permits there are.
#[derive(Debug)]
pub(super) struct WorkPermits {
    shared: Arc<Semaphore>,
    health: Arc<Semaphore>,
    operators: Arc<Semaphore>,
}

/// The permit of one request, which whatever answers it can give back early.
#[derive(Clone)]
pub(crate) struct WorkPermit(Rc<Cell<Option<OwnedSemaphorePermit>>>);

impl WorkPermits {
    pub(super) fn new(most: usize) -> Self {
        let semaphore =
            |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self { shared: semaphore(most), health: semaphore(HEALTH), operators: semaphore(OPERATORS) }
    }

    /// A permit for a request to this path. `is_operator` is only asked where all others are taken.
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
    /// Gives it back.
    pub(super) fn give_back(&self) {
        self.0.take();
    }

    /// Gives back the permit of this request.
    pub(crate) fn give_back_of(request: &HttpRequest) {
        if let Some(permit) = request.extensions().get::<Self>() {
            permit.give_back();
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
        only.give_back();
        assert!(permits.acquire("/a2a", || unreachable!("there is a permit")).is_some());
    }
}
