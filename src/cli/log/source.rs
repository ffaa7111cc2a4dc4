//! Where the log comes from: a running server, the journal, or only its files.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::time::Duration;

use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use a2a_store::{Bookmark, Head, Query, check_formats};
use anyhow::bail;
use openclaw_a2a::config::{Config, StateDir};
use openclaw_a2a::gateway::Redaction;

use super::files::Files;
use super::journal::OwnJournal;
use super::server::Server;
use crate::cli::Global;

/// How often to look for a server.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// How often to look when a server is there that does not say where; it may be starting.
pub(super) const STARTING: u32 = 50;

/// Records as JSON texts, each with its `deliveries`, or events.
pub(super) struct Page<Place = u64> {
    pub(super) records: Vec<String>,
    /// Where the next page begins; a page may be short, or empty, before there is none.
    pub(super) next: Option<Place>,
}

/// Answers questions about the log.
pub(super) trait Source {
    /// Records that are wanted, newest first.
    fn page(&mut self, query: &Query) -> anyhow::Result<Page>;

    /// Records of a message from a place on, oldest first.
    fn message(&mut self, id: MessageId, from: Bookmark) -> anyhow::Result<Page<Bookmark>>;

    /// Events after a line that have to do with a circuit, oldest first.
    fn circuit(&mut self, key: &CircuitKey, after: u64) -> anyhow::Result<Page>;

    /// The last line.
    fn head(&mut self) -> anyhow::Result<Head>;
}

/// Where to look, and what to show of it.
pub(in crate::cli) struct Place {
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
    pub(in crate::cli) fn of(global: &Global) -> anyhow::Result<Self> {
        let state = StateDir::find(global.state_dir.clone());
        let file = global.config.clone().unwrap_or_else(|| state.config_file());
        let config = Config::read(&file, global.config.is_some())?;
        check_formats(state.path())?;
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
        Ok(match (url, self.is_locked()?) {
            (None, false) => (Found::Nobody, String::new()),
            (Some(url), false) => {
                let why = format!("{} names {url}, which did not stop cleanly", file.display());
                (Found::Nobody, why)
            }
            (Some(url), true) => {
                match Server::connect(&url, self.token.as_deref(), &self.trusted) {
                    Ok(server) => (Found::Server(server), String::new()),
                    Err(error) => (Found::Silent, format!("{url} does not answer ({error})")),
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

    /// The same, telling the person.
    pub(super) fn find(&self) -> anyhow::Result<Found> {
        let (found, why) = self.look()?;
        if !why.is_empty() {
            let instead = match found {
                Found::Silent => "the files of the log",
                _ => "the journal itself",
            };
            note(&format!("{why}; reading {instead}"));
        }
        Ok(found)
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

    /// Fails when there is nothing to read, so that nothing is created by looking.
    pub(super) fn must_exist(&self) -> anyhow::Result<()> {
        if !self.state.path().join("a2a-log").is_dir() {
            bail!(
                "there is no log in {}; start a server with `openclaw-a2a serve`, or name its folder with --state-dir",
                self.state.path().display()
            );
        }
        Ok(())
    }

    /// Whoever can answer.
    pub(super) fn source(&self) -> anyhow::Result<Box<dyn Source + '_>> {
        Ok(match self.find()? {
            Found::Server(server) => Box::new(server),
            Found::Nobody => {
                self.must_exist()?;
                Box::new(OwnJournal::new(self))
            }
            Found::Silent => {
                self.must_exist()?;
                Box::new(Files::new(self))
            }
        })
    }

    /// Whoever can answer when the journal is not ours to open: a server that starts says where
    /// it is a moment after it has opened the journal.
    pub(super) fn others(&self) -> anyhow::Result<Box<dyn Source + '_>> {
        if let Some(server) = self.server()? {
            return Ok(Box::new(server));
        }
        note("another process has the journal open; reading the files of the log");
        Ok(Box::new(Files::new(self)))
    }

    /// The server that has just opened the journal, if that is who did.
    pub(in crate::cli) fn server(&self) -> anyhow::Result<Option<Server>> {
        for _ in 0..STARTING {
            match self.look()? {
                (Found::Server(server), _) => return Ok(Some(server)),
                (Found::Nobody, _) => return Ok(None),
                (Found::Silent, _) => std::thread::sleep(LOOK),
            }
        }
        Ok(None)
    }
}

/// Tells the person, beside the output.
pub(in crate::cli) fn note(text: &str) {
    anstream::eprintln!("note: {}", super::super::stdout::harmless(text));
}
