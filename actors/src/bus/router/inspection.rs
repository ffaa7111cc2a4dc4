//! Inspection without side effects: the load of the bus and the content of an inbox.

use std::time::Duration;

use a2a_policy::{CircuitState, DeliveryState, Directory};
use a2a_protocol::AgentId;
use actix::prelude::*;

use super::{MAX_SCAN, Router};
use crate::Delivery;
use crate::bus::mailbox::delivery;

/// Load of the bus at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BusLoad {
    /// Agents in the directory, including those of the server and callers.
    pub agents: usize,
    /// Sessions with agent code attached.
    pub sessions: usize,
    /// Messages waiting for their recipient.
    pub waiting: usize,
    /// Messages in flight.
    pub in_hands: usize,
    /// Bytes of messages that wait or are being committed.
    pub waiting_bytes: usize,
    /// Bytes of messages in flight.
    pub in_hands_bytes: usize,
    /// Bytes of dead letters.
    pub dead_letter_bytes: usize,
    /// Bytes of all messages held, each counted once however many recipients it has.
    pub held_bytes: usize,
    /// Messages of the agent with the most, waiting or in flight.
    pub most: usize,
    /// Age of the oldest waiting message.
    pub oldest: Duration,
    /// Dead letters.
    pub dead_letters: usize,
    /// Open assignments marked overdue.
    pub overdue_tasks: usize,
    /// Open circuits.
    pub open_circuits: usize,
    /// Half-open circuits.
    pub half_open_circuits: usize,
    /// Awaited records that are not durable yet.
    pub uncommitted: usize,
}

impl BusLoad {
    /// Adds the load of the next agents.
    pub(crate) fn merge(self, next: Self) -> Self {
        Self {
            sessions: self.sessions + next.sessions,
            waiting: self.waiting + next.waiting,
            in_hands: self.in_hands + next.in_hands,
            waiting_bytes: self.waiting_bytes + next.waiting_bytes,
            in_hands_bytes: self.in_hands_bytes + next.in_hands_bytes,
            most: self.most.max(next.most),
            oldest: self.oldest.max(next.oldest),
            // Totals of the whole bus, as of the last part.
            ..next
        }
    }
}

/// Reads the load, from the sessions of the agent with this index on. One message scans a bounded
/// number of agents; the caller adds the parts up.
#[derive(Message)]
#[rtype(result = "LoadPart")]
pub(crate) struct ReadLoad {
    pub(crate) from: usize,
}

/// Load of a range of agents.
pub(crate) struct LoadPart {
    pub(crate) load: BusLoad,
    /// Index of the next agent; `None` at the end.
    pub(crate) next: Option<usize>,
}

impl Handler<ReadLoad> for Router {
    type Result = MessageResult<ReadLoad>;

    fn handle(&mut self, ReadLoad { from }: ReadLoad, _: &mut Self::Context) -> Self::Result {
        let now = self.bus.clock.now();
        let mut load = BusLoad {
            agents: self.sessions.len(),
            dead_letters: self.dead.len(),
            dead_letter_bytes: self.dead.bytes(),
            held_bytes: self.bus.held.get(),
            overdue_tasks: self.ledger.as_ref().map_or(0, a2a_policy::Ledger::overdue_count),
            uncommitted: self.bus.journal_status.uncommitted.get(),
            ..BusLoad::default()
        };
        let mut oldest = None;
        for sessions in self.sessions.iter().skip(from).take(MAX_SCAN) {
            let numbers = sessions.all().chain(sessions.interceptor);
            let mut of_agent = 0;
            for mailbox in numbers.filter_map(|number| self.bus.mailboxes.get(number)) {
                let inbox = mailbox.inbox.borrow();
                let out = inbox.in_flight();
                let waiting = inbox.len() - out;
                load.sessions += usize::from(mailbox.capacity.is_live());
                load.in_hands += out;
                load.waiting += waiting;
                load.in_hands_bytes += inbox.in_flight_bytes();
                load.waiting_bytes +=
                    mailbox.capacity.bytes().saturating_sub(inbox.in_flight_bytes());
                of_agent += out + waiting;
                if let Some(first) = inbox.oldest() {
                    oldest = oldest.into_iter().chain([first.item.accepted]).min();
                }
            }
            load.most = load.most.max(of_agent);
        }
        // The wall clock may have been set back since.
        let ago = oldest.map(|oldest| (now.utc - oldest).to_std().unwrap_or_default());
        load.oldest = ago.unwrap_or_default();
        for circuit in self.breaker.circuits() {
            match circuit.state(now) {
                CircuitState::Open => load.open_circuits += 1,
                CircuitState::HalfOpen => load.half_open_circuits += 1,
            }
        }
        let next = from.saturating_add(MAX_SCAN);
        MessageResult(LoadPart { load, next: (next < self.sessions.len()).then_some(next) })
    }
}

/// Content of the inboxes of an agent.
#[derive(Clone, Default)]
pub struct InboxView {
    /// The first deliveries: in flight, in backoff, waiting.
    pub deliveries: Vec<DeliveryView>,
    /// Number of all deliveries.
    pub pending: usize,
}

/// A delivery of an inbox, as peeked.
#[derive(Clone)]
pub struct DeliveryView {
    /// The delivery; its attempts are those that were started.
    pub delivery: Delivery,
    /// Whether it waits, is in backoff, or in flight.
    pub state: &'static str,
    /// Time until the backoff or the lease ends.
    pub due: Option<Duration>,
}

/// Peeks into an agent's inboxes; `None` when there is no such agent. Nothing is leased, counted or
/// marked as seen.
#[derive(Message)]
#[rtype(result = "Option<InboxView>")]
pub(crate) struct PeekInbox {
    pub(crate) agent: AgentId,
    pub(crate) limit: usize,
}

impl Handler<PeekInbox> for Router {
    type Result = MessageResult<PeekInbox>;

    fn handle(
        &mut self,
        PeekInbox { agent, limit }: PeekInbox,
        _: &mut Self::Context,
    ) -> Self::Result {
        let Some(key) = self.directory.key(&agent) else {
            // Names of people always exist, even without a message so far.
            return MessageResult(Directory::is_for_people(&agent).then(InboxView::default));
        };
        let now = self.bus.clock.now().uptime;
        let mut view = InboxView::default();
        for number in self.sessions[key.index()].all() {
            let Some(mailbox) = self.bus.mailboxes.get(number) else { continue };
            let inbox = mailbox.inbox.borrow();
            view.pending += inbox.len();
            let rest = limit.saturating_sub(view.deliveries.len());
            view.deliveries.extend(inbox.peek(rest).into_iter().map(|(standing, entry)| {
                let (state, due) = match standing {
                    DeliveryState::InFlight(until) => ("taken", Some(until.saturating_sub(now))),
                    DeliveryState::BackingOff(until) => {
                        ("pausing", Some(until.saturating_sub(now)))
                    }
                    DeliveryState::Waiting => ("waiting", None),
                };
                DeliveryView { delivery: delivery(entry), state, due }
            }));
        }
        MessageResult(Some(view))
    }
}
