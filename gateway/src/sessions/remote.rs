//! An agent in another process: its messages go out one by one and are settled from there.
//!
//! [`RemoteRuntime`] is what the session of the bus runs; [`RemoteAgent`] is the other end, which
//! belongs to whoever keeps the connection and can be handed from one connection to the next.
//! It knows neither frames nor sockets.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use a2a_actors::{BusSystem, Delivery, Failed, Handled, HandlerFuture, InboxError, Runtime};
use a2a_protocol::{AgentId, MessageId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

type SettleSender = oneshot::Sender<Result<Handled, Failed>>;

/// What the log says of an attempt whose agent went away.
const LOST: &str = "the connection of the agent was lost";

/// What arrives for the agent.
pub(crate) enum RemoteEvent {
    /// A message to handle.
    Deliver(Delivery),
    /// The task that a message in its hands asks for was called off.
    Cancel(Delivery),
}

enum FromBus {
    Delivery(Delivery, SettleSender),
    Cancelled(MessageId),
}

/// The end that the session runs.
struct RemoteRuntime {
    /// How many messages may be out at once; none while the connection is not ready for any.
    window: AtomicUsize,
    /// Not bounded, because the window is: each message of it is sent and called off once.
    out: UnboundedSender<FromBus>,
}

impl Runtime for RemoteRuntime {
    fn handle(&self, delivery: Delivery) -> HandlerFuture {
        let (settle, mut settled) = oneshot::channel();
        // When nobody is there any more it waits with the others below.
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
                // The connection is gone. What that means for the message is in what the bus is
                // told of it, which is on its way and ends this.
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn window(&self) -> usize {
        self.window.load(Relaxed)
    }
}

/// One message in the agent's hands.
struct InFlight {
    delivery: Delivery,
    settle: SettleSender,
    cancelled: bool,
}

/// The message is not in the agent's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is not in your hands: it was settled before, taken back, or never delivered")]
pub(crate) struct NotInFlight;

/// The end that a connection has. Dropped, the agent is lost: what it had has failed.
pub(crate) struct RemoteAgent {
    bus: BusSystem,
    agent: AgentId,
    /// The number of the attachment; `None` when it has ended.
    attachment: Option<u64>,
    remote: Arc<RemoteRuntime>,
    post: UnboundedReceiver<FromBus>,
    hands: HashMap<MessageId, InFlight>,
    why_lost: &'static str,
}

impl RemoteAgent {
    /// Joins the bus as one session of the agent, which takes nothing before [`Self::open`].
    pub(crate) async fn attach(bus: BusSystem, agent: AgentId) -> Result<Self, InboxError> {
        let (out, post) = unbounded_channel();
        let remote = Arc::new(RemoteRuntime { window: AtomicUsize::new(0), out });
        let attachment = bus.attach(agent.clone(), Arc::clone(&remote) as _).await?;
        let (attachment, hands) = (Some(attachment), HashMap::new());
        Ok(Self { bus, agent, attachment, remote, post, hands, why_lost: LOST })
    }

    /// Takes up to `window` messages at once from now on.
    pub(crate) fn open(&self, window: usize) {
        self.set(window, true);
    }

    /// Takes nothing for a while and keeps what it has; others of the agent take over the rest.
    pub(crate) fn away(&self) {
        self.set(0, false);
    }

    fn set(&self, window: usize, present: bool) {
        self.remote.window.store(window, Relaxed);
        if let Some(attachment) = self.attachment {
            self.bus.set_present(self.agent.clone(), attachment, present);
        }
    }

    /// How many messages it takes at once.
    pub(crate) fn window(&self) -> usize {
        self.remote.window()
    }

    /// What arrives next; `None` when the bus has ended. Nothing is lost when it is not awaited
    /// to its end.
    pub(crate) async fn next(&mut self) -> Option<RemoteEvent> {
        loop {
            match self.post.recv().await? {
                FromBus::Delivery(delivery, settle) => {
                    self.let_go();
                    let held = InFlight { delivery: delivery.clone(), settle, cancelled: false };
                    self.hands.insert(delivery.message.message_id, held);
                    return Some(RemoteEvent::Deliver(delivery));
                }
                FromBus::Cancelled(id) => {
                    let Some(held) = self.hands.get_mut(&id) else { continue };
                    held.cancelled = true;
                    return Some(RemoteEvent::Cancel(held.delivery.clone()));
                }
            }
        }
    }

    /// Forgets what the bus took back meanwhile, for its deadline or by another's word.
    fn let_go(&mut self) {
        if self.hands.len() >= self.window() {
            self.hands.retain(|_, held| !held.settle.is_closed());
        }
    }

    /// What is in its hands, in the order in which it was accepted by the bus.
    pub(crate) fn in_hands(&self) -> Vec<&Delivery> {
        let here = self.hands.values().filter(|held| !held.settle.is_closed());
        let mut deliveries: Vec<_> = here.map(|held| &held.delivery).collect();
        deliveries.sort_by_key(|delivery| delivery.seq);
        deliveries
    }

    /// Of what is in its hands, those whose task was called off.
    pub(crate) fn cancelled(&self) -> Vec<Delivery> {
        let told = |delivery: &&&Delivery| {
            self.hands.get(&delivery.message.message_id).is_some_and(|held| held.cancelled)
        };
        self.in_hands().iter().filter(told).map(|delivery| (*delivery).clone()).collect()
    }

    /// Acknowledges a message, or fails it for this reason; told when that is durable.
    pub(crate) fn settle(
        &mut self,
        id: &MessageId,
        failed: Option<String>,
    ) -> Result<oneshot::Receiver<()>, NotInFlight> {
        let held = self.hands.remove(id).ok_or(NotInFlight)?;
        let (told, durable) = oneshot::channel();
        let answer = match failed {
            None => Ok(Handled { note: None, durable: Some(told) }),
            Some(reason) => Err(Failed { reason, durable: Some(told) }),
        };
        held.settle.send(answer).map_err(|_| NotInFlight)?;
        Ok(durable)
    }

    /// Says why it is lost, when it is.
    pub(crate) fn because(&mut self, why: &'static str) {
        self.why_lost = why;
    }

    /// Goes without a fault: what is in its hands is given back.
    pub(crate) fn give_back(mut self) {
        if let Some(attachment) = self.attachment.take() {
            self.bus.give_back(self.agent.clone(), attachment);
        }
    }
}

impl std::fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (agent, hands) = (&self.agent, self.hands.len());
        f.debug_struct("RemoteAgent")
            .field("agent", agent)
            .field("hands", &hands)
            .finish_non_exhaustive()
    }
}

impl Drop for RemoteAgent {
    fn drop(&mut self) {
        if let Some(attachment) = self.attachment.take() {
            self.bus.lose(self.agent.clone(), attachment, self.why_lost.to_owned());
        }
    }
}
