//! Handle of an attached agent, which sends under its own id only.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use a2a_actors::{BusSystem, Submission};
use a2a_policy::Caller;
use a2a_protocol::{
    AgentId, Body, CorrelationId, Envelope, MessageId, Priority, Protocol, Receipt, Recipient,
    Sender, TaskId,
};

use super::feed::WatchedTasks;
use super::progress::ProgressBoard;
use super::trace;

/// An agent that is attached to a bus. Cheap to clone.
///
/// There is one method per kind of message, such as [`send_task_request`](Self::send_task_request).
/// [`compose`](Self::compose) and [`send`](Self::send) are the lower level: they take any message
/// and return the receipt.
#[derive(Clone)]
pub struct Agent(Arc<Handle>);

/// State shared by all clones.
struct Handle {
    id: AgentId,
    /// Number of its session, set when it is attached.
    session: OnceLock<u64>,
    system: BusSystem,
    watched: Arc<WatchedTasks>,
    board: ProgressBoard,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Agent({})", self.0.id)
    }
}

impl Agent {
    pub(super) fn new(id: AgentId, system: BusSystem, watched: Arc<WatchedTasks>) -> Self {
        let (session, board) = (OnceLock::new(), ProgressBoard::default());
        Self(Arc::new(Handle { id, session, system, watched, board }))
    }

    pub(super) fn watched(&self) -> &Arc<WatchedTasks> {
        &self.0.watched
    }

    /// Progress bars of its tasks.
    pub(super) fn board(&self) -> &ProgressBoard {
        &self.0.board
    }

    pub(crate) fn system(&self) -> &BusSystem {
        &self.0.system
    }

    pub(super) fn attached(&self, session: u64) {
        // Set only once, when the agent is attached.
        let _ = self.0.session.set(session);
    }

    /// Id of the agent.
    #[must_use]
    pub fn id(&self) -> &AgentId {
        &self.0.id
    }

    /// Composes a message that starts a conversation.
    ///
    /// Sender, ids and time are filled in; priority and correlation id may be changed before
    /// sending.
    #[must_use]
    pub fn compose(&self, to: Option<&AgentId>, body: impl Into<Body>) -> Envelope {
        compose(&self.0.id, to, new_correlation(), body.into())
    }

    /// Composes a message to the sender of a delivery, in the same conversation.
    #[must_use]
    pub fn reply(&self, to: &a2a_actors::Delivery, body: impl Into<Body>) -> Envelope {
        compose(&self.0.id, Some(&to.sender), to.message.correlation_id, body.into())
    }

    /// Sends a message and waits until it is durable, or refused.
    ///
    /// Within a handler the message belongs to the trace of the delivery being handled.
    pub async fn send(&self, message: Envelope) -> Receipt {
        let submission =
            Submission::from_message(message, Instant::now()).with_trace(trace::current());
        self.0.system.send(Caller::Agent(self.0.id.clone()), submission).await
    }

    /// Sends a message given as JSON text.
    pub async fn send_json(&self, json: &[u8]) -> Receipt {
        let submission = Submission::from_json(json, Instant::now()).with_trace(trace::current());
        self.0.system.send(Caller::Agent(self.0.id.clone()), submission).await
    }

    /// Ends the session. Messages wait in the mailbox until the agent attaches again.
    pub fn detach(self) {
        if let Some(session) = self.0.session.get() {
            self.0.system.detach(self.0.id.clone(), *session);
        }
    }

    /// Ends the session immediately: running handlers are dropped, and their messages return to the
    /// mailbox without a failed attempt.
    pub fn give_back(self) {
        if let Some(session) = self.0.session.get() {
            self.0.system.give_back(self.0.id.clone(), *session);
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
