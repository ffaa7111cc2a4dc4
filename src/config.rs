//! The configuration file, and where everything lies.

mod a2a;
mod access;
mod audit;
mod auth;
mod http;
mod safeguards;
mod sessions;
mod tls;

use std::collections::HashSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use a2a_actors::BusSettings;
use a2a_actors::tasks::TaskSettings;
use a2a_policy::{Profile, RateSettings, RetryPolicy};
use a2a_protocol::AgentId;
use a2a_store::Retention;
use serde::Deserialize;

use crate::gateway::a2a::A2aSettings;
use crate::gateway::{HttpSettings, LogSettings, Redaction, SessionSettings};
use crate::tokens::Tokens;
use crate::webhooks::WebhookSettings;

use safeguards::{BreakerValues, LedgerValues};

/// Where the bus keeps its things.
#[derive(Debug, Clone)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// The folder given, else `OPENCLAW_STATE_DIR`, else `~/.openclaw`.
    #[must_use]
    pub fn find(given: Option<PathBuf>) -> Self {
        let from_environment = || std::env::var_os("OPENCLAW_STATE_DIR").map(PathBuf::from);
        let at_home = || std::env::home_dir().unwrap_or_default().join(".openclaw");
        Self(given.or_else(from_environment).unwrap_or_else(at_home))
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file that says where the server listens.
    #[must_use]
    pub fn address_file(&self) -> PathBuf {
        self.0.join("a2a.addr")
    }

    /// The configuration file, when no other is named.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.0.join("a2a.toml")
    }
}

/// The configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file.
    #[error("cannot read {}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What it says.
    #[error("{}", file.display())]
    Parse {
        /// Which.
        file: PathBuf,
        /// What is wrong, with the line.
        source: Box<toml::de::Error>,
    },
    /// A value that makes no sense.
    #[error("{}: {reason}", file.display())]
    Value {
        /// Which.
        file: PathBuf,
        /// Why.
        reason: String,
    },
}

/// `a2a.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    agents: Vec<AgentEntry>,
    access: Vec<access::AccessEntry>,
    breaker: BreakerValues,
    ledger: LedgerValues,
    directory: Directory,
    limits: Limits,
    delivery: Delivery,
    http: http::HttpValues,
    audit: audit::AuditValues,
    sessions: sessions::SessionValues,
    auth: auth::AuthValues,
    tasks: a2a::TaskValues,
    a2a: a2a::A2aValues,
    /// Where paths in it begin.
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentEntry {
    id: String,
    role: Option<String>,
    squad: Option<String>,
    tier: Option<String>,
    #[serde(default)]
    c_suite: bool,
    #[serde(default)]
    capabilities: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Directory {
    /// Whether senders nobody listed are admitted; by default when nobody is listed.
    open: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    per_agent_per_minute: Option<NonZeroU32>,
    burst: Option<NonZeroU32>,
    per_pair_per_minute: Option<NonZeroU32>,
    pair_burst: Option<NonZeroU32>,
    urgent_per_minute: Option<NonZeroU32>,
    inbox: Option<usize>,
    /// Of one fan-out.
    max_recipients: Option<NonZeroUsize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Delivery {
    attempts: Option<NonZeroU32>,
    first_pause_ms: Option<u64>,
    longest_pause_ms: Option<u64>,
    lease_seconds: Option<u64>,
    handler_deadline_seconds: Option<u64>,
}

impl Config {
    /// Reads `file`; a file that nobody named and that is not there means the defaults.
    ///
    /// # Errors
    /// When it cannot be read or says something this version does not know.
    pub fn read(file: &Path, required: bool) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => {
                return Ok(Self::default());
            }
            Err(source) => return Err(ConfigError::Read { file: file.into(), source }),
        };
        let mut parsed: Self = toml::from_str(&text)
            .map_err(|source| ConfigError::Parse { file: file.into(), source: Box::new(source) })?;
        parsed.folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let checked = parsed.settings().and_then(|_| parsed.tokens()).and_then(|_| parsed.log());
        let checked = checked.and_then(|_| parsed.tasks()).and_then(|_| parsed.a2a());
        checked.map_err(|reason| ConfigError::Value { file: file.into(), reason })?;
        Ok(parsed)
    }

    /// Where to listen, if the file says.
    #[must_use]
    pub fn listen(&self) -> Option<&str> {
        self.http.listen()
    }

    /// What HTTP may cost and whom it answers.
    ///
    /// # Errors
    /// A sentence about the value that makes no sense.
    pub fn http(&self) -> Result<HttpSettings, String> {
        self.http.settings()
    }

    /// How to listen under TLS, if the file says so.
    ///
    /// # Errors
    /// A sentence about the certificate or key that cannot be used.
    pub fn tls(&self) -> Result<Option<rustls::ServerConfig>, String> {
        self.http.tls().map(|tls| tls.server(&self.folder)).transpose()
    }

    /// The certificates by which our own commands know the server; none without TLS.
    ///
    /// # Errors
    /// A sentence about the certificate that cannot be read.
    pub fn trusted(&self) -> Result<Vec<Vec<u8>>, String> {
        self.http.tls().map_or(Ok(Vec::new()), |tls| tls.trusted(&self.folder))
    }

    /// The agents that are listed.
    ///
    /// # Errors
    /// A sentence about the entry that makes no sense.
    pub fn listed(&self) -> Result<Vec<AgentId>, String> {
        Ok(self.agents()?.into_iter().map(|(id, _)| id).collect())
    }

    /// The tokens that are known; none when nobody is asked for one.
    ///
    /// # Errors
    /// A sentence about the entry that makes no sense.
    pub fn tokens(&self) -> Result<Tokens, String> {
        let tokens = self.auth.tokens()?;
        match tokens.clash(&Tokens::default(), &self.listed()?) {
            Some(name) => Err(format!(
                "[[auth.tokens]] client = \"{name}\": `{name}` is an agent; give the client another name"
            )),
            None => Ok(tokens),
        }
    }

    /// How the log is shown.
    ///
    /// # Errors
    /// A sentence about the entry that makes no sense.
    pub fn log(&self) -> Result<LogSettings, String> {
        Ok(LogSettings::new(self.audit.redaction()?, self.http()?.stalled))
    }

    /// How long tasks may take and are kept.
    ///
    /// # Errors
    /// A sentence about the value that makes no sense.
    pub fn tasks(&self) -> Result<TaskSettings, String> {
        self.a2a.tasks(&self.tasks)
    }

    /// What A2A clients are offered.
    ///
    /// # Errors
    /// A sentence about the value that makes no sense.
    pub fn a2a(&self) -> Result<A2aSettings, String> {
        self.a2a.settings()
    }

    /// How webhooks are called.
    #[must_use]
    pub fn webhooks(&self) -> WebhookSettings {
        self.a2a.webhooks()
    }

    /// What sessions of other processes may do.
    ///
    /// # Errors
    /// A sentence about the value that makes no sense.
    pub fn sessions(&self) -> Result<SessionSettings, String> {
        let stalled = self.http()?.stalled;
        Ok(self.sessions.settings(stalled, self.settings()?.handler_deadline))
    }

    /// How long the log is kept.
    #[must_use]
    pub fn retention(&self) -> Retention {
        self.audit.retention()
    }

    /// What is hidden from those who read the log.
    ///
    /// # Errors
    /// A sentence about the entry that makes no sense.
    pub fn redaction(&self) -> Result<Redaction, String> {
        self.audit.redaction()
    }

    /// What it means for the bus.
    ///
    /// # Errors
    /// A sentence about the value that makes no sense.
    pub fn settings(&self) -> Result<BusSettings, String> {
        let defaults = BusSettings::default();
        let rates = RateSettings::default();
        let agents = self.agents()?;
        let ms = |ms: Option<u64>, default| ms.map_or(default, Duration::from_millis);
        // Longer than anybody waits, and short enough to be added to any time.
        let longest = Duration::from_secs(30 * 86_400);
        let seconds =
            |s: Option<u64>, default| s.map_or(default, |s| Duration::from_secs(s).min(longest));
        let (limits, delivery) = (&self.limits, &self.delivery);
        Ok(BusSettings {
            open: self.directory.open.unwrap_or(agents.is_empty()),
            agents,
            rates: RateSettings {
                per_agent_per_minute: limits
                    .per_agent_per_minute
                    .unwrap_or(rates.per_agent_per_minute),
                agent_burst: limits.burst.unwrap_or(rates.agent_burst),
                per_pair_per_minute: limits
                    .per_pair_per_minute
                    .unwrap_or(rates.per_pair_per_minute),
                pair_burst: limits.pair_burst.or(limits.burst).unwrap_or(rates.pair_burst),
                urgent_per_minute: limits.urgent_per_minute.unwrap_or(rates.urgent_per_minute),
                max_keys: rates.max_keys,
            },
            retry: RetryPolicy {
                attempts: delivery.attempts.map_or(defaults.retry.attempts, NonZeroU32::get),
                first_pause: ms(delivery.first_pause_ms, defaults.retry.first_pause),
                longest_pause: ms(delivery.longest_pause_ms, defaults.retry.longest_pause),
            },
            lease: seconds(delivery.lease_seconds, defaults.lease),
            handler_deadline: seconds(delivery.handler_deadline_seconds, defaults.handler_deadline),
            inbox_limit: limits.inbox.unwrap_or(defaults.inbox_limit),
            access: access::read(&self.access)?,
            max_recipients: limits
                .max_recipients
                .map_or(defaults.max_recipients, NonZeroUsize::get),
            breaker: self.breaker.settings()?,
            ledger: self.ledger.settings(),
            ..defaults
        })
    }

    fn agents(&self) -> Result<Vec<(AgentId, Profile)>, String> {
        let agents = self.agents.iter().map(AgentEntry::read).collect::<Result<Vec<_>, _>>()?;
        let mut ids = HashSet::new();
        match agents.iter().find(|(id, _)| !ids.insert(id)) {
            Some((id, _)) => {
                Err(format!("[[agents]] id = \"{id}\" is there twice; leave one of them out"))
            }
            None => Ok(agents),
        }
    }
}

impl AgentEntry {
    fn read(&self) -> Result<(AgentId, Profile), String> {
        let id =
            self.id.parse().map_err(|error| format!("[[agents]] id = {:?}: {error}", self.id))?;
        if a2a_policy::Roster::is_reserved(&id) {
            return Err(format!("[[agents]] id = {:?}: the name is reserved", self.id));
        }
        let profile = Profile {
            role: self.role.clone(),
            squad: self.squad.clone(),
            tier: self.tier.clone(),
            c_suite: self.c_suite,
            capabilities: self.capabilities.clone(),
        };
        let checked = profile.check();
        let profile = checked.map_err(|error| format!("[[agents]] id = {:?}: {error}", self.id))?;
        Ok((id, profile))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BusSettings, String> {
        toml::from_str::<Config>(text).map_err(|e| e.to_string())?.settings()
    }

    #[test]
    fn the_directory_is_open_until_somebody_is_listed() {
        assert!(parse("").unwrap().open);
        assert!(!parse("[[agents]]\nid = \"tim\"").unwrap().open);
        assert!(parse("[directory]\nopen = true\n[[agents]]\nid = \"tim\"").unwrap().open);
    }

    #[test]
    fn unknown_keys_and_senseless_values_are_refused() {
        assert!(
            parse("[limits]\nper_agent_per_minut = 5")
                .unwrap_err()
                .contains("per_agent_per_minute")
        );
        assert!(parse("[limits]\nper_agent_per_minute = 0").is_err());
        assert!(parse("[[agents]]\nid = \"a b\"").unwrap_err().contains("agent id"));
        assert!(parse("[[agents]]\nid = \"system\"").unwrap_err().contains("reserved"));
        assert!(parse("[[agents]]\nid = \"tim\"\nsquad = \"\"").unwrap_err().contains("`squad`"));
        let twice = parse("[[agents]]\nid = \"tim\"\n[[agents]]\nid = \"tim\"");
        assert!(twice.unwrap_err().contains("twice"));
    }

    #[test]
    fn an_agent_is_read_with_its_profile() {
        let tim = "[[agents]]\nid = \"tim\"\nrole = \"VP Architecture\"\nsquad = \"core\"\n\
                   tier = \"T1\"\nc_suite = true\ncapabilities = [\"review\", \"design\"]";
        let profile = Profile {
            role: Some("VP Architecture".into()),
            squad: Some("core".into()),
            tier: Some("T1".into()),
            c_suite: true,
            capabilities: vec!["review".into(), "design".into()],
        };
        assert_eq!(parse(tim).unwrap().agents, [("tim".parse().unwrap(), profile)]);
    }

    #[test]
    fn a_file_with_a_bad_rule_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a2a.toml");
        std::fs::write(&file, "[[access]]\nallow = true\nfrom = \"sqad:core\"").unwrap();
        let refused = Config::read(&file, true).unwrap_err();
        assert!(refused.to_string().contains("rule-1"), "{refused}");
    }
}
