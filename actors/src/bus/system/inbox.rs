//! Calls of agents: attach and detach agent code, poll an inbox, acknowledge.

use std::sync::Arc;
use std::time::Duration;

use a2a_protocol::{AgentId, MessageId};
use tokio::sync::oneshot;

use super::{BusSystem, SETTLE_DEADLINE};
use crate::bus::mailbox::Polling;
use crate::bus::mailbox::{DetachMode, Pull, PulledDeliveries, Settle, Settlement};
use crate::bus::router::{Attach, AttachInterceptor, Detach, ForInbox, PeekInbox, SetReachable};
use crate::{AgentRuntime, Delivery, InboxError, InboxView};

impl BusSystem {
    /// Attaches a runtime that takes those messages of an agent that are [out of
    /// band](AgentRuntime::is_out_of_band), beside the agent's sessions. The agent is added to the
    /// directory; with `is_client` the name belongs to a caller and not to an agent.
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

    /// Attaches the code of an agent; the returned number is for [`BusSystem::detach`].
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

    /// Detaches the code of an agent; its messages wait for the next one.
    pub fn detach(&self, agent: AgentId, attachment: u64) {
        // A stopped bus has detached everything.
        self.router.do_send(Detach { agent, attachment, mode: DetachMode::Finish });
    }

    /// Reports the code of an agent as lost: its attempts have failed for this reason and are
    /// repeated.
    pub fn detach_failed(&self, agent: AgentId, attachment: u64, reason: String) {
        let mode = DetachMode::Fail(reason);
        self.router.do_send(Detach { agent, attachment, mode });
    }

    /// Detaches the code of an agent and returns its messages to the inbox; the attempts do not
    /// count.
    pub fn detach_releasing(&self, agent: AgentId, attachment: u64) {
        let mode = DetachMode::Release;
        self.router.do_send(Detach { agent, attachment, mode });
    }

    /// Marks the code of an agent as reachable or not, or makes the bus read its `max_in_flight`
    /// again. While unreachable it keeps its messages in flight; waiting ones go to other sessions
    /// of the agent, if any.
    pub fn set_reachable(&self, agent: AgentId, attachment: u64, reachable: bool) {
        self.router.do_send(SetReachable { agent, attachment, reachable });
    }

    /// Leases up to `limit` messages of an agent and waits up to `wait` for the first. Of several
    /// waiting calls the newest is served first.
    ///
    /// A call that is dropped before it returns has taken nothing: messages on their way to it
    /// return to the inbox at once, and the attempt does not count.
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
                // Deliveries handed over at this very moment are leased to this call: return them.
                deliveries.close();
                Ok(deliveries.try_recv().map(PulledDeliveries::accept).unwrap_or_default())
            }
        }
    }

    /// Up to `limit` messages of an agent's inboxes, without taking them; `None` when there is no
    /// such agent.
    pub async fn peek(&self, agent: AgentId, limit: usize) -> Option<InboxView> {
        self.router.send(PeekInbox { agent, limit }).await.ok().flatten()
    }

    /// Acknowledges a pulled message; returns when that is durable.
    ///
    /// # Errors
    /// When the message is not leased to the agent, or the commit fails.
    pub async fn acknowledge(&self, agent: AgentId, id: MessageId) -> Result<(), InboxError> {
        self.settle(agent, id, Settlement::Acknowledge).await
    }

    /// Reports a pulled message as failed; returns when that is durable.
    ///
    /// # Errors
    /// When the message is not leased to the agent, or the commit fails.
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
