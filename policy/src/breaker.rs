//! Circuit breaker: stops message loops between agents, which the rate limits of one sender cannot
//! detect.
//!
//! ```text
//!              a loop, too deep, too long, repeated
//!   closed ───────────────────────────────────────────▶ open ◀── by hand
//!     ▲                                             ▲    │ the cooldown is over
//!     │ a message that makes progress               │    ▼
//!     └───────────────────────────────────────── half-open
//!                                    one probe too many: twice the cooldown
//! ```
//!
//! A circuit covers one conversation, or equal messages from one agent to another. No circuit
//! affects messages of another one. A message that ends a task passes even an open circuit, unless
//! an operator tripped it: finished work is never blocked.
//!
//! [`Breaker::check`] changes nothing, so a message that a later stage refuses is never counted.
//! [`Breaker::accept`] counts an admitted one. `conversation` detects loops within a conversation,
//! `pairs` across conversations.

mod circuit;
mod conversation;
mod conversation_table;
mod lru_map;
mod pairs;
mod path;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use a2a_protocol::{AgentId, CorrelationId, Kind, TaskId};
use chrono::TimeDelta;

use crate::{Audience, Now};
pub use circuit::{BadCircuitKey, Circuit, CircuitKey, CircuitState, TripReason};
use conversation_table::ConversationTable;
use lru_map::LruMap;
use pairs::Pairs;
pub use settings::BreakerSettings;

/// The effect of a message on the task ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkProgress {
    /// No effect.
    None,
    /// A task changed state without ending: accepted, in progress, blocked.
    Moves,
    /// A task was declined. It ended, but requesting and declining can loop.
    Declines,
    /// A task ended otherwise (completed, failed), or a review got its verdict.
    Ends,
}

impl WorkProgress {
    /// Whether it passes an open circuit: finished work is never blocked.
    const fn ends_a_task(self) -> bool {
        matches!(self, Self::Declines | Self::Ends)
    }
}

/// A message, as far as the breaker depends on it.
#[derive(Debug, Clone, Copy)]
pub struct BreakerInput<'a> {
    /// The sender.
    pub from: &'a AgentId,
    /// The recipients.
    pub to: Audience<'a>,
    /// Its conversation.
    pub correlation: CorrelationId,
    /// Its kind.
    pub kind: Kind,
    /// The hash of its kind and payload, without ids.
    pub content: u64,
    /// The task it is about.
    pub task: Option<TaskId>,
    /// Its effect on that task.
    pub progress: WorkProgress,
}

impl BreakerInput<'_> {
    fn pair(&self) -> CircuitKey {
        let (from, to) = (self.from.clone(), self.to.one().cloned());
        CircuitKey::Pair { from, to, content: self.content }
    }
}

/// The decision about one message.
#[derive(Debug)]
pub enum BreakerDecision<'a> {
    /// It passes.
    Pass,
    /// An open circuit refuses it.
    Refused(&'a Circuit),
    /// It exceeds a limit: it is refused, and this circuit must be opened.
    Trips(Circuit),
}

/// A detected loop, from which a circuit is made.
struct Finding {
    reason: TripReason,
    evidence: String,
    participants: Vec<AgentId>,
}

impl Finding {
    fn new<'a>(
        reason: TripReason,
        evidence: String,
        agents: impl IntoIterator<Item = &'a AgentId>,
    ) -> Self {
        Self { reason, evidence, participants: circuit::participants(agents) }
    }
}

/// A circuit that is open or half-open.
struct TrackedCircuit {
    circuit: Circuit,
    /// The number of messages that passed since it became half-open.
    probed: u32,
}

/// How often a circuit had tripped when progress closed it, and when that was.
struct PastTrips {
    trips: u32,
    closed: Duration,
}

/// The effect of a circuit on one message.
enum CircuitEffect<'a> {
    Closed,
    Refuses(&'a Circuit),
    /// The message passes, and the limits of its circuit are not checked.
    LetsThrough,
    Fails(Circuit),
}

/// All circuits, and the counters that open them.
pub struct Breaker {
    settings: BreakerSettings,
    conversations: ConversationTable,
    pairs: Pairs,
    circuits: HashMap<CircuitKey, TrackedCircuit>,
    past: LruMap<CircuitKey, PastTrips>,
}

impl Breaker {
    /// A breaker with every circuit closed.
    #[must_use]
    pub fn new(settings: BreakerSettings) -> Self {
        Self {
            conversations: ConversationTable::new(settings.max_correlations),
            pairs: Pairs::new(settings.max_pairs),
            circuits: HashMap::new(),
            past: LruMap::new(settings.max_circuits),
            settings,
        }
    }

    /// Applies new settings. Open circuits keep their cooldown and counters keep their values;
    /// where a table shrinks, its oldest entries are evicted.
    pub fn reconfigure(&mut self, settings: BreakerSettings) {
        self.conversations.set_max(settings.max_correlations);
        self.pairs.set_max(settings.max_pairs);
        self.past.set_max(settings.max_circuits);
        self.settings = settings;
    }

    /// Decides about a message; changes nothing.
    #[must_use]
    pub fn check(&self, input: &BreakerInput<'_>, now: Now) -> BreakerDecision<'_> {
        let (mut check_conversation, mut check_pair) = (true, true);
        if !self.circuits.is_empty() {
            let conversation =
                (CircuitKey::Correlation(input.correlation), &mut check_conversation);
            for (key, look) in [conversation, (input.pair(), &mut check_pair)] {
                match self.circuit_effect(&key, input, now) {
                    CircuitEffect::Closed => {}
                    CircuitEffect::Refuses(circuit) => return BreakerDecision::Refused(circuit),
                    CircuitEffect::Fails(circuit) => return BreakerDecision::Trips(circuit),
                    CircuitEffect::LetsThrough => *look = false,
                }
            }
        }
        if !self.settings.enabled || input.progress.ends_a_task() {
            return BreakerDecision::Pass;
        }
        if check_conversation
            && let Some(found) = self.conversations.detect_loop(input, &self.settings, now)
        {
            return BreakerDecision::Trips(self.opened(
                CircuitKey::Correlation(input.correlation),
                found,
                now,
            ));
        }
        let opens = || self.conversations.opens(input, &self.settings, now);
        if check_pair && let Some(found) = self.pairs.detect_loop(input, opens, &self.settings, now)
        {
            return BreakerDecision::Trips(self.opened(input.pair(), found, now));
        }
        BreakerDecision::Pass
    }

    /// Counts an admitted message. Returns the half-open circuit that it closed.
    ///
    /// A message that could close two closes the one of its conversation, and the next message the
    /// other.
    pub fn accept(&mut self, input: &BreakerInput<'_>, now: Now) -> Option<CircuitKey> {
        let closed = self.try_circuits(input, now);
        if self.settings.enabled {
            if input.progress == WorkProgress::Ends {
                self.conversations.end(input.correlation, now);
                if let Audience::One(to) = input.to {
                    self.pairs.ended(input.from, to);
                }
            } else if !self.conversations.record(input, &self.settings, now) {
                self.pairs.record(input, &self.settings, now);
            }
        }
        closed
    }

    /// Opens a circuit: one from [`BreakerDecision::Trips`], or one restored after a restart.
    ///
    /// Resets its counters: in half-open state only progress counts. Returns the circuits evicted
    /// for it.
    pub fn trip(&mut self, circuit: Circuit) -> Vec<CircuitKey> {
        self.forget(&circuit.key);
        self.circuits.insert(circuit.key.clone(), TrackedCircuit { circuit, probed: 0 });
        let mut gone = Vec::new();
        while self.circuits.len() > self.settings.max_circuits.max(1) {
            // The one with the least time left goes first: half-open before open, opened by hand
            // last.
            let order =
                |tracked: &TrackedCircuit| (tracked.circuit.until.is_none(), tracked.circuit.until);
            let first = self.circuits.iter().min_by_key(|(_, tracked)| order(tracked));
            let Some(key) = first.map(|(key, _)| key.clone()) else { break };
            self.circuits.remove(&key);
            gone.push(key);
        }
        gone
    }

    /// Closes and returns the circuits that had no attempt for so long that they no longer matter.
    pub fn sweep(&mut self, now: Now) -> Vec<CircuitKey> {
        let window = self.settings.window;
        let lapsed = self.circuits.values().filter(|tracked| tracked.circuit.lapsed(window, now));
        let lapsed: Vec<_> = lapsed.map(|tracked| tracked.circuit.key.clone()).collect();
        for key in &lapsed {
            self.circuits.remove(key);
        }
        lapsed
    }

    /// Opens a circuit by hand; it stays open until [`Breaker::reset`].
    ///
    /// Its participants are `participants` and those of the conversation or pair.
    pub fn trip_manually(
        &mut self,
        key: CircuitKey,
        reason: String,
        participants: impl IntoIterator<Item = AgentId>,
        now: Now,
    ) -> Circuit {
        let mut named: Vec<AgentId> = participants.into_iter().collect();
        match &key {
            CircuitKey::Correlation(id) => {
                named.extend(self.conversations.participants_of(id).cloned())
            }
            CircuitKey::Pair { from, to, .. } => {
                named.extend([from].into_iter().chain(to).cloned())
            }
        }
        let trips_now = self.circuits.get(&key).map(|tracked| tracked.circuit.trips);
        let finding = Finding::new(TripReason::Manual, reason, &named);
        let mut circuit = self.opened(key, finding, now);
        circuit.trips = trips_now.map_or(circuit.trips, |trips| trips.saturating_add(1));
        self.trip(circuit.clone());
        circuit
    }

    /// Closes a circuit by hand and resets its counters, including the number of trips.
    pub fn reset(&mut self, key: &CircuitKey) -> Option<Circuit> {
        self.forget(key);
        self.past.remove(key);
        self.circuits.remove(key).map(|tracked| tracked.circuit)
    }

    /// Every circuit that is not closed, in no particular order.
    pub fn circuits(&self) -> impl Iterator<Item = &Circuit> {
        self.circuits.values().map(|tracked| &tracked.circuit)
    }

    /// A circuit; `None` when it is closed.
    #[must_use]
    pub fn get(&self, key: &CircuitKey) -> Option<&Circuit> {
        self.circuits.get(key).map(|tracked| &tracked.circuit)
    }

    /// The number of conversations and of pairs in memory.
    #[must_use]
    pub fn tracked(&self) -> (usize, usize) {
        (self.conversations.len(), self.pairs.len())
    }

    fn circuit_effect(
        &self,
        key: &CircuitKey,
        input: &BreakerInput<'_>,
        now: Now,
    ) -> CircuitEffect<'_> {
        let Some(tracked) = self.circuits.get(key) else { return CircuitEffect::Closed };
        let circuit = &tracked.circuit;
        if circuit.reason == TripReason::Manual {
            return CircuitEffect::Refuses(circuit);
        }
        if !self.settings.enabled || circuit.lapsed(self.settings.window, now) {
            return CircuitEffect::Closed;
        }
        match (circuit.state(now), input.progress) {
            (CircuitState::Open, WorkProgress::None | WorkProgress::Moves) => {
                CircuitEffect::Refuses(circuit)
            }
            (CircuitState::HalfOpen, WorkProgress::None | WorkProgress::Declines)
                if tracked.probed >= self.settings.probes =>
            {
                CircuitEffect::Fails(self.again(circuit, now))
            }
            _ => CircuitEffect::LetsThrough,
        }
    }

    fn try_circuits(&mut self, input: &BreakerInput<'_>, now: Now) -> Option<CircuitKey> {
        if self.circuits.is_empty() {
            return None;
        }
        let keys = [CircuitKey::Correlation(input.correlation), input.pair()];
        let closed = keys.into_iter().find(|key| self.closes(key, input.progress, now))?;
        self.close(&closed, now);
        Some(closed)
    }

    /// Whether an admitted message closes this circuit; otherwise it was a probe.
    fn closes(&mut self, key: &CircuitKey, progress: WorkProgress, now: Now) -> bool {
        let Some(tracked) = self.circuits.get_mut(key) else { return false };
        let manual = tracked.circuit.reason == TripReason::Manual;
        if manual || tracked.circuit.state(now) == CircuitState::Open {
            return false;
        }
        tracked.probed = tracked.probed.saturating_add(1);
        matches!(progress, WorkProgress::Moves | WorkProgress::Ends)
            || tracked.circuit.lapsed(self.settings.window, now)
    }

    fn close(&mut self, key: &CircuitKey, now: Now) {
        self.forget(key);
        let Some(tracked) = self.circuits.remove(key) else { return };
        if !tracked.circuit.lapsed(self.settings.window, now) {
            let past = PastTrips { trips: tracked.circuit.trips, closed: now.uptime };
            self.past.insert(key.clone(), past);
        }
    }

    /// Resets the counters of a circuit.
    fn forget(&mut self, key: &CircuitKey) {
        match key {
            CircuitKey::Correlation(id) => self.conversations.forget(id),
            CircuitKey::Pair { from, to, content } => {
                self.pairs.forget(from, to.as_ref(), *content);
            }
        }
    }

    fn opened(&self, key: CircuitKey, found: Finding, now: Now) -> Circuit {
        let past = self.past.peek(&key);
        let past = past
            .filter(|past| now.uptime.saturating_sub(past.closed) < self.settings.window)
            .map_or(0, |past| past.trips);
        let trips = past.saturating_add(1);
        let Finding { reason, evidence, participants } = found;
        let until = (reason != TripReason::Manual).then(|| self.until(trips, now));
        Circuit { key, reason, evidence, participants, since: now.utc, until, trips }
    }

    /// The same circuit, tripped once more.
    fn again(&self, circuit: &Circuit, now: Now) -> Circuit {
        let trips = circuit.trips.saturating_add(1);
        Circuit { since: now.utc, until: Some(self.until(trips, now)), trips, ..circuit.clone() }
    }

    fn until(&self, trips: u32, now: Now) -> chrono::DateTime<chrono::Utc> {
        let cooldown = TimeDelta::from_std(self.settings.cooldown(trips));
        let until = cooldown.ok().and_then(|cooldown| now.utc.checked_add_signed(cooldown));
        until.unwrap_or(chrono::DateTime::<chrono::Utc>::MAX_UTC)
    }
}
