//! Configuration: keys, values in force, and the origin of each.
//!
//! ```text
//!  a2a.toml ─ document ─┐
//!                       ├─▶ units, each with its place ─▶ assembly ─▶ Config, or every problem
//!  OPENCLAW_A2A_* ─ environment ─┘                                     │
//!                                                             in_force, changes
//! ```
//!
//! The structs of the sections are the only list of keys there is: [`sections()`] reads names,
//! meanings and defaults off them, for the file that `config init` writes, for `config show`, for
//! the environment and for docs/configuration.md.

mod assembly;
mod changes;
mod document;
mod environment;
mod keys;
mod problem;
mod sections;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_actors::BusSettings;
use a2a_actors::tasks::TaskSettings;
use a2a_journal::Retention;
use a2a_protocol::AgentId;
use rustls::sign::CertifiedKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use a2a_gateway::a2a::A2aSettings;
use a2a_gateway::auth::tokens::{Conflict, Tokens};
use a2a_gateway::{HttpSettings, LogSettings, Redaction, SessionSettings};
use a2a_webhooks::WebhookSettings;

pub use assembly::{Origin, Origins};
pub use changes::{Change, value_at};
pub use environment::Environment;
pub use keys::{Key, Kind, Section, sections};
pub use problem::{ConfigError, Place, Problem};
pub use sections::http::{DEFAULT_LISTEN, listen_addresses};
pub use sections::logging::LogFormat;
use sections::safeguards::{BreakerValues, LedgerValues};
pub use sections::tls::{Certificates, Tls, is_ca};
use sections::{a2a, access, agents, audit, auth, http, limits, logging, sessions};

/// State folder of the bus.
#[derive(Debug, Clone)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// `given`, else `OPENCLAW_STATE_DIR`, else `~/.openclaw`.
    #[must_use]
    pub fn find(given: Option<PathBuf>) -> Self {
        let from_environment = || std::env::var_os("OPENCLAW_STATE_DIR").map(PathBuf::from);
        let at_home = || std::env::home_dir().unwrap_or_default().join(".openclaw");
        Self(given.or_else(from_environment).unwrap_or_else(at_home))
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// File with the address of the running server.
    #[must_use]
    pub fn address_file(&self) -> PathBuf {
        self.0.join("a2a.addr")
    }

    /// Default configuration file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.0.join("a2a.toml")
    }
}

/// `a2a.toml`, overridden by the environment.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// An agent that is known from the start. Listing any closes the directory
    #[schemars(extend("x-reload" = true))]
    agents: Vec<agents::AgentEntry>,
    /// Whether agents that are not listed are admitted
    #[schemars(extend("x-reload" = true))]
    directory: agents::Directory,
    /// A rule of who may write to whom; the first that matches decides. See coordination.md
    #[schemars(extend("x-reload" = true))]
    access: Vec<access::AccessEntry>,
    /// How many messages agents may send
    #[schemars(extend("x-reload" = true))]
    limits: limits::Limits,
    /// What stops conversations that go in circles. See coordination.md
    #[schemars(extend("x-reload" = true))]
    breaker: BreakerValues,
    /// How much is remembered of who owes whom which work. See coordination.md
    ledger: LedgerValues,
    /// How often a delivery is tried, and how long a recipient has
    delivery: limits::Delivery,
    /// Tasks of A2A clients. See a2a.md
    tasks: a2a::TaskValues,
    /// What A2A clients are offered. See a2a.md
    a2a: a2a::A2aValues,
    /// Agents of other processes, over WebSocket. See sessions.md
    sessions: sessions::SessionValues,
    /// How long the log is kept, and what of it is shown. See log.md
    audit: audit::AuditValues,
    /// Where to listen, what a caller may cost, whom to answer. See security.md
    http: http::HttpValues,
    /// The program's own log, on stderr. See observability.md
    logging: logging::LoggingValues,
    /// Who is let in. See security.md
    #[schemars(extend("x-reload" = true))]
    auth: auth::AuthValues,
    /// Base of relative paths.
    #[serde(skip)]
    folder: PathBuf,
    /// Values that were set, with their locations.
    #[serde(skip)]
    origins: Origins,
}

impl Config {
    /// Reads `file` and the environment of this process. A missing file means the defaults, unless
    /// it is `required`.
    ///
    /// # Errors
    /// When the file cannot be read, or with every problem in it.
    pub fn read(file: &Path, required: bool) -> Result<Self, ConfigError> {
        Self::read_with(file, required, &Environment::of_process())
    }

    /// Like [`Config::read`], with a given environment.
    ///
    /// # Errors
    /// When the file cannot be read, or with every problem in it.
    pub fn read_with(
        file: &Path,
        required: bool,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => {
                String::new()
            }
            Err(source) => return Err(ConfigError::Read { file: file.into(), source }),
        };
        let read = assembly::read(&text, environment);
        let mut config = read.map_err(|problems| ConfigError::invalid(file, problems))?;
        config.folder = file.parent().unwrap_or(Path::new("")).to_owned();
        Ok(config)
    }

    /// Like [`Config::read`], and also checks the files that the configuration names.
    ///
    /// # Errors
    /// When the file cannot be read, or with every problem in it.
    pub fn examine(file: &Path, required: bool) -> Result<Self, ConfigError> {
        let config = Self::read(file, required)?;
        let place = config.origins.place_in("http.tls");
        match config.tls() {
            Ok(_) => Ok(config),
            Err(message) => Err(ConfigError::invalid(file, vec![Problem { place, message }])),
        }
    }

    /// Parses a text without an environment; the error contains all problems.
    #[cfg(test)]
    fn parse(text: &str) -> Result<Self, String> {
        assembly::read(text, &Environment::default()).map_err(|problems| {
            let all: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
            all.join("\n")
        })
    }

    /// Checks every value, alone and in combination.
    fn check(&self) -> Result<(), String> {
        self.settings()?;
        self.tokens()?;
        self.log()?;
        self.tasks()?;
        self.a2a()?;
        self.sessions().map(drop)
    }

    /// Returns the configuration with every default filled in. A value without a default is left
    /// out.
    ///
    /// # Errors
    /// Describes the invalid value.
    pub fn in_force(&self) -> Result<Self, String> {
        let open = Some(self.settings()?.open);
        Ok(Self {
            agents: self.agents.clone(),
            directory: agents::Directory { open },
            access: self.access.clone(),
            limits: self.limits.in_force(),
            breaker: self.breaker.in_force()?,
            ledger: self.ledger.in_force(),
            delivery: self.delivery.in_force(),
            tasks: self.tasks.in_force()?,
            a2a: self.a2a.in_force()?,
            sessions: self.sessions.in_force(),
            audit: self.audit.in_force(),
            http: self.http.in_force()?,
            logging: self.logging.in_force(),
            auth: self.auth.clone(),
            folder: self.folder.clone(),
            origins: self.origins.clone(),
        })
    }

    /// Values that were set, with their origins.
    #[must_use]
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// Address to listen on.
    #[must_use]
    pub fn listen(&self) -> &str {
        self.http.listen()
    }

    /// Settings of the HTTP server.
    ///
    /// # Errors
    /// Describes the invalid value.
    pub fn http(&self) -> Result<HttpSettings, String> {
        self.http.settings()
    }

    /// Format of the program's own log.
    #[must_use]
    pub fn log_format(&self) -> LogFormat {
        self.logging.format()
    }

    /// TLS of the listener; `None` when it is not configured.
    ///
    /// # Errors
    /// Describes the certificate or key that cannot be used.
    pub fn tls(&self) -> Result<Option<Tls>, String> {
        self.http.tls().server(&self.folder)
    }

    /// Reads the certificate and its key from their files.
    ///
    /// # Errors
    /// Describes the certificate or key that cannot be used.
    pub fn certified_key(&self) -> Result<Option<Arc<CertifiedKey>>, String> {
        self.http.tls().certified_key(&self.folder)
    }

    /// Certificates (DER) that our own commands trust; empty without TLS.
    ///
    /// # Errors
    /// Describes the certificate that cannot be read.
    pub fn trusted(&self) -> Result<Vec<Vec<u8>>, String> {
        self.http.tls().trusted(&self.folder)
    }

    /// Listed agents.
    ///
    /// # Errors
    /// Describes the invalid entry.
    pub fn listed(&self) -> Result<Vec<AgentId>, String> {
        Ok(agents::read(&self.agents)?.into_iter().map(|(id, _)| id).collect())
    }

    /// Configured tokens.
    ///
    /// # Errors
    /// Describes the invalid entry.
    pub fn tokens(&self) -> Result<Tokens, String> {
        let tokens = self.auth.tokens()?;
        let conflicts = tokens.conflicts(&Tokens::default(), &self.listed()?);
        match conflicts.iter().find(|conflict| conflict.refuses()) {
            Some(Conflict { principal, taken, .. }) => Err(format!(
                "[[auth.tokens]] {} = {:?}: {taken}",
                principal.holder(),
                principal.name()
            )),
            None => Ok(tokens),
        }
    }

    /// Settings of the log API.
    ///
    /// # Errors
    /// Describes the invalid entry.
    pub fn log(&self) -> Result<LogSettings, String> {
        Ok(LogSettings::new(self.audit.redaction()?, self.http()?.stalled))
    }

    /// Settings of A2A tasks.
    ///
    /// # Errors
    /// Describes the invalid value.
    pub fn tasks(&self) -> Result<TaskSettings, String> {
        self.tasks.settings()
    }

    /// Settings of the A2A API.
    ///
    /// # Errors
    /// Describes the invalid value.
    pub fn a2a(&self) -> Result<A2aSettings, String> {
        self.a2a.settings()
    }

    /// Settings of webhooks.
    #[must_use]
    pub fn webhooks(&self) -> WebhookSettings {
        self.a2a.webhooks()
    }

    /// Settings of WebSocket sessions.
    ///
    /// # Errors
    /// Describes the invalid value.
    pub fn sessions(&self) -> Result<SessionSettings, String> {
        let stalled = self.http()?.stalled;
        Ok(self.sessions.settings(stalled, self.settings()?.handler_deadline))
    }

    /// Retention of the log.
    #[must_use]
    pub fn retention(&self) -> Retention {
        self.audit.retention()
    }

    /// Fields hidden from readers of the log.
    ///
    /// # Errors
    /// Describes the invalid entry.
    pub fn redaction(&self) -> Result<Redaction, String> {
        self.audit.redaction()
    }

    /// Settings of the bus.
    ///
    /// # Errors
    /// Describes the invalid value.
    pub fn settings(&self) -> Result<BusSettings, String> {
        let defaults = BusSettings::default();
        let agents = agents::read(&self.agents)?;
        Ok(BusSettings {
            open: self.directory.open.unwrap_or(agents.is_empty()),
            agents,
            rates: self.limits.rates(),
            retry: self.delivery.retry(),
            lease: self.delivery.lease(&defaults),
            handler_deadline: self.delivery.handler_deadline(&defaults),
            inbox_limit: self.limits.inbox(&defaults),
            inbox_bytes: self.limits.inbox_bytes(&defaults),
            pending_bytes: self.limits.pending_bytes(&defaults),
            max_dead_letter_bytes: self.limits.dead_letter_bytes(&defaults),
            access: access::read(&self.access)?,
            max_recipients: self.limits.max_recipients(&defaults),
            breaker: self.breaker.settings()?,
            ledger: self.ledger.settings(),
            ..defaults
        })
    }
}

#[cfg(test)]
mod tests {
    use a2a_policy::Profile;

    use super::*;

    fn parse(text: &str) -> Result<BusSettings, String> {
        Config::parse(text)?.settings()
    }

    #[test]
    fn directory_is_open_until_an_agent_is_listed() {
        assert!(parse("").unwrap().open);
        assert!(!parse("[[agents]]\nid = \"tim\"").unwrap().open);
        assert!(parse("[directory]\nopen = true\n[[agents]]\nid = \"tim\"").unwrap().open);
    }

    #[test]
    fn unknown_keys_and_invalid_values_are_refused() {
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
    fn agent_entry_is_read_with_its_profile() {
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
    fn file_with_an_invalid_rule_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a2a.toml");
        std::fs::write(&file, "[[access]]\nallow = true\nfrom = \"sqad:core\"").unwrap();
        let refused = Config::read(&file, true).unwrap_err();
        assert!(refused.to_string().contains("rule-1"), "{refused}");
    }
}
