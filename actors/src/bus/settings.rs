//! Settings of the bus.

use std::time::Duration;

use a2a_policy::{
    AccessRules, BreakerSettings, InboxLimits, LedgerSettings, Profile, RateSettings, RetryPolicy,
};
use a2a_protocol::AgentId;

use crate::STALLED;

/// Settings of a bus; the defaults suit most installations.
#[derive(Debug, Clone)]
pub struct BusSettings {
    /// Agents listed in the configuration.
    pub agents: Vec<(AgentId, Profile)>,
    /// Agents that are part of the server: in the directory whatever the configuration lists, and
    /// reached by name only.
    pub built_in: Vec<(AgentId, Profile)>,
    /// A2A clients with a token at the start: no agent can have such a name.
    pub clients: Vec<AgentId>,
    /// Names under which A2A callers without a name of their own send; always clients.
    pub unnamed: Vec<AgentId>,
    /// Whether senders that are not listed are admitted.
    pub open: bool,
    /// Maximum number of agents; beyond it no new one is admitted.
    pub max_agents: usize,
    /// Maximum number of dead letters; beyond it the oldest are dropped.
    pub max_dead_letters: usize,
    /// Rules for which agent may write to which.
    pub access: AccessRules,
    /// Maximum recipients of one message.
    pub max_recipients: usize,
    /// Rate limits of senders.
    pub rates: RateSettings,
    /// When the breaker opens a circuit.
    pub breaker: BreakerSettings,
    /// Limits of the task ledger.
    pub ledger: LedgerSettings,
    /// Attempts per delivery and the backoff between them.
    pub retry: RetryPolicy,
    /// Time limit of a handler for one message.
    pub handler_deadline: Duration,
    /// Lease of a message taken over HTTP.
    pub lease: Duration,
    /// How long an agent that polls counts as online after its last call.
    pub presence_grace: Duration,
    /// Maximum messages waiting for one session.
    pub inbox_limit: usize,
    /// Maximum bytes waiting for one session.
    pub inbox_bytes: usize,
    /// Maximum bytes the bus holds for all agents together; a message to several recipients counts
    /// once.
    pub pending_bytes: usize,
    /// Maximum bytes of dead letters; beyond it the oldest are dropped.
    pub max_dead_letter_bytes: usize,
    /// Messages that may wait for an attached session and still count as delivered.
    pub prompt_slots: usize,
    /// Maximum messages waiting for a commit; beyond it the bus answers `unavailable`.
    pub uncommitted_limit: usize,
    /// Maximum messages in one commit; of events, which are smaller, four times as many.
    pub batch_limit: usize,
    /// Number of threads for agents' code.
    pub handler_threads: usize,
    /// Commit time beyond which the bus is not ready.
    pub stalled_after: Duration,
}

/// Settings that can change while the bus runs.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    /// Agents listed in the configuration.
    pub agents: Vec<(AgentId, Profile)>,
    /// Whether senders that are not listed are admitted.
    pub open: bool,
    /// Rules for which agent may write to which.
    pub access: AccessRules,
    /// Maximum recipients of one message.
    pub max_recipients: usize,
    /// Rate limits of senders.
    pub rates: RateSettings,
    /// When the breaker opens a circuit.
    pub breaker: BreakerSettings,
    /// Maximum messages waiting for one session.
    pub inbox_limit: usize,
    /// Maximum bytes waiting for one session.
    pub inbox_bytes: usize,
    /// Maximum bytes the bus holds for all agents together; a message to several recipients counts
    /// once.
    pub pending_bytes: usize,
    /// Maximum bytes of dead letters; beyond it the oldest are dropped.
    pub max_dead_letter_bytes: usize,
}

impl BusSettings {
    /// The settings that can change while the bus runs.
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
