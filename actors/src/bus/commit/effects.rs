//! Applies commit results: sends receipts, delivers messages and resolves acknowledgements after a
//! commit; reverts the admissions of a failed one.
//!
//! The journal thread reports each batch. Nothing is visible before its batch is durable; then the
//! actor runs the actions of each record ([`OnCommit`]).
//!
//! When a batch cannot be written, nothing in it has happened: messages are answered `unavailable`
//! and leave no trace.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;

use a2a_journal::{Commit, JournalReader, Liveness, LivenessGuard};
use a2a_policy::Undo;
use a2a_protocol::{Kind, MessageId, Outcome, Receipt, RecipientOutcome};
use actix::prelude::*;
use tokio::sync::{oneshot, watch};

use crate::Stats;
use crate::bus::commit::buffer::CommitBuffer;
use crate::bus::commit::writer::{Job, Writer};
use crate::bus::mailbox::{MailboxId, Mailboxes};
use crate::bus::mailbox::{Session, StartAttempt};
use crate::bus::message::StoredMessage;
use crate::bus::router::Reply;
use crate::bus::router::{Forget, Router};

/// Actions to run once a record is durable.
pub(crate) enum OnCommit {
    /// Sends the receipt and delivers the message into the mailboxes with reserved capacity.
    Receipt {
        receipt: Receipt,
        /// Kind of the message; `None` when it could not be parsed.
        kind: Option<Kind>,
        reply: Option<Reply>,
        /// `None` for a refused message.
        delivery: Option<PendingDelivery>,
    },
    /// Repeats the first receipt of the same message.
    FirstReceipt { receipt: Receipt, kind: Option<Kind>, first: u64, reply: Option<Reply> },
    /// Resolves a sender that waits for the commit.
    Notify(oneshot::Sender<()>),
    /// Starts an attempt that had to be recorded first.
    StartAttempt { session: Addr<Session>, seq: u64 },
    /// Nothing.
    Nothing,
}

/// The delivery of an accepted message, and what reverts it when the commit fails.
pub(crate) struct PendingDelivery {
    /// Mailboxes with reserved capacity.
    pub(crate) to: Vec<MailboxId>,
    pub(crate) stored: Arc<StoredMessage>,
    /// The message was delivered before the commit.
    pub(crate) delivered_early: bool,
    /// Reverts the change of the ledger.
    pub(crate) undo: Option<Undo>,
}

/// Whether the journal takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalHealth {
    Writing,
    /// A write failed and is tried again.
    Refusing,
    /// A failed fsync left the file in an unknown state; writing resumes after a restart.
    Broken,
}

/// State of the journal for the router, which runs on the same thread.
pub(crate) struct JournalStatus {
    pub(crate) uncommitted: Cell<usize>,
    pub(crate) health: Cell<JournalHealth>,
    /// The last message delivered into its mailboxes; later ones are being committed.
    pub(crate) delivered_seq: Cell<u64>,
}

pub(crate) struct CommitEffects {
    writer: Option<JoinHandle<()>>,
    start: Option<(Box<dyn Commit>, Receiver<Job>)>,
    batch_limit: usize,
    reader: Arc<dyn JournalReader>,
    router: Option<Addr<Router>>,
    journal_status: Rc<JournalStatus>,
    stats: Arc<Stats>,
    mailboxes: Rc<Mailboxes>,
    commit_buffer: Rc<CommitBuffer>,
    /// Publishes the sequence number of the last record to followers of the log.
    head: watch::Sender<u64>,
    liveness: Liveness,
    _alive: LivenessGuard,
}

impl CommitEffects {
    pub(crate) fn new(
        journal: Box<dyn Commit>,
        jobs: Receiver<Job>,
        batch_limit: usize,
        stats: Arc<Stats>,
        mailboxes: Rc<Mailboxes>,
        commit_buffer: Rc<CommitBuffer>,
        head: watch::Sender<u64>,
    ) -> (Self, Rc<JournalStatus>) {
        let liveness = journal.liveness();
        let journal_status = Rc::new(JournalStatus {
            uncommitted: Cell::new(0),
            health: Cell::new(JournalHealth::Writing),
            delivered_seq: Cell::new(journal.reader().head().seq),
        });
        let effects = Self {
            writer: None,
            reader: journal.reader(),
            start: Some((journal, jobs)),
            batch_limit,
            router: None,
            journal_status: Rc::clone(&journal_status),
            stats,
            mailboxes,
            commit_buffer,
            head,
            _alive: liveness.endless("audit"),
            liveness,
        };
        (effects, journal_status)
    }

    /// Subtracts records that were awaited.
    fn count_down(&self, actions: &[OnCommit]) {
        let awaited = actions.iter().filter(|on_commit| on_commit.is_awaited()).count();
        self.journal_status
            .uncommitted
            .set(self.journal_status.uncommitted.get().saturating_sub(awaited));
    }

    fn set_health(&self, health: JournalHealth) {
        if self.journal_status.health.get() != JournalHealth::Broken {
            self.journal_status.health.set(health);
            match health {
                JournalHealth::Broken => self.stats.journal.set_broken(),
                health => self.stats.journal.set_writing(health == JournalHealth::Writing),
            }
        }
    }

    fn apply(&self, on_commit: OnCommit) {
        match on_commit {
            OnCommit::Receipt { receipt, kind, reply, delivery } => {
                self.stats.answered(kind, receipt.outcome);
                let accepted = receipt.outcome.is_accepted();
                let count = if accepted { &self.stats.accepted } else { &self.stats.refused };
                count.add(1);
                if let Some(reply) = reply {
                    reply.send(receipt);
                }
                if let Some(PendingDelivery { to, stored, delivered_early, .. }) = delivery {
                    self.stats.delivered.add(to.len());
                    if !delivered_early {
                        self.mailboxes.deliver(&to, &stored);
                    }
                    self.journal_status.delivered_seq.set(stored.seq);
                }
            }
            OnCommit::FirstReceipt { receipt, kind, first, reply } => {
                self.stats.answered(kind, receipt.outcome);
                repeat_first_receipt(Arc::clone(&self.reader), receipt, first, reply);
            }
            OnCommit::Notify(reply) => drop(reply.send(())),
            OnCommit::StartAttempt { session, seq } => {
                if let Err(error) = session.try_send(StartAttempt(seq)) {
                    tracing::error!(%error, "session did not start an attempt");
                }
            }
            OnCommit::Nothing => {}
        }
    }

    fn revert(&self, on_commit: OnCommit) {
        match on_commit {
            OnCommit::Receipt { mut receipt, kind, reply, delivery } => {
                if let Some(delivery) = delivery {
                    self.revert_delivery(delivery, receipt.message_id);
                }
                unavailable(&mut receipt);
                self.stats.answered(kind, receipt.outcome);
                if let Some(reply) = reply {
                    reply.send(receipt);
                }
            }
            OnCommit::FirstReceipt { mut receipt, kind, reply, .. } => {
                unavailable(&mut receipt);
                self.stats.answered(kind, receipt.outcome);
                if let Some(reply) = reply {
                    reply.send(receipt);
                }
            }
            // Dropping the sender notifies its receiver that the event is not durable.
            OnCommit::Notify(_) | OnCommit::StartAttempt { .. } | OnCommit::Nothing => {}
        }
    }

    /// Takes an accepted message back from its mailboxes, the dedup index and the ledger.
    fn revert_delivery(&self, delivery: PendingDelivery, id: Option<MessageId>) {
        let PendingDelivery { to, stored, delivered_early, undo } = delivery;
        if delivered_early {
            self.mailboxes.retract(&to, stored.seq);
        } else {
            self.mailboxes.release(&to, stored.size());
        }
        // Nothing is left to discard.
        self.mailboxes.take_discarded(stored.seq);
        if let (Some(id), Some(router)) = (id, &self.router) {
            forget_id(router, id, undo);
        }
    }
}

impl OnCommit {
    /// Whether a caller waits until the record is durable.
    pub(crate) fn is_awaited(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// A message without a caller, which would not be sent again.
    pub(crate) fn is_from_the_bus(&self) -> bool {
        matches!(self, Self::Receipt { reply: None, .. })
    }
}

/// Repeats the first receipt, read back from the journal on a blocking thread.
pub(crate) fn repeat_first_receipt(
    reader: Arc<dyn JournalReader>,
    receipt: Receipt,
    first: u64,
    reply: Option<Reply>,
) {
    let Some(reply) = reply else { return };
    tokio::task::spawn_blocking(move || {
        reply.send(with_first_recipients(receipt, first, reader.as_ref()));
    });
}

fn forget_id(router: &Addr<Router>, id: MessageId, undo: Option<Undo>) {
    if let Err(error) = router.try_send(Forget { id, undo }) {
        tracing::error!(%error, %id, "router did not release the id of a failed message; it stays reserved until a restart");
    }
}

fn unavailable(receipt: &mut Receipt) {
    receipt.outcome = Outcome::Unavailable;
    receipt.seq = None;
    receipt.recipients = Arc::new([]);
    receipt.reason = Some("The bus cannot write its journal right now. Nothing was accepted; send the message again later.".into());
    receipt.retry_after_ms = Some(1_000);
}

fn with_first_recipients(mut receipt: Receipt, first: u64, reader: &dyn JournalReader) -> Receipt {
    #[derive(serde::Deserialize)]
    struct First {
        time: a2a_protocol::Timestamp,
        recipients: Arc<[RecipientOutcome]>,
    }
    receipt.seq = Some(first);
    match reader.record(first) {
        Ok(Some(record)) => match serde_json::from_str::<First>(record.get()) {
            Ok(first) => {
                receipt.time = first.time;
                receipt.recipients = first.recipients;
            }
            Err(error) => tracing::error!(%error, first, "record could not be read back"),
        },
        // Accepted, and its record has been removed by retention since.
        Ok(None) if was_removed(first, reader) => {}
        // The first record was never written, so this submission must not count as accepted.
        Ok(None) => unavailable(&mut receipt),
        Err(error) => tracing::error!(%error, first, "record could not be read back"),
    }
    receipt
}

/// Whether the journal begins after this sequence number.
fn was_removed(seq: u64, reader: &dyn JournalReader) -> bool {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: u64,
    }
    let oldest = reader.after(0, 1).unwrap_or_default();
    let oldest = oldest.first().and_then(|line| serde_json::from_str::<Numbered>(line.get()).ok());
    oldest.is_some_and(|oldest| oldest.seq > seq)
}

impl Actor for CommitEffects {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some((journal, jobs)) = self.start.take() else { return };
        let (effects, batch_limit) = (ctx.address(), self.batch_limit);
        let stats = Arc::clone(&self.stats);
        let writer = Writer { journal, jobs, effects, batch_limit, stats, refusing: false };
        let thread = std::thread::Builder::new().name("a2a-journal".into());
        let alive = self.liveness.returning("journal");
        let run = move || {
            let _alive = alive;
            writer.run();
        };
        match thread.spawn(run) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => tracing::error!(%error, "journal thread failed to start"),
        }
    }
}

/// A batch is durable.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Committed {
    pub(crate) actions: Vec<OnCommit>,
}

impl Handler<Committed> for CommitEffects {
    type Result = ();

    fn handle(&mut self, Committed { actions }: Committed, _: &mut Self::Context) {
        // Before the receipts: a follower of the log sees a message no later than its sender gets
        // the receipt.
        self.head.send_replace(self.reader.head().seq);
        self.count_down(&actions);
        actions.into_iter().for_each(|on_commit| self.apply(on_commit));
    }
}

/// Records were not written, and never will be.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CommitFailed {
    pub(crate) actions: Vec<OnCommit>,
    pub(crate) broken: bool,
    /// Dropped when processed; the writer waits for that.
    pub(crate) unprocessed: Option<Sender<()>>,
}

impl Handler<CommitFailed> for CommitEffects {
    type Result = ();

    fn handle(&mut self, failed: CommitFailed, _: &mut Self::Context) {
        let CommitFailed { actions, broken, unprocessed: _unprocessed } = failed;
        // Records admitted on the strength of these must reach the writer, which waits to reject
        // them too.
        self.commit_buffer.flush();
        self.set_health(if broken { JournalHealth::Broken } else { JournalHealth::Refusing });
        self.count_down(&actions);
        // Newest first, because later changes build on earlier ones.
        actions.into_iter().rev().for_each(|on_commit| self.revert(on_commit));
    }
}

/// A commit or a probe succeeded after a failure.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct JournalRecovered;

impl Handler<JournalRecovered> for CommitEffects {
    type Result = ();

    fn handle(&mut self, _: JournalRecovered, _: &mut Self::Context) {
        self.set_health(JournalHealth::Writing);
    }
}

/// Address of the router, which is notified of messages whose record was not written.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SetRouter(pub(crate) Addr<Router>);

impl Handler<SetRouter> for CommitEffects {
    type Result = ();

    fn handle(&mut self, SetRouter(router): SetRouter, _: &mut Self::Context) {
        self.router = Some(router);
    }
}

/// Returns the join handle of the journal thread, to be awaited once no sender of jobs is left.
#[derive(Message)]
#[rtype(result = "Option<JoinHandle<()>>")]
pub(crate) struct TakeWriter;

impl Handler<TakeWriter> for CommitEffects {
    type Result = MessageResult<TakeWriter>;

    fn handle(&mut self, _: TakeWriter, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.writer.take())
    }
}
