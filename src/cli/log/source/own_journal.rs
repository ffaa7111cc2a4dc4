//! The journal as a source, when no server has it open.
//!
//! It is opened read-only and without recovery. Only one process can have it open, and a server
//! must be able to start at any time, also while the output is being paged. So it is closed when
//! idle and at regular intervals, and reopened on demand. If a server has opened it in between,
//! that server is queried.

use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_actors::circuit_fact;
use a2a_gateway::log::with_deliveries;
use a2a_journal::{
    Head, HistoryCursor, JournalReader, MAX_PAGE, OfflineJournal, Query, ReadError, RecoveryReport,
    StoredRecord, read_offline,
};
use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use anyhow::Context;
use parking_lot::Mutex;

use super::DayFiles;
use super::{Page, Source};
use crate::cli::server_locator::ServerLocator;
use crate::cli::stdout::note;

/// Time after the last query until the journal is closed. Shorter than a starting server waits for
/// the lock.
const IDLE_CLOSE: Duration = Duration::from_millis(300);
/// Maximum time it stays open during consecutive queries.
const MAX_HOLD: Duration = Duration::from_millis(800);
/// Pause after that. A server waiting for the lock polls more often.
const YIELD_PAUSE: Duration = Duration::from_millis(100);

/// Journal of a state folder.
pub(in crate::cli::log) struct OwnJournal<'a> {
    locator: &'a ServerLocator,
    open: Arc<Mutex<Option<OpenJournal>>>,
    /// Whether faults found on opening were reported.
    is_reported: bool,
    /// Source to use instead, once another process has the journal or the index is unusable.
    fallback: Option<Box<dyn Source + 'a>>,
}

struct OpenJournal {
    reader: Arc<dyn JournalReader>,
    since: Instant,
    asked: Instant,
}

impl<'a> OwnJournal<'a> {
    pub(in crate::cli::log) fn new(locator: &'a ServerLocator) -> Self {
        Self { locator, open: Arc::default(), is_reported: false, fallback: None }
    }

    /// Queries the journal; `None` when the fallback is to be used.
    fn ask<T>(
        &mut self,
        question: impl Fn(&dyn JournalReader) -> Result<T, ReadError>,
    ) -> anyhow::Result<Option<T>> {
        if self.fallback.is_some() {
            return Ok(None);
        }
        let mut open = self.open.lock();
        if open.take_if(|open| open.since.elapsed() >= MAX_HOLD).is_some() {
            std::thread::sleep(YIELD_PAUSE);
        }
        if open.is_none() {
            let folder = self.locator.state.path();
            let OfflineJournal { reader, report } = match read_offline(folder) {
                Ok(Some(opened)) => opened,
                Ok(None) => {
                    note("there is no index that fits the log; reading the files of the log");
                    self.fallback = Some(Box::new(DayFiles::new(self.locator)));
                    return Ok(None);
                }
                Err(_) if self.locator.is_journal_locked()? => {
                    self.fallback = Some(self.locator.fallback_source()?);
                    return Ok(None);
                }
                Err(error) => {
                    let doing = format!("cannot open the journal in {}", folder.display());
                    return Err(error).context(doing);
                }
            };
            if !std::mem::replace(&mut self.is_reported, true) {
                report_faults(&report);
            }
            let now = Instant::now();
            *open = Some(OpenJournal { reader, since: now, asked: now });
            close_when_idle(Arc::clone(&self.open));
        }
        let Some(open) = open.as_mut() else { anyhow::bail!("the journal was let go") };
        let answer = question(open.reader.as_ref());
        open.asked = Instant::now();
        Ok(Some(answer?))
    }

    fn fallback(&mut self) -> anyhow::Result<&mut (dyn Source + 'a)> {
        let fallback = self.fallback.as_deref_mut();
        fallback.context("somebody else has the journal open and does not answer")
    }

    fn shown(&self, records: &[StoredRecord]) -> Vec<String> {
        let redaction = &self.locator.redaction;
        records.iter().map(|record| redaction.apply(with_deliveries(record))).collect()
    }
}

/// Notes the faults that recovery would repair.
fn report_faults(report: &RecoveryReport) {
    let RecoveryReport { torn_bytes, unreadable_lines, broken_links, .. } = report;
    if *torn_bytes > 0 {
        note(&format!("{torn_bytes} bytes at its end are no whole line: a write was cut short"));
    }
    if unreadable_lines + broken_links > 0 {
        let bad = format!("{unreadable_lines} unreadable lines, {broken_links} broken links");
        note(&format!("found {bad}; `openclaw-a2a log verify` says more"));
    }
}

fn close_when_idle(shared: Arc<Mutex<Option<OpenJournal>>>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(IDLE_CLOSE / 3);
            let mut open = shared.lock();
            if open.as_ref().is_none_or(|open| open.asked.elapsed() >= IDLE_CLOSE) {
                *open = None;
                return;
            }
        }
    });
}

impl Source for OwnJournal<'_> {
    fn page(&mut self, query: &Query) -> anyhow::Result<Page> {
        match self.ask(|reader| reader.query(query))? {
            Some(page) => Ok(Page { records: self.shown(&page.records), next: page.next }),
            None => self.fallback()?.page(query),
        }
    }

    fn message(
        &mut self,
        id: MessageId,
        from: HistoryCursor,
    ) -> anyhow::Result<Page<HistoryCursor>> {
        match self.ask(|reader| reader.message_history(&id, from, MAX_PAGE))? {
            Some(trail) => Ok(Page { records: self.shown(&trail.records), next: trail.next }),
            None => self.fallback()?.message(id, from),
        }
    }

    fn circuit(&mut self, key: &CircuitKey, after: u64) -> anyhow::Result<Page> {
        match self.ask(|reader| reader.fact_events(&circuit_fact(key), after))? {
            Some(notes) => {
                let lines = notes.lines.iter().map(|line| line.get().to_owned());
                let records = lines.map(|line| self.locator.redaction.apply(line)).collect();
                Ok(Page { records, next: notes.next })
            }
            None => self.fallback()?.circuit(key, after),
        }
    }

    fn head(&mut self) -> anyhow::Result<Head> {
        match self.ask(|reader| Ok(reader.head()))? {
            Some(head) => Ok(head),
            None => self.fallback()?.head(),
        }
    }
}

impl Drop for OwnJournal<'_> {
    fn drop(&mut self) {
        self.open.lock().take();
    }
}
