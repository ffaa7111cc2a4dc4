//! Session runtime of an agent in another process: sends its deliveries out and settles them by its
//! answers.
//!
//! [`Remote`] is the end that the bus runs. [`RemoteAgent`] is the end of the connection; it can
//! move from a lost connection to the next one. Neither depends on frames or sockets.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use a2a_actors::{BusSystem, Delivery, Failed, Handled, HandlerFuture, InboxError, Runtime};
use a2a_protocol::{AgentId, MessageId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

type Settle = oneshot::Sender<Result<Handled, Failed>>;

/// Logged reason of an attempt whose connection was lost.
const CONNECTION_LOST: &str = "the connection of the agent was lost";

/// Event for the remote agent.
pub(crate) enum Mail {
    /// A delivery to handle.
    Deliver(Delivery),
    /// The task of a delivery in flight was cancelled.
    Cancel(Delivery),
}

enum Outbound {
    Delivery(Delivery, Settle),
    Cancelled(MessageId),
}

/// The end that the bus runs.
struct Remote {
    /// Maximum number of deliveries in flight; 0 while the connection accepts none.
    window: AtomicUsize,
    /// Unbounded, because `window` bounds it: each delivery is sent once and cancelled at most
    /// once.
    out: UnboundedSender<Outbound>,
}

impl Runtime for Remote {
    fn handle(&self, delivery: Delivery) -> HandlerFuture {
        let (settle, mut settled) = oneshot::channel();
        // Without a receiver the delivery stays pending until the bus removes the session.
        let _ = self.out.send(Outbound::Delivery(delivery.clone(), settle));
        let out = self.out.clone();
        Box::pin(async move {
            let answer = tokio::select! {
                answer = &mut settled => answer,
                () = delivery.cancelled() => {
                    let _ = out.send(Outbound::Cancelled(delivery.message.message_id));
                    settled.await
                }
            };
            match answer {
                Ok(answer) => answer,
                // The connection is gone. The bus ends this future when it processes the loss of
                // the session.
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn window(&self) -> usize {
        self.window.load(Relaxed)
    }
}

/// A delivery in flight.
struct HeldDelivery {
    delivery: Delivery,
    settle: Settle,
    cancelled: bool,
}

/// The message is not in flight at this agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is not in your hands: it was settled before, taken back, or never delivered")]
pub(crate) struct NotInHands;

/// The end of the connection. Dropping it reports the agent as lost, which fails its deliveries in
/// flight.
pub(crate) struct RemoteAgent {
    bus: BusSystem,
    agent: AgentId,
    /// Number of the session on the bus; `None` after it has ended.
    attachment: Option<u64>,
    remote: Arc<Remote>,
    post: UnboundedReceiver<Outbound>,
    in_flight: HashMap<MessageId, HeldDelivery>,
    loss_reason: &'static str,
}

impl RemoteAgent {
    /// Attaches a session of the agent. It gets no deliveries before [`Self::open`].
    pub(crate) async fn attach(bus: BusSystem, agent: AgentId) -> Result<Self, InboxError> {
        let (out, post) = unbounded_channel();
        let remote = Arc::new(Remote { window: AtomicUsize::new(0), out });
        let attachment = bus.attach(agent.clone(), Arc::clone(&remote) as _).await?;
        let (attachment, in_flight) = (Some(attachment), HashMap::new());
        Ok(Self { bus, agent, attachment, remote, post, in_flight, loss_reason: CONNECTION_LOST })
    }

    /// Sets the maximum number of deliveries in flight and accepts deliveries.
    pub(crate) fn open(&self, window: usize) {
        self.set(window, true);
    }

    /// Accepts no deliveries but keeps those in flight. Other sessions of the agent get the rest.
    pub(crate) fn away(&self) {
        self.set(0, false);
    }

    fn set(&self, window: usize, present: bool) {
        self.remote.window.store(window, Relaxed);
        if let Some(attachment) = self.attachment {
            self.bus.set_present(self.agent.clone(), attachment, present);
        }
    }

    /// Maximum number of deliveries in flight.
    pub(crate) fn window(&self) -> usize {
        self.remote.window()
    }

    /// Waits for the next event; `None` when the bus has stopped. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Mail> {
        loop {
            match self.post.recv().await? {
                Outbound::Delivery(delivery, settle) => {
                    self.evict_settled();
                    let held =
                        HeldDelivery { delivery: delivery.clone(), settle, cancelled: false };
                    self.in_flight.insert(delivery.message.message_id, held);
                    return Some(Mail::Deliver(delivery));
                }
                Outbound::Cancelled(id) => {
                    let Some(held) = self.in_flight.get_mut(&id) else { continue };
                    held.cancelled = true;
                    return Some(Mail::Cancel(held.delivery.clone()));
                }
            }
        }
    }

    /// Removes deliveries that the bus has taken back, after their deadline or on request.
    fn evict_settled(&mut self) {
        if self.in_flight.len() >= self.window() {
            self.in_flight.retain(|_, held| !held.settle.is_closed());
        }
    }

    /// Deliveries in flight, in the order of their sequence numbers.
    pub(crate) fn in_hands(&self) -> Vec<&Delivery> {
        let here = self.in_flight.values().filter(|held| !held.settle.is_closed());
        let mut deliveries: Vec<_> = here.map(|held| &held.delivery).collect();
        deliveries.sort_by_key(|delivery| delivery.seq);
        deliveries
    }

    /// Deliveries in flight whose task was cancelled.
    pub(crate) fn called_off(&self) -> Vec<Delivery> {
        let is_cancelled = |delivery: &&&Delivery| {
            self.in_flight.get(&delivery.message.message_id).is_some_and(|held| held.cancelled)
        };
        self.in_hands().iter().filter(is_cancelled).map(|delivery| (*delivery).clone()).collect()
    }

    /// Acknowledges a delivery, or fails it with a reason. The receiver resolves when that is
    /// durable.
    pub(crate) fn settle(
        &mut self,
        id: &MessageId,
        failed: Option<String>,
    ) -> Result<oneshot::Receiver<()>, NotInHands> {
        let held = self.in_flight.remove(id).ok_or(NotInHands)?;
        let (acked, durable) = oneshot::channel();
        let answer = match failed {
            None => Ok(Handled { note: None, durable: Some(acked) }),
            Some(reason) => Err(Failed { reason, durable: Some(acked) }),
        };
        held.settle.send(answer).map_err(|_| NotInHands)?;
        Ok(durable)
    }

    /// Sets the reason that is logged if the session is lost.
    pub(crate) fn because(&mut self, why: &'static str) {
        self.loss_reason = why;
    }

    /// Ends the session and returns its deliveries in flight to the mailbox without a failed
    /// attempt.
    pub(crate) fn give_back(mut self) {
        if let Some(attachment) = self.attachment.take() {
            self.bus.give_back(self.agent.clone(), attachment);
        }
    }
}

impl std::fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (agent, in_flight) = (&self.agent, self.in_flight.len());
        f.debug_struct("RemoteAgent")
            .field("agent", agent)
            .field("hands", &in_flight)
            .finish_non_exhaustive()
    }
}

impl Drop for RemoteAgent {
    fn drop(&mut self) {
        if let Some(attachment) = self.attachment.take() {
            self.bus.lose(self.agent.clone(), attachment, self.loss_reason.to_owned());
        }
    }
}
