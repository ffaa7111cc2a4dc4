//! `[limits]` and `[delivery]`: rate limits, inbox limits and retries.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use a2a_actors::BusSettings;
use a2a_policy::{RateSettings, RetryPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[limits]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Limits {
    /// Messages a minute from one agent
    per_agent_per_minute: Option<NonZeroU32>,
    /// How many of those may come at once
    burst: Option<NonZeroU32>,
    /// Messages a minute from one agent to another
    per_pair_per_minute: Option<NonZeroU32>,
    /// How many of those may come at once; where it is left out, burst if that is set
    pair_burst: Option<NonZeroU32>,
    /// Messages a minute with priority urgent from one agent
    urgent_per_minute: Option<NonZeroU32>,
    /// Messages a minute from one agent that may be refused before they count as sent, such as
    /// those to unknown recipients; more are answered rate_limited
    refusals_per_minute: Option<NonZeroU32>,
    /// How many of those may come at once
    refusal_burst: Option<NonZeroU32>,
    /// Bytes a minute that one caller of A2A may send; messages of up to 4 KiB count as none
    a2a_bytes_per_minute: Option<NonZeroU32>,
    /// How many of those may come at once; where it is left out, a2a_bytes_per_minute if that is set
    a2a_byte_burst: Option<NonZeroU32>,
    /// Messages that may wait for one session
    inbox: Option<usize>,
    /// Megabytes of messages that may wait for one session
    inbox_mb: Option<NonZeroU32>,
    /// Megabytes of messages that the bus may hold for all agents together; a message to several counts once
    pending_mb: Option<NonZeroU32>,
    /// Megabytes of dead letters that are kept; the oldest go first
    dead_letters_mb: Option<NonZeroU32>,
    /// Agents that one message may reach
    max_recipients: Option<NonZeroUsize>,
}

impl Limits {
    pub(in crate::config) fn rates(&self) -> RateSettings {
        let defaults = RateSettings::default();
        RateSettings {
            per_agent_per_minute: self
                .per_agent_per_minute
                .unwrap_or(defaults.per_agent_per_minute),
            agent_burst: self.burst.unwrap_or(defaults.agent_burst),
            per_pair_per_minute: self.per_pair_per_minute.unwrap_or(defaults.per_pair_per_minute),
            pair_burst: self.pair_burst.or(self.burst).unwrap_or(defaults.pair_burst),
            urgent_per_minute: self.urgent_per_minute.unwrap_or(defaults.urgent_per_minute),
            refusals_per_minute: self.refusals_per_minute.unwrap_or(defaults.refusals_per_minute),
            refusal_burst: self.refusal_burst.unwrap_or(defaults.refusal_burst),
            a2a_bytes_per_minute: self
                .a2a_bytes_per_minute
                .unwrap_or(defaults.a2a_bytes_per_minute),
            a2a_byte_burst: self
                .a2a_byte_burst
                .or(self.a2a_bytes_per_minute)
                .unwrap_or(defaults.a2a_byte_burst),
            max_keys: defaults.max_keys,
        }
    }

    pub(in crate::config) fn inbox(&self, defaults: &BusSettings) -> usize {
        self.inbox.unwrap_or(defaults.inbox_limit)
    }

    pub(in crate::config) fn inbox_bytes(&self, defaults: &BusSettings) -> usize {
        bytes(self.inbox_mb, defaults.inbox_bytes)
    }

    pub(in crate::config) fn pending_bytes(&self, defaults: &BusSettings) -> usize {
        bytes(self.pending_mb, defaults.pending_bytes)
    }

    pub(in crate::config) fn dead_letter_bytes(&self, defaults: &BusSettings) -> usize {
        bytes(self.dead_letters_mb, defaults.max_dead_letter_bytes)
    }

    pub(in crate::config) fn max_recipients(&self, defaults: &BusSettings) -> usize {
        self.max_recipients.map_or(defaults.max_recipients, NonZeroUsize::get)
    }

    /// Fills in the defaults.
    pub(in crate::config) fn in_force(&self) -> Self {
        let (rates, defaults) = (self.rates(), BusSettings::default());
        Self {
            per_agent_per_minute: Some(rates.per_agent_per_minute),
            burst: Some(rates.agent_burst),
            per_pair_per_minute: Some(rates.per_pair_per_minute),
            pair_burst: Some(rates.pair_burst),
            urgent_per_minute: Some(rates.urgent_per_minute),
            refusals_per_minute: Some(rates.refusals_per_minute),
            refusal_burst: Some(rates.refusal_burst),
            a2a_bytes_per_minute: Some(rates.a2a_bytes_per_minute),
            a2a_byte_burst: Some(rates.a2a_byte_burst),
            inbox: Some(self.inbox(&defaults)),
            inbox_mb: megabytes(self.inbox_bytes(&defaults)),
            pending_mb: megabytes(self.pending_bytes(&defaults)),
            dead_letters_mb: megabytes(self.dead_letter_bytes(&defaults)),
            max_recipients: NonZeroUsize::new(self.max_recipients(&defaults)),
        }
    }
}

/// `[delivery]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Delivery {
    /// Attempts before a message becomes a dead letter
    attempts: Option<NonZeroU32>,
    /// The pause after the first failed attempt; each further one is four times as long
    first_pause_ms: Option<u64>,
    /// No pause is longer
    longest_pause_ms: Option<u64>,
    /// How long a message taken over HTTP is leased to the session that took it
    lease_seconds: Option<u64>,
    /// How long a handler, or an agent on its WebSocket, may take for one message
    handler_deadline_seconds: Option<u64>,
}

impl Delivery {
    pub(in crate::config) fn retry(&self) -> RetryPolicy {
        let defaults = RetryPolicy::default();
        let ms = |ms: Option<u64>, default| ms.map_or(default, Duration::from_millis);
        RetryPolicy {
            attempts: self.attempts.map_or(defaults.attempts, NonZeroU32::get),
            initial_backoff: ms(self.first_pause_ms, defaults.initial_backoff),
            max_backoff: ms(self.longest_pause_ms, defaults.max_backoff),
        }
    }

    pub(in crate::config) fn lease(&self, defaults: &BusSettings) -> Duration {
        seconds(self.lease_seconds, defaults.lease)
    }

    pub(in crate::config) fn handler_deadline(&self, defaults: &BusSettings) -> Duration {
        seconds(self.handler_deadline_seconds, defaults.handler_deadline)
    }

    /// Fills in the defaults.
    pub(in crate::config) fn in_force(&self) -> Self {
        let (retry, defaults) = (self.retry(), BusSettings::default());
        let ms = |span: Duration| u64::try_from(span.as_millis()).ok();
        Self {
            attempts: NonZeroU32::new(retry.attempts),
            first_pause_ms: ms(retry.initial_backoff),
            longest_pause_ms: ms(retry.max_backoff),
            lease_seconds: Some(self.lease(&defaults).as_secs()),
            handler_deadline_seconds: Some(self.handler_deadline(&defaults).as_secs()),
        }
    }
}

fn bytes(given: Option<NonZeroU32>, default: usize) -> usize {
    given.map_or(default, |mb| {
        usize::try_from(mb.get()).unwrap_or(usize::MAX).saturating_mul(1 << 20)
    })
}

fn megabytes(bytes: usize) -> Option<NonZeroU32> {
    u32::try_from(bytes >> 20).ok().and_then(NonZeroU32::new)
}

fn seconds(given: Option<u64>, default: Duration) -> Duration {
    // Bounded, so that it can be added to any instant.
    let longest = Duration::from_secs(30 * 86_400);
    given.map_or(default, |seconds| Duration::from_secs(seconds).min(longest))
}
