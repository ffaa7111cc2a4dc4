//! Where the log comes from: a running server, the journal, or only its files.

mod day_files;
mod own_journal;
mod server;

use a2a_journal::{Bookmark, Head, Query};
use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use anyhow::bail;

use crate::cli::server_locator::{Located, ServerLocator};
use crate::cli::stdout::note;
pub(super) use day_files::DayFiles;
pub(super) use own_journal::OwnJournal;

/// Records as JSON texts, each with its `deliveries`, or events.
pub(super) struct Page<Cursor = u64> {
    pub(super) records: Vec<String>,
    /// Where the next page begins; a page may be short, or empty, before there is none.
    pub(super) next: Option<Cursor>,
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

impl ServerLocator {
    /// Looks for a server, telling the person why another source is read.
    pub(super) fn locate_or_note(&self) -> anyhow::Result<Located> {
        let (found, why) = self.locate()?;
        if !why.is_empty() {
            let instead = match found {
                Located::Unresponsive => "the files of the log",
                _ => "the journal itself",
            };
            note(&format!("{why}; reading {instead}"));
        }
        Ok(found)
    }

    /// Fails when there is nothing to read, so that nothing is created by looking.
    pub(super) fn require_log(&self) -> anyhow::Result<()> {
        if !self.state.path().join("a2a-log").is_dir() {
            bail!(
                "there is no log in {}; start a server with `openclaw-a2a serve`, or name its folder with --state-dir",
                self.state.path().display()
            );
        }
        Ok(())
    }

    /// Whoever can answer.
    pub(super) fn open_source(&self) -> anyhow::Result<Box<dyn Source + '_>> {
        Ok(match self.locate_or_note()? {
            Located::Server(server) => Box::new(server),
            Located::NotRunning => {
                self.require_log()?;
                Box::new(OwnJournal::new(self))
            }
            Located::Unresponsive => {
                self.require_log()?;
                Box::new(DayFiles::new(self))
            }
        })
    }

    /// Whoever can answer when the journal is not ours to open: a server that starts says where
    /// it is a moment after it has opened the journal.
    pub(super) fn fallback_source(&self) -> anyhow::Result<Box<dyn Source + '_>> {
        if let Some(server) = self.running_server()? {
            return Ok(Box::new(server));
        }
        note("another process has the journal open; reading the files of the log");
        Ok(Box::new(DayFiles::new(self)))
    }
}
