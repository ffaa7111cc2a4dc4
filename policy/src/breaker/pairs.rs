//! Loops that begin a new conversation with every message.
//!
//! Such a loop looks like many short conversations, but each agent in it keeps saying the same
//! to the same. So what is counted is who says what to whom; and what is said for the second
//! time within a window gets a causal path, as messages of one conversation do. Of the paths an
//! agent heard the longest counts: chance traffic makes short ones, a loop ever longer ones.

use std::time::Duration;

use a2a_protocol::AgentId;

use super::path::Path;
use super::recent::Recent;
use super::{BreakerSettings, Finding, Passage, To, TripReason};
use crate::Now;

type PairKey = (AgentId, Option<AgentId>, u64);

/// Who said what to whom lately.
pub(super) struct Pairs {
    sent: Recent<PairKey, Sent>,
    /// When a task last ended between two agents, the smaller name first.
    ended: Recent<(AgentId, AgentId), u64>,
    /// The longest path of a repeated message that each agent heard.
    heard: Recent<AgentId, Heard>,
    /// The same for repeated fan-outs: the latest, and the latest of another sender, since
    /// nobody hears itself.
    shouts: [Option<(AgentId, Heard)>; 2],
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

struct Heard {
    path: Path,
    at: u64,
    when: Duration,
}

impl Pairs {
    pub(super) fn new(max: usize) -> Self {
        let (sent, ended, heard) = (Recent::new(max), Recent::new(max), Recent::new(max));
        Self { sent, ended, heard, shouts: [None, None], tick: 0 }
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
        let sent = self.sent.peek(&key(passage))?;
        if self.is_over(sent, passage, settings, now) {
            return None;
        }
        let (from, to) = (passage.from, passage.to.one());
        if sent.count >= settings.rounds()
            && let Some(heard) = self.heard_by(from, settings, now)
            && heard.at >= sent.latest
            && heard.path_leads(passage) >= settings.rounds().saturating_sub(1).max(1)
            && opens()
        {
            let way = heard.path.describe(from, to);
            let times = sent.count + 1;
            let evidence = format!("{way}: the same {} for the {times}th time", passage.kind);
            let agents = heard.path.agents().chain([from]).chain(to);
            return Some(Finding::new(TripReason::Loop, evidence, agents));
        }
        if sent.spaced >= settings.repeats.max(1)
            && now.uptime.saturating_sub(sent.spaced_at) >= settings.repeat_gap
        {
            let way = Path::EMPTY.describe(from, to);
            let minutes = now.uptime.saturating_sub(sent.since).as_secs().div_ceil(60);
            let (kind, times) = (passage.kind, sent.count + 1);
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
        let (key, tick) = (key(passage), self.tick);
        let begun = self.sent.peek(&key);
        if begun.is_none_or(|sent| self.is_over(sent, passage, settings, now)) {
            self.sent.insert(key, Sent::first(tick, now));
            return;
        }
        let Some(sent) = self.sent.touch(&key) else { return };
        sent.count = sent.count.saturating_add(1);
        sent.latest = tick;
        if now.uptime.saturating_sub(sent.spaced_at) >= settings.repeat_gap {
            sent.spaced = sent.spaced.saturating_add(1);
            sent.spaced_at = now.uptime;
        }
        let before = self.heard_by(passage.from, settings, now).map(|heard| &heard.path);
        let path = before.unwrap_or(&Path::EMPTY).then(passage.from, settings.longest_path());
        let heard = Heard { path, at: tick, when: now.uptime };
        match passage.to {
            To::One(to) => {
                let known = self.heard.peek(to).filter(|known| known.is_recent(settings, now));
                if known.is_none_or(|known| known.path.len() <= heard.path.len()) {
                    self.heard.insert(to.clone(), heard);
                }
            }
            To::Many(_) => {
                let [latest, other] = &mut self.shouts;
                if latest.as_ref().is_some_and(|(by, _)| by != passage.from) {
                    *other = latest.take();
                }
                *latest = Some((passage.from.clone(), heard));
            }
        }
    }

    /// A task ended between two agents: what they said to each other is forgotten.
    pub(super) fn ended(&mut self, one: &AgentId, other: &AgentId) {
        self.tick += 1;
        self.ended.insert(unordered(one, other), self.tick);
    }

    pub(super) fn forget(&mut self, from: &AgentId, to: Option<&AgentId>, content: u64) {
        self.sent.remove(&(from.clone(), to.cloned(), content));
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Whether the window is over or a task ended since it began.
    fn is_over(
        &self,
        sent: &Sent,
        passage: &Passage<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        let ended = |to| self.ended.peek(&unordered(passage.from, to)).copied();
        now.uptime.saturating_sub(sent.since) >= settings.window
            || passage.to.one().and_then(ended).is_some_and(|ended| ended > sent.first)
    }

    fn heard_by(&self, agent: &AgentId, settings: &BreakerSettings, now: Now) -> Option<&Heard> {
        let shout = self.shouts.iter().flatten().find(|(by, _)| by != agent);
        let heard = [self.heard.peek(agent), shout.map(|(_, heard)| heard)];
        let recent = heard.into_iter().flatten().filter(|heard| heard.is_recent(settings, now));
        recent.max_by_key(|heard| (heard.path.len(), heard.at))
    }
}

impl Sent {
    fn first(tick: u64, now: Now) -> Self {
        let (since, spaced_at) = (now.uptime, now.uptime);
        Self { count: 1, spaced: 1, spaced_at, since, first: tick, latest: tick }
    }
}

impl Heard {
    fn is_recent(&self, settings: &BreakerSettings, now: Now) -> bool {
        now.uptime.saturating_sub(self.when) < settings.window
    }

    /// How often the path that led to this message has taken the same way before.
    fn path_leads(&self, passage: &Passage<'_>) -> u32 {
        match passage.to {
            To::One(to) => self.path.rounds_of(passage.from, to),
            To::Many(_) => self.path.sends_of(passage.from),
        }
    }
}

fn key(passage: &Passage<'_>) -> PairKey {
    (passage.from.clone(), passage.to.one().cloned(), passage.content)
}

fn unordered(one: &AgentId, other: &AgentId) -> (AgentId, AgentId) {
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    (first.clone(), second.clone())
}
