//! Loop detection across conversations, for loops that begin a new one with every message.
//!
//! Such a loop looks like many short conversations, but each agent keeps sending equal messages to
//! the same recipients. So messages are counted by sender, recipient and content. From the second
//! equal message within a window on, they get a causal path like messages of one conversation.
//! Across conversations it is unknown which received message caused a sent one, so a few are kept
//! per agent, and any of them that completes a round counts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use a2a_protocol::AgentId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::lru_map::LruMap;
use super::path::Path;
use super::{BreakerInput, BreakerSettings, Finding, TripReason};
use crate::{Audience, Now};

/// Hashes sender, recipient and content to one number, because copying names for every message is
/// expensive. The seed is random per breaker, so that no sender can construct a collision.
struct PairHasher(u64);

impl PairHasher {
    fn new() -> Self {
        Self(RandomState::new().hash_one(0))
    }

    fn message_key(&self, from: &AgentId, to: Option<&AgentId>, content: u64) -> u64 {
        let to = to.map_or("*", AgentId::as_str);
        // Agent ids contain no spaces.
        self.sum(&[from.as_str().as_bytes(), b" ", to.as_bytes(), &content.to_le_bytes()])
    }

    fn pair_key(&self, one: &AgentId, other: &AgentId) -> u64 {
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        self.sum(&[first.as_str().as_bytes(), b" ", second.as_str().as_bytes()])
    }

    fn sum(&self, parts: &[&[u8]]) -> u64 {
        // Longer than two agent ids and a number.
        let mut text = [0; 160];
        let mut end = 0;
        for part in parts {
            if let Some(index) = text.get_mut(end..end + part.len()) {
                index.copy_from_slice(part);
                end += part.len();
            }
        }
        xxh3_64_with_seed(&text[..end], self.0)
    }
}

/// Counters and paths of equal messages.
pub(super) struct Pairs {
    hasher: PairHasher,
    sent: LruMap<u64, RepeatCount>,
    /// The tick at which a task last ended between two agents.
    ended: LruMap<u64, u64>,
    /// The repeated messages each agent received, and the repeated fan-outs.
    received: LruMap<AgentId, RecentReceipts>,
    fan_outs: RecentReceipts,
    /// Counts messages, for their order.
    tick: u64,
}

/// The count of equal messages in the current window.
struct RepeatCount {
    count: u32,
    /// The count where messages within `repeat_gap` of each other count once.
    spaced: u32,
    spaced_at: Duration,
    /// The start of the window, and the ticks of its first and latest message.
    since: Duration,
    first: u64,
    latest: u64,
}

/// The latest repeated messages that were received, one per sender and content.
#[derive(Default)]
struct RecentReceipts(Vec<Received>);

struct Received {
    from: AgentId,
    content: u64,
    path: Path,
    at: u64,
    when: Duration,
}

impl Pairs {
    pub(super) fn new(max: usize) -> Self {
        let (sent, ended) = (LruMap::new(max), LruMap::new(max));
        let received = LruMap::new(max / RecentReceipts::MOST);
        Self {
            hasher: PairHasher::new(),
            sent,
            ended,
            received,
            fan_outs: RecentReceipts::default(),
            tick: 0,
        }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.sent.set_max(max);
        self.ended.set_max(max);
        self.received.set_max(max / RecentReceipts::MOST);
    }

    /// The loop that this message closes, if any.
    ///
    /// Only a message that `opens` a conversation can close a loop here: within a conversation, the
    /// path of that conversation is more precise.
    pub(super) fn detect_loop(
        &self,
        input: &BreakerInput<'_>,
        opens: impl FnOnce() -> bool,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<Finding> {
        let sent = self.sent.peek(&self.key(input))?;
        if self.is_over(sent, input, settings, now) {
            return None;
        }
        let (from, to) = (input.from, input.to.one());
        if sent.count >= settings.rounds()
            && let Some(received) = self.led_to(input, sent.latest, settings, now)
            && received.leads_to(input, sent.latest)
            && opens()
        {
            let route = received.path.describe(from, to);
            let (kind, times) = (input.kind, sent.count.saturating_add(1));
            let evidence = format!("{route}: the same {kind} {times} times, in new conversations");
            let agents = received.path.agents().chain([from]).chain(to);
            return Some(Finding::new(TripReason::Loop, evidence, agents));
        }
        if sent.spaced >= settings.repeats.max(1)
            && now.uptime.saturating_sub(sent.spaced_at) >= settings.repeat_gap
        {
            let route = Path::EMPTY.describe(from, to);
            let minutes = now.uptime.saturating_sub(sent.since).as_secs().div_ceil(60);
            let (kind, times) = (input.kind, sent.count.saturating_add(1));
            let evidence = format!("{route}: the same {kind} {times} times in {minutes} min");
            return Some(Finding::new(
                TripReason::Repeated,
                evidence,
                [from].into_iter().chain(to),
            ));
        }
        None
    }

    /// Counts an admitted message.
    pub(super) fn record(
        &mut self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) {
        self.tick += 1;
        let (key, tick) = (self.key(input), self.tick);
        let Some(sent) = self.sent.peek(&key) else {
            self.sent.insert(key, RepeatCount::first(tick, now));
            return;
        };
        let over = self.is_over(sent, input, settings, now);
        let Some(sent) = self.sent.touch(&key) else { return };
        let last = sent.latest;
        if over {
            *sent = RepeatCount::first(tick, now);
        } else {
            sent.repeat(tick, settings, now);
        }
        let before = self.led_to(input, last, settings, now).map(|received| &received.path);
        let path = before.unwrap_or(&Path::EMPTY).then(input.from, settings.longest_path(1));
        let (from, content) = (input.from.clone(), input.content);
        let received = Received { from, content, path, at: tick, when: now.uptime };
        match input.to {
            Audience::One(to) => match self.received.touch(to) {
                Some(receipts) => receipts.record(received),
                None => drop(self.received.insert(to.clone(), RecentReceipts(vec![received]))),
            },
            Audience::Many(_) => self.fan_outs.record(received),
        }
    }

    /// A task ended between two agents: resets the counters between them.
    pub(super) fn ended(&mut self, one: &AgentId, other: &AgentId) {
        self.tick += 1;
        self.ended.insert(self.hasher.pair_key(one, other), self.tick);
    }

    pub(super) fn forget(&mut self, from: &AgentId, to: Option<&AgentId>, content: u64) {
        self.sent.remove(&self.hasher.message_key(from, to, content));
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    fn key(&self, input: &BreakerInput<'_>) -> u64 {
        self.hasher.message_key(input.from, input.to.one(), input.content)
    }

    /// Whether the window is over, or a task ended since it began.
    fn is_over(
        &self,
        sent: &RepeatCount,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        let ended = |to| self.ended.peek(&self.hasher.pair_key(input.from, to)).copied();
        now.uptime.saturating_sub(sent.since) >= settings.window
            || input.to.one().and_then(ended).is_some_and(|ended| ended > sent.first)
    }

    /// The received message that most likely caused this one: one that completes a round, received
    /// since the previous equal message, with the longest path.
    fn led_to(
        &self,
        input: &BreakerInput<'_>,
        last: u64,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<&Received> {
        let own = self.received.peek(input.from).map_or(&[][..], |receipts| &receipts.0);
        let fan_outs = self.fan_outs.0.iter().filter(|fan_out| fan_out.from != *input.from);
        let received = own.iter().chain(fan_outs);
        let recent =
            received.filter(|received| now.uptime.saturating_sub(received.when) < settings.window);
        recent.max_by_key(|received| {
            (received.leads_to(input, last), received.at >= last, received.path.len(), received.at)
        })
    }
}

impl RepeatCount {
    fn first(tick: u64, now: Now) -> Self {
        let (since, spaced_at) = (now.uptime, now.uptime);
        Self { count: 1, spaced: 1, spaced_at, since, first: tick, latest: tick }
    }

    fn repeat(&mut self, tick: u64, settings: &BreakerSettings, now: Now) {
        self.latest = tick;
        self.count = self.count.saturating_add(1);
        if now.uptime.saturating_sub(self.spaced_at) >= settings.repeat_gap {
            self.spaced = self.spaced.saturating_add(1);
            self.spaced_at = now.uptime;
        }
    }
}

impl RecentReceipts {
    const MOST: usize = 8;

    /// Replaces the entry of the same sender and content; when full, evicts the oldest.
    fn record(&mut self, received: Received) {
        let same = |old: &Received| old.from == received.from && old.content == received.content;
        let index = self.0.iter().position(same);
        let oldest = || (0..self.0.len()).min_by_key(|i| self.0[*i].at);
        match index.or_else(|| if self.0.len() < Self::MOST { None } else { oldest() }) {
            Some(index) => self.0[index] = received,
            None => self.0.push(received),
        }
    }
}

impl Received {
    /// Whether it was received since the previous equal message and its path contains this hop.
    ///
    /// A message of an agent to itself is received as it is sent.
    fn leads_to(&self, input: &BreakerInput<'_>, last: u64) -> bool {
        let came_round = || match input.to {
            Audience::One(to) => self.path.rounds_of(input.from, to) > 0,
            Audience::Many(_) => self.path.sends_of(input.from) > 0,
        };
        self.at >= last && came_round()
    }
}
