//! Loop detection within one conversation.
//!
//! Each message has a causal path: the agents whose sends led to it. Only a message that follows a
//! received one lengthens the path; further messages by the same agent do not, and neither do
//! reports to the requester. A message closes a loop when its sender and recipient are adjacent on
//! its path as often as `rounds` allows: at once if they repeated their texts, and after
//! `max_turns` messages if the texts were new.
//!
//! Ledger progress resets the path of the agent that asked for the work, and no other. What remains
//! is the path of the request itself. Otherwise a ring that completes each task before it requests
//! the next would never be stopped. A message that only changes a task's state does not count as a
//! turn.

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

/// One conversation.
#[derive(Default)]
pub(super) struct Conversation {
    participants: HashMap<AgentId, Participant, DefaultHasher>,
    /// The latest fan-out and the latest request as a fan-out: one entry for all recipients.
    last_fan_out: Option<FanOut>,
    last_request_fan_out: Option<FanOut>,
    /// The number of agents in the largest fan-out, including its sender.
    largest_fan_out: usize,
    /// Turns since a task last ended.
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
    /// Its fan-outs with nearly the same text as an earlier one.
    repeated_fan_outs: u32,
}

/// A fan-out, received by every agent except its sender.
struct FanOut {
    by: AgentId,
    path: Path,
    at: u64,
}

impl Conversation {
    /// A conversation that began with a message from one agent to another, sent on this path.
    pub(super) fn begun(
        from: &AgentId,
        to: &AgentId,
        kind: Kind,
        path: &Path,
        at: Duration,
    ) -> Self {
        let mut conversation = Self { tick: 1, last: at, ..Self::default() };
        conversation.deliver(from, Audience::One(to), kind, path, false);
        conversation
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

    /// The limit that this message exceeds, if any. `before` is the path of the message that led to
    /// it.
    pub(super) fn detect_loop(
        &self,
        input: &BreakerInput<'_>,
        before: &Path,
        is_repeat: bool,
        settings: &BreakerSettings,
    ) -> Option<Finding> {
        if self.is_free(input) {
            return None;
        }
        let repeated_fan_outs = self
            .participants
            .get(input.from)
            .map_or(0, |participant| participant.repeated_fan_outs);
        let found = detect_loop(input, before, is_repeat, repeated_fan_outs, settings)
            .or_else(|| detect_depth(input, before, settings));
        if let Some(found) = found {
            return Some(found);
        }
        let allowed = settings.max_turns.saturating_add(3 * self.participant_count());
        if self.turns >= allowed && self.is_turn(input.from) {
            let route = before.describe(input.from, input.to.one());
            let evidence = format!("{route}: {allowed} turns in which no task ended");
            let agents = self.participants.keys();
            return Some(Finding::new(TripReason::TooLong, evidence, agents));
        }
        None
    }

    /// The path of the message that led `from` to send: for a request the path of the request it
    /// received, if its own earlier requests made progress; otherwise the path of what it received
    /// last. `None` if it received nothing in this conversation.
    ///
    /// An agent that delegates task after task while reports arrive is a coordinator at work. An
    /// agent whose requests cause nothing but messages is not.
    pub(super) fn path_to(&self, from: &AgentId, kind: Kind) -> Option<&Path> {
        let participant = self.participants.get(from);
        let made_progress =
            participant.is_some_and(|participant| participant.moved_at > participant.requested_at);
        if !made_progress && self.received_at(from) == 0 {
            return None;
        }
        static NOTHING: Path = Path::EMPTY;
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
        Some(fan_out.map_or(path, |fan_out| &fan_out.path))
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

    pub(super) fn is_free(&self, input: &BreakerInput<'_>) -> bool {
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

    /// Counts an admitted message with its path, which ends with this message.
    pub(super) fn record(
        &mut self,
        input: &BreakerInput<'_>,
        path: &Path,
        is_repeat: bool,
        now: Now,
    ) {
        self.last = now.uptime;
        self.tick += 1;
        if self.is_free(input) {
            *self.moves.entry(input.task).or_default() += 1;
            self.record_progress(input);
            return;
        }
        if input.progress == WorkProgress::Ends {
            self.ended = true;
            self.turns = 0;
            self.moves.remove(&input.task);
            self.record_progress(input);
            return;
        }
        self.turns = self.turns.saturating_add(u32::from(self.is_turn(input.from)));
        self.deliver(input.from, input.to, input.kind, path, is_repeat);
        if input.progress == WorkProgress::Declines
            && let Some(asker) = input.to.one().and_then(|to| self.participants.get_mut(to))
        {
            // Its request led to nothing, whatever state the task had before.
            asker.moved_at = 0;
        }
    }

    /// A task changed state or ended: what its requester received last is that, on the path of the
    /// request that the requester itself received. Paths of other messages remain.
    fn record_progress(&mut self, input: &BreakerInput<'_>) {
        let at = self.tick;
        if let Some(sender) = self.participants.get_mut(input.from) {
            sender.sent_at = at;
        }
        if let Some(asker) = input.to.one().and_then(|to| self.participants.get_mut(to)) {
            asker.received = asker.request_path.clone();
            asker.received_at = at;
            // The next message is no turn, since nothing was received after this one.
            asker.sent_at = at;
            asker.moved_at = at;
        }
    }

    fn deliver(
        &mut self,
        from: &AgentId,
        to: Audience<'_>,
        kind: Kind,
        path: &Path,
        is_repeat: bool,
    ) {
        let at = self.tick;
        let before = self.path_to(from, kind).cloned();
        let asks = kind == Kind::TaskRequest;
        let is_fan_out = to.one().is_none();
        if let Some(sender) = self.participant(from) {
            sender.sent_at = at;
            if asks {
                sender.requested_at = at;
            }
            if is_fan_out {
                // The fan-out it received so far is about to be overwritten for all agents.
                sender.received = before.unwrap_or(Path::EMPTY);
                sender.repeated_fan_outs =
                    sender.repeated_fan_outs.saturating_add(u32::from(is_repeat));
            }
        }
        match to {
            Audience::One(to) => {
                if let Some(participant) = self.participant(to) {
                    if asks {
                        participant.request_path = path.clone();
                        participant.request_received_at = at;
                    }
                    participant.received = path.clone();
                    participant.received_at = at;
                }
            }
            Audience::Many(recipients) => {
                self.largest_fan_out = self.largest_fan_out.max(recipients.saturating_add(1));
                let fan_out = |by: &AgentId| FanOut { by: by.clone(), path: path.clone(), at };
                if asks {
                    self.last_request_fan_out = Some(fan_out(from));
                }
                self.last_fan_out = Some(fan_out(from));
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

/// The loop that a message closes on the path that led to it, if any.
pub(super) fn detect_loop(
    input: &BreakerInput<'_>,
    before: &Path,
    is_repeat: bool,
    repeated_fan_outs: u32,
    settings: &BreakerSettings,
) -> Option<Finding> {
    let (from, to, rounds) = (input.from, input.to.one(), settings.rounds());
    let found = |reason, evidence| {
        let agents = before.agents().chain([from]).chain(to);
        Some(Finding::new(reason, evidence, agents))
    };
    let messages = before.total().saturating_add(1);
    if is_repeat && is_repeated_loop(input, before, repeated_fan_outs, rounds) {
        let route = before.describe(from, to);
        return found(TripReason::Loop, format!("{route}: {messages} messages without progress"));
    }
    // A round of requests is at least twice as many messages.
    let allowed = match input.kind {
        Kind::TaskRequest => settings.max_turns / 2,
        _ => settings.max_turns,
    };
    let rounds_of = || match to {
        Some(to) => before.rounds_of(from, to),
        None => before.sends_of(from),
    };
    if before.total() >= allowed && rounds_of() >= rounds {
        let route = before.describe(from, to);
        let evidence = format!(
            "{route}: {messages} messages, each the answer to the one before, without progress"
        );
        return found(TripReason::TooLong, evidence);
    }
    None
}

/// Whether work was delegated too deep on the path that led to a message.
pub(super) fn detect_depth(
    input: &BreakerInput<'_>,
    before: &Path,
    settings: &BreakerSettings,
) -> Option<Finding> {
    let (from, to) = (input.from, input.to.one());
    let allowed = settings.max_hops();
    if before.depth() < allowed {
        return None;
    }
    let depth = before.depth_with(from);
    if depth <= allowed {
        return None;
    }
    let route = before.describe(from, to);
    let evidence = format!("{route}: handed on {depth} times, {allowed} are allowed");
    Some(Finding::new(TripReason::TooDeep, evidence, before.agents().chain([from]).chain(to)))
}

/// Whether the message repeats a hop of its own path as often as `rounds`, with nearly the same
/// text each time.
///
/// A fan-out has no single recipient, so its sender must be on the path that often. One time less is
/// enough if the sender repeated its fan-out that often: when several agents echo each other at
/// once, each receives only the latest message, and the path misses the others.
fn is_repeated_loop(
    input: &BreakerInput<'_>,
    before: &Path,
    repeated_fan_outs: u32,
    rounds: u32,
) -> bool {
    let from = input.from;
    match input.to {
        Audience::One(to) => before.repeats_of(from, to) >= rounds,
        Audience::Many(_) => {
            let sends = before.repeated_sends_of(from);
            sends >= rounds || (sends >= 1 && sends + 1 >= rounds && repeated_fan_outs >= rounds)
        }
    }
}
