//! The journal itself, when no server has it open.
//!
//! Only one process can have it open, and a server must be able to start at any time, also
//! while somebody reads our output page by page: so the journal is let go as soon as it was
//! not asked for a moment, and opened again when it is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use a2a_protocol::MessageId;
use a2a_store::{Commit, Head, Journal, Options, Query, Read, ReadError, RecoveryReport};
use anyhow::Context;
use openclaw_a2a::gateway::Redaction;
use openclaw_a2a::gateway::log::with_deliveries;

use super::source::{Page, Source, note};

/// How long the journal is kept open after the last question. Less than a server that starts
/// waits for it.
const KEPT: Duration = Duration::from_millis(300);

/// The journal of a state folder.
pub(super) struct OwnJournal {
    folder: PathBuf,
    redaction: Redaction,
    open: Arc<Mutex<Option<Open>>>,
}

struct Open {
    journal: Journal,
    asked: Instant,
}

impl OwnJournal {
    pub(super) fn new(folder: &Path, redaction: Redaction) -> Self {
        Self { folder: folder.to_owned(), redaction, open: Arc::default() }
    }

    fn ask<T>(&self, question: impl Fn(&dyn Read) -> Result<T, ReadError>) -> anyhow::Result<T> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            let (journal, recovered) = Journal::open(&Options::new(&self.folder))
                .with_context(|| format!("cannot open the journal in {}", self.folder.display()))?;
            say_what_is_wrong(&recovered.report);
            *open = Some(Open { journal, asked: Instant::now() });
            let_go_when_idle(Arc::clone(&self.open));
        }
        let Some(open) = open.as_mut() else { anyhow::bail!("the journal was let go") };
        let answer = question(open.journal.reader().as_ref());
        open.asked = Instant::now();
        Ok(answer?)
    }
}

/// A person who looks into the log wants to know that something is wrong with it.
fn say_what_is_wrong(report: &RecoveryReport) {
    if report.torn_bytes + report.unreadable_lines + report.broken_links > 0 {
        note(&format!("{report}; `openclaw-a2a log verify` says more"));
    }
}

fn let_go_when_idle(shared: Arc<Mutex<Option<Open>>>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(KEPT / 3);
            let mut open = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if open.as_ref().is_none_or(|open| open.asked.elapsed() >= KEPT) {
                *open = None;
                return;
            }
        }
    });
}

impl Source for OwnJournal {
    fn page(&mut self, query: &Query) -> anyhow::Result<Page> {
        let page = self.ask(|reader| reader.query(query))?;
        let shown = page.records.iter().map(|record| self.redaction.apply(with_deliveries(record)));
        Ok(Page { records: shown.collect(), next: page.next })
    }

    fn message(&mut self, id: MessageId) -> anyhow::Result<Vec<String>> {
        let found = self.ask(|reader| reader.find(&id))?;
        Ok(found.iter().map(|record| self.redaction.apply(with_deliveries(record))).collect())
    }

    fn head(&mut self) -> anyhow::Result<Head> {
        self.ask(|reader| Ok(reader.head()))
    }
}

impl Drop for OwnJournal {
    fn drop(&mut self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
