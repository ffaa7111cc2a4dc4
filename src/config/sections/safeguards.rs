//! `[breaker]` and `[ledger]`: circuit breaker and task ledger.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use a2a_policy::{BreakerSettings, LedgerSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[breaker]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct BreakerValues {
    /// Whether conversations are stopped; what a person stopped stays so regardless
    enabled: Option<bool>,
    /// How many rounds a loop may repeat its texts
    rounds: Option<NonZeroU32>,
    /// Through how many agents a task may be handed on
    max_hops: Option<NonZeroU32>,
    /// New messages that may answer one another without progress; also the turns of a conversation
    /// without the end of a task, besides three for each participant
    max_turns: Option<NonZeroU32>,
    /// Status updates about tasks from one agent to another without an answer, besides three a minute
    max_unanswered: Option<NonZeroU32>,
    /// How many of those may repeat the same text, besides two a minute
    max_unanswered_repeats: Option<NonZeroU32>,
    /// How often an agent may send the same content to the same agent within the window
    repeats: Option<NonZeroU32>,
    /// Messages that a half-open circuit lets through
    probes: Option<NonZeroU32>,
    /// Conversations that are remembered
    max_correlations: Option<NonZeroUsize>,
    /// What is idle for so long starts afresh
    window_minutes: Option<NonZeroU32>,
    /// How long a circuit is open the first time; twice as long every further time
    cooldown_seconds: Option<NonZeroU32>,
    /// How long it is open at most; where it is left out, at least cooldown_seconds
    longest_cooldown_minutes: Option<NonZeroU32>,
}

impl BreakerValues {
    /// Converts to settings of the bus. Single values are checked by their types.
    pub(in crate::config) fn settings(&self) -> Result<BreakerSettings, String> {
        let defaults = BreakerSettings::default();
        let number = |value: Option<NonZeroU32>, default| value.map_or(default, NonZeroU32::get);
        let keys = self.max_correlations.map(NonZeroUsize::get);
        let settings = BreakerSettings {
            enabled: self.enabled.unwrap_or(defaults.enabled),
            rounds: number(self.rounds, defaults.rounds),
            max_hops: number(self.max_hops, defaults.max_hops),
            max_turns: number(self.max_turns, defaults.max_turns),
            max_unanswered: number(self.max_unanswered, defaults.max_unanswered),
            max_unanswered_repeats: number(
                self.max_unanswered_repeats,
                defaults.max_unanswered_repeats,
            ),
            repeats: number(self.repeats, defaults.repeats),
            probes: number(self.probes, defaults.probes),
            max_correlations: keys.unwrap_or(defaults.max_correlations),
            max_pairs: keys.unwrap_or(defaults.max_pairs),
            window: times(self.window_minutes, 60, defaults.window),
            cooldown: times(self.cooldown_seconds, 1, defaults.cooldown),
            longest_cooldown: times(
                self.longest_cooldown_minutes,
                60,
                defaults.longest_cooldown.max(times(self.cooldown_seconds, 1, Duration::ZERO)),
            ),
            ..defaults
        };
        if settings.cooldown > settings.longest_cooldown {
            return Err(format!(
                "[breaker] cooldown_seconds = {} is more than longest_cooldown_minutes = {} allows; make it at most {}",
                settings.cooldown.as_secs(),
                settings.longest_cooldown.as_secs() / 60,
                settings.longest_cooldown.as_secs()
            ));
        }
        Ok(settings)
    }
}

impl BreakerValues {
    /// Fills in the defaults.
    pub(in crate::config) fn in_force(&self) -> Result<Self, String> {
        let settings = self.settings()?;
        let number = NonZeroU32::new;
        let span = |span: Duration, unit| whole(span.as_secs().div_ceil(unit));
        Ok(Self {
            enabled: Some(settings.enabled),
            rounds: number(settings.rounds),
            max_hops: number(settings.max_hops),
            max_turns: number(settings.max_turns),
            max_unanswered: number(settings.max_unanswered),
            max_unanswered_repeats: number(settings.max_unanswered_repeats),
            repeats: number(settings.repeats),
            probes: number(settings.probes),
            max_correlations: NonZeroUsize::new(settings.max_correlations),
            window_minutes: span(settings.window, 60),
            cooldown_seconds: span(settings.cooldown, 1),
            longest_cooldown_minutes: span(settings.longest_cooldown, 60),
        })
    }
}

fn whole(number: u64) -> Option<NonZeroU32> {
    u32::try_from(number).ok().and_then(NonZeroU32::new)
}

fn times(value: Option<NonZeroU32>, seconds: u64, default: Duration) -> Duration {
    value.map_or(default, |value| Duration::from_secs(seconds * u64::from(value.get())))
}

/// `[ledger]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct LedgerValues {
    /// Whether tasks are kept count of; without it answers are not checked
    enabled: Option<bool>,
    /// Tasks that may be open at once
    max_open: Option<NonZeroUsize>,
    /// Ended tasks that are remembered
    max_finished: Option<NonZeroUsize>,
    /// Megabytes of text in all tasks, such as reasons and proposals; the oldest ended tasks go first
    max_text_mb: Option<NonZeroU32>,
    /// An open task without news for so long is marked overdue, and both sides are notified; 0 for
    /// never
    overdue_minutes: Option<u32>,
}

impl LedgerValues {
    /// Converts to settings of the bus.
    pub(in crate::config) fn settings(&self) -> LedgerSettings {
        let defaults = LedgerSettings::default();
        let number =
            |value: Option<NonZeroUsize>, default| value.map_or(default, NonZeroUsize::get);
        LedgerSettings {
            enabled: self.enabled.unwrap_or(defaults.enabled),
            max_open: number(self.max_open, defaults.max_open),
            max_ended: number(self.max_finished, defaults.max_ended),
            max_text_bytes: self.max_text_mb.map_or(defaults.max_text_bytes, |mb| {
                usize::try_from(mb.get()).unwrap_or(usize::MAX).saturating_mul(1 << 20)
            }),
            overdue_after: match self.overdue_minutes {
                None => defaults.overdue_after,
                Some(0) => None,
                Some(minutes) => Some(Duration::from_secs(60 * u64::from(minutes))),
            },
        }
    }

    /// Fills in the defaults.
    pub(in crate::config) fn in_force(&self) -> Self {
        let settings = self.settings();
        Self {
            enabled: Some(settings.enabled),
            max_open: NonZeroUsize::new(settings.max_open),
            max_finished: NonZeroUsize::new(settings.max_ended),
            max_text_mb: whole((settings.max_text_bytes >> 20) as u64),
            overdue_minutes: Some(
                settings
                    .overdue_after
                    .map_or(0, |after| u32::try_from(after.as_secs() / 60).unwrap_or(u32::MAX)),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use a2a_actors::BusSettings;

    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Result<BusSettings, String> {
        Config::parse(text)?.settings()
    }

    #[test]
    fn every_value_is_read_and_may_be_left_out() {
        let settings = parse(
            "[breaker]\nenabled = false\nrounds = 4\nmax_hops = 33\nmax_turns = 201\n\
             repeats = 21\nprobes = 5\nwindow_minutes = 61\ncooldown_seconds = 31\n\
             longest_cooldown_minutes = 62\nmax_correlations = 1000\n\
             [ledger]\nenabled = false\nmax_finished = 7\nmax_open = 8\nmax_text_mb = 6\n\
             overdue_minutes = 9\n\
             [limits]\nmax_recipients = 9",
        );
        let settings = settings.unwrap();
        let breaker = &settings.breaker;
        assert!(!breaker.enabled);
        assert_eq!((breaker.max_correlations, breaker.max_pairs), (1_000, 1_000));
        let numbers =
            [breaker.rounds, breaker.max_hops, breaker.max_turns, breaker.repeats, breaker.probes];
        assert_eq!(numbers, [4, 33, 201, 21, 5]);
        let times = [breaker.window, breaker.cooldown, breaker.longest_cooldown];
        assert_eq!(times, [3_660, 31, 3_720].map(Duration::from_secs));
        let overdue_after = Some(Duration::from_secs(540));
        let ledger = LedgerSettings {
            enabled: false,
            max_open: 8,
            max_ended: 7,
            max_text_bytes: 6 << 20,
            overdue_after,
        };
        assert_eq!(parse("[ledger]\noverdue_minutes = 0").unwrap().ledger.overdue_after, None);
        assert_eq!((settings.ledger, settings.max_recipients), (ledger, 9));
        let empty = parse("").unwrap();
        assert_eq!(empty.breaker, BreakerSettings::default());
        assert_eq!(empty.ledger, LedgerSettings::default());
    }

    #[test]
    fn zero_and_invalid_values_are_refused() {
        for (table, key) in [
            ("breaker", "rounds"),
            ("breaker", "max_hops"),
            ("breaker", "max_turns"),
            ("breaker", "repeats"),
            ("breaker", "probes"),
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
        let long = parse("[breaker]\ncooldown_seconds = 7200").unwrap().breaker;
        assert_eq!(long.longest_cooldown, Duration::from_secs(7_200), "the default gives way");
    }
}
