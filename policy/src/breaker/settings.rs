//! Settings of the circuit breaker: limits, times and table sizes.

use std::time::Duration;

/// When a circuit opens and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Whether loops are detected; circuits opened by hand work regardless.
    pub enabled: bool,
    /// The number of rounds in which the agents of a loop may repeat themselves.
    pub rounds: u32,
    /// The depth to which work may be delegated from agent to agent.
    pub max_hops: u32,
    /// The messages that may answer one another without progress; also the turns of a conversation
    /// in which no task ends, besides three per participant.
    pub max_turns: u32,
    /// How often one agent may send equal messages to another within the window.
    pub repeats: u32,
    /// The status updates that one agent may send another without an answer, besides three a minute.
    pub max_unanswered: u32,
    /// How many of them may repeat the same text, besides two a minute.
    pub max_unanswered_repeats: u32,
    /// The minimum time between two repeats that both count.
    pub repeat_gap: Duration,
    /// The time after which idle conversations and counters are reset.
    pub window: Duration,
    /// How long a circuit stays open the first time; each further trip doubles it.
    pub cooldown: Duration,
    /// The longest cooldown, except for circuits opened by hand.
    pub longest_cooldown: Duration,
    /// The number of messages that pass a half-open circuit.
    pub probes: u32,
    /// The maximum number of conversations in memory.
    pub max_correlations: usize,
    /// The maximum number of sender, recipient and content combinations in memory.
    pub max_pairs: usize,
    /// The maximum number of circuits.
    pub max_circuits: usize,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            rounds: 3,
            max_hops: 32,
            max_turns: 150,
            repeats: 20,
            max_unanswered: 170,
            max_unanswered_repeats: 40,
            repeat_gap: Duration::from_secs(5),
            window: Duration::from_secs(3_600),
            cooldown: Duration::from_secs(30),
            longest_cooldown: Duration::from_secs(3_600),
            probes: 3,
            max_correlations: 100_000,
            max_pairs: 100_000,
            max_circuits: 10_000,
        }
    }
}

impl BreakerSettings {
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.max(1)
    }

    pub(super) fn max_hops(&self) -> u32 {
        self.max_hops.max(1)
    }

    /// Holds `rounds` repeated rounds of a ring of the maximum depth after a first one, and one hop
    /// more.
    pub(super) fn longest_path(&self) -> usize {
        const LONGEST: u32 = 1_024;
        self.rounds().saturating_add(1).saturating_mul(self.max_hops()).min(LONGEST) as usize + 1
    }

    pub(super) fn cooldown(&self, trips: u32) -> Duration {
        let factor = 2u32.saturating_pow(trips.saturating_sub(1));
        self.cooldown.saturating_mul(factor).min(self.longest_cooldown)
    }
}
