//! The trace that a handler works in: what it sends belongs to the trace of its delivery.

use std::future::Future;
use std::sync::Arc;

use a2a_protocol::Trace;

tokio::task_local! {
    /// The place of the delivery that is being handled.
    static HANDLED: Arc<Trace>;
}

/// Runs a handler at its delivery's place in its trace.
pub(super) fn within<F: Future>(trace: Trace, work: F) -> impl Future<Output = F::Output> {
    HANDLED.scope(Arc::new(trace), work)
}

/// The place of the delivery that is being handled here, if one is.
pub(super) fn current() -> Option<Arc<Trace>> {
    HANDLED.try_with(Arc::clone).ok()
}
