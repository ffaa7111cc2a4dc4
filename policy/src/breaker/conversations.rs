//! The conversations heard of lately, no more of them than there is room for.

use std::time::Duration;

use a2a_protocol::{AgentId, CorrelationId, Kind};

use super::conversation::Conversation;
use super::recent::Recent;
use super::{BreakerSettings, Finding, Passage, Progress, To};
use crate::Now;

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
    kind: Kind,
    at: Duration,
}

impl Talk {
    fn is_idle(&self, window: Duration, now: Now) -> bool {
        let last = match self {
            Self::Begun(first) => first.at,
            Self::Going(conversation) => conversation.last(),
        };
        now.uptime.saturating_sub(last) >= window
    }

    fn people(&self) -> usize {
        match self {
            Self::Begun(first) => 1 + usize::from(first.from != first.to),
            Self::Going(conversation) => conversation.people().len(),
        }
    }

    /// Whether a task ended in it, or `agent` heard anything.
    fn is_news_to(&self, agent: &AgentId) -> bool {
        match self {
            Self::Begun(first) => first.to != *agent,
            Self::Going(conversation) => conversation.is_news_to(agent),
        }
    }
}

impl First {
    /// The conversation that this message began, with everything it keeps track of.
    fn unfold(&self, settings: &BreakerSettings) -> Conversation {
        Conversation::begun(&self.from, &self.to, self.kind, self.at, settings)
    }
}

impl Conversations {
    pub(super) fn new(max: usize) -> Self {
        let max_people = max.saturating_mul(PEOPLE_EACH);
        Self { recent: Recent::new(max), people: 0, max_people }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max_people = max.saturating_mul(PEOPLE_EACH);
        let gone: usize = self.recent.set_max(max).iter().map(Talk::people).sum();
        self.people -= gone;
        self.make_room();
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
        self.people += conversation.people().len() - before;
        self.make_room();
        free
    }

    /// Counts the first message of a conversation.
    fn begin(&mut self, passage: &Passage<'_>, settings: &BreakerSettings, now: Now) -> bool {
        let (talk, free) = match (passage.to, passage.progress) {
            (To::One(to), Progress::None) => {
                let (from, to, kind) = (passage.from.clone(), to.clone(), passage.kind);
                (Talk::Begun(First { from, to, kind, at: now.uptime }), false)
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
        self.insert(key, Talk::Going(Box::new(Conversation::ended(now.uptime))));
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
            Some(Talk::Going(conversation)) => (None, Some(conversation.people())),
            None => (None, None),
        };
        pair.into_iter().flatten().chain(all.into_iter().flatten())
    }

    pub(super) fn len(&self) -> usize {
        self.recent.len()
    }
}
