//! What can be set about the bus.

use std::time::Duration;

use a2a_policy::{
    AccessRules, BreakerSettings, InboxLimits, LedgerSettings, Profile, RateSettings, RetryPolicy,
};
use a2a_protocol::AgentId;

use crate::STALLED;

/// The settings of a bus; the defaults are meant to be kept.
#[derive(Debug, Clone)]
pub struct BusSettings {
    /// The agents that are known from the start.
    pub agents: Vec<(AgentId, Profile)>,
    /// Agents that are part of the server: known whatever the directory says, reached by name only.
    pub built_in: Vec<(AgentId, Profile)>,
    /// A2A clients that have a token when the bus starts: no agent can have such a name.
    pub clients: Vec<AgentId>,
    /// Names under which A2A callers without a name of their own send: always clients'.
    pub unnamed: Vec<AgentId>,
    /// Whether senders nobody listed are admitted.
    pub open: bool,
    /// How many agents there may be; beyond that nobody new is admitted.
    pub max_agents: usize,
    /// How many dead letters are kept; beyond that the oldest are dropped.
    pub max_dead_letters: usize,
    /// Who may write to whom.
    pub access: AccessRules,
    /// How many agents one message may reach.
    pub max_recipients: usize,
    /// How much agents may say.
    pub rates: RateSettings,
    /// When a conversation goes in circles.
    pub breaker: BreakerSettings,
    /// How many tasks are kept.
    pub ledger: LedgerSettings,
    /// How often a delivery is tried.
    pub retry: RetryPolicy,
    /// How long a handler may take for one message.
    pub handler_deadline: Duration,
    /// How long a message taken over HTTP is kept for the one who took it.
    pub lease: Duration,
    /// How long an agent that takes its messages over HTTP counts as online after its last call.
    pub presence_grace: Duration,
    /// Messages that may wait for one session.
    pub inbox_limit: usize,
    /// Bytes of messages that may wait for one session.
    pub inbox_bytes: usize,
    /// Bytes of messages that the bus may hold for all agents together; one to several recipients
    /// counts once.
    pub pending_bytes: usize,
    /// Bytes of dead letters that are kept; beyond that the oldest are dropped.
    pub max_dead_letter_bytes: usize,
    /// Messages that may wait for a session that is there and still count as delivered.
    pub prompt_slots: usize,
    /// Messages that may wait for the disk; beyond that the bus answers `unavailable`.
    pub uncommitted_limit: usize,
    /// Messages in one commit; of events, which are smaller, four times as many.
    pub batch_limit: usize,
    /// Threads for agents' code.
    pub handler_threads: usize,
    /// A commit that takes longer makes the bus not ready.
    pub stalled_after: Duration,
}

/// What of the settings can change while the bus runs.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    /// The agents that are listed.
    pub agents: Vec<(AgentId, Profile)>,
    /// Whether senders nobody listed are admitted.
    pub open: bool,
    /// Who may write to whom.
    pub access: AccessRules,
    /// How many agents one message may reach.
    pub max_recipients: usize,
    /// How much agents may say.
    pub rates: RateSettings,
    /// When a conversation goes in circles.
    pub breaker: BreakerSettings,
    /// Messages that may wait for one session.
    pub inbox_limit: usize,
    /// Bytes of messages that may wait for one session.
    pub inbox_bytes: usize,
    /// Bytes of messages that the bus may hold for all agents together; one to several recipients
    /// counts once.
    pub pending_bytes: usize,
    /// Bytes of dead letters that are kept; beyond that the oldest are dropped.
    pub max_dead_letter_bytes: usize,
}

impl BusSettings {
    /// The part of them that can change while the bus runs.
    #[must_use]
    pub fn live(&self) -> LiveSettings {
        LiveSettings {
            agents: self.agents.clone(),
            open: self.open,
            access: self.access.clone(),
            max_recipients: self.max_recipients,
            rates: self.rates,
            breaker: self.breaker.clone(),
            inbox_limit: self.inbox_limit,
            inbox_bytes: self.inbox_bytes,
            pending_bytes: self.pending_bytes,
            max_dead_letter_bytes: self.max_dead_letter_bytes,
        }
    }

    pub(crate) fn inbox_limits(&self) -> InboxLimits {
        InboxLimits { messages: self.inbox_limit, bytes: self.inbox_bytes }
    }
}

impl LiveSettings {
    pub(crate) fn inbox_limits(&self) -> InboxLimits {
        InboxLimits { messages: self.inbox_limit, bytes: self.inbox_bytes }
    }
}

impl Default for BusSettings {
    fn default() -> Self {
        Self {
            agents: Vec::new(),
            built_in: Vec::new(),
            clients: Vec::new(),
            unnamed: Vec::new(),
            open: true,
            max_agents: 200_000,
            max_dead_letters: 10_000,
            access: AccessRules::default(),
            max_recipients: 10_000,
            rates: RateSettings::default(),
            breaker: BreakerSettings::default(),
            ledger: LedgerSettings::default(),
            retry: RetryPolicy::default(),
            handler_deadline: Duration::from_secs(30 * 60),
            lease: Duration::from_secs(60),
            presence_grace: Duration::from_secs(15),
            inbox_limit: 10_000,
            inbox_bytes: 64 << 20,
            pending_bytes: 512 << 20,
            max_dead_letter_bytes: 64 << 20,
            prompt_slots: 64,
            uncommitted_limit: 16_384,
            batch_limit: 1_024,
            handler_threads: std::thread::available_parallelism().map_or(2, |n| n.get().max(2)),
            stalled_after: STALLED,
        }
    }
}
