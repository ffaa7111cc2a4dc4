//! Agent runtime of an agent in another process: deliveries go out, settlements come in.
//!
//! The bus runs [`RemoteRuntime`]; the connection holds [`RemoteAgent`], which can be handed from
//! one connection to the next. No frames and no sockets here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use a2a_actors::{AgentRuntime, BusSystem, Delivery, Failed, Handled, HandlerFuture, InboxError};
use a2a_protocol::{AgentId, MessageId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

type SettleSender = oneshot::Sender<Result<Handled, Failed>>;

/// Reason in the log of an attempt whose agent disconnected.
const LOST: &str = "the connection of the agent was lost";

/// What the bus sends to the agent.
pub(crate) enum RemoteEvent {
    /// A message to handle.
    Deliver(Delivery),
    /// The task of a message in flight was cancelled.
    Cancel(Delivery),
}

enum FromBus {
    Delivery(Delivery, SettleSender),
    Cancelled(MessageId),
}

/// The end that the bus runs.
struct RemoteRuntime {
    /// Messages in flight at most; 0 while the connection is not ready.
    window: AtomicUsize,
    /// Unbounded, because the window bounds it: each message in flight is delivered and cancelled
    /// once.
    out: UnboundedSender<FromBus>,
}

impl AgentRuntime for RemoteRuntime {
    fn handle(&self, delivery: Delivery) -> HandlerFuture {
        let (settle, mut settled) = oneshot::channel();
        // When the receiver is gone the future stays pending, as below.
        let _ = self.out.send(FromBus::Delivery(delivery.clone(), settle));
        let out = self.out.clone();
        Box::pin(async move {
            let answer = tokio::select! {
                answer = &mut settled => answer,
                () = delivery.cancelled() => {
                    let _ = out.send(FromBus::Cancelled(delivery.message.message_id));
                    settled.await
                }
            };
            match answer {
                Ok(answer) => answer,
                // The connection is gone. The bus is notified of that separately, and then drops
                // this future.
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn max_in_flight(&self) -> usize {
        self.window.load(Relaxed)
    }
}

/// One message in flight.
struct InFlight {
    delivery: Delivery,
    settle: SettleSender,
    cancelled: bool,
}

/// The message is not in flight in this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the message is not in flight to you: it was settled before, its lease expired, or it was never delivered"
)]
pub(crate) struct NotInFlight;

/// The end of the connection. On drop the agent is lost: its messages in flight have failed.
pub(crate) struct RemoteAgent {
    bus: BusSystem,
    agent: AgentId,
    /// The id of the attachment; `None` when it has ended.
    attachment: Option<u64>,
    remote: Arc<RemoteRuntime>,
    post: UnboundedReceiver<FromBus>,
    in_flight: HashMap<MessageId, InFlight>,
    why_lost: &'static str,
}

impl RemoteAgent {
    /// Attaches to the bus as one session of the agent; delivers nothing before [`Self::open`].
    pub(crate) async fn attach(bus: BusSystem, agent: AgentId) -> Result<Self, InboxError> {
        let (out, post) = unbounded_channel();
        let remote = Arc::new(RemoteRuntime { window: AtomicUsize::new(0), out });
        let attachment = bus.attach(agent.clone(), Arc::clone(&remote) as _).await?;
        let (attachment, in_flight) = (Some(attachment), HashMap::new());
        Ok(Self { bus, agent, attachment, remote, post, in_flight, why_lost: LOST })
    }

    /// Allows up to `window` messages in flight from now on.
    pub(crate) fn open(&self, window: usize) {
        self.set(window, true);
    }

    /// Pauses deliveries and keeps those in flight; other sessions of the agent get the rest.
    pub(crate) fn suspend(&self) {
        self.set(0, false);
    }

    fn set(&self, window: usize, reachable: bool) {
        self.remote.window.store(window, Relaxed);
        if let Some(attachment) = self.attachment {
            self.bus.set_reachable(self.agent.clone(), attachment, reachable);
        }
    }

    /// Messages in flight at most.
    pub(crate) fn window(&self) -> usize {
        self.remote.max_in_flight()
    }

    /// The next event; `None` when the bus has ended. Cancellation safe.
    pub(crate) async fn next(&mut self) -> Option<RemoteEvent> {
        loop {
            match self.post.recv().await? {
                FromBus::Delivery(delivery, settle) => {
                    self.forget_settled();
                    let held = InFlight { delivery: delivery.clone(), settle, cancelled: false };
                    self.in_flight.insert(delivery.message.message_id, held);
                    return Some(RemoteEvent::Deliver(delivery));
                }
                FromBus::Cancelled(id) => {
                    let Some(held) = self.in_flight.get_mut(&id) else { continue };
                    held.cancelled = true;
                    return Some(RemoteEvent::Cancel(held.delivery.clone()));
                }
            }
        }
    }

    /// Removes messages that the bus took back, after a deadline or because the task ended.
    fn forget_settled(&mut self) {
        if self.in_flight.len() >= self.window() {
            self.in_flight.retain(|_, held| !held.settle.is_closed());
        }
    }

    /// Messages in flight, in order of acceptance.
    pub(crate) fn in_flight_deliveries(&self) -> Vec<&Delivery> {
        let here = self.in_flight.values().filter(|held| !held.settle.is_closed());
        let mut deliveries: Vec<_> = here.map(|held| &held.delivery).collect();
        deliveries.sort_by_key(|delivery| delivery.seq);
        deliveries
    }

    /// Messages in flight whose task was cancelled.
    pub(crate) fn cancelled(&self) -> Vec<Delivery> {
        let is_cancelled = |delivery: &&&Delivery| {
            self.in_flight.get(&delivery.message.message_id).is_some_and(|held| held.cancelled)
        };
        self.in_flight_deliveries()
            .iter()
            .filter(is_cancelled)
            .map(|delivery| (*delivery).clone())
            .collect()
    }

    /// Acknowledges or nacks a message; the receiver resolves when that is durable.
    pub(crate) fn settle(
        &mut self,
        id: &MessageId,
        failed: Option<String>,
    ) -> Result<oneshot::Receiver<()>, NotInFlight> {
        let held = self.in_flight.remove(id).ok_or(NotInFlight)?;
        let (durable_tx, durable) = oneshot::channel();
        let answer = match failed {
            None => Ok(Handled { note: None, durable: Some(durable_tx) }),
            Some(reason) => Err(Failed { reason, durable: Some(durable_tx) }),
        };
        held.settle.send(answer).map_err(|_| NotInFlight)?;
        Ok(durable)
    }

    /// Sets the reason that is logged when the agent is lost.
    pub(crate) fn set_loss_reason(&mut self, why: &'static str) {
        self.why_lost = why;
    }

    /// Detaches without a fault: messages in flight are returned.
    pub(crate) fn release(mut self) {
        if let Some(attachment) = self.attachment.take() {
            self.bus.detach_releasing(self.agent.clone(), attachment);
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
            self.bus.detach_failed(self.agent.clone(), attachment, self.why_lost.to_owned());
        }
    }
}
