//! Calls of A2A that wait for an event: they hold a share of the waiting calls and end when their
//! client has gone.

use std::time::Duration;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{Operation, OptOperation};
use actix_web::HttpRequest;

use super::A2a;
use super::call::{CallContext, CallOutcome};
use crate::admission::quota::Quotas;
use crate::admission::waiting_call::WaitingCall;
use crate::auth::A2aCaller;

/// So long after a call began its client may still have closed its half of the connection: some
/// do so once they have sent a request, and read the answer on the other half.
const HALF_CLOSED: Duration = Duration::from_millis(100);

/// Who calls, over what, and what may be held.
pub(super) struct WaitingCaller<'a> {
    pub(super) who: &'a A2aCaller,
    pub(super) request: &'a HttpRequest,
    pub(super) quotas: &'a Quotas,
}

/// Whether the caller asks to have the answer only after something has happened.
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
    /// [`A2a::perform`], within what the caller may hold and for as long as it is there.
    pub(super) async fn perform_for(
        &self,
        caller: &WaitingCaller<'_>,
        context: &mut CallContext,
        operation: Operation,
    ) -> Result<CallOutcome, Fault> {
        if !waits(&operation) {
            return self.perform(context, operation).await;
        }
        // First of all: what finds no share has changed nothing.
        let waiting = WaitingCall::begin(caller.request, caller.quotas, caller.who.counted_as())?;
        let done = waiting.run_from(HALF_CLOSED, self.perform(context, operation)).await;
        done.unwrap_or_else(|gone| {
            Err(Fault::Unavailable { reason: gone.to_string(), retry_after_ms: 1_000 })
        })
    }
}
