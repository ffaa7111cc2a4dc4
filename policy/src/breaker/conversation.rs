//! What one conversation tells about loops.
//!
//! Each message has a causal path: the agents whose sends led to it. Saying more without
//! having heard anything does not lengthen it, nor does a report to whoever asked; only
//! answering what one heard does. A message whose sender and recipient are already next to
//! each other on its path as often as there are rounds closes a loop.
//!
//! Ledger progress counts for the conversation. A message that ends a task forgets all of it.
//! One that merely moves a task is free: it leads to nothing and is no turn, and the talk
//! that led up to it is forgotten between the two, but not the path of the request itself;
//! or a ring that accepts every task before it hands it on would never be cut.

use std::collections::HashMap;
use std::time::Duration;

use a2a_protocol::{AgentId, Kind, TaskId};
use lru::DefaultHasher;

use super::path::Path;
use super::{BreakerSettings, Finding, Passage, Progress, To, TripReason};
use crate::Now;

/// How many moves of one task are free: flipping it to and fro is no way out.
const FREE_MOVES: u8 = 5;
/// How many tasks of one conversation have free moves, until something ends.
const MAX_TASKS: usize = 256;
/// How many agents one conversation is followed with; more are let pass unseen.
const MAX_PEOPLE: usize = 16_384;

/// One conversation since its last end of a task.
#[derive(Default)]
pub(super) struct Conversation {
    people: HashMap<AgentId, Person, DefaultHasher>,
    /// What everyone heard last, and was asked last: one entry, however many recipients.
    everyone: Option<Shout>,
    everyone_asked: Option<Shout>,
    /// The most recipients of one fan-out.
    crowd: usize,
    turns: u32,
    /// Whether a task ended before.
    ended: bool,
    moves: HashMap<Option<TaskId>, u8, DefaultHasher>,
    /// Counts messages, to tell what came after what.
    tick: u64,
    last: Duration,
}

/// What one agent heard and did in a conversation; ticks are 0 for never.
#[derive(Default)]
struct Person {
    heard: Path,
    heard_at: u64,
    asked: Path,
    asked_at: u64,
    sent_at: u64,
    requested_at: u64,
    moved_at: u64,
    shouts: u32,
}

/// A fan-out, as everyone but its sender heard it.
struct Shout {
    by: AgentId,
    path: Path,
    at: u64,
}

impl Conversation {
    /// One that began with this message, from one agent to another.
    pub(super) fn begun(
        from: &AgentId,
        to: &AgentId,
        kind: Kind,
        at: Duration,
        settings: &BreakerSettings,
    ) -> Self {
        let mut conversation = Self { tick: 1, last: at, ..Self::default() };
        conversation.deliver(from, To::One(to), kind, settings);
        conversation
    }

    /// One in which a task has just ended: nothing is known, but it is not new.
    pub(super) fn ended(at: Duration) -> Self {
        Self { ended: true, last: at, ..Self::default() }
    }

    pub(super) fn last(&self) -> Duration {
        self.last
    }

    pub(super) fn people(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.people.keys()
    }

    /// Whether no task ended in it, and `agent` heard nothing.
    pub(super) fn is_news_to(&self, agent: &AgentId) -> bool {
        !self.ended && self.heard_at(agent) == 0
    }

    pub(super) fn finding(
        &self,
        passage: &Passage<'_>,
        settings: &BreakerSettings,
    ) -> Option<Finding> {
        if self.is_free(passage) {
            return None;
        }
        let (from, path) = (passage.from, self.path_to(passage.from, passage.kind));
        let to = passage.to.one();
        let found = |reason, evidence| {
            let agents = path.agents().chain([from]).chain(to);
            Some(Finding::new(reason, evidence, agents))
        };
        if self.is_loop(passage, path, settings.rounds()) {
            let way = path.describe(from, to);
            let evidence = format!("{way}: {} messages without progress", path.len() + 1);
            return found(TripReason::Loop, evidence);
        }
        let depth = path.depth_with(from);
        if depth > settings.max_hops() {
            let way = path.describe(from, to);
            let allowed = settings.max_hops;
            let evidence = format!("{way}: handed on {depth} times, {allowed} are allowed");
            return found(TripReason::TooDeep, evidence);
        }
        let allowed = settings.max_turns.saturating_add(3 * self.participants());
        if self.turns >= allowed && self.is_turn(from) {
            let way = path.describe(from, to);
            let evidence = format!("{way}: {allowed} turns in which no task ended");
            let agents = self.people.keys();
            return Some(Finding::new(TripReason::TooLong, evidence, agents));
        }
        None
    }

    /// Whether this message goes where its own path has been as often as there are rounds.
    ///
    /// A fan-out goes to everybody, so its sender need only be on its path that often; or once
    /// less, if it fanned out that often: of several who echo each other at once, each hears
    /// only the latest, and the path misses the rest.
    fn is_loop(&self, passage: &Passage<'_>, path: &Path, rounds: u32) -> bool {
        let from = passage.from;
        match passage.to {
            To::One(to) => path.rounds_of(from, to) >= rounds,
            To::Many(_) => {
                let sends = path.sends_of(from);
                let shouts = self.people.get(from).map_or(0, |person| person.shouts);
                sends >= rounds || (sends >= 1 && sends + 1 >= rounds && shouts >= rounds)
            }
        }
    }

    /// What led `from` to send: for a request whatever it was asked, if its earlier requests
    /// were taken up; otherwise whatever it heard.
    ///
    /// Somebody who hands out task after task while reports come in is a boss at work. Somebody
    /// whose requests come back as nothing but talk is not.
    fn path_to(&self, from: &AgentId, kind: Kind) -> &Path {
        static NOTHING: Path = Path::EMPTY;
        let person = self.people.get(from);
        let taken_up = person.is_some_and(|person| person.moved_at > person.requested_at);
        let (own, shout) = if kind == Kind::TaskRequest && taken_up {
            (person.map(|person| (&person.asked, person.asked_at)), &self.everyone_asked)
        } else {
            (person.map(|person| (&person.heard, person.heard_at)), &self.everyone)
        };
        let (path, at) = own.unwrap_or((&NOTHING, 0));
        let shout = shout.as_ref().filter(|shout| shout.by != *from && shout.at > at);
        shout.map_or(path, |shout| &shout.path)
    }

    /// Whether `from` has heard anything since it last sent.
    fn is_turn(&self, from: &AgentId) -> bool {
        self.heard_at(from) > self.people.get(from).map_or(0, |person| person.sent_at)
    }

    fn heard_at(&self, agent: &AgentId) -> u64 {
        let shout = self.everyone.as_ref().filter(|shout| shout.by != *agent);
        let own = self.people.get(agent).map_or(0, |person| person.heard_at);
        own.max(shout.map_or(0, |shout| shout.at))
    }

    fn is_free(&self, passage: &Passage<'_>) -> bool {
        passage.progress == Progress::Moves
            && match self.moves.get(&passage.task) {
                Some(moves) => *moves < FREE_MOVES,
                None => self.moves.len() < MAX_TASKS,
            }
    }

    fn participants(&self) -> u32 {
        u32::try_from(self.people.len().max(self.crowd)).unwrap_or(u32::MAX / 3).min(u32::MAX / 3)
    }

    pub(super) fn take(
        &mut self,
        passage: &Passage<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        self.last = now.uptime;
        self.tick += 1;
        let free = self.is_free(passage);
        if free {
            *self.moves.entry(passage.task).or_default() += 1;
            self.take_up(passage);
        } else {
            self.turns = self.turns.saturating_add(u32::from(self.is_turn(passage.from)));
            self.deliver(passage.from, passage.to, passage.kind, settings);
        }
        free
    }

    /// A task was taken up or moved on: both sides forget the talk about it.
    fn take_up(&mut self, passage: &Passage<'_>) {
        let at = self.tick;
        for agent in [Some(passage.from), passage.to.one()].into_iter().flatten() {
            if let Some(person) = self.people.get_mut(agent) {
                person.heard = person.asked.clone();
                person.heard_at = at;
                // Nothing was heard that would make the next message a turn.
                person.sent_at = at;
            }
        }
        if let Some(person) = passage.to.one().and_then(|to| self.people.get_mut(to)) {
            person.moved_at = at;
        }
    }

    fn deliver(&mut self, from: &AgentId, to: To<'_>, kind: Kind, settings: &BreakerSettings) {
        let at = self.tick;
        let before = self.path_to(from, kind).clone();
        let path = before.then(from, settings.longest_path(settings.rounds()));
        let asks = kind == Kind::TaskRequest;
        let shouts = to.one().is_none();
        if let Some(sender) = self.person(from) {
            sender.sent_at = at;
            if asks {
                sender.requested_at = at;
            }
            if shouts {
                // What it heard from everyone so far is about to be overwritten for all others.
                sender.heard = before;
                sender.shouts = sender.shouts.saturating_add(1);
            }
        }
        match to {
            To::One(to) => {
                if let Some(person) = self.person(to) {
                    if asks {
                        (person.asked, person.asked_at) = (path.clone(), at);
                    }
                    (person.heard, person.heard_at) = (path, at);
                }
            }
            To::Many(recipients) => {
                self.crowd = self.crowd.max(recipients.saturating_add(1));
                if asks {
                    self.everyone_asked = Some(Shout { by: from.clone(), path: path.clone(), at });
                }
                self.everyone = Some(Shout { by: from.clone(), path, at });
            }
        }
    }

    fn person(&mut self, agent: &AgentId) -> Option<&mut Person> {
        if !self.people.contains_key(agent) {
            if self.people.len() >= MAX_PEOPLE {
                return None;
            }
            self.people.insert(agent.clone(), Person::default());
        }
        self.people.get_mut(agent)
    }
}
