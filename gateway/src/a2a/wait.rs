//! A2A calls that wait for an event: they hold a share of the waiting calls and end when their
//! client leaves.

use std::time::Duration;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{Operation, OptOperation};
use actix_web::HttpRequest;

use super::A2a;
use super::call::{CallContext, CallOutcome};
use crate::admission::quota::Quotas;
use crate::admission::waiting_call::WaitingCall;
use crate::auth::A2aCaller;

/// Grace after the begin of a call: some clients close their sending half once the request is sent,
/// and read the response on the other.
const HALF_CLOSED: Duration = Duration::from_millis(100);

/// Caller, request and quotas of one call.
pub(super) struct WaitingCaller<'a> {
    pub(super) who: &'a A2aCaller,
    pub(super) request: &'a HttpRequest,
    pub(super) quotas: &'a Quotas,
}

/// Whether the operation waits for an event.
fn waits(operation: &Operation) -> bool {
    match operation {
        Operation::SendMessage(send) => !send.return_immediately,
        Operation::Opt(operation) => match &**operation {
            OptOperation::GetObjective(get) => get.wait_ms.is_some_and(|wait| wait > 0),
            _ => false,
        },
        _ => false,
    }
}

impl A2a {
    /// [`A2a::perform`] within the quotas of the caller, until it leaves.
    pub(super) async fn perform_for(
        &self,
        caller: &WaitingCaller<'_>,
        context: &mut CallContext,
        operation: Operation,
    ) -> Result<CallOutcome, Fault> {
        if !waits(&operation) {
            return self.perform(context, operation).await;
        }
        // Taken first: a refusal must not change anything.
        let waiting = WaitingCall::begin(caller.request, caller.quotas, caller.who.counted_as())?;
        let done = waiting.run_from(HALF_CLOSED, self.perform(context, operation)).await;
        done.unwrap_or_else(|gone| {
            Err(Fault::Unavailable { reason: gone.to_string(), retry_after_ms: 1_000 })
        })
    }
}
