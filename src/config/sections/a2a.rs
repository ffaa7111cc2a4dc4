//! `[tasks]` and `[a2a]`: lifetime of A2A tasks, and features offered to A2A clients.

use std::num::NonZeroUsize;
use std::time::Duration;

use a2a_actors::tasks::{AfterRestart, TaskSettings};
use a2a_protocol::AgentId;
use a2a_protocol::wire::Version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use a2a_gateway::a2a::A2aSettings;
use a2a_webhooks::WebhookSettings;

const DAY: f64 = 86_400.0;
const MINUTE: f64 = 60.0;

/// `[tasks]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TaskValues {
    /// How long tasks that have ended are kept
    #[schemars(extend("x-reload" = true))]
    ttl_days: Option<f64>,
    /// How long a task may be worked on
    #[schemars(extend("x-reload" = true))]
    timeout_minutes: Option<f64>,
    /// Tasks that may wait in one conversation with one agent
    #[schemars(extend("x-reload" = true))]
    queue_per_context: Option<NonZeroUsize>,
    /// How a task that was at work when the server stopped continues: "resume" or "fail"
    after_restart: Option<After>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum After {
    Resume,
    Fail,
}

/// `[a2a]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct A2aValues {
    /// Who answers for the host itself
    agent: Option<String>,
    /// The versions of A2A that are spoken, in the order of the card
    versions: Option<Vec<String>>,
    /// Whether streams are offered
    streaming: Option<bool>,
    /// Whether push notifications are offered
    push_notifications: Option<bool>,
    /// URIs of extensions that every caller must activate
    required_extensions: Vec<String>,
    /// Media types that agents take
    input_modes: Option<Vec<String>>,
    /// Whether webhooks may be on this machine and in private networks, and `http`. For tests
    allow_private_webhooks: bool,
}

impl TaskValues {
    /// Converts to settings of the task service.
    pub(in crate::config) fn settings(&self) -> Result<TaskSettings, String> {
        let defaults = TaskSettings::default();
        let (ttl, timeout) = (self.ttl_days, self.timeout_minutes);
        Ok(TaskSettings {
            ttl: span("[tasks] ttl_days", ttl, DAY, defaults.ttl)?,
            timeout: span("[tasks] timeout_minutes", timeout, MINUTE, defaults.timeout)?,
            queue_per_context: self
                .queue_per_context
                .map_or(defaults.queue_per_context, NonZeroUsize::get),
            after_restart: match self.after_restart {
                None => defaults.after_restart,
                Some(After::Resume) => AfterRestart::Resume,
                Some(After::Fail) => AfterRestart::Fail,
            },
            ..defaults
        })
    }

    /// Fills in the defaults.
    pub(in crate::config) fn in_force(&self) -> Result<Self, String> {
        let settings = self.settings()?;
        Ok(Self {
            ttl_days: self.ttl_days.or(Some(settings.ttl.as_secs_f64() / DAY)),
            timeout_minutes: self.timeout_minutes.or(Some(settings.timeout.as_secs_f64() / MINUTE)),
            queue_per_context: NonZeroUsize::new(settings.queue_per_context),
            after_restart: Some(match settings.after_restart {
                AfterRestart::Resume => After::Resume,
                AfterRestart::Fail => After::Fail,
            }),
        })
    }
}

impl A2aValues {
    /// Fills in the defaults.
    pub(in crate::config) fn in_force(&self) -> Result<Self, String> {
        let settings = self.settings()?;
        let versions = settings.versions.iter().map(|version| version.as_str().to_owned());
        Ok(Self {
            agent: Some(settings.host.to_string()),
            versions: Some(versions.collect()),
            streaming: Some(settings.streaming),
            push_notifications: Some(settings.push),
            required_extensions: settings.required_extensions,
            input_modes: Some(settings.input_modes),
            allow_private_webhooks: self.allow_private_webhooks,
        })
    }

    /// Converts to settings of the A2A API.
    pub(in crate::config) fn settings(&self) -> Result<A2aSettings, String> {
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

    /// Converts to settings of webhooks.
    pub(in crate::config) fn webhooks(&self) -> WebhookSettings {
        WebhookSettings { allow_private: self.allow_private_webhooks, ..WebhookSettings::default() }
    }
}

/// Parses the offered versions, the preferred one first.
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

/// Converts a number with a unit to a duration of up to a hundred years.
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
    use super::*;
    use crate::config::Config;

    fn tasks(text: &str) -> Result<TaskSettings, String> {
        Config::parse(text)?.tasks()
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
            let config = Config::parse(text)?;
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
    fn invalid_values_are_refused() {
        for bad in ["ttl_days = 0", "timeout_minutes = -1", "ttl_days = 1e99", "ttl_days = nan"] {
            assert!(tasks(&format!("[tasks]\n{bad}")).is_err(), "{bad}");
        }
        assert!(tasks("[tasks]\nafter_restart = \"perhaps\"").is_err());
        assert!(tasks("[a2a]\nstreamin = true").unwrap_err().contains("streaming"));
    }
}
