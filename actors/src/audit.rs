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

use a2a_policy::{Delivery, Slots};
use a2a_protocol::{MessageId, Outcome, Receipt, RecipientOutcome};
use a2a_store::{Commit, CommitError, Line, Read};
use actix::prelude::*;
use tokio::sync::oneshot;

use crate::letter::Content;
use crate::router::{Forget, Router};
use crate::session::{Begin, Deliver, Session};

/// How long to wait before a disk that refused is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// A line to be written, and what happens then.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Append {
    pub(crate) line: Line,
    pub(crate) then: Then,
}

/// A message on its way to a session where its place is taken already.
pub(crate) struct Outgoing {
    pub(crate) session: Addr<Session>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) delivery: Delivery<Content>,
}

/// What hangs on a line.
pub(crate) enum Then {
    /// The receipt is given and the message delivered.
    Receipt { receipt: Receipt, reply: Option<oneshot::Sender<Receipt>>, outgoing: Vec<Outgoing> },
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
    Refusing,
}

/// What the router must know of the audit without asking: both live on one thread.
pub(crate) struct Gauge {
    pub(crate) waiting: Cell<usize>,
    pub(crate) health: Cell<Health>,
}

type Committed = (Result<(), CommitError>, Vec<Line>);

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
    start: Option<Box<dyn Commit>>,
}

impl Audit {
    pub(crate) fn new(journal: Box<dyn Commit>, batch_limit: usize) -> (Self, Rc<Gauge>) {
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
            start: Some(journal),
        };
        (audit, gauge)
    }

    /// Hands the next batch to the writer, if it is idle and there is one.
    fn dispatch(&mut self) {
        if self.in_flight.is_some() {
            return;
        }
        if self.queue.is_empty() {
            for done in self.flushed.drain(..) {
                let _ = done.send(());
            }
            return;
        }
        let count = self.queue.len().min(self.batch_limit);
        let (lines, thens): (Vec<_>, Vec<_>) =
            self.queue.drain(..count).map(|append| (append.line, append.then)).unzip();
        // The writer is idle, so its one slot is free; it ends only after `Close`.
        match self.to_writer.as_ref().map(|writer| writer.try_send(lines)) {
            Some(Ok(())) => self.in_flight = Some(thens),
            _ => thens.into_iter().for_each(|then| self.undo(then)),
        }
        self.gauge.waiting.set(self.queue.len() + self.in_flight.as_ref().map_or(0, Vec::len));
    }

    fn done(&self, then: Then) {
        match then {
            Then::Receipt { receipt, reply, outgoing } => {
                if let Some(reply) = reply {
                    // A sender that went away does not need its receipt; the message stands.
                    let _ = reply.send(receipt);
                }
                for Outgoing { session, delivery, .. } in outgoing {
                    if let Err(error) = session.try_send(Deliver(delivery)) {
                        // The message is durable: the next start of the bus delivers it.
                        tracing::error!(%error, "a session did not take a message");
                    }
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
            Then::Receipt { mut receipt, reply, outgoing } => {
                outgoing.iter().for_each(|outgoing| outgoing.slots.free());
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
        self.gauge.health.set(Health::Refusing);
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
        self.gauge.waiting.set(self.queue.len());
        ctx.run_later(TRY_AGAIN, |audit, _| {
            audit.gauge.health.set(Health::Writing);
            audit.dispatch();
        });
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
    receipt.recipients.clear();
    receipt.reason = Some("The bus cannot write its journal right now. Nothing was accepted; send the message again later.".into());
    receipt.retry_after_ms = Some(1_000);
}

fn with_first_recipients(mut receipt: Receipt, first: u64, reader: &dyn Read) -> Receipt {
    #[derive(serde::Deserialize)]
    struct First {
        time: a2a_protocol::Timestamp,
        recipients: Vec<RecipientOutcome>,
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
        Ok(None) => tracing::error!(first, "the record of a duplicate is gone"),
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
        let result = journal.commit(&lines);
        audit.do_send(BatchWritten((result, lines)));
    }
    if let Err(error) = journal.close() {
        tracing::error!(%error, "the journal was not closed cleanly; the next start repairs it");
    }
}

impl Handler<Append> for Audit {
    type Result = ();

    fn handle(&mut self, append: Append, _: &mut Self::Context) {
        self.queue.push_back(append);
        self.gauge.waiting.set(self.gauge.waiting.get() + 1);
        if self.gauge.health.get() == Health::Writing {
            self.dispatch();
        }
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct BatchWritten(Committed);

impl Handler<BatchWritten> for Audit {
    type Result = ();

    fn handle(&mut self, BatchWritten((result, lines)): BatchWritten, ctx: &mut Self::Context) {
        let Some(thens) = self.in_flight.take() else { return };
        match result {
            Ok(()) => {
                // The next batch is written while what hangs on this one happens.
                self.dispatch();
                thens.into_iter().for_each(|then| self.done(then));
            }
            Err(error) => self.refuse(&error, lines, thens, ctx),
        }
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

    fn handle(&mut self, Flush(done): Flush, _: &mut Self::Context) {
        self.flushed.push(done);
        if self.gauge.health.get() == Health::Writing {
            self.dispatch();
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
