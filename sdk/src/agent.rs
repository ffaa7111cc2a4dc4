//! Handle of an attached agent, which sends under its own id.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use a2a_actors::{BusSystem, Submission};
use a2a_policy::Caller;
use a2a_protocol::{
    AgentId, Body, CorrelationId, Envelope, MessageId, Priority, Protocol, Receipt, Recipient,
    Sender, TaskId,
};

use super::progress::Board;
use super::task_watch::TaskWatches;
use super::trace;

/// An agent that is attached to a bus. Cheap to clone.
///
/// There is one method for each kind of message, such as
/// [`send_task_request`](Self::send_task_request); [`compose`](Self::compose) and
/// [`send`](Self::send) take any message and return the bare receipt.
#[derive(Clone)]
pub struct Agent(Arc<Handle>);

/// State shared by all clones.
struct Handle {
    id: AgentId,
    /// Id of its session, once it is attached.
    attachment: OnceLock<u64>,
    system: BusSystem,
    watched: Arc<TaskWatches>,
    board: Board,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Agent({})", self.0.id)
    }
}

impl Agent {
    pub(super) fn new(id: AgentId, system: BusSystem, watched: Arc<TaskWatches>) -> Self {
        let (attachment, board) = (OnceLock::new(), Board::default());
        Self(Arc::new(Handle { id, attachment, system, watched, board }))
    }

    pub(super) fn watched(&self) -> &Arc<TaskWatches> {
        &self.0.watched
    }

    /// Progress bars of the tasks it works on.
    pub(super) fn board(&self) -> &Board {
        &self.0.board
    }

    #[doc(hidden)]
    #[must_use]
    pub fn system(&self) -> &BusSystem {
        &self.0.system
    }

    pub(super) fn attached(&self, attachment: u64) {
        // Set once, by the caller that attaches.
        let _ = self.0.attachment.set(attachment);
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &AgentId {
        &self.0.id
    }

    /// A new message of this agent that begins a conversation.
    ///
    /// Sender, ids and time are filled in; change priority or correlation before sending.
    #[must_use]
    pub fn compose(&self, to: Option<&AgentId>, body: impl Into<Body>) -> Envelope {
        compose(&self.0.id, to, new_correlation(), body.into())
    }

    /// Builds a reply to a delivery: same conversation, addressed to its sender.
    #[must_use]
    pub fn reply(&self, to: &a2a_actors::Delivery, body: impl Into<Body>) -> Envelope {
        compose(&self.0.id, Some(&to.sender), to.message.correlation_id, body.into())
    }

    /// Sends a message and waits until it is on disk, or refused.
    ///
    /// Inside a handler it belongs to the trace of the delivery that is being handled.
    pub async fn send(&self, message: Envelope) -> Receipt {
        let submission = Submission::from_message(message, Instant::now())
            .with_trace(trace::current())
            .with_cause(trace::cause());
        self.0.system.send(Caller::Agent(self.0.id.clone()), submission).await
    }

    /// Sends a message that is JSON text.
    pub async fn send_json(&self, json: &[u8]) -> Receipt {
        let submission = Submission::from_json(json, Instant::now())
            .with_trace(trace::current())
            .with_cause(trace::cause());
        self.0.system.send(Caller::Agent(self.0.id.clone()), submission).await
    }

    /// Ends this session; messages wait until the agent attaches again.
    pub fn detach(self) {
        if let Some(attachment) = self.0.attachment.get() {
            self.0.system.detach(self.0.id.clone(), *attachment);
        }
    }

    /// Ends this session at once: drops running handlers and returns messages in flight to the
    /// inbox without a failed attempt.
    pub fn release(self) {
        if let Some(attachment) = self.0.attachment.get() {
            self.0.system.detach_releasing(self.0.id.clone(), *attachment);
        }
    }
}

fn compose(
    from: &AgentId,
    to: Option<&AgentId>,
    conversation: CorrelationId,
    body: Body,
) -> Envelope {
    Envelope {
        protocol: Protocol::V1,
        message_id: new_message_id(),
        timestamp: chrono::Utc::now().into(),
        from: Sender { agent_id: from.clone(), role: None, session_key: None },
        to: to.map(|agent| Recipient { agent_id: agent.clone(), role: None }),
        priority: Priority::Normal,
        correlation_id: conversation,
        body,
    }
}

pub(super) fn new_message_id() -> MessageId {
    MessageId::try_from(uuid::Uuid::now_v7())
        .unwrap_or_else(|_| unreachable!("now_v7 is version 7"))
}

pub(super) fn new_correlation() -> CorrelationId {
    CorrelationId::try_from(uuid::Uuid::now_v7())
        .unwrap_or_else(|_| unreachable!("now_v7 is version 7"))
}

pub(super) fn new_task_id() -> TaskId {
    TaskId::try_from(uuid::Uuid::now_v7()).unwrap_or_else(|_| unreachable!("now_v7 is version 7"))
}
