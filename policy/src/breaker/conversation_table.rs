//! Table of recent conversations, bounded in conversations and participants.

use std::time::Duration;

use a2a_protocol::{AgentId, CorrelationId, Kind};

use super::conversation::{Conversation, detect_loop};
use super::lru_map::LruMap;
use super::path::Path;
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
    /// Its path, which ends with this message.
    path: Path,
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

    /// The path of what `from` received in it; `None` if it received nothing.
    fn path_to(&self, from: &AgentId, kind: Kind) -> Option<Path> {
        match self {
            Self::First(first) => (first.to == *from).then(|| first.path.clone()),
            Self::Tracked(conversation) => conversation.path_to(from, kind).cloned(),
        }
    }
}

impl FirstMessage {
    /// The full state of the conversation that this message began.
    fn expand(&self) -> Conversation {
        Conversation::begun(&self.from, &self.to, self.kind, &self.path, self.at)
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

    /// The path of what the sender received in the conversation; `None` if it received nothing.
    pub(super) fn path_to(
        &self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<Path> {
        let known = self.entries.peek(&input.correlation);
        let known = known.filter(|known| !known.is_idle(settings.window, now))?;
        known.path_to(input.from, input.kind)
    }

    /// The limit that this message exceeds, if any. `before` is the path that led to it.
    pub(super) fn detect_loop(
        &self,
        input: &BreakerInput<'_>,
        before: &Path,
        is_repeat: bool,
        settings: &BreakerSettings,
        now: Now,
    ) -> Option<Finding> {
        let known = self.entries.peek(&input.correlation);
        match known.filter(|known| !known.is_idle(settings.window, now)) {
            Some(ConversationState::Tracked(conversation)) => {
                conversation.detect_loop(input, before, is_repeat, settings)
            }
            Some(ConversationState::First(first)) => {
                first.expand().detect_loop(input, before, is_repeat, settings)
            }
            // Which message led to the first one may be inferred, so its depth does not count.
            None => detect_loop(input, before, is_repeat, 0, settings),
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

    /// Whether the message only changes a task's state, which counts as no turn.
    pub(super) fn is_free(
        &self,
        input: &BreakerInput<'_>,
        settings: &BreakerSettings,
        now: Now,
    ) -> bool {
        if input.progress != WorkProgress::Moves {
            return false;
        }
        let known = self.entries.peek(&input.correlation);
        match known.filter(|known| !known.is_idle(settings.window, now)) {
            Some(ConversationState::Tracked(conversation)) => conversation.is_free(input),
            _ => true,
        }
    }

    /// Counts an admitted message with its path, which ends with this message.
    pub(super) fn record(
        &mut self,
        input: &BreakerInput<'_>,
        path: &Path,
        is_repeat: bool,
        settings: &BreakerSettings,
        now: Now,
    ) {
        let key = input.correlation;
        let Some(conversation) = self
            .entries
            .touch(&key)
            .filter(|conversation| !conversation.is_idle(settings.window, now))
        else {
            return self.begin(input, path, is_repeat, now);
        };
        let before = conversation.participants();
        let conversation = match conversation {
            ConversationState::Tracked(conversation) => conversation,
            ConversationState::First(first) => {
                *conversation = ConversationState::Tracked(Box::new(first.expand()));
                let ConversationState::Tracked(conversation) = conversation else { return };
                conversation
            }
        };
        conversation.record(input, path, is_repeat, now);
        self.participants += conversation.participants().len() - before;
        self.evict_over_limit();
    }

    /// Counts the first message of a conversation.
    fn begin(&mut self, input: &BreakerInput<'_>, path: &Path, is_repeat: bool, now: Now) {
        let conversation = match (input.to, input.progress) {
            (Audience::One(to), WorkProgress::None) => {
                let (from, to, kind) = (input.from.clone(), to.clone(), input.kind);
                let (path, at) = (path.clone(), now.uptime);
                ConversationState::First(FirstMessage { from, to, kind, path, at })
            }
            _ => {
                let mut conversation = Box::<Conversation>::default();
                conversation.record(input, path, is_repeat, now);
                ConversationState::Tracked(conversation)
            }
        };
        self.insert(input.correlation, conversation);
        self.evict_over_limit();
    }

    fn evict_over_limit(&mut self) {
        while self.participants > self.max_participants && self.entries.len() > 1 {
            self.participants -=
                self.entries.pop_oldest().map_or(0, |evicted| evicted.participants());
        }
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
