//! What one agent sends another, in all conversations: repeated texts, status updates without an
//! answer, and tasks that fail one after the other.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use a2a_protocol::{AgentId, Kind};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::lru_map::LruMap;
use super::path::Path;
use super::sketch::Sketch;
use super::{BreakerInput, BreakerSettings, Finding, TripReason, WorkProgress};
use crate::Now;

/// The latest texts of a pair that a new one is compared with.
const COMPARED: usize = 3;
/// Unanswered status updates a minute that do not add up: with a new text, and with a repeated one.
const NEW_PER_MINUTE: f64 = 3.0;
const REPEATED_PER_MINUTE: f64 = 2.0;

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

    fn direction_key(&self, from: &AgentId, to: Option<&AgentId>) -> u64 {
        let to = to.map_or("*", AgentId::as_str);
        self.sum(&[from.as_str().as_bytes(), b" ", to.as_bytes()])
    }

    fn pair_key(&self, one: &AgentId, other: &AgentId) -> u64 {
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        self.sum(&[first.as_str().as_bytes(), b"  ", second.as_str().as_bytes()])
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

/// Counters of pairs of agents.
pub(super) struct Pairs {
    hasher: PairHasher,
    /// Equal messages, by sender, recipient and content.
    sent: LruMap<u64, RepeatCount>,
    /// What one agent sends another.
    directions: LruMap<u64, Direction>,
    /// The tick at which a task last ended between two agents.
    ended: LruMap<u64, u64>,
    /// Counts messages, for their order.
    tick: u64,
}

/// The count of equal messages in the current window.
struct RepeatCount {
    count: u32,
    /// The count where messages within `repeat_gap` of each other count once.
    spaced: u32,
    spaced_at: Duration,
    /// The start of the window, and the tick of its first message.
    since: Duration,
    first: u64,
}

/// What one agent sends another.
#[derive(Default)]
struct Direction {
    /// The latest texts; the oldest is replaced.
    texts: [Option<Sketch>; COMPARED],
    next: u8,
    /// Status updates since the last answer, less those that the rate allows.
    unanswered_new: f64,
    unanswered_repeats: f64,
    /// Tasks that failed since the last one that did not.
    failures: u32,
    last: Duration,
}

impl Pairs {
    pub(super) fn new(max: usize) -> Self {
        Self {
            hasher: PairHasher::new(),
            sent: LruMap::new(max),
            directions: LruMap::new(max),
            ended: LruMap::new(max),
            tick: 0,
        }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.sent.set_max(max);
        self.directions.set_max(max);
        self.ended.set_max(max);
    }

    /// Whether the sender recently sent nearly the same text to the same recipient.
    pub(super) fn is_repeat(
        &self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        let direction = self.directions.peek(&self.direction_key(input));
        direction.is_some_and(|direction| {
            let is_recent = now.uptime.saturating_sub(direction.last) < settings.window;
            is_recent && direction.texts.iter().flatten().any(|text| text.is_near(&input.sketch))
        })
    }

    /// Repeats over time: the same content again and again, at intervals.
    pub(super) fn detect_repeats(
        &self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<Finding> {
        let sent = self.sent.peek(&self.key(input))?;
        let is_due = now.uptime.saturating_sub(sent.spaced_at) >= settings.repeat_gap;
        if sent.spaced < settings.repeats.max(1)
            || !is_due
            || self.is_over(sent, input, settings, now)
        {
            return None;
        }
        let (from, to) = (input.from, input.to.one());
        let route = Path::EMPTY.describe(from, to);
        let minutes = now.uptime.saturating_sub(sent.since).as_secs().div_ceil(60);
        let (kind, times) = (input.kind, sent.count.saturating_add(1));
        let evidence = format!("{route}: the same {kind} {times} times in {minutes} min");
        Some(Finding::new(TripReason::Repeated, evidence, [from].into_iter().chain(to)))
    }

    /// Status updates without an answer, faster than the rate of an honest report.
    pub(super) fn detect_chatter(
        &self,
        input: &BreakerInput<'_>,
        is_repeat: bool,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<Finding> {
        if !is_chatter(input) {
            return None;
        }
        let direction = self.directions.peek(&self.direction_key(input))?;
        let (new, repeats) = direction.unanswered(now);
        let (max_new, max_repeats) = (settings.max_unanswered, settings.max_unanswered_repeats);
        let (limit, what) = if is_repeat && repeats >= f64::from(max_repeats) {
            (max_repeats, "with nearly the same text")
        } else if new + repeats >= f64::from(max_new) {
            (max_new, "")
        } else {
            return None;
        };
        let (from, to) = (input.from, input.to.one());
        let route = Path::EMPTY.describe(from, to);
        let evidence = format!("{route}: {limit} status updates {what} without an answer");
        let evidence = evidence.replace("  ", " ");
        Some(Finding::new(TripReason::Repeated, evidence, [from].into_iter().chain(to)))
    }

    /// Whether the failure that this message reports is one of the first in a row.
    pub(super) fn is_early_failure(&self, input: &BreakerInput<'_>) -> bool {
        let direction = self.directions.peek(&self.direction_key(input));
        direction.is_none_or(|direction| direction.failures < 2)
    }

    /// Counts an admitted message.
    pub(super) fn record(
        &mut self,
        input: &BreakerInput<'_>,
        is_repeat: bool,
        settings: &BreakerSettings,
        now: Now,
    ) {
        self.tick += 1;
        let key = self.direction_key(input);
        let chatter = is_chatter(input);
        if self.directions.peek(&key).is_none() {
            self.directions.insert(key, Direction { last: now.uptime, ..Direction::default() });
        }
        if let Some(direction) = self.directions.touch(&key) {
            direction.record(input, chatter.then_some(is_repeat), now);
        }
        // An answer, as far as the other direction is concerned.
        if let Some(to) = input.to.one()
            && to != input.from
            && let Some(back) =
                self.directions.touch(&self.hasher.direction_key(to, Some(input.from)))
        {
            (back.unanswered_new, back.unanswered_repeats) = (0.0, 0.0);
        }
        let (key, tick) = (self.key(input), self.tick);
        let Some(sent) = self.sent.peek(&key) else {
            self.sent.insert(key, RepeatCount::first(tick, now));
            return;
        };
        let over = self.is_over(sent, input, settings, now);
        let Some(sent) = self.sent.touch(&key) else { return };
        if over {
            *sent = RepeatCount::first(tick, now);
        } else {
            sent.repeat(settings, now);
        }
    }

    /// A task ended between two agents: resets the counters between them, but not that of failures
    /// if it failed.
    pub(super) fn ended(&mut self, one: &AgentId, other: &AgentId, has_failed: bool) {
        self.tick += 1;
        self.ended.insert(self.hasher.pair_key(one, other), self.tick);
        for key in [
            self.hasher.direction_key(one, Some(other)),
            self.hasher.direction_key(other, Some(one)),
        ] {
            if let Some(direction) = self.directions.touch(&key) {
                direction.reset(has_failed);
            }
        }
    }

    pub(super) fn forget(&mut self, from: &AgentId, to: Option<&AgentId>, content: Option<u64>) {
        match content {
            Some(content) => drop(self.sent.remove(&self.hasher.message_key(from, to, content))),
            None => {
                if let Some(direction) = self.directions.touch(&self.hasher.direction_key(from, to))
                {
                    direction.reset(false);
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    fn key(&self, input: &BreakerInput<'_>) -> u64 {
        self.hasher.message_key(input.from, input.to.one(), input.content)
    }

    fn direction_key(&self, input: &BreakerInput<'_>) -> u64 {
        self.hasher.direction_key(input.from, input.to.one())
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
}

/// A status update about a task, without an effect on the ledger, unless it is news.
pub(super) fn is_chatter(input: &BreakerInput<'_>) -> bool {
    input.kind == Kind::StatusUpdate && input.task.is_some() && !input.is_news
}

impl RepeatCount {
    fn first(tick: u64, now: Now) -> Self {
        let (since, spaced_at) = (now.uptime, now.uptime);
        Self { count: 1, spaced: 1, spaced_at, since, first: tick }
    }

    fn repeat(&mut self, settings: &BreakerSettings, now: Now) {
        self.count = self.count.saturating_add(1);
        if now.uptime.saturating_sub(self.spaced_at) >= settings.repeat_gap {
            self.spaced = self.spaced.saturating_add(1);
            self.spaced_at = now.uptime;
        }
    }
}

impl Direction {
    /// The unanswered status updates with a new and with a repeated text, less what the rate allows.
    fn unanswered(&self, now: Now) -> (f64, f64) {
        let minutes = now.uptime.saturating_sub(self.last).as_secs_f64() / 60.0;
        let left = |count: f64, rate: f64| (count - rate * minutes).max(0.0);
        (
            left(self.unanswered_new, NEW_PER_MINUTE),
            left(self.unanswered_repeats, REPEATED_PER_MINUTE),
        )
    }

    fn record(&mut self, input: &BreakerInput<'_>, chatter: Option<bool>, now: Now) {
        (self.unanswered_new, self.unanswered_repeats) = self.unanswered(now);
        match chatter {
            Some(true) => self.unanswered_repeats += 1.0,
            Some(false) => self.unanswered_new += 1.0,
            None => {}
        }
        if input.progress == WorkProgress::Fails {
            self.failures = self.failures.saturating_add(1);
        }
        self.texts[usize::from(self.next)] = Some(input.sketch);
        self.next = (self.next + 1) % COMPARED as u8;
        self.last = now.uptime;
    }

    /// Progress between the two. The texts stay: sending them again is still a repeat.
    fn reset(&mut self, keeps_failures: bool) {
        (self.unanswered_new, self.unanswered_repeats) = (0.0, 0.0);
        if !keeps_failures {
            self.failures = 0;
        }
    }
}
