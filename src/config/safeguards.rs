//! `[breaker]` and `[ledger]`: what keeps conversations from going in circles, and how much
//! about tasks is remembered.
//!
//! Every value may be left out; what is left out is for the part it concerns to choose.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use serde::Deserialize;

/// `[breaker]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerValues {
    /// Whether conversations are watched at all.
    pub enabled: Option<bool>,
    /// Rounds of a review before somebody senior decides.
    pub rounds: Option<NonZeroU32>,
    /// How many times a task may be handed on.
    pub max_hops: Option<NonZeroU32>,
    /// Messages in one conversation.
    pub max_turns: Option<NonZeroU32>,
    /// How often the same may be said.
    pub repeats: Option<NonZeroU32>,
    /// Conversations that are remembered.
    pub max_correlations: Option<NonZeroUsize>,
    window_minutes: Option<NonZeroU32>,
    cooldown_seconds: Option<NonZeroU32>,
    longest_cooldown_minutes: Option<NonZeroU32>,
}

impl BreakerValues {
    /// How far back it looks.
    #[must_use]
    pub fn window(&self) -> Option<Duration> {
        self.window_minutes.map(minutes)
    }

    /// How long a conversation rests when it was first stopped.
    #[must_use]
    pub fn cooldown(&self) -> Option<Duration> {
        self.cooldown_seconds.map(|seconds| Duration::from_secs(seconds.get().into()))
    }

    /// How long it rests at most.
    #[must_use]
    pub fn longest_cooldown(&self) -> Option<Duration> {
        self.longest_cooldown_minutes.map(minutes)
    }

    /// That the values fit each other; each by itself is checked by its type.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.cooldown(), self.longest_cooldown()) {
            (Some(first), Some(longest)) if first > longest => Err(format!(
                "[breaker] cooldown_seconds = {} is more than longest_cooldown_minutes = {} allows; make it at most {}",
                first.as_secs(),
                longest.as_secs() / 60,
                longest.as_secs()
            )),
            _ => Ok(()),
        }
    }
}

fn minutes(minutes: NonZeroU32) -> Duration {
    Duration::from_secs(60 * u64::from(minutes.get()))
}

/// `[ledger]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LedgerValues {
    /// Ended tasks that are remembered.
    pub max_finished: Option<NonZeroUsize>,
    /// Tasks that may be open.
    pub max_open: Option<NonZeroUsize>,
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check().map(|()| config)
    }

    #[test]
    fn every_value_is_read_and_may_be_left_out() {
        let config = parse(
            "[breaker]\nenabled = false\nrounds = 3\nmax_hops = 32\nmax_turns = 200\n\
             repeats = 20\nwindow_minutes = 60\ncooldown_seconds = 30\n\
             longest_cooldown_minutes = 60\nmax_correlations = 100000\n\
             [ledger]\nmax_finished = 100000\nmax_open = 1000000\n\
             [limits]\nmax_recipients = 10000",
        );
        let config = config.unwrap();
        let (breaker, ledger) = (config.breaker_values(), config.ledger_values());
        assert_eq!(breaker.enabled, Some(false));
        assert_eq!(breaker.max_correlations, NonZeroUsize::new(100_000));
        let numbers = [breaker.rounds, breaker.max_hops, breaker.max_turns, breaker.repeats];
        assert_eq!(numbers, [3, 32, 200, 20].map(NonZeroU32::new));
        let times = [breaker.window(), breaker.cooldown(), breaker.longest_cooldown()];
        assert_eq!(times, [3_600, 30, 3_600].map(|s| Some(Duration::from_secs(s))));
        assert_eq!(ledger.max_finished, NonZeroUsize::new(100_000));
        assert_eq!(ledger.max_open, NonZeroUsize::new(1_000_000));
        assert_eq!(config.max_recipients(), NonZeroUsize::new(10_000));
        let empty = parse("").unwrap();
        assert_eq!(*empty.breaker_values(), BreakerValues::default());
        assert_eq!(*empty.ledger_values(), LedgerValues::default());
        assert_eq!(empty.max_recipients(), None);
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        for (table, key) in [
            ("breaker", "rounds"),
            ("breaker", "max_hops"),
            ("breaker", "max_turns"),
            ("breaker", "repeats"),
            ("breaker", "window_minutes"),
            ("breaker", "cooldown_seconds"),
            ("breaker", "longest_cooldown_minutes"),
            ("breaker", "max_correlations"),
            ("ledger", "max_finished"),
            ("ledger", "max_open"),
            ("limits", "max_recipients"),
        ] {
            assert!(parse(&format!("[{table}]\n{key} = 1")).is_ok(), "{key}");
            for value in ["0", "-1", "\"many\""] {
                let refused = parse(&format!("[{table}]\n{key} = {value}")).unwrap_err();
                assert!(refused.contains(key), "{refused}");
            }
        }
        assert!(parse("[breaker]\nround = 3").unwrap_err().contains("`rounds`"));
        assert!(parse("[ledger]\nmax = 3").unwrap_err().contains("`max_open`"));
        let long = "[breaker]\ncooldown_seconds = 61\nlongest_cooldown_minutes = 1";
        assert!(parse(long).unwrap_err().contains("at most 60"));
    }
}
