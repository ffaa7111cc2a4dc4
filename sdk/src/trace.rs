//! Task-local trace of a handler: what it sends belongs to the trace of its delivery.

use std::future::Future;
use std::sync::Arc;

use a2a_protocol::Trace;

tokio::task_local! {
    /// Trace of the delivery in flight.
    static HANDLED: Arc<Trace>;
}

/// Runs a handler within the trace of its delivery.
pub(super) fn within<F: Future>(trace: Trace, work: F) -> impl Future<Output = F::Output> {
    HANDLED.scope(Arc::new(trace), work)
}

/// Trace of the current handler; `None` outside of one.
pub(super) fn current() -> Option<Arc<Trace>> {
    HANDLED.try_with(Arc::clone).ok()
}
