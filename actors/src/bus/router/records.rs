//! Receipts and journal records of submissions.

use std::sync::Arc;
use std::time::Duration;

use a2a_journal::{MessageLine, Received};
use a2a_policy::{Caller, Now};
use a2a_protocol::{AgentId, Outcome, Receipt, Violation};

use crate::bus::message::Submission;

/// A receipt that says which message it is for, and nothing else yet.
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

/// Who sent a message, as far as that is proven: a forged `from` stays in the message.
pub(super) fn sender(caller: &Caller, submission: &Submission) -> Option<AgentId> {
    match caller {
        Caller::Agent(agent) | Caller::Service { agent, .. } => Some(agent.clone()),
        _ => submission.message.as_ref().ok().map(|message| message.from.agent_id.clone()),
    }
}

/// The record of a message about which was decided at `now`, `took` after it came.
pub(super) fn message_line(
    receipt: &Receipt,
    caller: &Caller,
    submission: &Submission,
    now: Now,
    took: Duration,
) -> MessageLine {
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
    MessageLine {
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

/// A message that was not accepted is kept whole up to this size.
const WHOLE: usize = 2_048;
/// Errors of an invalid message that its record keeps, and bytes of them: they repeat names out of
/// the message. The receipt has all of them.
const ERRORS: usize = 16;
const ERROR_BYTES: usize = 4_096;

fn received(outcome: Outcome, submission: &Submission) -> Received {
    let bytes = Arc::clone(&submission.bytes);
    let is_json = submission.message.is_ok() || is_json_text(&submission.bytes);
    match (is_json, outcome.is_accepted() || submission.size <= WHOLE) {
        (true, true) => Received::Json(bytes),
        (false, true) => Received::Raw(bytes),
        (true, false) => Received::JsonHead(bytes),
        (false, false) => Received::RawHead(bytes),
    }
}

/// The errors that the record of a message keeps, and how many more there are.
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

/// About how many bytes the record of a message that was not accepted takes.
pub(super) fn refusal_size(
    submission: &Submission,
    recipients: usize,
    errors: &[Violation],
) -> usize {
    /// Of a record besides the message.
    const FIELDS: usize = 512;
    /// A name, an outcome, and what is between.
    const RECIPIENT: usize = 64;
    let errors: usize = kept_errors(errors).0.iter().map(error_size).sum();
    FIELDS + submission.size.min(WHOLE) + recipients * RECIPIENT + errors
}

fn is_json_text(bytes: &[u8]) -> bool {
    // As a value, not ignored: whoever reads the log must be able to read every line, so bad
    // UTF-8, half surrogates, numbers no double holds and bottomless nesting count as raw.
    serde_json::from_slice::<serde_json::Value>(bytes).is_ok()
}
