//! Trace context of a handler: messages it sends belong to the trace of its delivery.

use std::future::Future;
use std::sync::Arc;

use a2a_protocol::Trace;

tokio::task_local! {
    /// Trace of the delivery being handled.
    static HANDLED: Arc<Trace>;
}

/// Runs a handler within the trace of its delivery.
pub(super) fn within<F: Future>(trace: Trace, work: F) -> impl Future<Output = F::Output> {
    HANDLED.scope(Arc::new(trace), work)
}

/// Trace of the delivery being handled, if any.
pub(super) fn current() -> Option<Arc<Trace>> {
    HANDLED.try_with(Arc::clone).ok()
}
