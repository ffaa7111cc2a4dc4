//! Table of recent conversations, bounded in conversations and participants.

use std::time::Duration;

use a2a_protocol::{AgentId, CorrelationId, Kind};

use super::conversation::Conversation;
use super::lru_map::LruMap;
use super::{BreakerInput, BreakerSettings, Finding, WorkProgress};
use crate::{Audience, Now};

/// The limit of participants in total, per conversation of the limit.
const PARTICIPANTS_EACH: usize = 8;

/// The recent conversations.
pub(super) struct ConversationTable {
    entries: LruMap<CorrelationId, ConversationState>,
    /// The participants of all of them, and the limit of that.
    participants: usize,
    max_participants: usize,
}

/// A conversation. Most consist of one message, which costs little memory.
enum ConversationState {
    First(FirstMessage),
    Tracked(Box<Conversation>),
}

/// The only message so far, from one agent to another.
struct FirstMessage {
    from: AgentId,
    to: AgentId,
    kind: Kind,
    at: Duration,
}

impl ConversationState {
    fn is_idle(&self, window: Duration, now: Now) -> bool {
        let last = match self {
            Self::First(first) => first.at,
            Self::Tracked(conversation) => conversation.last(),
        };
        now.uptime.saturating_sub(last) >= window
    }

    fn participants(&self) -> usize {
        match self {
            Self::First(first) => 1 + usize::from(first.from != first.to),
            Self::Tracked(conversation) => conversation.participants().len(),
        }
    }

    /// Whether no task ended in it, and `agent` received nothing.
    fn is_new_to(&self, agent: &AgentId) -> bool {
        match self {
            Self::First(first) => first.to != *agent,
            Self::Tracked(conversation) => conversation.is_new_to(agent),
        }
    }
}

impl FirstMessage {
    /// The full state of the conversation that this message began.
    fn expand(&self, settings: &BreakerSettings) -> Conversation {
        Conversation::begun(&self.from, &self.to, self.kind, self.at, settings)
    }
}

impl ConversationTable {
    pub(super) fn new(max: usize) -> Self {
        let max_participants = max.saturating_mul(PARTICIPANTS_EACH);
        Self { entries: LruMap::new(max), participants: 0, max_participants }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max_participants = max.saturating_mul(PARTICIPANTS_EACH);
        let gone: usize =
            self.entries.set_max(max).iter().map(ConversationState::participants).sum();
        self.participants -= gone;
        self.evict_over_limit();
    }

    /// The loop that this message closes, if any.
    pub(super) fn detect_loop(
        &self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<Finding> {
        match self.entries.peek(&input.correlation)? {
            conversation if conversation.is_idle(settings.window, now) => None,
            ConversationState::First(first) => first.expand(settings).detect_loop(input, settings),
            ConversationState::Tracked(conversation) => conversation.detect_loop(input, settings),
        }
    }

    /// Whether the sender received nothing in this conversation, and no task ended in it.
    pub(super) fn opens(
        &self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        let known = self.entries.peek(&input.correlation);
        let known = known.filter(|known| !known.is_idle(settings.window, now));
        known.is_none_or(|known| known.is_new_to(input.from))
    }

    /// Counts an admitted message; returns whether it was free.
    pub(super) fn record(
        &mut self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        let key = input.correlation;
        let Some(conversation) = self
            .entries
            .touch(&key)
            .filter(|conversation| !conversation.is_idle(settings.window, now))
        else {
            return self.begin(input, settings, now);
        };
        let before = conversation.participants();
        let conversation = match conversation {
            ConversationState::Tracked(conversation) => conversation,
            ConversationState::First(first) => {
                *conversation = ConversationState::Tracked(Box::new(first.expand(settings)));
                let ConversationState::Tracked(conversation) = conversation else { return false };
                conversation
            }
        };
        let free = conversation.record(input, settings, now);
        self.participants += conversation.participants().len() - before;
        self.evict_over_limit();
        free
    }

    /// Counts the first message of a conversation.
    fn begin(&mut self, input: &BreakerInput<'_>, settings: &BreakerSettings, now: Now) -> bool {
        let (conversation, free) = match (input.to, input.progress) {
            (Audience::One(to), WorkProgress::None) => {
                let (from, to, kind) = (input.from.clone(), to.clone(), input.kind);
                (ConversationState::First(FirstMessage { from, to, kind, at: now.uptime }), false)
            }
            _ => {
                let mut conversation = Box::<Conversation>::default();
                let free = conversation.record(input, settings, now);
                (ConversationState::Tracked(conversation), free)
            }
        };
        self.insert(input.correlation, conversation);
        self.evict_over_limit();
        free
    }

    fn evict_over_limit(&mut self) {
        while self.participants > self.max_participants && self.entries.len() > 1 {
            self.participants -=
                self.entries.pop_oldest().map_or(0, |evicted| evicted.participants());
        }
    }

    /// A task ended: resets the conversation, which is not a new one.
    pub(super) fn end(&mut self, key: CorrelationId, now: Now) {
        self.insert(key, ConversationState::Tracked(Box::new(Conversation::ended(now.uptime))));
    }

    fn insert(&mut self, key: CorrelationId, conversation: ConversationState) {
        self.participants += conversation.participants();
        let replaced_or_evicted = self.entries.insert(key, conversation);
        self.participants -= replaced_or_evicted.map_or(0, |gone| gone.participants());
    }

    pub(super) fn forget(&mut self, key: &CorrelationId) {
        self.participants -=
            self.entries.remove(key).map_or(0, |forgotten| forgotten.participants());
    }

    pub(super) fn participants_of(&self, key: &CorrelationId) -> impl Iterator<Item = &AgentId> {
        let (pair, all) = match self.entries.peek(key) {
            Some(ConversationState::First(first)) => (Some([&first.from, &first.to]), None),
            Some(ConversationState::Tracked(conversation)) => {
                (None, Some(conversation.participants()))
            }
            None => (None, None),
        };
        pair.into_iter().flatten().chain(all.into_iter().flatten())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
