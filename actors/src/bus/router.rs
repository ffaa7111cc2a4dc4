//! Router: the actor that admits every message once and starts its commit.
//!
//! ```text
//! Route ─▶ admit (policy) ─┬─ accepted   reserve capacity, record, commit, deliver
//!                          ├─ duplicate  repeat the first receipt
//!                          └─ refused    record or count it, receipt with the reason
//! ```
//!
//! Callers send [`Route`]. The router asks the pipeline of `policy` for a verdict, applies it and
//! hands the record to the commit buffer; it never waits. It owns the state of admission:
//! directory, dedup index, task ledger, rate limits, circuits, reserved capacity and dead letters.
//!
//! - `admission` is the state that the pipeline reads, and records refusals; `records` builds the
//!   records of accepted and refused messages.
//! - `sessions` attaches agent code to mailboxes and chooses the mailbox of a delivery.
//! - `directory` changes the list of agents and `directory_views` reads it.
//! - `assignments` applies ledger changes and deadlines, `assignment_queries` reads the ledger.
//! - `dead_letters` lists, redelivers and drops dead letters; `circuits` trips and resets circuits.
//! - `inspection` reads load and inboxes; `restore` rebuilds everything after a restart.

mod admission;
mod assignment_queries;
mod assignments;
mod circuits;
mod dead_letters;
mod directory;
mod directory_views;
mod inspection;
mod records;
mod restore;
mod sessions;

use std::rc::Rc;
use std::sync::Arc;

use a2a_journal::{LivenessGuard, Record, Recovered};
use a2a_policy::{
    Accepted, AccessRules, AdmissionVerdict, Breaker, Caller, DedupIndex, DedupRecord, Directory,
    InboxLimits, Incoming, Ledger, Now, RateLimits, RefusalSampler, Undo, admit,
};
use a2a_protocol::{MessageId, Outcome, Receipt};
use actix::prelude::*;
use tokio::sync::oneshot;

use crate::LiveSettings;
use crate::bus::commit::effects::{self, JournalHealth, OnCommit, PendingDelivery};
use crate::bus::commit::writer::Append;
use crate::bus::context::{BusContext, Clock};
use crate::bus::mailbox::MailboxId;
use crate::bus::message::{StoredMessage, StoredMessageParts, Submission};

pub use assignment_queries::{TaskCursor, TaskFilter};
pub use circuits::{CircuitView, circuit_fact};
pub use dead_letters::DeadLetterView;
pub use directory::{RegisterError, RemoveError};
pub use directory_views::{AgentView, Presence, ReachableAgents};
pub use inspection::{BusLoad, DeliveryView, InboxView};
pub use sessions::InboxError;

pub(crate) use admission::{Assess, Assessed, Charge, Deny, WriteCounted};
pub(crate) use assignment_queries::{
    CompareLedger, FindTask, LedgerComparison, ListTasks, UnacknowledgedAnswers,
};
pub(crate) use assignments::{CancelTask, RecordDeleted};
pub(crate) use circuits::{ListCircuits, ResetCircuit, TripCircuit};
pub(crate) use dead_letters::{AttemptsExhausted, ListDeadLetters, ResolveDeadLetter};
pub(crate) use directory::{ClaimNames, Register, RemoveAgent};
pub(crate) use directory_views::{Explain, FindAgent, FindName, ListAgents, ListReachable};
pub(crate) use inspection::{LoadPart, PeekInbox, ReadLoad};
pub(crate) use sessions::{Attach, AttachInterceptor, Detach, ForInbox, MoveWaiting, SetReachable};

use dead_letters::DeadLetters;
use records::message_record;
use sessions::AgentSessions;

/// Maximum entries of a list that one actor message scans, so that a list of any length does not
/// block the bus longer than a few messages do.
const MAX_SCAN: usize = 512;

/// Part of a list.
pub(crate) struct Part<T, Cursor> {
    pub(crate) found: Vec<T>,
    /// Where the next part begins; `None` at the end.
    pub(crate) next: Option<Cursor>,
}

impl<T, Cursor> Default for Part<T, Cursor> {
    fn default() -> Self {
        Self { found: Vec::new(), next: None }
    }
}

pub(crate) struct Router {
    bus: Rc<BusContext>,
    _alive: LivenessGuard,
    directory: Directory,
    dedup: DedupIndex,
    /// `None` when the ledger is disabled.
    ledger: Option<Ledger>,
    rate_limits: RateLimits,
    breaker: Breaker,
    /// These five start with the configured values and change with a reload.
    access: AccessRules,
    max_recipients: usize,
    inbox_limits: InboxLimits,
    /// Maximum bytes in all inboxes together.
    pending_bytes: usize,
    dead_letter_bytes: usize,
    refusals: RefusalSampler,
    /// Sessions of each agent, indexed by its key in the directory.
    sessions: Vec<AgentSessions>,
    dead: DeadLetters,
    /// Number of attachments of agent code so far.
    attachments: u64,
    /// Mailboxes with capacity reserved for the message being admitted.
    reserved: Vec<MailboxId>,
    /// Timer for the next deadline, with that deadline.
    deadline: Option<(SpawnHandle, chrono::DateTime<chrono::Utc>)>,
    /// The timer that writes the number of suppressed refusals is set.
    refusal_timer_set: bool,
    recovered: Option<Recovered>,
}

impl Router {
    pub(crate) fn new(bus: Rc<BusContext>, recovered: Recovered) -> Self {
        let rate_limits = RateLimits::new(bus.settings.rates);
        let settings = &bus.settings;
        let directory = Directory::new(settings.open, settings.max_agents);
        let ledger = settings.ledger.enabled.then(|| Ledger::new(settings.ledger));
        let breaker = Breaker::new(settings.breaker.clone());
        Self {
            access: settings.access.clone(),
            max_recipients: settings.max_recipients,
            inbox_limits: settings.inbox_limits(),
            pending_bytes: settings.pending_bytes,
            dead_letter_bytes: settings.max_dead_letter_bytes,
            _alive: bus.liveness.endless("router"),
            bus,
            directory,
            dedup: DedupIndex::default(),
            ledger,
            rate_limits,
            breaker,
            refusals: RefusalSampler::default(),
            sessions: Vec::new(),
            dead: DeadLetters::default(),
            attachments: 0,
            reserved: Vec::new(),
            deadline: None,
            refusal_timer_set: false,
            recovered: Some(recovered),
        }
    }

    /// Admits a submission and applies the verdict.
    fn route(
        &mut self,
        caller: &Caller,
        submission: Submission,
        reply: Option<Reply>,
        ctx: &mut Context<Self>,
    ) {
        let now = self.bus.clock.now();
        let _span = tracing::debug_span!(
            "route",
            trace = submission.trace_id().map(tracing::field::display),
            message_id =
                submission.message.as_ref().ok().map(|m| tracing::field::display(m.message_id)),
        )
        .entered();
        // The bus itself may send even while it stops.
        if let Some(reason) = self.unavailable().filter(|_| *caller != Caller::Bus) {
            let mut receipt = records::unnumbered_receipt(&submission, now);
            receipt.outcome = Outcome::Unavailable;
            receipt.reason = Some(reason.to_owned());
            receipt.retry_after_ms = Some(1_000);
            self.bus.stats.answered(submission.kind(), receipt.outcome);
            if let Some(reply) = reply {
                reply.send(receipt);
            }
            return;
        }
        let incoming = Incoming {
            caller,
            message: submission.message.as_deref(),
            bytes: submission.bytes.len(),
            fingerprints: submission.fingerprints,
            cause: submission.cause,
        };
        let verdict = admit(&incoming, self, now);
        if let (AdmissionVerdict::Accepted(_), Ok(message)) = (&verdict, &submission.message)
            && Directory::may_be_answered(&message.from.agent_id)
        {
            // Recorded before the message: a sender with a receipt can be answered after a crash.
            self.join(&message.from.agent_id, ctx);
        }
        match verdict {
            AdmissionVerdict::Accepted(accepted) => {
                self.accept(caller, accepted, submission, reply, now, ctx)
            }
            AdmissionVerdict::Duplicate { seq } => {
                self.repeat(caller, seq, &submission, reply, now, ctx)
            }
            AdmissionVerdict::Refused(refusal) => {
                self.refuse(caller, refusal, &submission, reply, now, ctx)
            }
        }
    }

    /// Why nothing can be accepted now; `None` when the bus accepts messages.
    fn unavailable(&self) -> Option<&'static str> {
        if self.bus.stopping.get() {
            return Some("The bus is stopping. Send the message again when it is back.");
        }
        if self.bus.journal_status.health.get() != JournalHealth::Writing {
            return Some(
                "The bus cannot write its journal right now. Nothing was accepted; send the message again later.",
            );
        }
        (self.bus.journal_status.uncommitted.get() >= self.bus.settings.uncommitted_limit)
            .then_some(
                "More messages wait for the disk than the bus holds. Send the message again later.",
            )
    }

    /// A receipt with the next sequence number.
    fn receipt(&self, submission: &Submission, now: Now) -> Receipt {
        let mut receipt = records::unnumbered_receipt(submission, now);
        receipt.seq = Some(self.bus.next_seq());
        receipt
    }

    /// Repeats the receipt of record `first`. The duplicate is recorded, or counted like a refusal.
    fn repeat(
        &mut self,
        caller: &Caller,
        first: u64,
        submission: &Submission,
        reply: Option<Reply>,
        now: Now,
        ctx: &mut Context<Self>,
    ) {
        let (by, kind) = (records::sender(caller, submission), submission.kind());
        let size = records::refusal_size(submission, 0, &[]);
        let outcome = Outcome::Duplicate;
        if self.refusals.is_written(by.as_ref(), outcome, size, now) {
            let receipt = Receipt { outcome, ..self.receipt(submission, now) };
            let took = Clock::since(submission.since);
            let record = Record::Message(message_record(&receipt, caller, submission, now, took));
            let on_commit = OnCommit::FirstReceipt { receipt, kind, first, reply };
            self.bus.append(Append { record, on_commit });
        } else {
            let receipt = Receipt { outcome, ..records::unnumbered_receipt(submission, now) };
            self.count_refusals(ctx);
            self.bus.stats.answered(kind, outcome);
            effects::repeat_first_receipt(Arc::clone(&self.bus.reader), receipt, first, reply);
        }
    }

    /// Applies the ledger change and starts the commit of an admitted message.
    fn accept(
        &mut self,
        caller: &Caller,
        accepted: Accepted,
        submission: Submission,
        reply: Option<Reply>,
        now: Now,
        ctx: &mut Context<Self>,
    ) {
        if let Some(key) = accepted.closes {
            self.record_circuit_closed(&key, "the conversation moves again");
        }
        let mut receipt = self.receipt(&submission, now);
        receipt.outcome = accepted.outcome;
        receipt.recipients = accepted.recipients.into();
        let mut record =
            message_record(&receipt, caller, &submission, now, Clock::since(submission.since));
        let (Ok(message), Some(seq)) = (submission.message, receipt.seq) else { return };
        let mut undo = None;
        if let Some(change) = accepted.change {
            let (how, facts) = self.change_ledger(change, seq, ctx);
            (undo, record.facts) = (how, facts);
        } else if let Some(ledger) = &mut self.ledger {
            ledger.note_activity(&message, now);
        }
        let fingerprint = submission.fingerprints.message;
        self.dedup.insert(message.message_id, DedupRecord { seq, fingerprint });
        let (by, kind) = (message.from.agent_id.clone(), Some(message.kind()));
        let stored = StoredMessageParts {
            seq,
            by,
            message,
            bytes: submission.bytes,
            trace: submission.trace,
            accepted: now.utc,
            recovered: false,
        };
        let stored = StoredMessage::new(stored, &self.bus.held);
        let to = std::mem::take(&mut self.reserved);
        let delivered_early = self.bus.mailboxes.all_take_uncommitted(&to);
        if delivered_early {
            // Sessions run later: whatever they write follows this record.
            self.bus.mailboxes.deliver(&to, &stored);
        }
        let delivery = Some(PendingDelivery { to, stored, delivered_early, undo });
        let on_commit = OnCommit::Receipt { receipt, kind, reply, delivery };
        self.bus.append(Append { record: Record::Message(record), on_commit });
    }
}

impl Actor for Router {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1 << 20); // each caller waits for its receipt
        if let Some(recovered) = self.recovered.take() {
            self.restore(recovered, ctx);
            self.schedule_deadline(ctx);
        }
    }
}

/// A submission with the reply for its receipt.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Route {
    pub(crate) caller: Caller,
    pub(crate) submission: Submission,
    pub(crate) reply: Reply,
}

impl Handler<Route> for Router {
    type Result = ();

    fn handle(&mut self, Route { caller, submission, reply }: Route, ctx: &mut Self::Context) {
        self.route(&caller, submission, Some(reply), ctx);
    }
}

/// Destination of a receipt, used once the record is durable.
pub(crate) enum Reply {
    /// A waiting caller.
    Caller(oneshot::Sender<Receipt>),
    /// A continuation, which needs no waiting task.
    Callback(Box<dyn FnOnce(Receipt) + Send>),
}

impl Reply {
    pub(crate) fn send(self, receipt: Receipt) {
        match self {
            // A caller that went away does not need the receipt; the message is accepted all the
            // same.
            Self::Caller(caller) => drop(caller.send(receipt)),
            Self::Callback(callback) => callback(receipt),
        }
    }
}

/// The record of an admitted message could not be written.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Forget {
    pub(crate) id: MessageId,
    pub(crate) undo: Option<Undo>,
}

impl Handler<Forget> for Router {
    type Result = ();

    fn handle(&mut self, Forget { id, undo }: Forget, _: &mut Self::Context) {
        self.dedup.remove(&id);
        if let (Some(undo), Some(ledger)) = (undo, &mut self.ledger) {
            ledger.undo(undo);
        }
    }
}

/// Asks why any message sent now would be refused; `None` when the bus accepts messages.
#[derive(Message)]
#[rtype(result = "Option<&'static str>")]
pub(crate) struct AskUnavailable;

impl Handler<AskUnavailable> for Router {
    type Result = Option<&'static str>;

    fn handle(&mut self, _: AskUnavailable, _: &mut Self::Context) -> Self::Result {
        self.unavailable()
    }
}

/// Replaces the settings. One message, so that no submission is judged by half of the old ones.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Reload(pub(crate) LiveSettings);

impl Handler<Reload> for Router {
    type Result = ();

    fn handle(&mut self, Reload(settings): Reload, ctx: &mut Self::Context) {
        let inbox_limits = settings.inbox_limits();
        let LiveSettings { agents, open, access, max_recipients, rates, breaker, .. } = settings;
        self.rate_limits.reconfigure(rates, self.bus.clock.now());
        self.breaker.reconfigure(breaker);
        self.access = access;
        self.max_recipients = max_recipients;
        self.inbox_limits = inbox_limits;
        self.bus.mailboxes.set_limits(inbox_limits);
        self.pending_bytes = settings.pending_bytes;
        self.dead_letter_bytes = settings.max_dead_letter_bytes;
        let mut listed = agents;
        for (agent, profile) in &self.bus.settings.built_in {
            if !listed.iter().any(|(name, _)| name == agent) {
                listed.push((agent.clone(), profile.clone()));
            }
        }
        for (agent, profile) in self.directory.reconfigure(open, listed) {
            self.ensure_agent(agent, profile, true, ctx);
        }
    }
}
