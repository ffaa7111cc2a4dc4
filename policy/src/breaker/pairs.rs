//! Loops that begin a new conversation with every message.
//!
//! Such a loop looks like many short conversations, but each agent in it keeps saying the same
//! to the same. So what is counted is who says what to whom; and what is said for the second
//! time within a window gets a causal path, as messages of one conversation do. Across
//! conversations nobody knows which of the things an agent heard led to what it says, so it
//! remembers a few, and any that shows a way round counts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use a2a_protocol::AgentId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::path::Path;
use super::recent::Recent;
use super::{BreakerSettings, Finding, Passage, To, TripReason};
use crate::Now;

/// Who says what to whom, as one number: names would have to be copied and hashed for every
/// message. The seed is new with every breaker, so nobody can choose words that collide.
struct Names(u64);

impl Names {
    fn new() -> Self {
        Self(RandomState::new().hash_one(0))
    }

    fn said(&self, from: &AgentId, to: Option<&AgentId>, content: u64) -> u64 {
        let to = to.map_or("*", AgentId::as_str);
        // No name holds a space.
        self.sum(&[from.as_str().as_bytes(), b" ", to.as_bytes(), &content.to_le_bytes()])
    }

    fn between(&self, one: &AgentId, other: &AgentId) -> u64 {
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        self.sum(&[first.as_str().as_bytes(), b" ", second.as_str().as_bytes()])
    }

    fn sum(&self, parts: &[&[u8]]) -> u64 {
        // Longer than two names and a number.
        let mut text = [0; 160];
        let mut end = 0;
        for part in parts {
            if let Some(place) = text.get_mut(end..end + part.len()) {
                place.copy_from_slice(part);
                end += part.len();
            }
        }
        xxh3_64_with_seed(&text[..end], self.0)
    }
}

/// Who said what to whom lately.
pub(super) struct Pairs {
    names: Names,
    sent: Recent<u64, Sent>,
    /// When a task last ended between two agents.
    ended: Recent<u64, u64>,
    /// The repeated messages each agent heard, and the repeated fan-outs everyone did.
    heard: Recent<AgentId, Ears>,
    shouts: Ears,
    /// Counts messages, to tell what came after what.
    tick: u64,
}

/// How often one thing was said in the current window.
struct Sent {
    count: u32,
    /// How often if what comes within the gap counts once.
    spaced: u32,
    spaced_at: Duration,
    /// The beginning of the window, and the number of its first and of its latest message.
    since: Duration,
    first: u64,
    latest: u64,
}

/// A few repeated messages that were heard lately, one for each sender and content.
#[derive(Default)]
struct Ears(Vec<Heard>);

struct Heard {
    from: AgentId,
    content: u64,
    path: Path,
    at: u64,
    when: Duration,
}

impl Pairs {
    pub(super) fn new(max: usize) -> Self {
        let (sent, ended) = (Recent::new(max), Recent::new(max));
        let heard = Recent::new(max / Ears::MOST);
        Self { names: Names::new(), sent, ended, heard, shouts: Ears::default(), tick: 0 }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.sent.set_max(max);
        self.ended.set_max(max);
        self.heard.set_max(max / Ears::MOST);
    }

    /// What is wrong with this message, if anything is.
    ///
    /// Only a message that `opens` a conversation can close a loop here: within one, its own
    /// path tells better what is a loop and what is a habit of speech.
    pub(super) fn finding(
        &self,
        passage: &Passage<'_>,
        opens: impl FnOnce() -> bool,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<Finding> {
        let sent = self.sent.peek(&self.key(passage))?;
        if self.is_over(sent, passage, settings, now) {
            return None;
        }
        let (from, to) = (passage.from, passage.to.one());
        if sent.count >= settings.rounds()
            && let Some(heard) = self.led_to(passage, sent.latest, settings, now)
            && heard.leads_to(passage, sent.latest)
            && opens()
        {
            let way = heard.path.describe(from, to);
            let (kind, times) = (passage.kind, sent.count.saturating_add(1));
            let evidence = format!("{way}: the same {kind} {times} times, in new conversations");
            let agents = heard.path.agents().chain([from]).chain(to);
            return Some(Finding::new(TripReason::Loop, evidence, agents));
        }
        if sent.spaced >= settings.repeats.max(1)
            && now.uptime.saturating_sub(sent.spaced_at) >= settings.repeat_gap
        {
            let way = Path::EMPTY.describe(from, to);
            let minutes = now.uptime.saturating_sub(sent.since).as_secs().div_ceil(60);
            let (kind, times) = (passage.kind, sent.count.saturating_add(1));
            let evidence = format!("{way}: the same {kind} {times} times in {minutes} min");
            return Some(Finding::new(
                TripReason::Repeated,
                evidence,
                [from].into_iter().chain(to),
            ));
        }
        None
    }

    /// Counts an admitted message.
    pub(super) fn take(&mut self, passage: &Passage<'_>, settings: &BreakerSettings, now: Now) {
        self.tick += 1;
        let (key, tick) = (self.key(passage), self.tick);
        let Some(sent) = self.sent.peek(&key) else {
            self.sent.insert(key, Sent::first(tick, now));
            return;
        };
        let over = self.is_over(sent, passage, settings, now);
        let Some(sent) = self.sent.touch(&key) else { return };
        let last = sent.latest;
        if over {
            *sent = Sent::first(tick, now);
        } else {
            sent.again(tick, settings, now);
        }
        let before = self.led_to(passage, last, settings, now).map(|heard| &heard.path);
        let path = before.unwrap_or(&Path::EMPTY).then(passage.from, settings.longest_path(1));
        let (from, content) = (passage.from.clone(), passage.content);
        let heard = Heard { from, content, path, at: tick, when: now.uptime };
        match passage.to {
            To::One(to) => match self.heard.touch(to) {
                Some(ears) => ears.hear(heard),
                None => drop(self.heard.insert(to.clone(), Ears(vec![heard]))),
            },
            To::Many(_) => self.shouts.hear(heard),
        }
    }

    /// A task ended between two agents: what they said to each other is forgotten.
    pub(super) fn ended(&mut self, one: &AgentId, other: &AgentId) {
        self.tick += 1;
        self.ended.insert(self.names.between(one, other), self.tick);
    }

    pub(super) fn forget(&mut self, from: &AgentId, to: Option<&AgentId>, content: u64) {
        self.sent.remove(&self.names.said(from, to, content));
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    fn key(&self, passage: &Passage<'_>) -> u64 {
        self.names.said(passage.from, passage.to.one(), passage.content)
    }

    /// Whether the window is over or a task ended since it began.
    fn is_over(
        &self,
        sent: &Sent,
        passage: &Passage<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        let ended = |to| self.ended.peek(&self.names.between(passage.from, to)).copied();
        now.uptime.saturating_sub(sent.since) >= settings.window
            || passage.to.one().and_then(ended).is_some_and(|ended| ended > sent.first)
    }

    /// What the sender heard that most likely led to this message: something that shows a way
    /// round, heard since it last said the same, with the longest path.
    fn led_to(
        &self,
        passage: &Passage<'_>,
        last: u64,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<&Heard> {
        let own = self.heard.peek(passage.from).map_or(&[][..], |ears| &ears.0);
        let shouts = self.shouts.0.iter().filter(|shout| shout.from != *passage.from);
        let heard = own.iter().chain(shouts);
        let recent = heard.filter(|heard| now.uptime.saturating_sub(heard.when) < settings.window);
        recent.max_by_key(|heard| {
            (heard.leads_to(passage, last), heard.at >= last, heard.path.len(), heard.at)
        })
    }
}

impl Sent {
    fn first(tick: u64, now: Now) -> Self {
        let (since, spaced_at) = (now.uptime, now.uptime);
        Self { count: 1, spaced: 1, spaced_at, since, first: tick, latest: tick }
    }

    fn again(&mut self, tick: u64, settings: &BreakerSettings, now: Now) {
        self.latest = tick;
        self.count = self.count.saturating_add(1);
        if now.uptime.saturating_sub(self.spaced_at) >= settings.repeat_gap {
            self.spaced = self.spaced.saturating_add(1);
            self.spaced_at = now.uptime;
        }
    }
}

impl Ears {
    const MOST: usize = 8;

    /// The same from the same replaces what it said before; a full memory loses the oldest.
    fn hear(&mut self, heard: Heard) {
        let same = |old: &Heard| old.from == heard.from && old.content == heard.content;
        let place = self.0.iter().position(same);
        let oldest = || (0..self.0.len()).min_by_key(|i| self.0[*i].at);
        match place.or_else(|| if self.0.len() < Self::MOST { None } else { oldest() }) {
            Some(place) => self.0[place] = heard,
            None => self.0.push(heard),
        }
    }
}

impl Heard {
    /// Whether it was heard since the message before this one, and took the same way before.
    ///
    /// What an agent tells itself it hears as it says it.
    fn leads_to(&self, passage: &Passage<'_>, last: u64) -> bool {
        let came_round = || match passage.to {
            To::One(to) => self.path.rounds_of(passage.from, to) > 0,
            To::Many(_) => self.path.sends_of(passage.from) > 0,
        };
        self.at >= last && came_round()
    }
}
