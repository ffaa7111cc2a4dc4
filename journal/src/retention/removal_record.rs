//! Records removals: the journal decides, writes the decision to the log, and only then lets the
//! worker carry it out.

use std::io;
use std::time::Duration;

use a2a_protocol::{AgentId, Event};
use chrono::{DateTime, NaiveDate, Utc};

use crate::journal::{CommitError, Journal};
use crate::record::RemovedForm;
use crate::retention::{RetentionInput, plan};
use crate::segment::list_segments;
use crate::{EventRecord, Fact, Record, Recovered, Retention, RetentionPlan};

/// How often a wait checks that the indexer still runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

impl Journal {
    /// Applies the retention and returns when it is done: compresses closed segments and removes old
    /// days. The record of the removal takes the next number, so that the next commit must be above
    /// [`crate::JournalReader::head`].
    ///
    /// # Errors
    /// When the record cannot be written, or the disk fails. A recorded removal is then carried out
    /// later.
    pub fn retain(&mut self, now: DateTime<Utc>) -> Result<RetentionPlan, CommitError> {
        self.wait_until_indexed()?;
        self.run_worker()?;
        let plan = self.remove(now)?;
        self.run_worker()?;
        Ok(plan)
    }

    /// Resumes interrupted removals, and removes what is too old by now. A failure does not prevent
    /// the journal from opening.
    pub(crate) fn after_opening(&mut self, now: Option<DateTime<Utc>>, recovered: &mut Recovered) {
        if let Some(now) = now
            && let Err(error) = self.remove(now)
        {
            tracing::error!(%error, "what is too old could not be removed");
        }
        recovered.next_seq = self.head.seq + 1;
        if let Some(mark) = &self.state.marks.records {
            recovered.seen.retain(|seen| seen.seq > mark.seq);
        }
        if let Some((worker, _)) = &self.worker {
            worker.schedule(&self.state.marks);
        }
    }

    /// Commits a batch in which some records offer their number for removals.
    pub(crate) fn commit_with_removal_slots(
        &mut self,
        batch: &[Record],
    ) -> Result<(), CommitError> {
        let mut lines = Vec::with_capacity(batch.len());
        let mut has_answered = false;
        for line in batch {
            match line {
                Record::Event(offer) if line.is_removal_slot() => {
                    let plan =
                        if has_answered { RetentionPlan::default() } else { self.plan(offer.time) };
                    has_answered = true;
                    let mut record = self.record(&plan, offer.time, &lines);
                    let last = lines.last().map_or(self.head.seq, Record::seq);
                    let available = usize::try_from(offer.seq.saturating_sub(last));
                    record.truncate(available.unwrap_or(usize::MAX).max(1));
                    let first = (offer.seq + 1).saturating_sub(record.len() as u64);
                    lines.extend(numbered(record, first));
                }
                line => lines.push(line.clone()),
            }
        }
        self.write(&lines)?;
        if let Some((worker, _)) = &self.worker {
            worker.schedule(&self.state.marks);
        }
        Ok(())
    }

    /// Decides what is removed and records it.
    fn remove(&mut self, now: DateTime<Utc>) -> Result<RetentionPlan, CommitError> {
        let plan = self.plan(now);
        let record = self.record(&plan, now, &[]);
        let lines: Vec<Record> = numbered(record, self.head.seq + 1).collect();
        self.write(&lines)?;
        Ok(plan)
    }

    fn plan(&self, now: DateTime<Utc>) -> RetentionPlan {
        let plan = self.input().map(|input| plan(&self.retention, &input, now));
        let plan = plan.unwrap_or_else(|error| {
            tracing::error!(%error, "what is too old cannot be determined");
            RetentionPlan::default()
        });
        if let Some(seq) = plan.held_by {
            tracing::warn!(
                seq,
                "days that should be removed are kept: this message still has open deliveries"
            );
        }
        plan
    }

    fn input(&self) -> io::Result<RetentionInput> {
        let index = self.shared.index().map_err(io::Error::other)?;
        let mut days = index.days();
        let newest = index.last().map(|meta| meta.end.day);
        for file in list_segments(&self.shared.dir)? {
            // The worker compresses and removes segments meanwhile: a missing one is no failure.
            if let Some(day) = days.get_mut(&file.day)
                && let Some((file, size)) = file.sized(&self.shared.dir)?
            {
                // A closed segment will be compressed and counts with the size it will have.
                let waits =
                    self.retention.compress && !file.is_compressed && Some(file.day) < newest;
                day.file = Some(if waits { size.min(day.stored) } else { size });
            }
        }
        let stored = self.shared.tail().stored.map(|(_, day)| day);
        let settled_before = newest.min(stored).unwrap_or(NaiveDate::MIN);
        Ok(RetentionInput {
            days,
            settled_before,
            oldest_open: self.state.held.keys().next().copied(),
        })
    }

    /// The records of a removal, without numbers. Those with the facts and agents to preserve come
    /// first and the removal last, so that a cut anywhere loses nothing.
    fn record(
        &self,
        plan: &RetentionPlan,
        time: DateTime<Utc>,
        before: &[Record],
    ) -> Vec<EventRecord> {
        let Some(reason) = reason(&self.retention, plan) else { return Vec::new() };
        let records = plan.removed.iter().position(|r| r.what == RemovedForm::Records);
        let preserved = records.map(|at| self.state.retained_up_to(plan.removed[at].last));
        let (agents, mut facts) = preserved.unwrap_or_default();
        // An old value must not overwrite that of an earlier record in the batch.
        facts.retain(|fact| !mentions(before, &fact.key));
        let mut parts = portions(agents, facts, self.removal_line_bytes);
        let (agents, facts) = parts.pop().unwrap_or_default();
        let mut lines: Vec<EventRecord> = parts
            .into_iter()
            .map(|(agents, facts)| {
                let reason = Some("kept of what is removed next".to_owned());
                EventRecord { agents, facts, reason, ..EventRecord::new(0, time, Event::Removed) }
            })
            .collect();
        let mut removed = plan.removed.clone();
        if let Some(at) = records {
            removed[at].agents = agents;
        }
        lines.push(EventRecord {
            count: Some(removed.iter().map(|removed| removed.lines).sum()),
            reason: Some(reason),
            facts,
            removed,
            ..EventRecord::new(0, time, Event::Removed)
        });
        lines
    }

    /// Waits until sled has every record and a checkpoint of them.
    fn wait_until_indexed(&mut self) -> Result<(), CommitError> {
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
        let checkpoint = self.take_checkpoint();
        let mut tail = shared.tail();
        tail.checkpoint = checkpoint;
        shared.wake.notify_one();
        while !is_done(tail.stored, seq) {
            shared.settled.wait_for(&mut tail, CHECK_INTERVAL);
            if self.indexer.as_ref().is_none_or(|indexer| indexer.is_finished()) {
                return Err(fail(io::Error::other("the indexer has ended")));
            }
            if let Some(fault) = shared.fault() {
                return Err(fail(io::Error::other(&*fault)));
            }
        }
        Ok(())
    }

    fn run_worker(&self) -> Result<(), CommitError> {
        let Some((worker, _)) = &self.worker else { return Err(CommitError::Closed) };
        let fail = |source| CommitError::Io { doing: "packing and removing old days", source };
        worker.run_once(&self.state.marks).map_err(fail)
    }
}

/// Assigns consecutive numbers.
fn numbered(lines: Vec<EventRecord>, first: u64) -> impl Iterator<Item = Record> {
    (first..).zip(lines).map(|(seq, line)| Record::Event(EventRecord { seq, ..line }))
}

/// Splits agents and facts into portions of about `most` bytes, at least one item in each.
fn portions(agents: Vec<AgentId>, facts: Vec<Fact>, most: usize) -> Vec<(Vec<AgentId>, Vec<Fact>)> {
    let mut all = vec![(Vec::new(), Vec::new())];
    let mut size = 0;
    let mut start_portion = |bytes: usize, all: &mut Vec<_>| {
        if size > 0 && size + bytes > most {
            all.push((Vec::new(), Vec::new()));
            size = 0;
        }
        size += bytes;
    };
    for agent in agents {
        start_portion(agent.as_str().len() + 3, &mut all);
        if let Some((agents, _)) = all.last_mut() {
            agents.push(agent);
        }
    }
    for fact in facts {
        // An escaped character of the key may take six bytes.
        let value = fact.value.as_ref().map_or(4, |value| value.len());
        start_portion(6 * fact.key.len() + value + 4, &mut all);
        if let Some((_, facts)) = all.last_mut() {
            facts.push(fact);
        }
    }
    all
}

/// The reason of a removal; `None` if nothing is removed.
fn reason(retention: &Retention, plan: &RetentionPlan) -> Option<String> {
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

/// Whether one of the records sets or removes the fact `key`.
fn mentions(lines: &[Record], key: &str) -> bool {
    lines.iter().any(|line| {
        let facts = match line {
            Record::Message(line) => &line.facts,
            Record::Event(line) => &line.facts,
        };
        facts.iter().any(|fact| &*fact.key == key)
    })
}
