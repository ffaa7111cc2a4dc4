//! What the log says of a message, and what is read back from it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use a2a_policy::{Caller, Delivery, Now};
use a2a_protocol::{AgentId, Envelope, Outcome, Receipt, Trace};
use a2a_store::{MessageLine, Received};
use chrono::{DateTime, Utc};

use crate::letter::{Content, Parcel};

/// A receipt that says which message it is for, and nothing else yet.
pub(super) fn unnumbered_receipt(parcel: &Parcel, now: Now) -> Receipt {
    let mut receipt = Receipt::new(Outcome::Delivered, now.utc.into());
    if let Ok(message) = &parcel.message {
        receipt.message_id = Some(message.message_id);
        receipt.correlation_id = Some(message.correlation_id);
    } else {
        receipt.message_id = parcel.ids.message_id;
        receipt.correlation_id = parcel.ids.correlation_id;
    }
    receipt
}

/// Who sent a message, as far as that is proven: a forged `from` stays in the message.
pub(super) fn sender(caller: &Caller, parcel: &Parcel) -> Option<AgentId> {
    match caller {
        Caller::Agent(agent) | Caller::Service { agent, .. } => Some(agent.clone()),
        _ => parcel.message.as_ref().ok().map(|message| message.from.agent_id.clone()),
    }
}

/// The record of a message about which was decided at `now`, `took` after it came.
pub(super) fn message_line(
    receipt: &Receipt,
    caller: &Caller,
    parcel: &Parcel,
    now: Now,
    took: Duration,
) -> MessageLine {
    let is_json = parcel.message.is_ok() || is_json_text(&parcel.bytes);
    let bytes = Arc::clone(&parcel.bytes);
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
        by: sender(caller, parcel),
        via,
        trace: parcel.trace.clone(),
        received: if is_json { Received::Json(bytes) } else { Received::Raw(bytes) },
        message: parcel.message.as_ref().ok().map(Arc::clone),
        bytes: parcel.size as u64,
        took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        fingerprint: parcel.message.is_ok().then_some(parcel.fingerprints.message),
        recipients: Arc::clone(&receipt.recipients),
        reason: receipt.reason.clone(),
        retry_after_ms: receipt.retry_after_ms,
        errors: receipt.errors.clone(),
        facts: Vec::new(),
    }
}

fn is_json_text(bytes: &[u8]) -> bool {
    // As a value, not ignored: whoever reads the log must be able to read every line, so bad
    // UTF-8, half surrogates, numbers no double holds and bottomless nesting count as raw.
    serde_json::from_slice::<serde_json::Value>(bytes).is_ok()
}

/// What the journal kept of a message.
pub(super) struct Kept<'a> {
    pub(super) trace: Option<Arc<Trace>>,
    pub(super) time: DateTime<Utc>,
    pub(super) message: &'a Arc<[u8]>,
}

/// Messages that survived a restart, by number of record. Each is parsed once, however many
/// agents it is owed to: its deliveries and dead letters share one content.
#[derive(Default)]
pub(super) struct RestoredContents(HashMap<u64, Option<Arc<Content>>>);

impl RestoredContents {
    /// The message of record `seq` on its way to one recipient; `None` when it cannot be parsed.
    pub(super) fn delivery(
        &mut self,
        seq: u64,
        by: AgentId,
        attempts: u32,
        kept: Kept<'_>,
    ) -> Option<Delivery<Arc<Content>>> {
        let content = self.0.entry(seq).or_insert_with(|| restored(seq, by, kept));
        content.as_ref().map(|content| content.delivery(attempts))
    }
}

fn restored(seq: u64, by: AgentId, kept: Kept<'_>) -> Option<Arc<Content>> {
    match Envelope::parse(kept.message) {
        Ok(message) => Some(Arc::new(Content {
            seq,
            by,
            message: Arc::new(message),
            bytes: Arc::clone(kept.message),
            trace: kept.trace,
            accepted: kept.time,
            recovered: true,
        })),
        Err(report) => {
            tracing::error!(seq, %report, "an accepted message can no longer be read");
            None
        }
    }
}
