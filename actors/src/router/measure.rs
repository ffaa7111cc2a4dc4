//! How much lies where: asked from time to time by whoever watches the bus. It costs a look at
//! every desk, and a name of nobody leaves here.

use std::time::Duration;

use a2a_policy::CircuitState;
use actix::prelude::*;

use super::Router;

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

/// Asks how much lies on the bus.
#[derive(Message)]
#[rtype(result = "BusLoad")]
pub(crate) struct Measure;

impl Handler<Measure> for Router {
    type Result = MessageResult<Measure>;

    fn handle(&mut self, _: Measure, _: &mut Self::Context) -> Self::Result {
        let now = self.shared.clock.now();
        let mut load = BusLoad {
            agents: self.sessions.len(),
            dead_letters: self.dead.len(),
            overdue_tasks: self.ledger.as_ref().map_or(0, a2a_policy::Ledger::overdue_count),
            uncommitted: self.shared.gauge.waiting.get(),
            ..BusLoad::default()
        };
        let mut oldest = None;
        for sessions in &self.sessions {
            let numbers = sessions.all().chain(sessions.aside);
            let mut of_agent = 0;
            for desk in numbers.filter_map(|number| self.shared.desks.get(number)) {
                let inbox = desk.inbox.borrow();
                let out = inbox.out();
                let waiting = inbox.len() - out;
                load.sessions += usize::from(desk.slots.is_live());
                load.in_hands += out;
                load.waiting += waiting;
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
        MessageResult(load)
    }
}
