//! Loop detection within one conversation.
//!
//! Each message has a causal path: the agents whose sends led to it. Only a message that follows a
//! received one lengthens the path; further messages by the same agent do not, and neither do
//! reports to the requester. A message closes a loop when its sender and recipient are adjacent on
//! its path as often as `rounds` allows.
//!
//! Ledger progress resets counters. A message that ends a task resets the whole conversation. A
//! message that only changes a task's state is exempt: it has no path and does not count as a turn.
//! It resets the path between the two agents, but not the path of the request itself. Otherwise a
//! ring that accepts each task before it delegates it would never be stopped.

use std::collections::HashMap;
use std::time::Duration;

use a2a_protocol::{AgentId, Kind, TaskId};
use lru::DefaultHasher;

use super::path::Path;
use super::{BreakerInput, BreakerSettings, Finding, TripReason, WorkProgress};
use crate::{Audience, Now};

/// State changes of one task that are free; more of them do not evade detection.
const FREE_MOVES: u8 = 5;
/// Tasks of one conversation with free state changes, until one ends.
const MAX_TASKS: usize = 256;
/// Agents tracked in one conversation; messages of further agents pass unchecked.
const MAX_PARTICIPANTS: usize = 16_384;

/// One conversation since a task last ended in it.
#[derive(Default)]
pub(super) struct Conversation {
    participants: HashMap<AgentId, Participant, DefaultHasher>,
    /// The latest fan-out and the latest request as a fan-out: one entry for all recipients.
    last_fan_out: Option<FanOut>,
    last_request_fan_out: Option<FanOut>,
    /// The number of agents in the largest fan-out, including its sender.
    largest_fan_out: usize,
    turns: u32,
    /// Whether a task ended before.
    ended: bool,
    moves: HashMap<Option<TaskId>, u8, DefaultHasher>,
    /// Counts messages, for their order.
    tick: u64,
    last: Duration,
}

/// What one agent received and sent in a conversation; ticks are 0 for never.
#[derive(Default)]
struct Participant {
    received: Path,
    received_at: u64,
    request_path: Path,
    request_received_at: u64,
    sent_at: u64,
    requested_at: u64,
    moved_at: u64,
    fan_outs: u32,
}

/// A fan-out, received by every agent except its sender.
struct FanOut {
    by: AgentId,
    path: Path,
    at: u64,
}

impl Conversation {
    /// A conversation that began with this message, from one agent to another.
    pub(super) fn begun(
        from: &AgentId,
        to: &AgentId,
        kind: Kind,
        at: Duration,
        settings: &BreakerSettings,
    ) -> Self {
        let mut conversation = Self { tick: 1, last: at, ..Self::default() };
        conversation.deliver(from, Audience::One(to), kind, settings);
        conversation
    }

    /// A conversation in which a task has just ended: empty, but not new.
    pub(super) fn ended(at: Duration) -> Self {
        Self { ended: true, last: at, ..Self::default() }
    }

    pub(super) fn last(&self) -> Duration {
        self.last
    }

    pub(super) fn participants(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.participants.keys()
    }

    /// Whether no task ended in it, and `agent` received nothing.
    pub(super) fn is_new_to(&self, agent: &AgentId) -> bool {
        !self.ended && self.received_at(agent) == 0
    }

    pub(super) fn detect_loop(
        &self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
    ) -> Option<Finding> {
        if self.is_free(input) {
            return None;
        }
        let (from, path) = (input.from, self.path_to(input.from, input.kind));
        let to = input.to.one();
        let found = |reason, evidence| {
            let agents = path.agents().chain([from]).chain(to);
            Some(Finding::new(reason, evidence, agents))
        };
        if self.is_loop(input, path, settings.rounds()) {
            let route = path.describe(from, to);
            let evidence = format!("{route}: {} messages without progress", path.len() + 1);
            return found(TripReason::Loop, evidence);
        }
        let depth = path.depth_with(from);
        if depth > settings.max_hops() {
            let route = path.describe(from, to);
            let allowed = settings.max_hops;
            let evidence = format!("{route}: handed on {depth} times, {allowed} are allowed");
            return found(TripReason::TooDeep, evidence);
        }
        let allowed = settings.max_turns.saturating_add(3 * self.participant_count());
        if self.turns >= allowed && self.is_turn(from) {
            let route = path.describe(from, to);
            let evidence = format!("{route}: {allowed} turns in which no task ended");
            let agents = self.participants.keys();
            return Some(Finding::new(TripReason::TooLong, evidence, agents));
        }
        None
    }

    /// Whether the message repeats a hop of its own path as often as `rounds`.
    ///
    /// A fan-out has no single recipient, so its sender must be on the path that often. One time
    /// less is enough if the sender fanned out that often: when several agents echo each other at
    /// once, each receives only the latest message, and the path misses the others.
    fn is_loop(&self, input: &BreakerInput<'_>, path: &Path, rounds: u32) -> bool {
        let from = input.from;
        match input.to {
            Audience::One(to) => path.rounds_of(from, to) >= rounds,
            Audience::Many(_) => {
                let sends = path.sends_of(from);
                let fan_outs =
                    self.participants.get(from).map_or(0, |participant| participant.fan_outs);
                sends >= rounds || (sends >= 1 && sends + 1 >= rounds && fan_outs >= rounds)
            }
        }
    }

    /// The path that led `from` to send: for a request the path of the request it received, if its
    /// own earlier requests made progress; otherwise the path of what it received last.
    ///
    /// An agent that delegates task after task while reports arrive is a coordinator at work. An
    /// agent whose requests cause nothing but messages is not.
    fn path_to(&self, from: &AgentId, kind: Kind) -> &Path {
        static NOTHING: Path = Path::EMPTY;
        let participant = self.participants.get(from);
        let made_progress =
            participant.is_some_and(|participant| participant.moved_at > participant.requested_at);
        let (own, fan_out) = if kind == Kind::TaskRequest && made_progress {
            (
                participant.map(|participant| {
                    (&participant.request_path, participant.request_received_at)
                }),
                &self.last_request_fan_out,
            )
        } else {
            (
                participant.map(|participant| (&participant.received, participant.received_at)),
                &self.last_fan_out,
            )
        };
        let (path, at) = own.unwrap_or((&NOTHING, 0));
        let fan_out = fan_out.as_ref().filter(|fan_out| fan_out.by != *from && fan_out.at > at);
        fan_out.map_or(path, |fan_out| &fan_out.path)
    }

    /// Whether `from` received anything since it last sent.
    fn is_turn(&self, from: &AgentId) -> bool {
        self.received_at(from)
            > self.participants.get(from).map_or(0, |participant| participant.sent_at)
    }

    fn received_at(&self, agent: &AgentId) -> u64 {
        let fan_out = self.last_fan_out.as_ref().filter(|fan_out| fan_out.by != *agent);
        let own = self.participants.get(agent).map_or(0, |participant| participant.received_at);
        own.max(fan_out.map_or(0, |fan_out| fan_out.at))
    }

    fn is_free(&self, input: &BreakerInput<'_>) -> bool {
        input.progress == WorkProgress::Moves
            && match self.moves.get(&input.task) {
                Some(moves) => *moves < FREE_MOVES,
                None => self.moves.len() < MAX_TASKS,
            }
    }

    fn participant_count(&self) -> u32 {
        u32::try_from(self.participants.len().max(self.largest_fan_out))
            .unwrap_or(u32::MAX / 3)
            .min(u32::MAX / 3)
    }

    pub(super) fn record(
        &mut self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        self.last = now.uptime;
        self.tick += 1;
        let free = self.is_free(input);
        if free {
            *self.moves.entry(input.task).or_default() += 1;
            self.record_progress(input);
        } else {
            self.turns = self.turns.saturating_add(u32::from(self.is_turn(input.from)));
            self.deliver(input.from, input.to, input.kind, settings);
        }
        free
    }

    /// A task changed state: resets the paths between both agents.
    fn record_progress(&mut self, input: &BreakerInput<'_>) {
        let at = self.tick;
        for agent in [Some(input.from), input.to.one()].into_iter().flatten() {
            if let Some(participant) = self.participants.get_mut(agent) {
                participant.received = participant.request_path.clone();
                participant.received_at = at;
                // The next message is no turn, since nothing was received after this one.
                participant.sent_at = at;
            }
        }
        if let Some(participant) = input.to.one().and_then(|to| self.participants.get_mut(to)) {
            participant.moved_at = at;
        }
    }

    fn deliver(
        &mut self,
        from: &AgentId,
        to: Audience<'_>,
        kind: Kind,
        settings: &BreakerSettings,
    ) {
        let at = self.tick;
        let before = self.path_to(from, kind).clone();
        let path = before.then(from, settings.longest_path(settings.rounds()));
        let asks = kind == Kind::TaskRequest;
        let is_fan_out = to.one().is_none();
        if let Some(sender) = self.participant(from) {
            sender.sent_at = at;
            if asks {
                sender.requested_at = at;
            }
            if is_fan_out {
                // The fan-out it received so far is about to be overwritten for all agents.
                sender.received = before;
                sender.fan_outs = sender.fan_outs.saturating_add(1);
            }
        }
        match to {
            Audience::One(to) => {
                if let Some(participant) = self.participant(to) {
                    if asks {
                        (participant.request_path, participant.request_received_at) =
                            (path.clone(), at);
                    }
                    (participant.received, participant.received_at) = (path, at);
                }
            }
            Audience::Many(recipients) => {
                self.largest_fan_out = self.largest_fan_out.max(recipients.saturating_add(1));
                if asks {
                    self.last_request_fan_out =
                        Some(FanOut { by: from.clone(), path: path.clone(), at });
                }
                self.last_fan_out = Some(FanOut { by: from.clone(), path, at });
            }
        }
    }

    fn participant(&mut self, agent: &AgentId) -> Option<&mut Participant> {
        if !self.participants.contains_key(agent) {
            if self.participants.len() >= MAX_PARTICIPANTS {
                return None;
            }
            self.participants.insert(agent.clone(), Participant::default());
        }
        self.participants.get_mut(agent)
    }
}
