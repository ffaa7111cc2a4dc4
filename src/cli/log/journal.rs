//! The journal itself, when no server has it open.
//!
//! It is opened for reading and not recovered: that is for the server to do. Only one process
//! can have it open, and a server must be able to start at any time, also while somebody reads
//! our output page by page or we read all of it: so the journal is let go as soon as it was not
//! asked for a moment, and every now and then in any case, and opened again when it is needed.
//! If a server was quicker, it is asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use a2a_actors::circuit_fact;
use a2a_gateway::log::with_deliveries;
use a2a_journal::{
    Bookmark, Head, MAX_PAGE, OfflineJournal, Query, Read, ReadError, RecoveryReport, StoredRecord,
    read_offline,
};
use a2a_policy::CircuitKey;
use a2a_protocol::MessageId;
use anyhow::Context;

use super::files::Files;
use super::source::{Page, Source};
use crate::cli::place::Place;
use crate::cli::stdout::note;

/// How long the journal is kept open after the last question. Less than a server that starts
/// waits for it.
const KEPT: Duration = Duration::from_millis(300);
/// How long it is kept open while question follows question.
const TURN: Duration = Duration::from_millis(800);
/// How long it is left alone then: a server that waits for it looks more often.
const GIVE_WAY: Duration = Duration::from_millis(100);

/// The journal of a state folder.
pub(super) struct OwnJournal<'a> {
    place: &'a Place,
    open: Arc<Mutex<Option<Open>>>,
    /// What is wrong was said.
    was_open: bool,
    /// Who is asked since somebody else has the journal open, or it has no index.
    instead: Option<Box<dyn Source + 'a>>,
}

struct Open {
    reader: Arc<dyn Read>,
    since: Instant,
    asked: Instant,
}

impl<'a> OwnJournal<'a> {
    pub(super) fn new(place: &'a Place) -> Self {
        Self { place, open: Arc::default(), was_open: false, instead: None }
    }

    /// Asks the journal; `None` when somebody else has it open by now, who is to be asked.
    fn ask<T>(
        &mut self,
        question: impl Fn(&dyn Read) -> Result<T, ReadError>,
    ) -> anyhow::Result<Option<T>> {
        if self.instead.is_some() {
            return Ok(None);
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.take_if(|open| open.since.elapsed() >= TURN).is_some() {
            std::thread::sleep(GIVE_WAY);
        }
        if open.is_none() {
            let folder = self.place.state.path();
            let OfflineJournal { reader, report } = match read_offline(folder) {
                Ok(Some(opened)) => opened,
                Ok(None) => {
                    note("there is no index that fits the log; reading the files of the log");
                    self.instead = Some(Box::new(Files::new(self.place)));
                    return Ok(None);
                }
                Err(_) if self.place.is_locked()? => {
                    self.instead = Some(self.place.others()?);
                    return Ok(None);
                }
                Err(error) => {
                    let doing = format!("cannot open the journal in {}", folder.display());
                    return Err(error).context(doing);
                }
            };
            if !std::mem::replace(&mut self.was_open, true) {
                say_what_is_wrong(&report);
            }
            let now = Instant::now();
            *open = Some(Open { reader, since: now, asked: now });
            let_go_when_idle(Arc::clone(&self.open));
        }
        let Some(open) = open.as_mut() else { anyhow::bail!("the journal was let go") };
        let answer = question(open.reader.as_ref());
        open.asked = Instant::now();
        Ok(Some(answer?))
    }

    fn instead(&mut self) -> anyhow::Result<&mut (dyn Source + 'a)> {
        let instead = self.instead.as_deref_mut();
        instead.context("somebody else has the journal open and does not answer")
    }

    fn shown(&self, records: &[StoredRecord]) -> Vec<String> {
        let redaction = &self.place.redaction;
        records.iter().map(|record| redaction.apply(with_deliveries(record))).collect()
    }
}

/// A person who looks into the log wants to know that something is wrong with it.
fn say_what_is_wrong(report: &RecoveryReport) {
    let RecoveryReport { torn_bytes, unreadable_lines, broken_links, .. } = report;
    if *torn_bytes > 0 {
        note(&format!("{torn_bytes} bytes at its end are no whole line: a write was cut short"));
    }
    if unreadable_lines + broken_links > 0 {
        let bad = format!("{unreadable_lines} unreadable lines, {broken_links} broken links");
        note(&format!("found {bad}; `openclaw-a2a log verify` says more"));
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

impl Source for OwnJournal<'_> {
    fn page(&mut self, query: &Query) -> anyhow::Result<Page> {
        match self.ask(|reader| reader.query(query))? {
            Some(page) => Ok(Page { records: self.shown(&page.records), next: page.next }),
            None => self.instead()?.page(query),
        }
    }

    fn message(&mut self, id: MessageId, from: Bookmark) -> anyhow::Result<Page<Bookmark>> {
        match self.ask(|reader| reader.trail(&id, from, MAX_PAGE))? {
            Some(trail) => Ok(Page { records: self.shown(&trail.records), next: trail.next }),
            None => self.instead()?.message(id, from),
        }
    }

    fn circuit(&mut self, key: &CircuitKey, after: u64) -> anyhow::Result<Page> {
        match self.ask(|reader| reader.notes(&circuit_fact(key), after))? {
            Some(notes) => {
                let lines = notes.lines.iter().map(|line| line.get().to_owned());
                let records = lines.map(|line| self.place.redaction.apply(line)).collect();
                Ok(Page { records, next: notes.next })
            }
            None => self.instead()?.circuit(key, after),
        }
    }

    fn head(&mut self) -> anyhow::Result<Head> {
        match self.ask(|reader| Ok(reader.head()))? {
            Some(head) => Ok(head),
            None => self.instead()?.head(),
        }
    }
}

impl Drop for OwnJournal<'_> {
    fn drop(&mut self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
