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
//! A circuit covers one conversation, equal messages from one agent to another, or new
//! conversations and unanswered status updates from one agent to another. No circuit affects
//! messages of another one. A message that ends a task passes even an open circuit, unless an
//! operator tripped it: finished work is never blocked.
//!
//! Two properties of a message decide: the causal path that led to it (`path`), within its
//! conversation (`conversation`) or across conversations (`receipts`), and whether it has nearly the
//! same text as an earlier one (`sketch`, `pairs`). Repeated texts are stopped after a few rounds,
//! new ones after many. Progress in the ledger starts the path of the requester anew, a limited
//! number of times for each task (`progress`).
//!
//! [`Breaker::check`] changes nothing, so a message that a later stage refuses is never counted.
//! [`Breaker::accept`] counts an admitted one.

mod circuit;
mod conversation;
mod conversation_table;
mod lru_map;
mod pairs;
mod path;
mod progress;
mod receipts;
mod settings;
mod sketch;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use a2a_protocol::{AgentId, CorrelationId, Kind, TaskId};
use chrono::TimeDelta;

use crate::{Audience, Now};
pub use circuit::{BadCircuitKey, Circuit, CircuitKey, CircuitState, TripReason};
use conversation_table::ConversationTable;
use lru_map::LruMap;
use pairs::Pairs;
use path::Path;
use progress::Progress;
use receipts::Receipts;
pub use settings::BreakerSettings;
pub use sketch::Sketch;

/// The effect of a message on the task ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkProgress {
    /// No effect.
    None,
    /// A task changed state without ending: accepted, in progress, blocked.
    Moves,
    /// A task was declined. It ended, but requesting and declining can loop.
    Declines,
    /// A task failed. It ended, but requesting and failing can loop.
    Fails,
    /// A task was completed, or a review got its verdict.
    Ends,
}

impl WorkProgress {
    /// Whether it passes an open circuit: finished work is never blocked.
    const fn ends_a_task(self) -> bool {
        matches!(self, Self::Declines | Self::Fails | Self::Ends)
    }
}

/// What led an agent to begin a conversation, as far as the bus knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendCause {
    /// Unknown: the agent does not take its messages through the bus.
    #[default]
    Unknown,
    /// Nothing: the agent has no message in flight and settled none recently.
    Nothing,
    /// A message of this conversation, which it has in flight or settled last.
    Message(CorrelationId),
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
    /// The sketch of its text.
    pub sketch: Sketch,
    /// Whether it is news whatever its text: it carries a snapshot of progress, or is streamed to a
    /// client of A2A.
    pub is_news: bool,
    /// What led to it, if it begins a conversation.
    pub cause: SendCause,
    /// The task it is about.
    pub task: Option<TaskId>,
    /// Its effect on that task.
    pub progress: WorkProgress,
}

impl BreakerInput<'_> {
    /// The circuit of equal messages of this pair, or (`None`) of its new conversations and
    /// unanswered status updates.
    fn pair(&self, content: Option<u64>) -> CircuitKey {
        let (from, to) = (self.from.clone(), self.to.one().cloned());
        CircuitKey::Pair { from, to, content }
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
    receipts: Receipts,
    pairs: Pairs,
    progress: Progress,
    circuits: HashMap<CircuitKey, TrackedCircuit>,
    /// Circuits of loops over several conversations, by each of their participants.
    loops: HashMap<AgentId, Vec<CircuitKey>>,
    past: LruMap<CircuitKey, PastTrips>,
}

impl Breaker {
    /// A breaker with every circuit closed.
    #[must_use]
    pub fn new(settings: BreakerSettings) -> Self {
        Self {
            conversations: ConversationTable::new(settings.max_correlations),
            receipts: Receipts::new(settings.max_pairs),
            pairs: Pairs::new(settings.max_pairs),
            progress: Progress::new(settings.max_pairs),
            circuits: HashMap::new(),
            loops: HashMap::new(),
            past: LruMap::new(settings.max_circuits),
            settings,
        }
    }

    /// Applies new settings. Open circuits keep their cooldown and counters keep their values;
    /// where a table shrinks, its oldest entries are evicted.
    pub fn reconfigure(&mut self, settings: BreakerSettings) {
        self.conversations.set_max(settings.max_correlations);
        self.receipts.set_max(settings.max_pairs);
        self.pairs.set_max(settings.max_pairs);
        self.progress.set_max(settings.max_pairs);
        self.past.set_max(settings.max_circuits);
        self.settings = settings;
    }

    /// Decides about a message; changes nothing.
    #[must_use]
    pub fn check(&self, input: &BreakerInput<'_>, now: Now) -> BreakerDecision<'_> {
        let input = &BreakerInput { progress: self.counted_moves(input, now), ..*input };
        let is_repeat = self.pairs.is_repeat(input, &self.settings, now);
        let (mut check_conversation, mut check_pair) = (true, true);
        if !self.circuits.is_empty() {
            for key in self.keys(input, is_repeat, now) {
                match self.circuit_effect(&key, input, now) {
                    CircuitEffect::Closed => {}
                    CircuitEffect::Refuses(circuit) => return BreakerDecision::Refused(circuit),
                    CircuitEffect::Fails(circuit) => return BreakerDecision::Trips(circuit),
                    CircuitEffect::LetsThrough => match key {
                        CircuitKey::Correlation(_) => check_conversation = false,
                        CircuitKey::Pair { .. } => check_pair = false,
                    },
                }
            }
        }
        if !self.settings.enabled || input.progress.ends_a_task() {
            return BreakerDecision::Pass;
        }
        let trips = |key, found| BreakerDecision::Trips(self.opened(key, found, now));
        let (before, opens) = self.path_before(input, is_repeat, now);
        let settings = self.limits(input, opens, now);
        if check_conversation
            && (check_pair || !opens)
            && let Some(found) =
                self.conversations.detect_loop(input, &before, is_repeat, &settings, now)
        {
            let across = opens && before.total() > 0;
            let key = match found.reason {
                TripReason::Loop if across => input.pair(Some(input.content)),
                _ if across => input.pair(None),
                _ => CircuitKey::Correlation(input.correlation),
            };
            return trips(key, found);
        }
        if !check_pair || self.conversations.is_free(input, &self.settings, now) {
            return BreakerDecision::Pass;
        }
        if let Some(found) = self.pairs.detect_repeats(input, &self.settings, now) {
            return trips(input.pair(Some(input.content)), found);
        }
        if let Some(found) = self.pairs.detect_chatter(input, is_repeat, &self.settings, now) {
            return trips(input.pair(None), found);
        }
        BreakerDecision::Pass
    }

    /// Counts an admitted message. Returns the half-open circuit that it closed.
    ///
    /// A message that could close two closes the one of its conversation, and the next message the
    /// other.
    pub fn accept(&mut self, input: &BreakerInput<'_>, now: Now) -> Option<CircuitKey> {
        let counted = BreakerInput { progress: self.counted(input, now), ..*input };
        let is_repeat = self.pairs.is_repeat(input, &self.settings, now);
        let closed = self.try_circuits(&counted, is_repeat, now);
        if !self.settings.enabled {
            return closed;
        }
        let is_free = self.conversations.is_free(&counted, &self.settings, now);
        let path = if is_free || counted.progress == WorkProgress::Ends {
            Path::EMPTY
        } else {
            let (before, opens) = self.path_before(input, is_repeat, now);
            before.then(input.from, opens, is_repeat, self.settings.longest_path())
        };
        self.conversations.record(&counted, &path, is_repeat, &self.settings, now);
        if is_free {
            return closed;
        }
        self.pairs.record(input, is_repeat, &self.settings, now);
        self.progress.record(input);
        match (counted.progress, input.to) {
            (WorkProgress::Ends, Audience::One(to)) => {
                self.receipts.ended(input, to, now);
                self.pairs.ended(input.from, to, input.progress == WorkProgress::Fails);
            }
            (WorkProgress::Ends, Audience::Many(_)) => {}
            _ => self.receipts.record(input, &path, now),
        }
        closed
    }

    /// The limits for a message. Each time that its circuit tripped within the window, a quarter of
    /// the messages without progress remains.
    fn limits(&self, input: &BreakerInput<'_>, opens: bool, now: Now) -> Cow<'_, BreakerSettings> {
        let key = match opens {
            true => input.pair(None),
            false => CircuitKey::Correlation(input.correlation),
        };
        match self.past_trips(&key, now) {
            0 => Cow::Borrowed(&self.settings),
            trips => {
                let max_turns = self.settings.max_turns >> (2 * trips).min(31);
                Cow::Owned(BreakerSettings { max_turns, ..self.settings.clone() })
            }
        }
    }

    fn past_trips(&self, key: &CircuitKey, now: Now) -> u32 {
        if self.past.len() == 0 {
            return 0;
        }
        let past = self.past.peek(key);
        past.filter(|past| now.uptime.saturating_sub(past.closed) < self.settings.window)
            .map_or(0, |past| past.trips)
    }

    /// The progress that counts: the end of a task, but not the third failure in a row between two
    /// agents, nor the 21st verdict or end of one task; and its first few state changes.
    fn counted(&self, input: &BreakerInput<'_>, now: Now) -> WorkProgress {
        let counts = match input.progress {
            WorkProgress::Ends => self.progress.counts(input),
            WorkProgress::Fails => {
                self.progress.counts(input) && self.pairs.is_early_failure(input)
            }
            _ => return self.counted_moves(input, now),
        };
        if counts { WorkProgress::Ends } else { WorkProgress::Declines }
    }

    fn counted_moves(&self, input: &BreakerInput<'_>, now: Now) -> WorkProgress {
        match input.progress {
            WorkProgress::Moves if !self.conversations.is_free(input, &self.settings, now) => {
                WorkProgress::None
            }
            progress => progress,
        }
    }

    /// The path of the message that led to this one, and whether this one begins a conversation as
    /// far as its sender is concerned.
    fn path_before(&self, input: &BreakerInput<'_>, is_repeat: bool, now: Now) -> (Path, bool) {
        if let Some(path) = self.conversations.path_to(input, &self.settings, now) {
            return (path, false);
        }
        if !self.conversations.opens(input, &self.settings, now) {
            return (Path::EMPTY, false);
        }
        (self.receipts.path_to(input, is_repeat, now), true)
    }

    /// The circuits that may stop a message.
    fn keys(&self, input: &BreakerInput<'_>, is_repeat: bool, now: Now) -> Vec<CircuitKey> {
        let opens = self.conversations.opens(input, &self.settings, now);
        let (equal, any) = (input.pair(Some(input.content)), input.pair(None));
        let loops = self.loops.get(input.from).into_iter().flatten();
        let others = loops
            .filter(|key| **key != equal && **key != any)
            .filter(|key| self.applies(input, key, opens, is_repeat))
            .cloned();
        let any = Some(&any).filter(|key| self.applies(input, key, opens, is_repeat)).cloned();
        [CircuitKey::Correlation(input.correlation), equal.clone()]
            .into_iter()
            .chain(any)
            .chain(others)
            .collect()
    }

    /// Whether a circuit is about this message, besides equal ones. That of a repeated loop is about
    /// repeated texts, that of a long loop about any, both in new conversations among its
    /// participants; that of unanswered status updates is about those.
    fn applies(
        &self,
        input: &BreakerInput<'_>,
        key: &CircuitKey,
        opens: bool,
        is_repeat: bool,
    ) -> bool {
        let Some(tracked) = self.circuits.get(key) else { return false };
        match tracked.circuit.reason {
            TripReason::Loop => opens && is_repeat && self.is_within(input, key),
            TripReason::Repeated => pairs::is_chatter(input) && *key == input.pair(None),
            TripReason::TooLong | TripReason::TooDeep => opens && self.is_within(input, key),
            TripReason::Manual => *key == input.pair(None),
        }
    }

    /// Whether the sender and the recipient take part in the loop that this circuit stopped.
    fn is_within(&self, input: &BreakerInput<'_>, key: &CircuitKey) -> bool {
        self.circuits.get(key).is_some_and(|tracked| {
            let participants = &tracked.circuit.participants;
            let takes_part = |agent: &AgentId| participants.binary_search(agent).is_ok();
            takes_part(input.from) && input.to.one().is_none_or(takes_part)
        })
    }

    /// Opens a circuit: one from [`BreakerDecision::Trips`], or one restored after a restart.
    ///
    /// Resets its counters: in half-open state only progress counts. Returns the circuits evicted
    /// for it.
    pub fn trip(&mut self, circuit: Circuit) -> Vec<CircuitKey> {
        self.forget(&circuit.key, &circuit.participants);
        self.remove(&circuit.key);
        if matches!(circuit.key, CircuitKey::Pair { .. })
            && matches!(circuit.reason, TripReason::Loop | TripReason::TooLong)
        {
            for agent in &circuit.participants {
                self.loops.entry(agent.clone()).or_default().push(circuit.key.clone());
            }
        }
        self.circuits.insert(circuit.key.clone(), TrackedCircuit { circuit, probed: 0 });
        let mut gone = Vec::new();
        while self.circuits.len() > self.settings.max_circuits.max(1) {
            // The one with the least time left goes first: half-open before open, opened by hand
            // last.
            let order =
                |tracked: &TrackedCircuit| (tracked.circuit.until.is_none(), tracked.circuit.until);
            let first = self.circuits.iter().min_by_key(|(_, tracked)| order(tracked));
            let Some(key) = first.map(|(key, _)| key.clone()) else { break };
            self.remove(&key);
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
            self.remove(key);
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
        let circuit = self.remove(key).map(|tracked| tracked.circuit);
        let participants = circuit.as_ref().map_or(&[][..], |circuit| &circuit.participants);
        self.forget(key, participants);
        self.past.remove(key);
        circuit
    }

    fn remove(&mut self, key: &CircuitKey) -> Option<TrackedCircuit> {
        let tracked = self.circuits.remove(key)?;
        for agent in &tracked.circuit.participants {
            if let Some(keys) = self.loops.get_mut(agent) {
                keys.retain(|other| other != key);
                if keys.is_empty() {
                    self.loops.remove(agent);
                }
            }
        }
        Some(tracked)
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

    fn try_circuits(
        &mut self,
        input: &BreakerInput<'_>,
        is_repeat: bool,
        now: Now,
    ) -> Option<CircuitKey> {
        if self.circuits.is_empty() {
            return None;
        }
        let closed = self
            .keys(input, is_repeat, now)
            .into_iter()
            .find(|key| self.closes(key, input, now))?;
        self.close(&closed, now);
        Some(closed)
    }

    /// Whether an admitted message closes this circuit; otherwise it was a probe.
    ///
    /// Only progress of the participants counts: other work in the conversation excuses no loop.
    fn closes(&mut self, key: &CircuitKey, input: &BreakerInput<'_>, now: Now) -> bool {
        let is_progress = matches!(input.progress, WorkProgress::Moves | WorkProgress::Ends)
            && self.is_within(input, key);
        let Some(tracked) = self.circuits.get_mut(key) else { return false };
        let manual = tracked.circuit.reason == TripReason::Manual;
        if manual || tracked.circuit.state(now) == CircuitState::Open {
            return false;
        }
        tracked.probed = tracked.probed.saturating_add(1);
        is_progress || tracked.circuit.lapsed(self.settings.window, now)
    }

    fn close(&mut self, key: &CircuitKey, now: Now) {
        let Some(tracked) = self.remove(key) else { return };
        self.forget(key, &tracked.circuit.participants);
        if !tracked.circuit.lapsed(self.settings.window, now) {
            let past = PastTrips { trips: tracked.circuit.trips, closed: now.uptime };
            self.past.insert(key.clone(), past);
        }
    }

    /// Resets the counters of a circuit.
    fn forget(&mut self, key: &CircuitKey, participants: &[AgentId]) {
        match key {
            CircuitKey::Correlation(id) => {
                self.conversations.forget(id);
                for agent in participants {
                    self.receipts.forget_conversation(agent, *id);
                }
            }
            CircuitKey::Pair { from, to, content } => {
                self.pairs.forget(from, to.as_ref(), *content);
                for agent in participants {
                    self.receipts.forget(agent);
                }
            }
        }
    }

    fn opened(&self, key: CircuitKey, found: Finding, now: Now) -> Circuit {
        let trips = self.past_trips(&key, now).saturating_add(1);
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
