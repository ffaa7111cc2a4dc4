//! The audit: everything that happened is written here before anyone is told.
//!
//! Router and sessions send [`Append`]; the actor only collects. A thread of its own owns the
//! journal and commits whatever waits as soon as it is idle, so under load many records share
//! one fsync and an idle bus waits for one only. When a batch is durable, what hangs on it
//! happens: receipts are given, messages delivered, waiting acknowledgements answered.
//!
//! When a batch cannot be written nothing in it has happened: messages are answered
//! `unavailable` and leave no trace; events and the bus's own notices are kept and written
//! as soon as the disk allows.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use a2a_protocol::{MessageId, Outcome, Receipt, RecipientOutcome};
use a2a_store::{Commit, CommitError, Line, Read};
use actix::prelude::*;
use tokio::sync::oneshot;

use crate::Stats;
use crate::desk::{DeskNo, Desks};
use crate::letter::Content;
use crate::router::{Forget, Router};
use crate::session::{Begin, Session};

/// How long a line that nobody waits for may wait for company, so that an acknowledgement
/// does not cost an fsync of its own and hold up the messages behind it.
const LINGER: Duration = Duration::from_millis(2);

/// How long to wait before a disk that refused is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// A line to be written, and what happens then.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Append {
    pub(crate) line: Line,
    pub(crate) then: Then,
}

/// What hangs on a line.
pub(crate) enum Then {
    /// The receipt is given and the message laid onto the desks where its places are taken.
    Receipt {
        receipt: Receipt,
        reply: Option<oneshot::Sender<Receipt>>,
        to: Vec<DeskNo>,
        content: Option<Arc<Content>>,
    },
    /// The first receipt of the same message is given again.
    FirstReceipt { receipt: Receipt, first: u64, reply: Option<oneshot::Sender<Receipt>> },
    /// Somebody waits until the event is durable.
    Answer(oneshot::Sender<()>),
    /// An attempt may begin.
    Begin { session: Addr<Session>, seq: u64 },
    /// Nothing.
    Nothing,
}

/// Whether the journal takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Writing,
    /// For a moment: it is tried again.
    Refusing,
    /// Until the program is started anew: what the disk holds is not known any more.
    Broken,
}

/// What the router must know of the audit without asking: both live on one thread.
pub(crate) struct Gauge {
    pub(crate) waiting: Cell<usize>,
    pub(crate) health: Cell<Health>,
}

/// The lines come back only when they were not written.
type Committed = Result<usize, (CommitError, Vec<Line>)>;

pub(crate) struct Audit {
    queue: VecDeque<Append>,
    in_flight: Option<Vec<Then>>,
    to_writer: Option<SyncSender<Vec<Line>>>,
    writer: Option<std::thread::JoinHandle<()>>,
    reader: Arc<dyn Read>,
    router: Option<Addr<Router>>,
    gauge: Rc<Gauge>,
    batch_limit: usize,
    flushed: Vec<oneshot::Sender<()>>,
    stats: Arc<Stats>,
    desks: Rc<Desks>,
    /// Lines that wait and somebody waits for.
    awaited: usize,
    /// A commit of lines nobody waits for is set.
    lingering: bool,
    start: Option<Box<dyn Commit>>,
}

impl Audit {
    pub(crate) fn new(
        journal: Box<dyn Commit>,
        batch_limit: usize,
        stats: Arc<Stats>,
        desks: Rc<Desks>,
    ) -> (Self, Rc<Gauge>) {
        let gauge = Rc::new(Gauge { waiting: Cell::new(0), health: Cell::new(Health::Writing) });
        let audit = Self {
            queue: VecDeque::new(),
            in_flight: None,
            to_writer: None,
            writer: None,
            reader: journal.reader(),
            router: None,
            gauge: Rc::clone(&gauge),
            batch_limit,
            flushed: Vec::new(),
            stats,
            desks,
            awaited: 0,
            lingering: false,
            start: Some(journal),
        };
        (audit, gauge)
    }

    /// Hands the next batch to the writer, if it is idle and there is one worth a commit.
    fn dispatch(&mut self, ctx: &mut Context<Self>) {
        if self.in_flight.is_some() || self.gauge.health.get() != Health::Writing {
            return;
        }
        if self.queue.is_empty() {
            for done in self.flushed.drain(..) {
                let _ = done.send(());
            }
            return;
        }
        let full = self.queue.len() >= self.batch_limit * weight_of_a_message();
        if self.awaited == 0 && self.flushed.is_empty() && !full {
            if !self.lingering {
                self.lingering = true;
                ctx.run_later(LINGER, |audit, ctx| {
                    audit.lingering = false;
                    if audit.gauge.health.get() == Health::Writing {
                        audit.commit();
                    }
                    audit.dispatch(ctx);
                });
            }
            return;
        }
        self.commit();
    }

    fn commit(&mut self) {
        if self.in_flight.is_some() || self.queue.is_empty() {
            return;
        }
        let count = self.batch_size();
        let (lines, thens): (Vec<_>, Vec<_>) =
            self.queue.drain(..count).map(|append| (append.line, append.then)).unzip();
        self.awaited -= thens.iter().filter(|then| then.is_awaited()).count();
        // The writer is idle, so its one slot is free; it ends only after `Close`.
        match self.to_writer.as_ref().map(|writer| writer.try_send(lines)) {
            Some(Ok(())) => self.in_flight = Some(thens),
            _ => thens.into_iter().for_each(|then| self.undo(then)),
        }
    }

    /// How many lines go into the next batch: few large ones or many small ones.
    fn batch_size(&self) -> usize {
        let mut weight = 0;
        let fits = |append: &&Append| {
            weight += weight_of(&append.line);
            weight <= self.batch_limit * weight_of_a_message()
        };
        self.queue.iter().take_while(fits).count().max(1)
    }

    /// Only what somebody waits for counts against the limit; events come from messages that
    /// were accepted, and those are bounded by the inboxes.
    fn count_waiting(&self) {
        let in_flight = self.in_flight.iter().flatten().filter(|then| then.is_awaited()).count();
        self.gauge.waiting.set(self.awaited + in_flight);
    }

    fn done(&self, then: Then) {
        match then {
            Then::Receipt { receipt, reply, to, content } => {
                let accepted = receipt.outcome.is_accepted();
                let count = if accepted { &self.stats.accepted } else { &self.stats.refused };
                count.add(1);
                if let Some(reply) = reply {
                    // A sender that went away does not need its receipt; the message stands.
                    let _ = reply.send(receipt);
                }
                if let Some(content) = content {
                    self.stats.delivered.add(to.len());
                    self.desks.deliver(&to, &content);
                }
            }
            Then::FirstReceipt { receipt, first, reply } => {
                self.answer_again(receipt, first, reply)
            }
            Then::Answer(reply) => drop(reply.send(())),
            Then::Begin { session, seq } => {
                if let Err(error) = session.try_send(Begin(seq)) {
                    tracing::error!(%error, "a session did not begin an attempt");
                }
            }
            Then::Nothing => {}
        }
    }

    /// The first receipt again, read back from the journal on a thread that may block.
    fn answer_again(&self, receipt: Receipt, first: u64, reply: Option<oneshot::Sender<Receipt>>) {
        let Some(reply) = reply else { return };
        let reader = Arc::clone(&self.reader);
        tokio::task::spawn_blocking(move || {
            let _ = reply.send(with_first_recipients(receipt, first, reader.as_ref()));
        });
    }

    fn undo(&self, then: Then) {
        match then {
            Then::Receipt { mut receipt, reply, to, .. } => {
                self.desks.release(&to);
                if let (true, Some(id), Some(router)) =
                    (receipt.outcome.is_accepted(), receipt.message_id, &self.router)
                {
                    forget(router, id);
                }
                unavailable(&mut receipt);
                if let Some(reply) = reply {
                    let _ = reply.send(receipt);
                }
            }
            Then::FirstReceipt { mut receipt, reply, .. } => {
                unavailable(&mut receipt);
                if let Some(reply) = reply {
                    let _ = reply.send(receipt);
                }
            }
            // Dropping the sender tells the one who waits that it is not durable.
            Then::Answer(_) | Then::Begin { .. } | Then::Nothing => {}
        }
    }

    /// Nothing of the batch happened, nor of what was admitted on its strength.
    fn refuse(
        &mut self,
        error: &CommitError,
        lines: Vec<Line>,
        thens: Vec<Then>,
        ctx: &mut Context<Self>,
    ) {
        tracing::error!(%error, records = lines.len(), "the journal could not be written");
        let broken = matches!(error, CommitError::Poisoned | CommitError::Closed);
        self.set_health(if broken { Health::Broken } else { Health::Refusing });
        // Whoever waits for everything to be written waits in vain: let them go.
        self.flushed.clear();
        let failed = lines.into_iter().zip(thens).map(|(line, then)| Append { line, then });
        let all: Vec<_> = failed.chain(self.queue.drain(..)).collect();
        for append in all {
            match (&append.line, &append.then) {
                // A message without a caller comes from the bus: nobody would send it again.
                (Line::Event(_), _) | (_, Then::Receipt { reply: None, .. }) => {
                    self.queue.push_back(append);
                }
                (Line::Message(_), _) => self.undo(append.then),
            }
        }
        self.awaited = self.queue.iter().filter(|append| append.then.is_awaited()).count();
        if broken {
            tracing::error!(
                "nothing more is accepted; start the program anew, it recovers what was promised"
            );
            self.queue.drain(..).for_each(drop); // whoever waits is told that it is not durable
            self.awaited = 0;
            return;
        }
        ctx.run_later(TRY_AGAIN, |audit, ctx| {
            audit.set_health(Health::Writing);
            audit.dispatch(ctx);
        });
    }

    fn set_health(&self, health: Health) {
        self.gauge.health.set(health);
        self.stats.set_writing(health == Health::Writing);
    }
}

/// What a line costs to write, in events.
fn weight_of(line: &Line) -> usize {
    match line {
        Line::Event(_) => 1,
        Line::Message(line) => weight_of_a_message() + line.recipients.len() / 8,
    }
}

const fn weight_of_a_message() -> usize {
    4
}

impl Then {
    /// Whether anybody is held up until the line is durable.
    fn is_awaited(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

fn forget(router: &Addr<Router>, id: MessageId) {
    if let Err(error) = router.try_send(Forget(id)) {
        tracing::error!(%error, %id, "an id that was not accepted stays reserved until a restart");
    }
}

fn unavailable(receipt: &mut Receipt) {
    receipt.outcome = Outcome::Unavailable;
    receipt.seq = None;
    receipt.recipients = Arc::new([]);
    receipt.reason = Some("The bus cannot write its journal right now. Nothing was accepted; send the message again later.".into());
    receipt.retry_after_ms = Some(1_000);
}

fn with_first_recipients(mut receipt: Receipt, first: u64, reader: &dyn Read) -> Receipt {
    #[derive(serde::Deserialize)]
    struct First {
        time: a2a_protocol::Timestamp,
        recipients: Arc<[RecipientOutcome]>,
    }
    receipt.seq = Some(first);
    match reader.get(first) {
        Ok(Some(record)) => match serde_json::from_str::<First>(record.line.get()) {
            Ok(first) => {
                receipt.time = first.time;
                receipt.recipients = first.recipients;
            }
            Err(error) => tracing::error!(%error, first, "a record could not be read back"),
        },
        // The first could not be written in the end; this one must not count for it.
        Ok(None) => unavailable(&mut receipt),
        Err(error) => tracing::error!(%error, first, "a record could not be read back"),
    }
    receipt
}

impl Actor for Audit {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1 << 20); // bounded by the router, which counts what waits
        let Some(journal) = self.start.take() else { return };
        let (to_writer, batches) = sync_channel(1);
        let audit = ctx.address();
        self.to_writer = Some(to_writer);
        let writer = std::thread::Builder::new()
            .name("a2a-journal".into())
            .spawn(move || write_batches(journal, &batches, &audit));
        match writer {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => tracing::error!(%error, "the journal's thread could not be started"),
        }
    }
}

/// The journal's own thread: commit, tell, again.
fn write_batches(mut journal: Box<dyn Commit>, batches: &Receiver<Vec<Line>>, audit: &Addr<Audit>) {
    while let Ok(lines) = batches.recv() {
        let result = match journal.commit(&lines) {
            Ok(()) => Ok(lines.len()),
            Err(error) => Err((error, lines)),
        };
        audit.do_send(BatchWritten(result));
    }
    if let Err(error) = journal.close() {
        tracing::error!(%error, "the journal was not closed cleanly; the next start repairs it");
    }
}

impl Handler<Append> for Audit {
    type Result = ();

    fn handle(&mut self, append: Append, ctx: &mut Self::Context) {
        if self.gauge.health.get() == Health::Broken {
            return self.undo(append.then);
        }
        self.awaited += usize::from(append.then.is_awaited());
        self.queue.push_back(append);
        if self.queue.back().is_some_and(|append| append.then.is_awaited()) {
            self.gauge.waiting.set(self.gauge.waiting.get() + 1);
        }
        self.dispatch(ctx);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct BatchWritten(Committed);

impl Handler<BatchWritten> for Audit {
    type Result = ();

    fn handle(&mut self, BatchWritten(result): BatchWritten, ctx: &mut Self::Context) {
        let Some(thens) = self.in_flight.take() else { return };
        match result {
            Ok(lines) => {
                self.stats.commits.add(1);
                self.stats.lines.add(lines);
                // The next batch is written while what hangs on this one happens.
                self.dispatch(ctx);
                thens.into_iter().for_each(|then| self.done(then));
            }
            Err((error, lines)) => self.refuse(&error, lines, thens, ctx),
        }
        self.count_waiting();
    }
}

/// The audit is told whom to tell when an id was not accepted after all.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Meet(pub(crate) Addr<Router>);

impl Handler<Meet> for Audit {
    type Result = ();

    fn handle(&mut self, Meet(router): Meet, _: &mut Self::Context) {
        self.router = Some(router);
    }
}

/// Answers when everything that waits is written, or at once if nothing can be.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Flush(pub(crate) oneshot::Sender<()>);

impl Handler<Flush> for Audit {
    type Result = ();

    fn handle(&mut self, Flush(done): Flush, ctx: &mut Self::Context) {
        self.flushed.push(done);
        if self.gauge.health.get() == Health::Writing {
            self.dispatch(ctx);
        } else {
            self.flushed.clear();
        }
    }
}

/// Ends the journal's thread, closing the journal, and hands over the thread to wait for.
#[derive(Message)]
#[rtype(result = "Option<std::thread::JoinHandle<()>>")]
pub(crate) struct Close;

impl Handler<Close> for Audit {
    type Result = MessageResult<Close>;

    fn handle(&mut self, _: Close, _: &mut Self::Context) -> Self::Result {
        self.to_writer = None;
        MessageResult(self.writer.take())
    }
}
