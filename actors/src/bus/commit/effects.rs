//! The audit: everything that happened is written before anyone is told.
//!
//! Router and sessions lay lines into the queue of the journal's thread (`writer`). When a
//! batch is durable, what hangs on it happens here: receipts are given, messages laid onto
//! desks, waiting acknowledgements answered.
//!
//! When a batch cannot be written nothing in it has happened: messages are answered
//! `unavailable` and leave no trace.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;

use a2a_journal::{Alive, Commit, Parts, Read};
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

/// What hangs on a line.
pub(crate) enum OnCommit {
    /// The receipt is given and the message laid onto the desks where its places are taken.
    Receipt {
        receipt: Receipt,
        /// What the message is, if it could be read.
        kind: Option<Kind>,
        reply: Option<Reply>,
        to: Vec<MailboxId>,
        stored: Option<Arc<StoredMessage>>,
        /// It lies on the desks already.
        delivered_early: bool,
        /// How to take back what it did to the ledger.
        undo: Option<Undo>,
    },
    /// The first receipt of the same message is given again.
    FirstReceipt { receipt: Receipt, kind: Option<Kind>, first: u64, reply: Option<Reply> },
    /// Somebody waits until the event is durable.
    Notify(oneshot::Sender<()>),
    /// An attempt may begin.
    StartAttempt { session: Addr<Session>, seq: u64 },
    /// Nothing.
    Nothing,
}

/// Whether the journal takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalHealth {
    Writing,
    /// For a moment: it is tried again.
    Refusing,
    /// Until the program is started anew: what the disk holds is not known any more.
    Broken,
}

/// What the router must know of the audit without asking: both live on one thread.
pub(crate) struct JournalStatus {
    pub(crate) uncommitted: Cell<usize>,
    pub(crate) health: Cell<JournalHealth>,
    /// The last message that was laid onto its desks; those after it are on their way.
    pub(crate) delivered_seq: Cell<u64>,
}

pub(crate) struct CommitEffects {
    writer: Option<JoinHandle<()>>,
    start: Option<(Box<dyn Commit>, Receiver<Job>)>,
    batch_limit: usize,
    reader: Arc<dyn Read>,
    router: Option<Addr<Router>>,
    journal_status: Rc<JournalStatus>,
    stats: Arc<Stats>,
    mailboxes: Rc<Mailboxes>,
    commit_buffer: Rc<CommitBuffer>,
    /// Tells whoever follows the log that it has grown, up to which line.
    head: watch::Sender<u64>,
    parts: Parts,
    _alive: Alive,
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
        let parts = journal.parts();
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
            _alive: parts.endless("audit"),
            parts,
        };
        (effects, journal_status)
    }

    /// What somebody waited for does not wait any more.
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
            OnCommit::Receipt { receipt, kind, reply, to, stored, delivered_early, .. } => {
                self.stats.answered(kind, receipt.outcome);
                let accepted = receipt.outcome.is_accepted();
                let count = if accepted { &self.stats.accepted } else { &self.stats.refused };
                count.add(1);
                if let Some(reply) = reply {
                    reply.send(receipt);
                }
                if let Some(stored) = stored {
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
                    tracing::error!(%error, "a session did not begin an attempt");
                }
            }
            OnCommit::Nothing => {}
        }
    }

    fn revert(&self, on_commit: OnCommit) {
        match on_commit {
            OnCommit::Receipt { mut receipt, kind, reply, to, stored, delivered_early, undo } => {
                match receipt.seq.filter(|_| delivered_early) {
                    Some(seq) => self.mailboxes.retract(&to, seq),
                    None => self.mailboxes.release(&to, stored.map_or(0, |stored| stored.size())),
                }
                if let Some(seq) = receipt.seq {
                    // Nothing is left to turn away.
                    self.mailboxes.take_discarded(seq);
                }
                if let (true, Some(id), Some(router)) =
                    (receipt.outcome.is_accepted(), receipt.message_id, &self.router)
                {
                    forget_id(router, id, undo);
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
            // Dropping the sender tells the one who waits that it is not durable.
            OnCommit::Notify(_) | OnCommit::StartAttempt { .. } | OnCommit::Nothing => {}
        }
    }
}

impl OnCommit {
    /// Whether anybody is held up until the line is durable.
    pub(crate) fn is_awaited(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// A message without a caller: nobody would send it again.
    pub(crate) fn is_from_the_bus(&self) -> bool {
        matches!(self, Self::Receipt { reply: None, .. })
    }
}

/// Gives the first receipt again, read back from the journal on a thread that may block.
pub(crate) fn repeat_first_receipt(
    reader: Arc<dyn Read>,
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
    match reader.record(first) {
        Ok(Some(record)) => match serde_json::from_str::<First>(record.get()) {
            Ok(first) => {
                receipt.time = first.time;
                receipt.recipients = first.recipients;
            }
            Err(error) => tracing::error!(%error, first, "a record could not be read back"),
        },
        // It was accepted, and its record has been removed for its age since.
        Ok(None) if was_removed(first, reader) => {}
        // The first could not be written in the end; this one must not count for it.
        Ok(None) => unavailable(&mut receipt),
        Err(error) => tracing::error!(%error, first, "a record could not be read back"),
    }
    receipt
}

/// Whether the journal begins behind this number.
fn was_removed(seq: u64, reader: &dyn Read) -> bool {
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
        let alive = self.parts.returning("journal");
        let run = move || {
            let _alive = alive;
            writer.run();
        };
        match thread.spawn(run) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => tracing::error!(%error, "the journal's thread could not be started"),
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
        // Before the receipts: who follows the log sees a message no later than its sender
        // knows of it.
        self.head.send_replace(self.reader.head().seq);
        self.count_down(&actions);
        actions.into_iter().for_each(|on_commit| self.apply(on_commit));
    }
}

/// Lines were not written, and never will be.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CommitFailed {
    pub(crate) actions: Vec<OnCommit>,
    pub(crate) broken: bool,
    /// The writer waits until this is gone.
    pub(crate) unprocessed: Option<Sender<()>>,
}

impl Handler<CommitFailed> for CommitEffects {
    type Result = ();

    fn handle(&mut self, failed: CommitFailed, _: &mut Self::Context) {
        let CommitFailed { actions, broken, unprocessed: _unprocessed } = failed;
        // What was admitted on the strength of these lines must be found by the writer who waits.
        self.commit_buffer.flush();
        self.set_health(if broken { JournalHealth::Broken } else { JournalHealth::Refusing });
        self.count_down(&actions);
        // The newest first, because what came later stands on what came before.
        actions.into_iter().rev().for_each(|on_commit| self.revert(on_commit));
    }
}

/// The disk took a commit again, or what is as good as one.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct JournalRecovered;

impl Handler<JournalRecovered> for CommitEffects {
    type Result = ();

    fn handle(&mut self, _: JournalRecovered, _: &mut Self::Context) {
        self.set_health(JournalHealth::Writing);
    }
}

/// The audit is told whom to tell when an id was not accepted after all.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SetRouter(pub(crate) Addr<Router>);

impl Handler<SetRouter> for CommitEffects {
    type Result = ();

    fn handle(&mut self, SetRouter(router): SetRouter, _: &mut Self::Context) {
        self.router = Some(router);
    }
}

/// Hands over the journal's thread, to be waited for once nobody can give it jobs any more.
#[derive(Message)]
#[rtype(result = "Option<JoinHandle<()>>")]
pub(crate) struct TakeWriter;

impl Handler<TakeWriter> for CommitEffects {
    type Result = MessageResult<TakeWriter>;

    fn handle(&mut self, _: TakeWriter, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.writer.take())
    }
}
