//! `[sessions]`: WebSocket sessions of agents in other processes.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use a2a_gateway::SessionSettings;

/// `[sessions]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct SessionValues {
    /// Connections of one agent, sessions that are kept included
    per_agent: Option<NonZeroUsize>,
    /// Connections of all agents
    total: Option<NonZeroUsize>,
    /// A connection from which nothing arrives for so long, answers to pings included, is lost
    silent_seconds: Option<NonZeroU32>,
    /// How long a client may ask for its session to be kept after its connection was lost
    longest_grace_seconds: Option<u32>,
}

impl SessionValues {
    pub(in crate::config) fn settings(
        &self,
        stalled: Duration,
        lease: Duration,
    ) -> SessionSettings {
        let defaults = SessionSettings::default();
        let silent = self.silent_seconds.map(|s| Duration::from_secs(s.get().into()));
        let grace = self.longest_grace_seconds.map(|s| Duration::from_secs(s.into()));
        SessionSettings {
            per_agent: self.per_agent.map_or(defaults.per_agent, NonZeroUsize::get),
            total: self.total.map_or(defaults.total, NonZeroUsize::get),
            silent: silent.unwrap_or(defaults.silent),
            stalled,
            longest_grace: grace.unwrap_or(defaults.longest_grace),
            lease,
        }
    }

    /// Fills in the defaults.
    pub(in crate::config) fn in_force(&self) -> Self {
        let settings = self.settings(Duration::ZERO, Duration::ZERO);
        let seconds = |span: Duration| u32::try_from(span.as_secs()).ok();
        Self {
            per_agent: NonZeroUsize::new(settings.per_agent),
            total: NonZeroUsize::new(settings.total),
            silent_seconds: seconds(settings.silent).and_then(NonZeroU32::new),
            longest_grace_seconds: seconds(settings.longest_grace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_limits_of_sessions_are_read() {
        let parse = |text: &str| Config::parse(text).map(|c| c.sessions().unwrap());
        let all = "[sessions]\nper_agent = 2\ntotal = 3\nsilent_seconds = 4\nlongest_grace_seconds = 0\n\
                   [http]\nstalled_seconds = 5\n[delivery]\nhandler_deadline_seconds = 6";
        let read = parse(all).unwrap();
        assert_eq!((read.per_agent, read.total), (2, 3));
        assert_eq!(read.silent, Duration::from_secs(4));
        assert_eq!(read.stalled, Duration::from_secs(5));
        assert_eq!(read.lease, Duration::from_secs(6));
        assert_eq!(read.longest_grace, Duration::ZERO);
        for bad in ["per_agent = 0", "total = 0", "silent_seconds = 0", "silent = 1"] {
            assert!(parse(&format!("[sessions]\n{bad}")).is_err(), "{bad}");
        }
    }
}
