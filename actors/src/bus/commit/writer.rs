//! Journal thread: receives queued records, commits them as one batch, sends the result to the
//! commit effects.
//!
//! A batch holds everything that waits when the thread becomes free. Under load many records share
//! one fsync; an idle bus waits for one fsync only.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use a2a_journal::{Commit, CommitError, Record};
use actix::Addr;
use tokio::sync::oneshot;

use crate::Stats;
use crate::bus::commit::effects::{
    CommitEffects, CommitFailed, Committed, JournalRecovered, OnCommit,
};

/// How long records without a waiting caller are held back, so that an acknowledgement does not
/// cost an fsync of its own and delay the messages behind it.
const LINGER: Duration = Duration::from_millis(2);

/// Pause before a failed write is retried.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Cost of writing a message, in events.
const MESSAGE_WEIGHT: usize = 4;

/// A record to write, with the actions after its commit.
pub(crate) struct Append {
    pub(crate) record: Record,
    pub(crate) on_commit: OnCommit,
}

impl Append {
    /// Whether the record survives a failed commit: an event, or a notice of the bus itself, which
    /// would not be sent again. An event about a rejected message is kept only for its facts.
    fn is_retained(&self, rejected_seqs: &HashSet<u64>) -> bool {
        match &self.record {
            Record::Event(event) => {
                event.of.is_none_or(|of| !rejected_seqs.contains(&of)) || !event.facts.is_empty()
            }
            Record::Message(_) => self.on_commit.is_from_the_bus(),
        }
    }
}

/// Work for the journal thread.
pub(crate) enum Job {
    /// Records in their order.
    Append(Vec<Append>),
    /// Resolved when everything before is written; dropped when that is impossible.
    Flush(oneshot::Sender<()>),
}

pub(crate) struct Writer {
    pub(crate) journal: Box<dyn Commit>,
    pub(crate) jobs: Receiver<Job>,
    pub(crate) effects: Addr<CommitEffects>,
    /// Maximum messages in one commit.
    pub(crate) batch_limit: usize,
    pub(crate) stats: Arc<Stats>,
    /// The last write failed.
    pub(crate) refusing: bool,
}

/// Whether nothing can be written until the journal is reopened.
fn is_broken(error: &CommitError) -> bool {
    matches!(error, CommitError::Poisoned | CommitError::Closed)
}

#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    actions: Vec<OnCommit>,
    flushes: Vec<oneshot::Sender<()>>,
    weight: usize,
    awaited: bool,
}

impl Batch {
    fn add(&mut self, job: Job) {
        match job {
            Job::Flush(done) => {
                self.flushes.push(done);
                self.awaited = true;
            }
            Job::Append(appends) => appends.into_iter().for_each(|append| self.take(append)),
        }
    }

    fn take(&mut self, Append { record, on_commit }: Append) {
        self.weight += weight_of(&record);
        self.awaited |= on_commit.is_awaited();
        self.records.push(record);
        self.actions.push(on_commit);
    }
}

fn weight_of(record: &Record) -> usize {
    match record {
        Record::Event(_) => 1,
        Record::Message(message) => MESSAGE_WEIGHT + message.recipients.len() / 8,
    }
}

impl Writer {
    /// Runs until every sender of jobs is dropped, then closes the journal.
    pub(crate) fn run(mut self) {
        let mut retained = Batch::default();
        while let Some(batch) = self.collect(retained) {
            retained = match self.commit(batch) {
                Ok(()) => Batch::default(),
                Err((error, batch)) => self.handle_failure(&error, batch),
            };
        }
        if let Err(error) = self.journal.close() {
            tracing::error!(%error, "journal did not close cleanly; the next start repairs it");
        }
    }

    /// The next batch, with the retained records of an earlier one; `None` at the end.
    fn collect(&self, retained: Batch) -> Option<Batch> {
        let mut batch = retained;
        if batch.records.is_empty() {
            batch.add(self.jobs.recv().ok()?);
        }
        self.take_waiting(&mut batch);
        let deadline = Instant::now() + LINGER;
        while !batch.awaited && !self.is_full(&batch) {
            match self.jobs.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(job) => batch.add(job),
                Err(_) => break,
            }
            self.take_waiting(&mut batch);
        }
        Some(batch)
    }

    fn take_waiting(&self, batch: &mut Batch) {
        while !self.is_full(batch)
            && let Ok(job) = self.jobs.try_recv()
        {
            batch.add(job);
        }
    }

    fn is_full(&self, batch: &Batch) -> bool {
        batch.weight >= self.batch_limit * MESSAGE_WEIGHT
    }

    fn commit(&mut self, batch: Batch) -> Result<(), (CommitError, Batch)> {
        if !batch.records.is_empty() {
            let begun = Instant::now();
            self.stats.journal.begin();
            let committed = self.journal.commit(&batch.records);
            self.stats.journal.end();
            if let Err(error) = committed {
                return Err((error, batch));
            }
            self.mark_recovered();
            self.stats.commit_seconds().took(begun.elapsed());
            self.stats.commit_lines().counted(batch.records.len());
            self.effects.do_send(Committed { actions: batch.actions });
        }
        for done in batch.flushes {
            let _ = done.send(());
        }
        Ok(())
    }

    /// Reverts a failed batch. Its messages are answered `unavailable`. Events and notices of the
    /// bus itself, which would not be sent again, are retained and head the next batch.
    fn handle_failure(&mut self, error: &CommitError, batch: Batch) -> Batch {
        let records = batch.records.len();
        // Logged once per outage, however many retries it takes.
        if std::mem::replace(&mut self.refusing, true) {
            tracing::debug!(%error, records, "journal write failed again");
        } else {
            tracing::error!(%error, records, "journal write failed; nothing is accepted until one succeeds");
        }
        let broken = is_broken(error);
        let mut retained = Batch::default();
        let (mut undone, mut rejected_seqs) = (Vec::new(), HashSet::new());
        let mut sort = |append: Append| {
            let is_retained = append.is_retained(&rejected_seqs);
            if is_retained && !broken {
                retained.take(append);
            } else {
                self.stats.unwritten.add(usize::from(is_retained));
                rejected_seqs.insert(append.record.seq());
                undone.push(append.on_commit);
            }
        };
        let appends = batch.records.into_iter().zip(batch.actions);
        appends.for_each(|(record, on_commit)| sort(Append { record, on_commit }));
        // Records admitted on the strength of the batch are rejected with it.
        while let Ok(job) = self.jobs.try_recv() {
            if let Job::Append(appends) = job {
                appends.into_iter().for_each(&mut sort);
            }
        }
        // Dropped when the failure is processed: until then more may be admitted on the strength of
        // the batch.
        let (unprocessed, processed) = channel();
        self.effects.do_send(CommitFailed {
            actions: undone,
            broken,
            unprocessed: Some(unprocessed),
        });
        if broken {
            return self.fail_permanently();
        }
        loop {
            if !self.wait_before_retry(&mut retained, &mut rejected_seqs, &processed) {
                self.final_commit(retained);
                return Batch::default();
            }
            if !retained.records.is_empty() {
                // Writing them is the next attempt.
                return retained;
            }
            self.stats.journal.begin();
            let tried = self.journal.probe();
            self.stats.journal.end();
            match tried {
                Ok(()) => {
                    self.mark_recovered();
                    return retained;
                }
                Err(error) if is_broken(&error) => {
                    self.effects.do_send(CommitFailed {
                        actions: Vec::new(),
                        broken: true,
                        unprocessed: None,
                    });
                    return self.fail_permanently();
                }
                Err(error) => tracing::debug!(%error, "journal write failed again"),
            }
        }
    }

    /// Reports that messages are accepted again.
    fn mark_recovered(&mut self) {
        if std::mem::take(&mut self.refusing) {
            tracing::info!("journal recovered; messages are accepted again");
            self.effects.do_send(JournalRecovered);
        }
    }

    /// Ends writing for good: the content of the file is unknown.
    fn fail_permanently(&self) -> Batch {
        tracing::error!(
            "journal failed for good; nothing more is accepted until a restart, which recovers what was acknowledged"
        );
        self.reject_all();
        Batch::default()
    }

    /// Last attempt while the bus stops: the disk may have free space by now.
    fn final_commit(&mut self, retained: Batch) {
        if retained.records.is_empty() {
            return;
        }
        match self.journal.commit(&retained.records) {
            Ok(()) => self.effects.do_send(Committed { actions: retained.actions }),
            Err(error) => {
                let records = retained.records.len();
                self.stats.unwritten.add(records);
                tracing::error!(%error, records, "bus stopped before all records were written");
            }
        }
    }

    /// Waits for the next retry; `false` when the bus stops meanwhile.
    fn wait_before_retry(
        &self,
        retained: &mut Batch,
        rejected_seqs: &mut HashSet<u64>,
        processed: &Receiver<()>,
    ) -> bool {
        let mut deadline = Instant::now() + RETRY_AFTER;
        loop {
            match self.jobs.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Job::Append(appends)) => self.sort_arrivals(appends, retained, rejected_seqs),
                Ok(Job::Flush(_)) => {} // dropped, which releases the waiting caller
                Err(RecvTimeoutError::Timeout)
                    if processed.try_recv() == Err(TryRecvError::Empty) =>
                {
                    deadline = Instant::now() + LINGER;
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Retains or rejects records that arrive during an outage.
    fn sort_arrivals(
        &self,
        appends: Vec<Append>,
        retained: &mut Batch,
        rejected_seqs: &mut HashSet<u64>,
    ) {
        let mut actions = Vec::new();
        for append in appends {
            if append.is_retained(rejected_seqs) {
                retained.take(append);
            } else {
                rejected_seqs.insert(append.record.seq());
                actions.push(append.on_commit);
            }
        }
        if !actions.is_empty() {
            self.effects.do_send(CommitFailed { actions, broken: false, unprocessed: None });
        }
    }

    fn reject_all(&self) {
        while let Ok(job) = self.jobs.recv() {
            if let Job::Append(appends) = job {
                let retained =
                    appends.iter().filter(|append| append.is_retained(&HashSet::new())).count();
                self.stats.unwritten.add(retained);
                let actions = appends.into_iter().map(|append| append.on_commit).collect();
                self.effects.do_send(CommitFailed { actions, broken: true, unprocessed: None });
            }
        }
    }
}
