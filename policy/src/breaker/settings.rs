//! What the breaker is told: how much is too much, and how much it may remember.

use std::time::Duration;

/// When a circuit opens and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Whether anything is found at all; circuits opened by hand hold regardless.
    pub enabled: bool,
    /// How often a loop may go round.
    pub rounds: u32,
    /// How deep work may be handed on from agent to agent.
    pub max_hops: u32,
    /// Turns a conversation may take without ending a task, besides three for each participant.
    pub max_turns: u32,
    /// How often one agent may say the same to another within the window.
    pub repeats: u32,
    /// What comes sooner after the last that counted is not another repeat.
    pub repeat_gap: Duration,
    /// Conversations that are idle for so long start afresh, as do counts that are so old.
    pub window: Duration,
    /// How long a circuit stays open the first time; each further time twice as long.
    pub cooldown: Duration,
    /// No circuit stays open longer, unless it was opened by hand.
    pub longest_cooldown: Duration,
    /// How many messages a half-open circuit lets through.
    pub probes: u32,
    /// How many conversations are remembered at most.
    pub max_correlations: usize,
    /// How many things said from one agent to another are remembered at most.
    pub max_pairs: usize,
    /// How many circuits are kept at most.
    pub max_circuits: usize,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            rounds: 3,
            max_hops: 32,
            max_turns: 200,
            repeats: 20,
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

    /// Long enough to hold so many rounds of a ring that is not too deep, and one hop more.
    pub(super) fn longest_path(&self, rounds: u32) -> usize {
        const LONGEST: u32 = 1_024;
        rounds.saturating_mul(self.max_hops()).min(LONGEST) as usize + 1
    }

    pub(super) fn cooldown(&self, trips: u32) -> Duration {
        let factor = 2u32.saturating_pow(trips.saturating_sub(1));
        self.cooldown.saturating_mul(factor).min(self.longest_cooldown)
    }
}
