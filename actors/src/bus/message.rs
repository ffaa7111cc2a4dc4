//! A message inside the bus: read once at the edge, shared from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use a2a_policy::{Fingerprints, QueueEntry};
use a2a_protocol::{AgentId, Envelope, Kind, MessageIds, Report, Trace, TraceId};
use chrono::{DateTime, Utc};
use tokio::sync::Notify;

/// Bytes at the door, read on the caller's own thread.
#[derive(Debug)]
pub struct Submission {
    pub(crate) message: Result<Arc<Envelope>, Report>,
    pub(crate) bytes: Arc<[u8]>,
    /// What could be read of a message that is refused; its own ids say it for the others.
    pub(crate) ids: MessageIds,
    pub(crate) fingerprints: Fingerprints,
    /// How many bytes came, also where fewer are kept.
    pub(crate) size: usize,
    /// When the bus had them in hand.
    pub(crate) since: Instant,
    /// The trace that its sender gave, where that is not the one of its conversation.
    pub(crate) trace: Option<Arc<Trace>>,
}

impl Submission {
    /// Reads JSON bytes, in hand since `since`; what is wrong with them is the router's to answer.
    #[must_use]
    pub fn from_json(bytes: &[u8], since: Instant) -> Self {
        let message = Envelope::parse(bytes).map(Arc::new);
        let fingerprints = message.as_deref().map(Fingerprints::of).unwrap_or_default();
        let ids = match &message {
            Ok(_) => MessageIds::default(),
            Err(_) => MessageIds::read(bytes),
        };
        let (bytes, size) = (bytes.into(), bytes.len());
        Self { message, bytes, ids, fingerprints, size, since, trace: None }
    }

    /// Bytes that were not read to their end because there are `total`, too many.
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
        }
    }

    /// Whether the message keeps the rules of the protocol.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.message.is_ok()
    }

    /// Takes a typed message; one whose fields contradict each other is read again to say why.
    #[must_use]
    pub fn from_message(message: Envelope, since: Instant) -> Self {
        let bytes = message.to_json();
        if !message.is_consistent() || bytes.len() > a2a_protocol::limits::MESSAGE_BYTES {
            return Self::from_json(&bytes, since);
        }
        let (fingerprints, size) = (Fingerprints::of_written(&message, &bytes), bytes.len());
        let (message, bytes) = (Ok(Arc::new(message)), bytes.into());
        let ids = MessageIds::default();
        Self { message, bytes, ids, fingerprints, size, since, trace: None }
    }

    /// The same as part of a trace that its sender gave.
    #[must_use]
    pub fn with_trace(mut self, trace: Option<Arc<Trace>>) -> Self {
        let conversation = self.message.as_ref().ok().map(|message| message.correlation_id);
        self.trace =
            trace.filter(|trace| !conversation.is_some_and(|id| trace.goes_without_saying(id)));
        self
    }

    /// The trace it belongs to; `None` when its sender gave none and it cannot be read.
    #[must_use]
    pub fn trace_id(&self) -> Option<TraceId> {
        let of_conversation = || self.message.as_ref().ok().map(|m| TraceId::of(m.correlation_id));
        self.trace.as_ref().map(|trace| trace.id()).or_else(of_conversation)
    }

    /// What it is, if it can be read.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.message.as_ref().ok().map(|message| message.kind())
    }
}

/// A message as its recipient gets it.
#[derive(Clone)]
pub struct Delivery {
    /// The number of its record in the log.
    pub seq: u64,
    /// Who sent it, as the bus verified it; never taken from the message.
    pub sender: AgentId,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The message.
    pub message: Arc<Envelope>,
    /// The message's own bytes.
    pub bytes: Arc<[u8]>,
    /// When the bus took it.
    pub(crate) accepted: DateTime<Utc>,
    /// The attempt to handle it; none when somebody outside has it.
    pub(crate) attempt_state: Option<Arc<AttemptState>>,
    /// The trace that its sender gave, where that is not the one of its conversation.
    pub(crate) sender_trace: Option<Arc<Trace>>,
}

/// The place of a message in the trace it belongs to.
fn place(sender_trace: Option<&Arc<Trace>>, message: &Envelope) -> Trace {
    let step = message.message_id.as_uuid();
    match sender_trace {
        Some(sender_trace) => sender_trace.step(step),
        None => Trace::of(message.correlation_id, step),
    }
}

impl Delivery {
    /// Its place in the trace it belongs to: the one its sender gave, else that of its
    /// conversation. What is sent because of this delivery belongs below it.
    #[must_use]
    pub fn trace(&self) -> Trace {
        place(self.sender_trace.as_ref(), &self.message)
    }

    /// Waits until the task this delivery asks for is called off; for ever if it is not.
    pub async fn cancelled(&self) {
        match &self.attempt_state {
            Some(attempt_state) => attempt_state.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the task this delivery asks for was called off.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.attempt_state
            .as_ref()
            .is_some_and(|attempt_state| attempt_state.is_cancelled.load(Relaxed))
    }
}

/// One attempt to handle a delivery, as the session and the agent's code both know it.
#[derive(Debug, Default)]
pub(crate) struct AttemptState {
    /// Set when a thread takes the work up: waiting for one is not the handler's fault.
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
        // Asked first, so that a cancellation between the look and the wait is not missed.
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

/// Bytes of the messages that the bus holds, each counted once, however many recipients it has:
/// on their way to the disk, in inboxes and as dead letters.
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

/// Counts as held for as long as it lives, which is as long as the content it is part of.
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

/// What the bus keeps of a message: one of these, however many recipients.
#[derive(Debug)]
pub(crate) struct StoredMessage {
    pub(crate) seq: u64,
    pub(crate) by: AgentId,
    pub(crate) message: Arc<Envelope>,
    pub(crate) bytes: Arc<[u8]>,
    /// The trace that its sender gave, where that is not the one of its conversation.
    pub(crate) trace: Option<Arc<Trace>>,
    /// When the bus took it.
    pub(crate) accepted: DateTime<Utc>,
    /// It survived a restart: whether an earlier attempt killed the process is not known.
    pub(crate) recovered: bool,
    _hold: Hold,
}

/// What a [`Content`] is made of.
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
    /// A message that `held` counts from now until the last of its recipients is done with it.
    pub(crate) fn new(parts: StoredMessageParts, held: &HeldBytes) -> Arc<Self> {
        let StoredMessageParts { seq, by, message, bytes, trace, accepted, recovered } = parts;
        let hold = held.hold(bytes.len());
        Arc::new(Self { seq, by, message, bytes, trace, accepted, recovered, _hold: hold })
    }

    /// How many bytes it is counted with.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Its place in the trace it belongs to.
    pub(crate) fn trace(&self) -> Trace {
        place(self.trace.as_ref(), &self.message)
    }

    /// This message on its way to one recipient.
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
