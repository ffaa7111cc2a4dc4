//! Receipts and journal records of submissions.

use std::sync::Arc;
use std::time::Duration;

use a2a_journal::{MessageRecord, Received};
use a2a_policy::{Caller, Now};
use a2a_protocol::{AgentId, Outcome, Receipt, Violation};

use crate::bus::message::Submission;

/// A receipt with the ids of its message, without outcome and sequence number.
pub(super) fn unnumbered_receipt(submission: &Submission, now: Now) -> Receipt {
    let mut receipt = Receipt::new(Outcome::Delivered, now.utc.into());
    if let Ok(message) = &submission.message {
        receipt.message_id = Some(message.message_id);
        receipt.correlation_id = Some(message.correlation_id);
    } else {
        receipt.message_id = submission.ids.message_id;
        receipt.correlation_id = submission.ids.correlation_id;
    }
    receipt
}

/// Verified sender of a message; a forged `from` stays in the message only.
pub(super) fn sender(caller: &Caller, submission: &Submission) -> Option<AgentId> {
    match caller {
        Caller::Agent(agent) | Caller::Service { agent, .. } => Some(agent.clone()),
        _ => submission.message.as_ref().ok().map(|message| message.from.agent_id.clone()),
    }
}

/// Record of a message decided at `now`, `took` after its arrival.
pub(super) fn message_record(
    receipt: &Receipt,
    caller: &Caller,
    submission: &Submission,
    now: Now,
    took: Duration,
) -> MessageRecord {
    let (errors, left_out) = kept_errors(&receipt.errors);
    let mut reason = receipt.reason.clone();
    if left_out > 0 {
        let rest = format!(" (The record leaves out {left_out} further errors.)");
        reason.get_or_insert_default().push_str(&rest);
    }
    let via = match caller {
        Caller::Operator { name, .. } => Some(format!("operator:{name}").into()),
        Caller::Service { via, .. } => Some(Arc::clone(via)),
        _ => None,
    };
    MessageRecord {
        seq: receipt.seq.unwrap_or_default(),
        time: now.utc,
        outcome: receipt.outcome,
        message_id: receipt.message_id,
        by: sender(caller, submission),
        via,
        trace: submission.trace.clone(),
        received: received(receipt.outcome, submission),
        message: submission.message.as_ref().ok().map(Arc::clone),
        bytes: submission.size as u64,
        took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        fingerprint: submission.message.is_ok().then_some(submission.fingerprints.message),
        recipients: Arc::clone(&receipt.recipients),
        reason,
        retry_after_ms: receipt.retry_after_ms,
        errors: errors.to_vec(),
        facts: Vec::new(),
    }
}

/// A message that was not accepted is recorded whole up to this size.
const WHOLE: usize = 2_048;
/// Violations kept in the record of an invalid message, and their bytes: they repeat names out of
/// the message. The receipt has all of them.
const ERRORS: usize = 16;
const ERROR_BYTES: usize = 4_096;

fn received(outcome: Outcome, submission: &Submission) -> Received {
    let bytes = Arc::clone(&submission.bytes);
    let is_json = submission.message.is_ok() || is_json_text(&submission.bytes);
    match (is_json, outcome.is_accepted() || submission.size <= WHOLE) {
        (true, true) => Received::Json(bytes),
        (false, true) => Received::Raw(bytes),
        (true, false) => Received::JsonExcerpt(bytes),
        (false, false) => Received::RawExcerpt(bytes),
    }
}

/// Violations kept in the record of a message, and the number left out.
fn kept_errors(errors: &[Violation]) -> (&[Violation], usize) {
    let mut bytes = 0;
    let fits = |error: &&Violation| {
        bytes += error_size(error);
        bytes <= ERROR_BYTES
    };
    let kept = &errors[..errors.iter().take(ERRORS).take_while(fits).count()];
    (kept, errors.len() - kept.len())
}

fn error_size(error: &Violation) -> usize {
    let allowed = error.allowed.iter().map(String::len).sum::<usize>();
    64 + error.path.len() + error.message.len() + allowed
}

/// Approximate size of the record of a message that was not accepted.
pub(super) fn refusal_size(
    submission: &Submission,
    recipients: usize,
    errors: &[Violation],
) -> usize {
    /// Size of a record without the message.
    const FIELDS: usize = 512;
    /// Size of one recipient with its outcome.
    const RECIPIENT: usize = 64;
    let errors: usize = kept_errors(errors).0.iter().map(error_size).sum();
    FIELDS + submission.size.min(WHOLE) + recipients * RECIPIENT + errors
}

fn is_json_text(bytes: &[u8]) -> bool {
    // Parsed as a value: readers of the log must be able to parse every record, so bad UTF-8, half
    // surrogates, numbers beyond a double and excessive nesting count as raw.
    serde_json::from_slice::<serde_json::Value>(bytes).is_ok()
}
