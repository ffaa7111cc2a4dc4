//! Inspection without side effects: the load of the bus and the content of an inbox.

use std::time::Duration;

use a2a_policy::{CircuitState, Roster, Standing};
use a2a_protocol::AgentId;
use actix::prelude::*;

use super::{PART, Router};
use crate::Delivery;
use crate::bus::mailbox::delivery;

/// How much lies on the bus at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BusLoad {
    /// Agents that are known, those of the server and callers included.
    pub agents: usize,
    /// Sessions with an agent's code in them.
    pub sessions: usize,
    /// Messages that wait for their recipient.
    pub waiting: usize,
    /// Messages that are in their recipient's hands.
    pub in_hands: usize,
    /// Bytes of the messages that wait, or are on their way to the disk.
    pub waiting_bytes: usize,
    /// Bytes of the messages that are in their recipient's hands.
    pub in_hands_bytes: usize,
    /// Bytes of dead letters.
    pub dead_letter_bytes: usize,
    /// Bytes of all messages that the bus holds, each counted once, however many recipients it has.
    pub held_bytes: usize,
    /// Messages of the agent that has most, waiting or in hands.
    pub most: usize,
    /// How long the oldest of those that wait has been accepted.
    pub oldest: Duration,
    /// Messages that were given up and are kept.
    pub dead_letters: usize,
    /// Open tasks of the ledger that are marked overdue.
    pub overdue_tasks: usize,
    /// Circuits that refuse.
    pub open_circuits: usize,
    /// Circuits that let a few messages through, to see.
    pub half_open_circuits: usize,
    /// Lines that somebody waits for and the disk does not have yet.
    pub uncommitted: usize,
}

impl BusLoad {
    /// This and what the next agents have.
    pub(crate) fn merge(self, next: Self) -> Self {
        Self {
            sessions: self.sessions + next.sessions,
            waiting: self.waiting + next.waiting,
            in_hands: self.in_hands + next.in_hands,
            waiting_bytes: self.waiting_bytes + next.waiting_bytes,
            in_hands_bytes: self.in_hands_bytes + next.in_hands_bytes,
            most: self.most.max(next.most),
            oldest: self.oldest.max(next.oldest),
            // These are of the whole bus, at the time of the last part.
            ..next
        }
    }
}

/// Asks how much lies on the bus, from the sessions of the agent with this number on. One message
/// looks at a bounded number of agents; the caller adds the parts up.
#[derive(Message)]
#[rtype(result = "LoadPart")]
pub(crate) struct ReadLoad {
    pub(crate) from: usize,
}

/// A part of it.
pub(crate) struct LoadPart {
    pub(crate) load: BusLoad,
    /// The number of the next agent; `None` at the end.
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
        for sessions in self.sessions.iter().skip(from).take(PART) {
            let numbers = sessions.all().chain(sessions.interceptor);
            let mut of_agent = 0;
            for mailbox in numbers.filter_map(|number| self.bus.mailboxes.get(number)) {
                let inbox = mailbox.inbox.borrow();
                let out = inbox.out();
                let waiting = inbox.len() - out;
                load.sessions += usize::from(mailbox.slots.is_live());
                load.in_hands += out;
                load.waiting += waiting;
                load.in_hands_bytes += inbox.out_bytes();
                load.waiting_bytes += mailbox.slots.bytes().saturating_sub(inbox.out_bytes());
                of_agent += out + waiting;
                if let Some(first) = inbox.oldest() {
                    oldest = oldest.into_iter().chain([first.item.accepted]).min();
                }
            }
            load.most = load.most.max(of_agent);
        }
        // The clock of the machine may have been set back since.
        let ago = oldest.map(|oldest| (now.utc - oldest).to_std().unwrap_or_default());
        load.oldest = ago.unwrap_or_default();
        for circuit in self.breaker.circuits() {
            match circuit.state(now) {
                CircuitState::Open => load.open_circuits += 1,
                CircuitState::HalfOpen => load.half_open_circuits += 1,
            }
        }
        let next = from.saturating_add(PART);
        MessageResult(LoadPart { load, next: (next < self.sessions.len()).then_some(next) })
    }
}

/// What lies in the inboxes of an agent's sessions.
#[derive(Clone, Default)]
pub struct InboxView {
    /// The first of them: what is in somebody's hands, what pauses, what waits.
    pub deliveries: Vec<DeliveryView>,
    /// How many there are.
    pub pending: usize,
}

/// One message of an inbox, as somebody sees who only looks.
#[derive(Clone)]
pub struct DeliveryView {
    /// The message; its attempts are those that were begun.
    pub delivery: Delivery,
    /// Whether it waits, pauses, or is in somebody's hands.
    pub state: &'static str,
    /// Until the pause or the time of whoever has it ends.
    pub due: Option<Duration>,
}

/// Looks at what lies in an agent's inboxes; `None` when there is no such agent. Nothing is
/// handed out, counted or noted as seen.
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
        let Some(key) = self.roster.key(&agent) else {
            // People are always there, even where nobody has spoken yet.
            return MessageResult(Roster::is_for_people(&agent).then(InboxView::default));
        };
        let now = self.bus.clock.now().uptime;
        let mut view = InboxView::default();
        for number in self.sessions[key.index()].all() {
            let Some(mailbox) = self.bus.mailboxes.get(number) else { continue };
            let inbox = mailbox.inbox.borrow();
            view.pending += inbox.len();
            let room = limit.saturating_sub(view.deliveries.len());
            view.deliveries.extend(inbox.look(room).into_iter().map(|(standing, entry)| {
                let (state, due) = match standing {
                    Standing::Out(until) => ("taken", Some(until.saturating_sub(now))),
                    Standing::Pausing(until) => ("pausing", Some(until.saturating_sub(now))),
                    Standing::Waiting => ("waiting", None),
                };
                DeliveryView { delivery: delivery(entry), state, due }
            }));
        }
        MessageResult(Some(view))
    }
}
