//! Where a verb finds the server: the state folder names it, and its lock says whether it lives.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::time::Duration;

use a2a_backup::check_formats;
use a2a_gateway::Redaction;
use anyhow::bail;
use openclaw_a2a::config::{Config, StateDir, is_ca};

use super::Global;
use super::server::Server;

/// How often to look for a server.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// How often to look when a server is there that does not say where; it may be starting.
pub(super) const STARTING: u32 = 50;

/// Where to look, and what to show of it.
pub(super) struct Place {
    pub(super) state: StateDir,
    pub(super) token: Option<String>,
    /// The certificates by which a server under TLS is known.
    pub(super) trusted: Vec<Vec<u8>>,
    pub(super) redaction: Redaction,
}

/// Who can answer.
pub(super) enum Found {
    Server(Server),
    /// Nobody has the journal open.
    Nobody,
    /// Somebody has, but does not answer, or does not say where it listens.
    Silent,
}

impl Place {
    /// As the options of every verb say.
    pub(super) fn of(global: &Global) -> anyhow::Result<Self> {
        let state = StateDir::find(global.state_dir.clone());
        let file = global.config.clone().unwrap_or_else(|| state.config_file());
        let config = Config::read(&file, global.config.is_some())?;
        check_formats(state.path())?;
        Self::with(global, &config)
    }

    /// The same where the configuration has been read.
    pub(super) fn with(global: &Global, config: &Config) -> anyhow::Result<Self> {
        let state = StateDir::find(global.state_dir.clone());
        let redaction = config.redaction().map_err(anyhow::Error::msg)?;
        let token = global.token.clone().or_else(|| std::env::var("OPENCLAW_TOKEN").ok());
        let token = token.filter(|token| !token.is_empty());
        let trusted = config.trusted().map_err(anyhow::Error::msg)?;
        Ok(Self { state, token, trusted, redaction })
    }

    /// Looks for a server, and says why it found none where one should be. The lock on the
    /// journal tells whether there is one; the address alone may be a leftover that by now
    /// belongs to a program that must not see a token.
    pub(super) fn look(&self) -> anyhow::Result<(Found, String)> {
        let file = self.state.address_file();
        let url = match std::fs::read_to_string(&file) {
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => bail!("cannot read {}: {error}", file.display()),
        };
        // Where there is no journal at all, the address was put there on purpose: it is no leftover
        // of a server of this folder.
        if let Some(url) = url.as_deref().filter(|_| !self.has_journal()) {
            return Ok(match Server::connect(url, self.token.as_deref(), &self.trusted) {
                Ok(server) => (Found::Server(server), String::new()),
                Err(error) => {
                    let why = format!(
                        "{} names {url}, which does not answer ({error:#})",
                        file.display()
                    );
                    (Found::Nobody, why)
                }
            });
        }
        Ok(match (url, self.is_locked()?) {
            (None, false) => (Found::Nobody, String::new()),
            (Some(url), false) => {
                let why = format!("{} names {url}, which did not stop cleanly", file.display());
                (Found::Nobody, why)
            }
            (Some(url), true) => {
                match Server::connect(&url, self.token.as_deref(), &self.trusted) {
                    Ok(server) => (Found::Server(server), String::new()),
                    Err(error) => (
                        Found::Silent,
                        format!("{url} cannot be asked ({error:#}){}", self.hint(&url)),
                    ),
                }
            }
            (None, true) => {
                let journal = self.state.path().join("data/a2a-journal");
                let (journal, file) = (journal.display(), file.display());
                (
                    Found::Silent,
                    format!("another process has {journal} open, but {file} is missing"),
                )
            }
        })
    }

    fn has_journal(&self) -> bool {
        let (state, journal) = (self.state.path(), "data/a2a-journal");
        state.join("a2a-log").exists() || state.join(journal).exists()
    }

    /// What to do about a server under TLS that our own commands do not trust.
    fn hint(&self, url: &str) -> &'static str {
        if url.starts_with("https://") && self.trusted.first().is_some_and(|cert| is_ca(cert)) {
            return ". The first certificate in [http.tls] cert is that of an authority (CA:TRUE), which callers refuse as a server's own: make the server a certificate of its own, signed by that authority, and put it first";
        }
        ""
    }

    /// The server that runs, asked by the holder of this token.
    pub(super) fn server_for(&self, token: &str) -> anyhow::Result<Server> {
        let url = std::fs::read_to_string(self.state.address_file())?;
        Server::connect(url.trim(), Some(token), &self.trusted)
    }

    /// Whether a process has the journal open.
    pub(super) fn is_locked(&self) -> anyhow::Result<bool> {
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

    /// The server that runs, or has just opened the journal.
    pub(super) fn server(&self) -> anyhow::Result<Option<Server>> {
        Ok(self.look_until_started()?.ok())
    }

    /// The same for a verb that is nothing without one.
    pub(super) fn must_have_server(&self) -> anyhow::Result<Server> {
        self.look_until_started()?.map_err(|(is_there, why)| {
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

    /// The server, or why there is none. One that starts says where it is a moment after it has
    /// opened the journal.
    fn look_until_started(&self) -> anyhow::Result<Result<Server, (bool, String)>> {
        let mut last = String::new();
        for _ in 0..STARTING {
            match self.look()? {
                (Found::Server(server), _) => return Ok(Ok(server)),
                (Found::Nobody, why) => return Ok(Err((false, why))),
                (Found::Silent, why) => last = why,
            }
            std::thread::sleep(LOOK);
        }
        Ok(Err((true, last)))
    }
}
