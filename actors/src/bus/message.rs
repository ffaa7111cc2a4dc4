//! A message inside the bus: parsed once by its caller and shared from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use a2a_policy::{Fingerprints, QueueEntry};
use a2a_protocol::{AgentId, CorrelationId, Envelope, Kind, MessageIds, Report, Trace, TraceId};
use chrono::{DateTime, Utc};
use tokio::sync::Notify;

/// A message before admission, parsed on the caller's own thread.
#[derive(Debug)]
pub struct Submission {
    pub(crate) message: Result<Arc<Envelope>, Report>,
    pub(crate) bytes: Arc<[u8]>,
    /// Ids that could be read of an invalid message; empty for a valid one, which has its own.
    pub(crate) ids: MessageIds,
    pub(crate) fingerprints: Fingerprints,
    /// Bytes received, also where fewer are kept.
    pub(crate) size: usize,
    /// When the bus had received the bytes.
    pub(crate) since: Instant,
    /// Trace context of the sender, where it differs from that of the conversation.
    pub(crate) trace: Option<Arc<Trace>>,
    /// Conversation of the message that led the sender to this one, if it is stated.
    pub(crate) cause: Option<CorrelationId>,
}

impl Submission {
    /// Parses JSON bytes received at `since`; the router reports what is wrong with them.
    #[must_use]
    pub fn from_json(bytes: &[u8], since: Instant) -> Self {
        let message = Envelope::parse(bytes).map(Arc::new);
        let fingerprints = message.as_deref().map(Fingerprints::of).unwrap_or_default();
        let ids = match &message {
            Ok(_) => MessageIds::default(),
            Err(_) => MessageIds::read(bytes),
        };
        let (bytes, size) = (bytes.into(), bytes.len());
        Self { message, bytes, ids, fingerprints, size, since, trace: None, cause: None }
    }

    /// The first bytes of a message that is refused because its `total` size exceeds the limit.
    #[must_use]
    pub fn too_large(beginning: &[u8], total: usize, since: Instant) -> Self {
        Self {
            message: Err(Report::too_large(total)),
            bytes: beginning.into(),
            ids: MessageIds::read(beginning),
            fingerprints: Fingerprints::default(),
            size: total,
            since,
            trace: None,
            cause: None,
        }
    }

    /// Whether the message conforms to the protocol.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.message.is_ok()
    }

    /// Takes a typed message. One whose fields contradict each other is parsed again for its
    /// violations.
    #[must_use]
    pub fn from_message(message: Envelope, since: Instant) -> Self {
        let bytes = message.to_json();
        if !message.is_consistent() || bytes.len() > a2a_protocol::limits::MESSAGE_BYTES {
            return Self::from_json(&bytes, since);
        }
        let (fingerprints, size) = (Fingerprints::of_json(&message, &bytes), bytes.len());
        let (message, bytes) = (Ok(Arc::new(message)), bytes.into());
        let ids = MessageIds::default();
        Self { message, bytes, ids, fingerprints, size, since, trace: None, cause: None }
    }

    /// The same submission as part of the sender's trace.
    #[must_use]
    pub fn with_trace(mut self, trace: Option<Arc<Trace>>) -> Self {
        let conversation = self.message.as_ref().ok().map(|message| message.correlation_id);
        self.trace = trace.filter(|trace| !conversation.is_some_and(|id| trace.is_default_for(id)));
        self
    }

    /// The same submission, sent because of a message of this conversation. Without it the bus infers
    /// what led to a new conversation from the messages that the sender has in flight.
    #[must_use]
    pub fn with_cause(self, cause: Option<CorrelationId>) -> Self {
        Self { cause, ..self }
    }

    /// Trace of the message; `None` when the sender gave none and the message cannot be parsed.
    #[must_use]
    pub fn trace_id(&self) -> Option<TraceId> {
        let of_conversation = || self.message.as_ref().ok().map(|m| TraceId::of(m.correlation_id));
        self.trace.as_ref().map(|trace| trace.id()).or_else(of_conversation)
    }

    /// Kind of the message; `None` when it cannot be parsed.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.message.as_ref().ok().map(|message| message.kind())
    }
}

/// A message as its recipient gets it.
#[derive(Clone)]
pub struct Delivery {
    /// Sequence number of the message's record.
    pub seq: u64,
    /// Sender as verified by the bus; never taken from the message.
    pub sender: AgentId,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// The message.
    pub message: Arc<Envelope>,
    /// Bytes of the message as received.
    pub bytes: Arc<[u8]>,
    /// When the bus accepted it.
    pub(crate) accepted: DateTime<Utc>,
    /// State of the attempt; `None` for an agent that polls.
    pub(crate) attempt_state: Option<Arc<AttemptState>>,
    /// Trace context of the sender, where it differs from that of the conversation.
    pub(crate) sender_trace: Option<Arc<Trace>>,
}

/// Position of a message in its trace.
fn position(sender_trace: Option<&Arc<Trace>>, message: &Envelope) -> Trace {
    let step = message.message_id.as_uuid();
    match sender_trace {
        Some(sender_trace) => sender_trace.step(step),
        None => Trace::of(message.correlation_id, step),
    }
}

impl Delivery {
    /// Position in its trace: the sender's, else that of the conversation. Messages sent because of
    /// this delivery are children of it.
    #[must_use]
    pub fn trace(&self) -> Trace {
        position(self.sender_trace.as_ref(), &self.message)
    }

    /// Waits until the task that this delivery requests is cancelled; for ever if it is not.
    pub async fn cancelled(&self) {
        match &self.attempt_state {
            Some(attempt_state) => attempt_state.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the task that this delivery requests was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.attempt_state
            .as_ref()
            .is_some_and(|attempt_state| attempt_state.is_cancelled.load(Relaxed))
    }
}

/// State of one attempt, shared by the session and the agent's code.
#[derive(Debug, Default)]
pub(crate) struct AttemptState {
    /// Set when a thread starts the handler: time spent in the queue does not count against its
    /// deadline.
    pub(crate) started: AtomicBool,
    is_cancelled: AtomicBool,
    notify: Notify,
}

impl AttemptState {
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
        self.notify.notify_waiters();
    }

    async fn cancelled(&self) {
        let notify = self.notify.notified();
        tokio::pin!(notify);
        // Registered before the check, so that a cancellation in between is not missed.
        notify.as_mut().enable();
        if !self.is_cancelled.load(Relaxed) {
            notify.await;
        }
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery")
            .field("seq", &self.seq)
            .field("sender", &self.sender)
            .field("attempt", &self.attempt)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// Bytes of all messages held by the bus, each counted once however many recipients it has: being
/// committed, in inboxes and as dead letters.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldBytes(Arc<AtomicUsize>);

impl HeldBytes {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn hold(&self, bytes: usize) -> Hold {
        self.0.fetch_add(bytes, Relaxed);
        Hold { all: self.clone(), bytes }
    }
}

/// Counts its bytes as held until it is dropped together with its message.
#[derive(Debug)]
struct Hold {
    all: HeldBytes,
    bytes: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Relaxed);
    }
}

/// A message held by the bus, shared by all its recipients.
#[derive(Debug)]
pub(crate) struct StoredMessage {
    pub(crate) seq: u64,
    pub(crate) by: AgentId,
    pub(crate) message: Arc<Envelope>,
    pub(crate) bytes: Arc<[u8]>,
    /// Trace context of the sender, where it differs from that of the conversation.
    pub(crate) trace: Option<Arc<Trace>>,
    /// When the bus accepted it.
    pub(crate) accepted: DateTime<Utc>,
    /// Recovered after a restart: an earlier attempt may have killed the process.
    pub(crate) recovered: bool,
    _hold: Hold,
}

/// Fields of a new [`StoredMessage`].
pub(crate) struct StoredMessageParts {
    pub(crate) seq: u64,
    pub(crate) by: AgentId,
    pub(crate) message: Arc<Envelope>,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) trace: Option<Arc<Trace>>,
    pub(crate) accepted: DateTime<Utc>,
    pub(crate) recovered: bool,
}

impl StoredMessage {
    /// A message that `held` counts until its last recipient has released it.
    pub(crate) fn new(parts: StoredMessageParts, held: &HeldBytes) -> Arc<Self> {
        let StoredMessageParts { seq, by, message, bytes, trace, accepted, recovered } = parts;
        let hold = held.hold(bytes.len());
        Arc::new(Self { seq, by, message, bytes, trace, accepted, recovered, _hold: hold })
    }

    /// Bytes with which it is counted.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Position in its trace.
    pub(crate) fn trace(&self) -> Trace {
        position(self.trace.as_ref(), &self.message)
    }

    /// Queue entry of this message for one recipient.
    pub(crate) fn entry(self: &Arc<Self>, attempts: u32) -> QueueEntry<Arc<Self>> {
        QueueEntry {
            seq: self.seq,
            by: self.by.clone(),
            priority: self.message.priority,
            attempts,
            bytes: self.size(),
            item: Arc::clone(self),
        }
    }
}
