//! Removing what is too old: the journal decides, writes down what goes, and only then
//! lets the keeper remove it.

use std::fs;
use std::io;
use std::time::Duration;

use a2a_protocol::Event;
use chrono::{DateTime, NaiveDate, Utc};

use super::{CommitError, Journal};
use crate::days::day_files;
use crate::line::RemovedForm;
use crate::retention::{Holdings, plan};
use crate::{EventLine, Line, Recovered, Retained, Retention};

/// How often a wait looks whether the indexer is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

impl Journal {
    /// Packs closed days and removes what is too old or too much, and returns when that is
    /// done. A line about it gets the next number: what is committed next must lie above
    /// [`crate::Read::head`].
    ///
    /// # Errors
    /// When the line cannot be written, or the disk refuses; what is on record as removed is
    /// then removed later.
    pub fn retain(&mut self, now: DateTime<Utc>) -> Result<Retained, CommitError> {
        self.settle()?;
        self.tidy()?;
        let plan = self.remove(now)?;
        self.tidy()?;
        Ok(plan)
    }

    /// Has what a stop left undone seen to, and removes what is too old by now. No failure
    /// of it keeps the journal shut.
    pub(super) fn after_opening(&mut self, now: Option<DateTime<Utc>>, recovered: &mut Recovered) {
        if let Some(now) = now
            && let Err(error) = self.remove(now)
        {
            tracing::error!(%error, "what is too old could not be removed");
        }
        recovered.next_seq = self.head.seq + 1;
        if let Some(mark) = &self.state.marks.records {
            recovered.seen.retain(|seen| seen.seq > mark.seq);
        }
        if let Some((keeper, _)) = &self.keeper {
            keeper.see_to(&self.state.marks);
        }
    }

    /// Commits a batch in which some lines offer to say what is removed.
    pub(super) fn commit_with_offers(&mut self, batch: &[Line]) -> Result<(), CommitError> {
        let mut lines = Vec::with_capacity(batch.len());
        let mut has_answered = false;
        for line in batch {
            match line {
                Line::Event(offer) if line.is_offer() => {
                    let plan =
                        if has_answered { Retained::default() } else { self.plan(offer.time) };
                    has_answered = true;
                    let mut record = self.record(&plan, offer);
                    if let Some(Line::Event(record)) = &mut record {
                        // What a line before it says anew must not be overwritten by what was.
                        record.facts.retain(|fact| !says(&lines, &fact.key));
                    }
                    lines.extend(record);
                }
                line => lines.push(line.clone()),
            }
        }
        self.write(&lines)?;
        if let Some((keeper, _)) = &self.keeper {
            keeper.see_to(&self.state.marks);
        }
        Ok(())
    }

    /// Decides what goes and writes that down.
    fn remove(&mut self, now: DateTime<Utc>) -> Result<Retained, CommitError> {
        let plan = self.plan(now);
        let line = self.record(&plan, &EventLine::new(self.head.seq + 1, now, Event::Removed));
        if let Some(line) = line {
            self.write(&[line])?;
        }
        Ok(plan)
    }

    fn plan(&self, now: DateTime<Utc>) -> Retained {
        let plan = self.holdings().map(|holdings| plan(&self.retention, &holdings, now));
        let plan = plan.unwrap_or_else(|error| {
            tracing::error!(%error, "what is too old cannot be told");
            Retained::default()
        });
        if let Some(seq) = plan.held_by {
            tracing::warn!(seq, "days that should be removed are kept: this message is still owed");
        }
        plan
    }

    fn holdings(&self) -> io::Result<Holdings> {
        let index = self.shared.index().ok_or(io::ErrorKind::NotConnected)?;
        let mut days = index.days();
        let newest = index.last().map(|meta| meta.end.day);
        for file in day_files(&self.shared.dir)? {
            if let Some(day) = days.get_mut(&file.day) {
                let size = fs::metadata(&file.path)?.len();
                // A closed day will be packed: it is not charged for waiting to be.
                let waits = self.retention.pack && !file.is_packed && Some(file.day) < newest;
                day.file = Some(if waits { size.min(day.stored) } else { size });
            }
        }
        let stored = self.shared.tail().stored.map(|(_, day)| day);
        let settled_before = newest.min(stored).unwrap_or(NaiveDate::MIN);
        Ok(Holdings { days, settled_before, owed: self.state.held.keys().next().copied() })
    }

    /// The line that says what goes, with what must not be forgotten with it.
    fn record(&self, plan: &Retained, offer: &EventLine) -> Option<Line> {
        let mut line = offer.clone();
        line.removed = plan.removed.clone();
        line.count = Some(plan.removed.iter().map(|removed| removed.lines).sum());
        line.reason = Some(reason(&self.retention, plan)?);
        for removed in &mut line.removed {
            if removed.what == RemovedForm::Records {
                let facts;
                (removed.agents, facts) = self.state.noted_up_to(removed.last);
                line.facts.extend(facts);
            }
        }
        Some(Line::Event(line))
    }

    /// Waits until sled holds every line and a checkpoint of them.
    fn settle(&mut self) -> Result<(), CommitError> {
        let fail = |source| CommitError::Io { doing: "finishing the index", source };
        let Some(indexer) = &self.indexer else { return Err(CommitError::Closed) };
        let is_done = |stored: Option<(u64, NaiveDate)>, seq| {
            seq == 0 || stored.is_some_and(|(stored, _)| stored >= seq)
        };
        let seq = self.head.seq;
        if is_done(self.shared.tail().stored, seq) {
            return Ok(());
        }
        let is_over = || indexer.is_finished();
        let shared = self.shared.clone();
        if is_over() {
            return Err(fail(io::Error::other("the indexer has ended")));
        }
        let checkpoint = self.pack_checkpoint().map_err(fail)?;
        let mut tail = shared.tail();
        tail.checkpoint = checkpoint;
        shared.wake.notify_one();
        while !is_done(tail.stored, seq) {
            let waited = shared.settled.wait_timeout(tail, LOOK_AGAIN);
            tail = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            if self.indexer.as_ref().is_none_or(|indexer| indexer.is_finished()) {
                return Err(fail(io::Error::other("the indexer has ended")));
            }
        }
        Ok(())
    }

    fn tidy(&self) -> Result<(), CommitError> {
        let Some((keeper, _)) = &self.keeper else { return Err(CommitError::Closed) };
        let fail = |source| CommitError::Io { doing: "packing and removing old days", source };
        keeper.tidy(&self.state.marks).map_err(fail)
    }
}

/// Why something goes; `None` when nothing does.
fn reason(retention: &Retention, plan: &Retained) -> Option<String> {
    let records = plan.removed.iter().any(|removed| removed.what == RemovedForm::Records);
    let files = plan.removed.iter().any(|removed| removed.what == RemovedForm::Files);
    let mut reasons = Vec::new();
    if records {
        let age = retention.max_age_days.map(|days| format!("{days} days"));
        let size = retention.max_bytes.map(|bytes| format!("{bytes} bytes"));
        let limits: Vec<String> = [age, size].into_iter().flatten().collect();
        reasons.push(format!("records are kept for {}", limits.join(" and ")));
    }
    if files {
        reasons.push("files of closed days are not kept".to_owned());
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Whether one of the lines says something about `key`.
fn says(lines: &[Line], key: &str) -> bool {
    lines.iter().any(|line| {
        let facts = match line {
            Line::Message(line) => &line.facts,
            Line::Event(line) => &line.facts,
        };
        facts.iter().any(|fact| &*fact.key == key)
    })
}
