//! A circuit: what it stops, the reason and evidence, and when it becomes half-open.
//!
//! It is stored as JSON across restarts and shown to operators, so it contains everything needed to
//! understand it and nothing specific to one run of the bus.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use a2a_protocol::{AgentId, CircuitScope, CorrelationId};
use chrono::{DateTime, Utc};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Now;

/// The maximum number of participants in a circuit.
const MAX_PARTICIPANTS: usize = 64;

/// What a circuit stops.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CircuitKey {
    /// One conversation.
    Correlation(CorrelationId),
    /// Messages from one agent to another, in any conversation.
    Pair {
        /// The sender.
        from: AgentId,
        /// The recipient; `None` for a fan-out.
        to: Option<AgentId>,
        /// The hash of their content; `None` for new conversations and status updates with any
        /// content.
        content: Option<u64>,
    },
}

impl CircuitKey {
    /// The scope: a conversation or a pair.
    #[must_use]
    pub const fn scope(&self) -> CircuitScope {
        match self {
            Self::Correlation(_) => CircuitScope::Correlation,
            Self::Pair { .. } => CircuitScope::Pair,
        }
    }
}

impl fmt::Display for CircuitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Correlation(id) => write!(f, "correlation:{id}"),
            Self::Pair { from, to, content } => {
                let to = to.as_ref().map_or("*", AgentId::as_str);
                match content {
                    Some(content) => write!(f, "pair:{from}:{to}:{content:016x}"),
                    None => write!(f, "pair:{from}:{to}:*"),
                }
            }
        }
    }
}

/// The text is not a circuit key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a circuit is `correlation:<uuid>` or `pair:<from>:<to or *>:<16 hex digits or *>`")]
pub struct BadCircuitKey;

impl FromStr for CircuitKey {
    type Err = BadCircuitKey;

    fn from_str(text: &str) -> Result<Self, BadCircuitKey> {
        let (scope, rest) = text.split_once(':').ok_or(BadCircuitKey)?;
        match scope {
            "correlation" => rest.parse().map(Self::Correlation).map_err(|_| BadCircuitKey),
            "pair" => {
                let (from, rest) = rest.split_once(':').ok_or(BadCircuitKey)?;
                let (to, content) = rest.split_once(':').ok_or(BadCircuitKey)?;
                let agent = |name: &str| name.parse::<AgentId>().map_err(|_| BadCircuitKey);
                let from = agent(from)?;
                let to = if to == "*" { None } else { Some(agent(to)?) };
                if content == "*" {
                    return Ok(Self::Pair { from, to, content: None });
                }
                // `from_str_radix` would also read a sign.
                if content.len() != 16 || !content.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(BadCircuitKey);
                }
                let content = u64::from_str_radix(content, 16).map_err(|_| BadCircuitKey)?;
                Ok(Self::Pair { from, to, content: Some(content) })
            }
            _ => Err(BadCircuitKey),
        }
    }
}

impl JsonSchema for CircuitKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CircuitKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^(correlation:[0-9a-fA-F-]{36}|pair:[^:]+:[^:]+:([0-9a-fA-F]{16}|[*]))$",
            "description": "What is stopped: `correlation:<uuid>`, or `pair:<from>:<to or *>:<16 hex digits or *>`.",
            "examples": ["correlation:0192a4c8-7e1a-7b3c-9d4e-000000000002"],
        })
    }
}

impl Serialize for CircuitKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CircuitKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Why a circuit opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TripReason {
    /// The same agents sent each other messages, round after round.
    Loop,
    /// Work was delegated from agent to agent too often.
    TooDeep,
    /// A conversation took too many turns without ending a task.
    TooLong,
    /// The same content was sent repeatedly.
    Repeated,
    /// An operator opened it.
    Manual,
}

impl TripReason {
    /// All reasons.
    pub const ALL: &'static [Self] =
        &[Self::Loop, Self::TooDeep, Self::TooLong, Self::Repeated, Self::Manual];

    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::TooDeep => "too_deep",
            Self::TooLong => "too_long",
            Self::Repeated => "repeated",
            Self::Manual => "manual",
        }
    }
}

impl fmt::Display for TripReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a circuit that is not closed; closed circuits are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CircuitState {
    /// It refuses messages.
    Open,
    /// It lets a few messages pass, to see whether they make progress.
    HalfOpen,
}

impl CircuitState {
    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// An open or half-open circuit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Circuit {
    /// What is stopped.
    pub key: CircuitKey,
    /// Why.
    pub reason: TripReason,
    /// The evidence, as a sentence with agent names.
    pub evidence: String,
    /// The agents involved, sorted; at most 64 of them.
    pub participants: Vec<AgentId>,
    /// When it opened.
    #[schemars(with = "a2a_protocol::Timestamp")]
    pub since: DateTime<Utc>,
    /// When it becomes half-open; `null` if only an operator can reset it.
    #[schemars(with = "Option<a2a_protocol::Timestamp>")]
    pub until: Option<DateTime<Utc>>,
    /// How often it has opened; each time doubles the cooldown.
    pub trips: u32,
}

impl Circuit {
    /// Open or half-open.
    ///
    /// If the clock was set back to before the circuit opened, the remaining cooldown is unknown.
    /// The circuit is half-open then, which lets only a few messages pass.
    #[must_use]
    pub fn state(&self, now: Now) -> CircuitState {
        match self.until {
            None => CircuitState::Open,
            Some(until) if self.since <= now.utc && now.utc < until => CircuitState::Open,
            Some(_) => CircuitState::HalfOpen,
        }
    }

    /// The time until it becomes half-open; `None` when it is, or when only a reset closes it.
    #[must_use]
    pub fn retry_after(&self, now: Now) -> Option<Duration> {
        match self.state(now) {
            CircuitState::Open => self.until.and_then(|until| (until - now.utc).to_std().ok()),
            CircuitState::HalfOpen => None,
        }
    }

    /// Whether it has been half-open for `window` without enough attempts to trip it again.
    pub(super) fn lapsed(&self, window: Duration, now: Now) -> bool {
        let over = self.until.and_then(|until| (now.utc - until).to_std().ok());
        over.is_some_and(|over| over >= window)
    }
}

/// Unique and sorted, up to the maximum.
pub(super) fn participants<'a>(agents: impl IntoIterator<Item = &'a AgentId>) -> Vec<AgentId> {
    let mut named: Vec<&AgentId> = agents.into_iter().collect();
    named.sort_unstable();
    named.dedup();
    named.into_iter().take(MAX_PARTICIPANTS).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000002";

    fn at(secs: i64) -> Now {
        let utc = DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(secs);
        Now { utc, uptime: Duration::ZERO }
    }

    #[test]
    fn key_is_one_token_and_parses_back() {
        for text in [
            &format!("correlation:{ID}"),
            "pair:roman:tim:00000000000000ff",
            "pair:roman:*:ffffffffffffffff",
            "pair:roman:tim:*",
        ] {
            let key: CircuitKey = text.parse().unwrap();
            assert_eq!(key.to_string(), *text);
            assert!(text.starts_with(key.scope().as_str()));
            let json = serde_json::to_string(&key).unwrap();
            assert_eq!(serde_json::from_str::<CircuitKey>(&json).unwrap(), key);
        }
        for bad in [
            "",
            "pair",
            "correlation:roman",
            "pair:roman:tim",
            "pair:roman:tim:ff",
            "pair:*:tim:00000000000000ff",
            "pair:roman:tim:+0000000000000ff",
            "pair:roman:tim:00000000000000ff:1",
            "agent:roman",
        ] {
            assert_eq!(bad.parse::<CircuitKey>(), Err(BadCircuitKey), "{bad}");
        }
    }

    #[test]
    fn reason_is_equal_in_json_and_text() {
        for reason in TripReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        for state in [CircuitState::Open, CircuitState::HalfOpen] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn circuit_is_open_from_since_to_until_and_half_open_after_clock_jump() {
        let mut circuit = Circuit {
            key: format!("correlation:{ID}").parse().unwrap(),
            reason: TripReason::Loop,
            evidence: "roman → tim".into(),
            participants: vec!["roman".parse().unwrap()],
            since: at(100).utc,
            until: Some(at(130).utc),
            trips: 1,
        };
        let secs = |s| Some(Duration::from_secs(s));
        for (now, state, wait) in [
            (100, CircuitState::Open, secs(30)),
            (129, CircuitState::Open, secs(1)),
            (130, CircuitState::HalfOpen, None),
            (99, CircuitState::HalfOpen, None),
        ] {
            assert_eq!((circuit.state(at(now)), circuit.retry_after(at(now))), (state, wait));
        }
        assert!(!circuit.lapsed(Duration::from_secs(60), at(189)));
        assert!(circuit.lapsed(Duration::from_secs(60), at(190)));
        let json = serde_json::to_string(&circuit).unwrap();
        assert!(json.contains(r#""since":"1970-01-01T00:01:40Z""#), "{json}");
        assert_eq!(serde_json::from_str::<Circuit>(&json).unwrap(), circuit);
        circuit.until = None;
        assert_eq!(circuit.state(at(1_000_000)), CircuitState::Open);
        assert_eq!(circuit.retry_after(at(1_000_000)), None);
    }
}
