//! Server locator: finds the running server of a state folder through its address file and journal
//! lock.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::time::Duration;

use a2a_backup::check_formats;
use a2a_gateway::Redaction;
use anyhow::bail;
use openclaw_a2a::config::{Config, StateDir, is_ca};

use super::server::Server;
use crate::cli::Global;

/// Interval between two attempts to find a server.
pub(in crate::cli) const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum attempts while a process holds the journal without an address file; it may be starting.
pub(in crate::cli) const MAX_POLLS: u32 = 50;

/// State folder, credentials and settings that a verb needs to reach a server.
pub(in crate::cli) struct ServerLocator {
    pub(in crate::cli) state: StateDir,
    pub(in crate::cli) token: Option<String>,
    /// Trusted certificates (DER) of a server under TLS.
    pub(in crate::cli) trusted: Vec<Vec<u8>>,
    pub(in crate::cli) redaction: Redaction,
}

/// Result of a search for a server.
pub(in crate::cli) enum Located {
    Server(Server),
    /// No process has the journal open.
    NotRunning,
    /// A process has the journal open, but does not answer or has written no address.
    Unresponsive,
}

impl ServerLocator {
    /// Reads the configuration that the global options name.
    pub(in crate::cli) fn from_options(global: &Global) -> anyhow::Result<Self> {
        let state = StateDir::find(global.state_dir.clone());
        let file = global.config.clone().unwrap_or_else(|| state.config_file());
        let config = Config::read(&file, global.config.is_some())?;
        check_formats(state.path())?;
        Self::with_config(global, &config)
    }

    /// Builds a locator from a configuration that has been read.
    pub(in crate::cli) fn with_config(global: &Global, config: &Config) -> anyhow::Result<Self> {
        let state = StateDir::find(global.state_dir.clone());
        let redaction = config.redaction().map_err(anyhow::Error::msg)?;
        let token = global.token.clone().or_else(|| std::env::var("OPENCLAW_TOKEN").ok());
        let token = token.filter(|token| !token.is_empty());
        let trusted = config.trusted().map_err(anyhow::Error::msg)?;
        Ok(Self { state, token, trusted, redaction })
    }

    /// Looks for a server and returns the reason when there is none where one is expected.
    ///
    /// The journal lock decides whether a server runs. The address file alone may be stale, and its
    /// port may belong to another program, which must not get a token.
    pub(in crate::cli) fn locate(&self) -> anyhow::Result<(Located, String)> {
        let file = self.state.address_file();
        let url = match std::fs::read_to_string(&file) {
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => bail!("cannot read {}: {error}", file.display()),
        };
        // Without a journal the address file was put there on purpose, by a user of another
        // machine's or container's server; it cannot be stale.
        if let Some(url) = url.as_deref().filter(|_| !self.has_journal()) {
            return Ok(match Server::connect(url, self.token.as_deref(), &self.trusted) {
                Ok(server) => (Located::Server(server), String::new()),
                Err(error) => {
                    let why = format!(
                        "{} names {url}, which does not answer ({error:#})",
                        file.display()
                    );
                    (Located::NotRunning, why)
                }
            });
        }
        Ok(match (url, self.is_journal_locked()?) {
            (None, false) => (Located::NotRunning, String::new()),
            (Some(url), false) => {
                let why = format!("{} names {url}, which did not stop cleanly", file.display());
                (Located::NotRunning, why)
            }
            (Some(url), true) => {
                match Server::connect(&url, self.token.as_deref(), &self.trusted) {
                    Ok(server) => (Located::Server(server), String::new()),
                    Err(error) => (
                        Located::Unresponsive,
                        format!("{url} cannot be asked ({error:#}){}", self.hint(&url)),
                    ),
                }
            }
            (None, true) => {
                let journal = self.state.path().join("data/a2a-journal");
                let (journal, file) = (journal.display(), file.display());
                (
                    Located::Unresponsive,
                    format!("another process has {journal} open, but {file} is missing"),
                )
            }
        })
    }

    fn has_journal(&self) -> bool {
        let (state, journal) = (self.state.path(), "data/a2a-journal");
        state.join("a2a-log").exists() || state.join(journal).exists()
    }

    /// Advice about a server whose certificate our own commands do not trust.
    fn hint(&self, url: &str) -> &'static str {
        if url.starts_with("https://") && self.trusted.first().is_some_and(|cert| is_ca(cert)) {
            return ". The first certificate in [http.tls] cert is that of an authority (CA:TRUE), which callers refuse as a server's own: make the server a certificate of its own, signed by that authority, and put it first";
        }
        ""
    }

    /// The running server, called with this token.
    pub(in crate::cli) fn server_for(&self, token: &str) -> anyhow::Result<Server> {
        let url = std::fs::read_to_string(self.state.address_file())?;
        Server::connect(url.trim(), Some(token), &self.trusted)
    }

    /// Whether a process has the journal open.
    pub(in crate::cli) fn is_journal_locked(&self) -> anyhow::Result<bool> {
        let file = match File::open(self.state.path().join("data/a2a-journal/db")) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => bail!("cannot look into {}: {error}", self.state.path().display()),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => bail!("cannot ask for the journal's lock: {error}"),
        }
    }

    /// The running server, also one that is just starting.
    pub(in crate::cli) fn running_server(&self) -> anyhow::Result<Option<Server>> {
        Ok(self.locate_until_started()?.ok())
    }

    /// The running server, or an error that states how to start one.
    pub(in crate::cli) fn require_server(&self) -> anyhow::Result<Server> {
        self.locate_until_started()?.map_err(|(is_there, why)| {
            let state = self.state.path().display();
            if is_there {
                return anyhow::anyhow!("a server runs on {state}, but {why}");
            }
            let why = if why.is_empty() { format!("nothing runs on {state}") } else { why };
            anyhow::anyhow!(
                "no server is running ({why}); start one with `openclaw-a2a serve`, or name its folder with --state-dir"
            )
        })
    }

    /// Polls until the server has started. A starting server writes its address shortly after it
    /// has opened the journal.
    fn locate_until_started(&self) -> anyhow::Result<Result<Server, (bool, String)>> {
        let mut last = String::new();
        for _ in 0..MAX_POLLS {
            match self.locate()? {
                (Located::Server(server), _) => return Ok(Ok(server)),
                (Located::NotRunning, why) => return Ok(Err((false, why))),
                (Located::Unresponsive, why) => last = why,
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(Err((true, last)))
    }
}
