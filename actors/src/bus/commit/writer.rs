//! The journal's own thread: take what waits, commit it, tell the audit, again.
//!
//! Router and sessions lay lines into its queue directly. It takes everything that waits at
//! the moment it is free, so under load many lines share one fsync and an idle bus waits for
//! one only; between two commits it asks nobody.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use a2a_journal::{Commit, CommitError, Line};
use actix::Addr;
use tokio::sync::oneshot;

use crate::Stats;
use crate::bus::commit::effects::{Audit, NotWritten, Then, WritingAgain, Written};

/// How long lines that nobody waits for may wait for company, so that an acknowledgement
/// does not cost an fsync of its own and hold up the messages behind it.
const LINGER: Duration = Duration::from_millis(2);

/// How long to wait before a disk that refused is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// What a message costs to write, in events.
const MESSAGE_WEIGHT: usize = 4;

/// A line to be written, and what happens then.
pub(crate) struct Append {
    pub(crate) line: Line,
    pub(crate) then: Then,
}

impl Append {
    /// An event, or a notice of the bus itself: nobody would send it again. Not one about a message
    /// that never was, unless it says more.
    fn is_ours(&self, gone: &HashSet<u64>) -> bool {
        match &self.line {
            Line::Event(event) => {
                event.of.is_none_or(|of| !gone.contains(&of)) || !event.facts.is_empty()
            }
            Line::Message(_) => self.then.is_from_the_bus(),
        }
    }
}

/// What the thread is asked to do.
pub(crate) enum Job {
    /// Lines, in their order.
    Append(Vec<Append>),
    /// Answer when everything before is written; dropped unanswered when nothing can be.
    Flush(oneshot::Sender<()>),
}

pub(crate) struct Writer {
    pub(crate) journal: Box<dyn Commit>,
    pub(crate) jobs: Receiver<Job>,
    pub(crate) audit: Addr<Audit>,
    /// Messages in one commit.
    pub(crate) batch_limit: usize,
    pub(crate) stats: Arc<Stats>,
    /// The disk refused, and nothing was written since.
    pub(crate) refusing: bool,
}

/// Nothing can be written until the journal is opened anew.
fn is_broken(error: &CommitError) -> bool {
    matches!(error, CommitError::Poisoned | CommitError::Closed)
}

#[derive(Default)]
struct Batch {
    lines: Vec<Line>,
    thens: Vec<Then>,
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
            Job::Append(lines) => lines.into_iter().for_each(|append| self.take(append)),
        }
    }

    fn take(&mut self, Append { line, then }: Append) {
        self.weight += weight_of(&line);
        self.awaited |= then.is_awaited();
        self.lines.push(line);
        self.thens.push(then);
    }
}

fn weight_of(line: &Line) -> usize {
    match line {
        Line::Event(_) => 1,
        Line::Message(line) => MESSAGE_WEIGHT + line.recipients.len() / 8,
    }
}

impl Writer {
    /// Runs until every sender of jobs is gone, then closes the journal.
    pub(crate) fn run(mut self) {
        let mut kept = Batch::default();
        while let Some(batch) = self.collect(kept) {
            kept = match self.commit(batch) {
                Ok(()) => Batch::default(),
                Err((error, batch)) => self.refused(&error, batch),
            };
        }
        if let Err(error) = self.journal.close() {
            tracing::error!(%error, "the journal was not closed cleanly; the next start repairs it");
        }
    }

    /// The next batch, with what is kept from an earlier one; `None` when there is no more.
    fn collect(&self, kept: Batch) -> Option<Batch> {
        let mut batch = kept;
        if batch.lines.is_empty() {
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
        if !batch.lines.is_empty() {
            let begun = Instant::now();
            self.stats.journal.begin();
            let committed = self.journal.commit(&batch.lines);
            self.stats.journal.end();
            if let Err(error) = committed {
                return Err((error, batch));
            }
            self.writes_again();
            self.stats.commit_seconds().took(begun.elapsed());
            self.stats.commit_lines().counted(batch.lines.len());
            self.audit.do_send(Written { thens: batch.thens });
        }
        for done in batch.flushes {
            let _ = done.send(());
        }
        Ok(())
    }

    /// Nothing of the batch happened. Messages are answered so; events and the notices of the
    /// bus itself, which nobody would send again, are kept and come first the next time.
    fn refused(&mut self, error: &CommitError, batch: Batch) -> Batch {
        let records = batch.lines.len();
        // Once for each time the disk refuses, however often it is tried.
        if std::mem::replace(&mut self.refusing, true) {
            tracing::debug!(%error, records, "the journal still cannot be written");
        } else {
            tracing::error!(%error, records, "the journal could not be written; nothing is accepted until it can be");
        }
        let broken = is_broken(error);
        let mut kept = Batch::default();
        let (mut undone, mut gone) = (Vec::new(), HashSet::new());
        let mut sort = |append: Append| {
            let is_ours = append.is_ours(&gone);
            if is_ours && !broken {
                kept.take(append);
            } else {
                self.stats.unwritten.add(usize::from(is_ours));
                gone.insert(append.line.seq());
                undone.push(append.then);
            }
        };
        let lines = batch.lines.into_iter().zip(batch.thens);
        lines.for_each(|(line, then)| sort(Append { line, then }));
        // What was admitted on the strength of the batch goes the same way.
        while let Ok(job) = self.jobs.try_recv() {
            if let Job::Append(lines) = job {
                lines.into_iter().for_each(&mut sort);
            }
        }
        // Dropped when it was heard: until then more may be admitted on the strength of the batch.
        let (unheard, heard) = channel();
        self.audit.do_send(NotWritten { thens: undone, broken, unheard: Some(unheard) });
        if broken {
            return self.give_up();
        }
        loop {
            if !self.wait_to_try_again(&mut kept, &mut gone, &heard) {
                self.try_for_the_last_time(kept);
                return Batch::default();
            }
            if !kept.lines.is_empty() {
                // Writing them is the next attempt.
                return kept;
            }
            self.stats.journal.begin();
            let tried = self.journal.probe();
            self.stats.journal.end();
            match tried {
                Ok(()) => {
                    self.writes_again();
                    return kept;
                }
                Err(error) if is_broken(&error) => {
                    self.audit.do_send(NotWritten {
                        thens: Vec::new(),
                        broken: true,
                        unheard: None,
                    });
                    return self.give_up();
                }
                Err(error) => tracing::debug!(%error, "the journal still cannot be written"),
            }
        }
    }

    /// The disk took a write: from now on messages are accepted again.
    fn writes_again(&mut self) {
        if std::mem::take(&mut self.refusing) {
            tracing::info!("the journal can be written again");
            self.audit.do_send(WritingAgain);
        }
    }

    /// What the disk holds is not known any more.
    fn give_up(&self) -> Batch {
        tracing::error!(
            "nothing more is accepted; start the program anew, it recovers what was promised"
        );
        self.refuse_everything();
        Batch::default()
    }

    /// The bus ends. The disk may have room by now.
    fn try_for_the_last_time(&mut self, kept: Batch) {
        if kept.lines.is_empty() {
            return;
        }
        match self.journal.commit(&kept.lines) {
            Ok(()) => self.audit.do_send(Written { thens: kept.thens }),
            Err(error) => {
                let lines = kept.lines.len();
                self.stats.unwritten.add(lines);
                tracing::error!(%error, lines, "the bus ends before the disk took everything");
            }
        }
    }

    /// Waits until the disk may be tried again; `false` when the bus ends meanwhile.
    fn wait_to_try_again(
        &self,
        kept: &mut Batch,
        gone: &mut HashSet<u64>,
        heard: &Receiver<()>,
    ) -> bool {
        let mut deadline = Instant::now() + TRY_AGAIN;
        loop {
            match self.jobs.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Job::Append(lines)) => self.sort_late(lines, kept, gone),
                Ok(Job::Flush(_)) => {} // dropped: whoever waits is let go
                Err(RecvTimeoutError::Timeout) if heard.try_recv() == Err(TryRecvError::Empty) => {
                    deadline = Instant::now() + LINGER;
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Of lines that came while the disk refuses, keeps what is ours and refuses the others.
    fn sort_late(&self, lines: Vec<Append>, kept: &mut Batch, gone: &mut HashSet<u64>) {
        let mut thens = Vec::new();
        for append in lines {
            if append.is_ours(gone) {
                kept.take(append);
            } else {
                gone.insert(append.line.seq());
                thens.push(append.then);
            }
        }
        if !thens.is_empty() {
            self.audit.do_send(NotWritten { thens, broken: false, unheard: None });
        }
    }

    fn refuse_everything(&self) {
        while let Ok(job) = self.jobs.recv() {
            if let Job::Append(lines) = job {
                let ours = lines.iter().filter(|append| append.is_ours(&HashSet::new())).count();
                self.stats.unwritten.add(ours);
                let thens = lines.into_iter().map(|append| append.then).collect();
                self.audit.do_send(NotWritten { thens, broken: true, unheard: None });
            }
        }
    }
}
