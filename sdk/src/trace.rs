//! Task-local context of a handler: what it sends belongs to the trace of its delivery, and is caused
//! by it.

use std::future::Future;
use std::sync::Arc;

use a2a_protocol::{CorrelationId, Trace};

tokio::task_local! {
    /// Trace and conversation of the delivery in flight.
    static HANDLED: (Arc<Trace>, CorrelationId);
}

/// Runs a handler within the trace and the conversation of its delivery.
pub(super) fn within<F: Future>(
    trace: Trace,
    conversation: CorrelationId,
    work: F,
) -> impl Future<Output = F::Output> {
    HANDLED.scope((Arc::new(trace), conversation), work)
}

/// Trace of the current handler; `None` outside of one.
pub(super) fn current() -> Option<Arc<Trace>> {
    HANDLED.try_with(|(trace, _)| Arc::clone(trace)).ok()
}

/// Conversation of the delivery that the current handler handles; `None` outside of one.
pub(super) fn cause() -> Option<CorrelationId> {
    HANDLED.try_with(|(_, conversation)| *conversation).ok()
}
