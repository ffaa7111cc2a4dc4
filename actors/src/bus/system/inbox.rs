//! What agents ask of a bus: their code is brought in and lets go, or takes its messages from outside.

use std::sync::Arc;
use std::time::Duration;

use a2a_protocol::{AgentId, MessageId};
use tokio::sync::oneshot;

use super::{BusSystem, SETTLE_DEADLINE};
use crate::bus::mailbox::Polling;
use crate::bus::mailbox::{Departure, Pull, PulledDeliveries, Settle, Settlement};
use crate::bus::router::{Attach, AttachInterceptor, Detach, ForInbox, PeekInbox, SetPresent};
use crate::{AgentRuntime, Delivery, InboxError, InboxView};

impl BusSystem {
    /// Lets somebody take certain messages of an agent beside its sessions: those that
    /// `runtime` [wants](Runtime::wants_at_once). The agent becomes known; `apart`
    /// from all others when the name is a caller's and no agent's.
    ///
    /// # Errors
    /// When the name is reserved or the bus stops.
    pub async fn attach_interceptor(
        &self,
        agent: AgentId,
        runtime: Arc<dyn AgentRuntime>,
        is_client: bool,
    ) -> Result<(), InboxError> {
        self.router
            .send(AttachInterceptor { agent, runtime, is_client })
            .await
            .unwrap_or(Err(InboxError::Closed))
    }

    /// Brings the code of an agent in; the number is for [`BusSystem::detach`].
    ///
    /// # Errors
    /// When the name is reserved or unknown to a closed directory, or the bus stops.
    pub async fn attach(
        &self,
        agent: AgentId,
        runtime: Arc<dyn AgentRuntime>,
    ) -> Result<u64, InboxError> {
        self.router.send(Attach { agent, runtime }).await.unwrap_or(Err(InboxError::Closed))
    }

    /// Lets the code of an agent go; its messages wait for it.
    pub fn detach(&self, agent: AgentId, attachment: u64) {
        // A bus that is gone has let everyone go.
        let _ = self.router.try_send(Detach { agent, attachment, departure: Departure::Left });
    }

    /// The code of an agent is lost, for this reason: what it was at has failed and is tried again.
    pub fn lose(&self, agent: AgentId, attachment: u64, reason: String) {
        let departure = Departure::Lost(reason);
        let _ = self.router.try_send(Detach { agent, attachment, departure });
    }

    /// The code of an agent goes and gives back what is in its hands, as if it had never had it.
    pub fn give_back(&self, agent: AgentId, attachment: u64) {
        let departure = Departure::GaveBack;
        let _ = self.router.try_send(Detach { agent, attachment, departure });
    }

    /// The code of an agent cannot be reached for a while, or can be again, or takes more at once
    /// than it did. While it is away it keeps what is in its hands, and what waits for it goes to
    /// others of the agent if there are any.
    pub fn set_present(&self, agent: AgentId, attachment: u64, present: bool) {
        let _ = self.router.try_send(SetPresent { agent, attachment, present });
    }

    /// Takes up to `limit` messages of an agent, waiting up to `wait` for the first. Of several
    /// calls that wait the newest is served first.
    ///
    /// A call that is dropped before it returns has taken nothing: messages that were on their way to
    /// it are handed out again at once, as if this had not been an attempt.
    ///
    /// # Errors
    /// When there is no such agent or the bus stops.
    pub async fn pull(
        &self,
        agent: AgentId,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, InboxError> {
        let (reply, mut deliveries) = oneshot::channel();
        let patient = !wait.is_zero();
        // Dropped with this call: with its answer, or with the connection of its caller.
        let polling = Polling::default();
        let poll = polling.poll();
        let request = ForInbox::Pull(agent, Pull { limit, patient, poll, reply });
        self.router.send(request).await.unwrap_or(Err(InboxError::Closed))?;
        if !patient {
            return deliveries.await.map(PulledDeliveries::accept).map_err(|_| InboxError::Closed);
        }
        match tokio::time::timeout(wait, &mut deliveries).await {
            Ok(deliveries) => {
                deliveries.map(PulledDeliveries::accept).map_err(|_| InboxError::Closed)
            }
            Err(_) => {
                // What was handed over in this very moment is leased to us: take it along.
                deliveries.close();
                Ok(deliveries.try_recv().map(PulledDeliveries::accept).unwrap_or_default())
            }
        }
    }

    /// What lies in an agent's inboxes, up to `limit` of it, without taking any; `None` when
    /// there is no such agent.
    pub async fn peek(&self, agent: AgentId, limit: usize) -> Option<InboxView> {
        self.router.send(PeekInbox { agent, limit }).await.ok().flatten()
    }

    /// Acknowledges a pulled message; returns when that is durable.
    ///
    /// # Errors
    /// When the message is not in the agent's hands, or the disk refuses.
    pub async fn acknowledge(&self, agent: AgentId, id: MessageId) -> Result<(), InboxError> {
        self.settle(agent, id, Settlement::Acknowledge).await
    }

    /// Gives a pulled message back as failed; returns when that is durable.
    ///
    /// # Errors
    /// When the message is not in the agent's hands, or the disk refuses.
    pub async fn reject(
        &self,
        agent: AgentId,
        id: MessageId,
        reason: String,
    ) -> Result<(), InboxError> {
        self.settle(agent, id, Settlement::Fail(reason)).await
    }

    async fn settle(
        &self,
        agent: AgentId,
        id: MessageId,
        settlement: Settlement,
    ) -> Result<(), InboxError> {
        let (reply, answer) = oneshot::channel();
        let request = ForInbox::Settle(agent, Settle { id, settlement, reply });
        self.router.send(request).await.unwrap_or(Err(InboxError::Closed))?;
        let durable = answer.await.map_err(|_| InboxError::Closed)??;
        match tokio::time::timeout(SETTLE_DEADLINE, durable).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(InboxError::NotDurable),
        }
    }
}
