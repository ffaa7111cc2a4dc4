//! `[tasks]` and `[a2a]`: how long tasks may take and are kept, and what A2A clients are offered.

use std::num::NonZeroUsize;
use std::time::Duration;

use a2a_actors::tasks::{AfterRestart, TaskSettings};
use a2a_protocol::AgentId;
use a2a_protocol::wire::Version;
use serde::Deserialize;

use crate::gateway::a2a::A2aSettings;
use crate::webhooks::WebhookSettings;

/// `[tasks]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TaskValues {
    ttl_days: Option<f64>,
    timeout_minutes: Option<f64>,
    queue_per_context: Option<NonZeroUsize>,
    after_restart: Option<After>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum After {
    Resume,
    Fail,
}

/// `[a2a]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct A2aValues {
    agent: Option<String>,
    versions: Option<Vec<String>>,
    streaming: Option<bool>,
    push_notifications: Option<bool>,
    required_extensions: Vec<String>,
    input_modes: Option<Vec<String>>,
    allow_private_webhooks: bool,
    tasks: SeedValues,
}

/// `[a2a.tasks]`: the spelling in which these were first written down.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct SeedValues {
    ttl_days: Option<f64>,
    timeout_minutes: Option<f64>,
}

impl A2aValues {
    /// What it means for tasks, together with `[tasks]`.
    pub(super) fn tasks(&self, values: &TaskValues) -> Result<TaskSettings, String> {
        let defaults = TaskSettings::default();
        let one = |place: &str, new: Option<f64>, old: Option<f64>| match (new, old) {
            (Some(new), Some(old)) if new.to_bits() != old.to_bits() => {
                Err(format!("{place} is said twice, with different values"))
            }
            (new, old) => Ok(new.or(old)),
        };
        let ttl = one("[tasks] ttl_days", values.ttl_days, self.tasks.ttl_days)?;
        let timeout =
            one("[tasks] timeout_minutes", values.timeout_minutes, self.tasks.timeout_minutes)?;
        Ok(TaskSettings {
            ttl: span("[tasks] ttl_days", ttl, 86_400.0, defaults.ttl)?,
            timeout: span("[tasks] timeout_minutes", timeout, 60.0, defaults.timeout)?,
            queue_per_context: values
                .queue_per_context
                .map_or(defaults.queue_per_context, NonZeroUsize::get),
            after_restart: match values.after_restart {
                None => defaults.after_restart,
                Some(After::Resume) => AfterRestart::Resume,
                Some(After::Fail) => AfterRestart::Fail,
            },
            ..defaults
        })
    }

    /// What it means for A2A clients.
    pub(super) fn settings(&self) -> Result<A2aSettings, String> {
        let host = self.agent.as_deref().unwrap_or(crate::agents::host::NAME);
        let host: AgentId =
            host.parse().map_err(|error| format!("[a2a] agent = {host:?}: {error}"))?;
        let defaults = A2aSettings::new(host);
        let versions = self.versions.as_deref().map(versions).transpose()?;
        Ok(A2aSettings {
            versions: versions.unwrap_or(defaults.versions),
            streaming: self.streaming.unwrap_or(defaults.streaming),
            push: self.push_notifications.unwrap_or(defaults.push),
            required_extensions: self.required_extensions.clone(),
            input_modes: self.input_modes.clone().unwrap_or(defaults.input_modes),
            ..defaults
        })
    }

    /// What it means for webhooks.
    pub(super) fn webhooks(&self) -> WebhookSettings {
        WebhookSettings { allow_private: self.allow_private_webhooks, ..WebhookSettings::default() }
    }
}

/// The versions to be spoken, the preferred one first.
fn versions(words: &[String]) -> Result<Vec<Version>, String> {
    let mut versions = Vec::new();
    for word in words {
        let known = Version::ALL.iter().find(|version| version.as_str() == word);
        match known {
            Some(version) if !versions.contains(version) => versions.push(*version),
            Some(_) => return Err(format!("[a2a] versions names {word:?} twice")),
            None => return Err(format!("[a2a] versions names {word:?}; known are 1.0 and 0.3")),
        }
    }
    if versions.is_empty() {
        return Err("[a2a] versions is empty; name 1.0, 0.3 or both".to_owned());
    }
    Ok(versions)
}

/// A span of time, which may have a fraction; up to a hundred years.
fn span(
    place: &str,
    value: Option<f64>,
    unit_seconds: f64,
    default: Duration,
) -> Result<Duration, String> {
    let Some(value) = value else { return Ok(default) };
    let seconds = value * unit_seconds;
    if seconds > 0.0 && seconds <= 36_525.0 * 86_400.0 {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(format!("{place} = {value}: a number above 0, and at most a hundred years"))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn tasks(text: &str) -> Result<TaskSettings, String> {
        toml::from_str::<Config>(text).map_err(|error| error.to_string())?.tasks()
    }

    #[test]
    fn both_spellings_are_read() {
        let new = tasks("[tasks]\nttl_days = 2\ntimeout_minutes = 0.5").unwrap();
        let old = tasks("[a2a.tasks]\nttlDays = 2\ntimeoutMinutes = 0.5").unwrap();
        assert_eq!(new, old);
        assert_eq!(new.ttl, Duration::from_secs(2 * 86_400));
        assert_eq!(new.timeout, Duration::from_secs(30));
        assert_eq!(tasks("").unwrap(), TaskSettings::default());
        let both = tasks("[tasks]\nttl_days = 2\n[a2a.tasks]\nttlDays = 3");
        assert!(both.unwrap_err().contains("twice"));
    }

    #[test]
    fn versions_are_known_and_named_once() {
        let spoken = |text: &str| {
            let config = toml::from_str::<Config>(text).map_err(|error| error.to_string())?;
            config.a2a().map(|settings| settings.versions)
        };
        assert_eq!(spoken(""), Ok(vec![Version::V1_0, Version::V0_3]));
        assert_eq!(spoken("[a2a]\nversions = [\"0.3\"]"), Ok(vec![Version::V0_3]));
        for (bad, says) in [
            ("[]", "empty"),
            ("[\"1.0\", \"1.0\"]", "twice"),
            ("[\"1.1\"]", "known are"),
            ("\"1.0\"", "sequence"),
        ] {
            let error = spoken(&format!("[a2a]\nversions = {bad}")).unwrap_err();
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn senseless_values_are_refused() {
        for bad in ["ttl_days = 0", "timeout_minutes = -1", "ttl_days = 1e99", "ttl_days = nan"] {
            assert!(tasks(&format!("[tasks]\n{bad}")).is_err(), "{bad}");
        }
        assert!(tasks("[tasks]\nafter_restart = \"perhaps\"").is_err());
        assert!(tasks("[a2a]\nstreamin = true").unwrap_err().contains("streaming"));
    }
}
