//! Sources of the log: a running server, the journal, or its day files.

mod day_files;
mod own_journal;
mod server;

use a2a_journal::{Head, HistoryCursor, Query};
use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use anyhow::bail;

use crate::cli::server_locator::{Located, ServerLocator};
use crate::cli::stdout::note;
pub(super) use day_files::DayFiles;
pub(super) use own_journal::OwnJournal;

/// A page of records (JSON texts with their `deliveries`) or events.
pub(super) struct Page<Cursor = u64> {
    pub(super) records: Vec<String>,
    /// Cursor of the next page. Pages before the last may be short or empty.
    pub(super) next: Option<Cursor>,
}

/// Reads the log.
pub(super) trait Source {
    /// Matching records, newest first.
    fn page(&mut self, query: &Query) -> anyhow::Result<Page>;

    /// Records of a message from a cursor on, oldest first.
    fn message(
        &mut self,
        id: MessageId,
        from: HistoryCursor,
    ) -> anyhow::Result<Page<HistoryCursor>>;

    /// Events of a circuit after a sequence number, oldest first.
    fn circuit(&mut self, key: &CircuitKey, after: u64) -> anyhow::Result<Page>;

    /// Sequence number and hash of the last line.
    fn head(&mut self) -> anyhow::Result<Head>;
}

impl ServerLocator {
    /// Looks for a server, and notes the reason when another source is read.
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

    /// Fails when there is no log, before anything creates one.
    pub(super) fn require_log(&self) -> anyhow::Result<()> {
        if !self.state.path().join("a2a-log").is_dir() {
            bail!(
                "there is no log in {}; start a server with `openclaw-a2a serve`, or name its folder with --state-dir",
                self.state.path().display()
            );
        }
        Ok(())
    }

    /// Opens the best source available.
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

    /// Opens a source when another process has the journal: its server, once started, or the day
    /// files.
    pub(super) fn fallback_source(&self) -> anyhow::Result<Box<dyn Source + '_>> {
        if let Some(server) = self.running_server()? {
            return Ok(Box::new(server));
        }
        note("another process has the journal open; reading the files of the log");
        Ok(Box::new(DayFiles::new(self)))
    }
}
