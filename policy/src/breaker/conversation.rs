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

use a2a_protocol::{AgentId, CorrelationId, Kind, TaskId};
use lru::DefaultHasher;

use super::path::Path;
use super::recent::Recent;
use super::{BreakerSettings, Finding, Passage, Progress, To, TripReason};
use crate::Now;

/// How many moves of one task are free: flipping it to and fro is no way out.
const FREE_MOVES: u8 = 5;
/// How many tasks of one conversation have free moves, until something ends.
const MAX_TASKS: usize = 256;
/// How many agents one conversation is followed with; more are let pass unseen.
const MAX_PEOPLE: usize = 16_384;
/// How many agents are remembered altogether, for each conversation that may be.
const PEOPLE_EACH: usize = 8;

/// The conversations heard of lately.
pub(super) struct Conversations {
    recent: Recent<CorrelationId, Talk>,
    /// Agents in all of them together, and how many there may be.
    people: usize,
    max_people: usize,
}

/// A conversation. Most end after very few messages, so the first one alone costs little.
enum Talk {
    Begun(First),
    Going(Box<Conversation>),
}

/// The only message so far, from one agent to another.
struct First {
    from: AgentId,
    to: AgentId,
    asks: bool,
    at: Duration,
}

impl Talk {
    fn is_idle(&self, window: Duration, now: Now) -> bool {
        let last = match self {
            Self::Begun(first) => first.at,
            Self::Going(conversation) => conversation.last,
        };
        now.uptime.saturating_sub(last) >= window
    }

    fn people(&self) -> usize {
        match self {
            Self::Begun(first) => 1 + usize::from(first.from != first.to),
            Self::Going(conversation) => conversation.people.len(),
        }
    }

    /// Whether a task ended in it, or `agent` heard anything.
    fn is_news_to(&self, agent: &AgentId) -> bool {
        match self {
            Self::Begun(first) => first.to != *agent,
            Self::Going(talk) => !talk.ended && talk.heard_at(agent) == 0,
        }
    }
}

impl First {
    /// The conversation that this message began, with everything it keeps track of.
    fn unfold(&self, settings: &BreakerSettings) -> Conversation {
        let mut conversation = Conversation { tick: 1, last: self.at, ..Conversation::default() };
        let kind = if self.asks { Kind::TaskRequest } else { Kind::StatusUpdate };
        conversation.deliver(&self.from, To::One(&self.to), kind, settings);
        conversation
    }
}

impl Conversations {
    pub(super) fn new(max: usize) -> Self {
        let max_people = max.saturating_mul(PEOPLE_EACH);
        Self { recent: Recent::new(max), people: 0, max_people }
    }

    /// What is wrong with this message, if anything is.
    pub(super) fn finding(
        &self,
        passage: &Passage<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<Finding> {
        match self.recent.peek(&passage.correlation)? {
            talk if talk.is_idle(settings.window, now) => None,
            Talk::Begun(first) => first.unfold(settings).finding(passage, settings),
            Talk::Going(conversation) => conversation.finding(passage, settings),
        }
    }

    /// Whether the sender has heard nothing in this message's conversation, and nothing ended.
    pub(super) fn opens(
        &self,
        passage: &Passage<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        let known = self.recent.peek(&passage.correlation);
        let known = known.filter(|known| !known.is_idle(settings.window, now));
        known.is_none_or(|known| known.is_news_to(passage.from))
    }

    /// Counts an admitted message; says whether it was free.
    pub(super) fn take(
        &mut self,
        passage: &Passage<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        let key = passage.correlation;
        let Some(talk) = self.recent.touch(&key).filter(|talk| !talk.is_idle(settings.window, now))
        else {
            return self.begin(passage, settings, now);
        };
        let before = talk.people();
        let conversation = match talk {
            Talk::Going(conversation) => conversation,
            Talk::Begun(first) => {
                *talk = Talk::Going(Box::new(first.unfold(settings)));
                let Talk::Going(conversation) = talk else { return false };
                conversation
            }
        };
        let free = conversation.take(passage, settings, now);
        self.people += conversation.people.len() - before;
        self.make_room();
        free
    }

    /// Counts the first message of a conversation.
    fn begin(&mut self, passage: &Passage<'_>, settings: &BreakerSettings, now: Now) -> bool {
        let (talk, free) = match (passage.to, passage.progress) {
            (To::One(to), Progress::None) => {
                let asks = passage.kind == Kind::TaskRequest;
                let (from, to) = (passage.from.clone(), to.clone());
                (Talk::Begun(First { from, to, asks, at: now.uptime }), false)
            }
            _ => {
                let mut conversation = Box::<Conversation>::default();
                let free = conversation.take(passage, settings, now);
                (Talk::Going(conversation), free)
            }
        };
        self.insert(passage.correlation, talk);
        self.make_room();
        free
    }

    fn make_room(&mut self) {
        while self.people > self.max_people && self.recent.len() > 1 {
            self.people -= self.recent.pop_oldest().map_or(0, |evicted| evicted.people());
        }
    }

    /// A task ended: the conversation starts afresh, but it is not a new one.
    pub(super) fn end(&mut self, key: CorrelationId, now: Now) {
        let afresh = Conversation { ended: true, last: now.uptime, ..Conversation::default() };
        self.insert(key, Talk::Going(Box::new(afresh)));
    }

    fn insert(&mut self, key: CorrelationId, talk: Talk) {
        self.people += talk.people();
        let replaced_or_evicted = self.recent.insert(key, talk);
        self.people -= replaced_or_evicted.map_or(0, |gone| gone.people());
    }

    pub(super) fn forget(&mut self, key: &CorrelationId) {
        self.people -= self.recent.remove(key).map_or(0, |forgotten| forgotten.people());
    }

    pub(super) fn people_of(&self, key: &CorrelationId) -> impl Iterator<Item = &AgentId> {
        let (pair, all) = match self.recent.peek(key) {
            Some(Talk::Begun(first)) => (Some([&first.from, &first.to]), None),
            Some(Talk::Going(conversation)) => (None, Some(conversation.people.keys())),
            None => (None, None),
        };
        pair.into_iter().flatten().chain(all.into_iter().flatten())
    }

    pub(super) fn len(&self) -> usize {
        self.recent.len()
    }
}

/// One conversation since its last end of a task.
#[derive(Default)]
struct Conversation {
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
    fn finding(&self, passage: &Passage<'_>, settings: &BreakerSettings) -> Option<Finding> {
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

    fn take(&mut self, passage: &Passage<'_>, settings: &BreakerSettings, now: Now) -> bool {
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
