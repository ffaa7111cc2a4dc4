//! The router: every message passes it, once.
//!
//! Edges send [`Route`]. The router asks the pipeline of `policy`, applies the verdict and
//! hands the record to the audit; it waits for nothing. It owns the plain state of admission:
//! the roster, the ids seen, the task ledger, the rate limits, the circuits, the places in
//! the inboxes, the dead letters. What follows from a verdict beyond the receipt stands in the
//! rooms of this folder.

mod admission;
mod agents;
mod assess;
mod assignments;
mod attach;
mod circuits;
mod closed;
mod dead_letters;
mod load;
mod names;
mod peek;
mod reach;
mod records;
mod refusals;
mod reload;
mod removal;
mod reply;
mod sessions;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use a2a_journal::{Alive, EventLine, Line, Recovered};
use a2a_policy::{
    Accepted, AccessRules, AgentKey, Breaker, Caller, Circuit, InboxLimits, Incoming, Ledger, Now,
    Profile, QueueEntry, RateLimits, Refusal, Refusals, Roster, Seen, SeenIds, Slots, Task, Undo,
    Verdict, admit,
};
use a2a_protocol::{AgentId, Event, MessageId, Outcome, Receipt};
use actix::prelude::*;

use crate::bus::commit::effects::{self, JournalHealth, OnCommit};
use crate::bus::commit::writer::Append;
use crate::bus::context::BusContext;
use crate::bus::context::Clock;
use crate::bus::mailbox::Session;
use crate::bus::mailbox::{Mailbox, MailboxId, Mailboxes};
use crate::bus::message::{StoredMessage, StoredMessageParts, Submission};

use dead_letters::{DeadLetter, DeadLetters};
use records::{PersistedMessage, RestoredMessages, message_line};
use sessions::AgentSessions;

pub use agents::{AgentView, Presence, RegisterError};
pub(crate) use agents::{Explain, FindAgent, ListAgents, Register};
pub(crate) use assess::{Assess, Assessed, AttachInterceptor, Charge};
pub(crate) use assignments::{
    CancelTask, CompareLedger, FindTask, LedgerComparison, ListTasks, RecordDeleted,
    UnacknowledgedAnswers,
};
pub use assignments::{TaskFilter, TaskPlace};
pub use attach::InboxError;
pub(crate) use attach::{Attach, Detach, ForInbox, MoveWaiting, SetPresent};
pub use circuits::{CircuitView, circuit_fact};
pub(crate) use circuits::{ListCircuits, ResetCircuit, TripCircuit};
pub(crate) use closed::AskUnavailable;
pub use dead_letters::DeadLetterView;
pub(crate) use dead_letters::{AttemptsExhausted, ListDeadLetters, ResolveDeadLetter};
pub use load::BusLoad;
pub(crate) use load::{LoadPart, ReadLoad};
pub(crate) use names::{ClaimNames, FindName};
pub(crate) use peek::PeekInbox;
pub use peek::{DeliveryView, InboxView};
pub(crate) use reach::ListReachable;
pub use reach::Reach;
pub(crate) use refusals::{Deny, WriteCounted};
pub(crate) use reload::Reload;
pub(crate) use removal::RemoveAgent;
pub use removal::RemoveError;
pub(crate) use reply::Reply;

/// Entries of a list that one message looks at: a list of any length holds the bus up no longer
/// than a few messages do.
const PART: usize = 512;

/// A part of a list.
pub(crate) struct Part<T, Place> {
    pub(crate) found: Vec<T>,
    /// Where the next part begins; `None` at the end.
    pub(crate) next: Option<Place>,
}

impl<T, Place> Default for Part<T, Place> {
    fn default() -> Self {
        Self { found: Vec::new(), next: None }
    }
}

pub(crate) struct Router {
    bus: Rc<BusContext>,
    _alive: Alive,
    roster: Roster,
    seen: SeenIds,
    /// `None` when nobody keeps count of tasks.
    ledger: Option<Ledger>,
    limits: RateLimits,
    breaker: Breaker,
    /// These three begin as the settings say and can change while the bus runs.
    access: AccessRules,
    max_recipients: usize,
    inbox_limits: InboxLimits,
    /// Bytes that all inboxes may hold together.
    pending_bytes: usize,
    dead_letter_bytes: usize,
    refusals: Refusals,
    /// The sessions of each agent, beside the roster.
    sessions: Vec<AgentSessions>,
    dead: DeadLetters,
    /// How often an agent's code was attached.
    attachments: u64,
    /// Places reserved for the message that is being admitted.
    reserved: Vec<MailboxId>,
    /// The timer for the next deadline, and when it goes off.
    deadline: Option<(SpawnHandle, chrono::DateTime<chrono::Utc>)>,
    /// A timer that writes down how many refusals were not is set.
    refusal_timer_set: bool,
    recovered: Option<Recovered>,
}

impl Router {
    pub(crate) fn new(bus: Rc<BusContext>, recovered: Recovered) -> Self {
        let limits = RateLimits::new(bus.settings.rates);
        let settings = &bus.settings;
        let roster = Roster::new(settings.open, settings.max_agents);
        let ledger = settings.ledger.enabled.then(|| Ledger::new(settings.ledger));
        let breaker = Breaker::new(settings.breaker.clone());
        Self {
            access: settings.access.clone(),
            max_recipients: settings.max_recipients,
            inbox_limits: settings.inbox_limits(),
            pending_bytes: settings.pending_bytes,
            dead_letter_bytes: settings.max_dead_letter_bytes,
            _alive: bus.parts.endless("router"),
            bus,
            roster,
            seen: SeenIds::default(),
            ledger,
            limits,
            breaker,
            refusals: Refusals::default(),
            sessions: Vec::new(),
            dead: DeadLetters::default(),
            attachments: 0,
            reserved: Vec::new(),
            deadline: None,
            refusal_timer_set: false,
            recovered: Some(recovered),
        }
    }

    /// Everything as it was before the restart.
    fn restore(&mut self, recovered: Recovered, ctx: &mut Context<Self>) {
        for (agent, profile) in self.bus.settings.agents.clone() {
            self.ensure_agent(agent, profile, true, ctx);
        }
        for (agent, profile) in self.bus.settings.built_in.clone() {
            self.ensure_agent(agent.clone(), profile, true, ctx);
            self.roster.set_apart(&agent);
        }
        for agent in recovered.agents {
            self.ensure_agent(agent, Profile::default(), false, ctx);
        }
        for (key, value) in &recovered.facts {
            self.restore_fact(key, value, ctx);
        }
        for seen in recovered.seen {
            let remembered = Seen { seq: seen.seq, fingerprint: seen.fingerprint };
            self.seen.insert(seen.message_id, remembered);
        }
        let mut restored = RestoredMessages::new(self.bus.held.clone());
        for p in recovered.pending {
            let kept = PersistedMessage { trace: p.trace, time: p.time, message: &p.message };
            let Some(entry) = restored.entry(p.seq, p.by, p.attempts, kept) else { continue };
            self.presume(&p.agent_id, ctx);
            if Roster::may_be_answered(&entry.by) {
                self.presume(&entry.by, ctx);
            }
            if !names::is_answer(&entry) {
                self.roster.confirm(&p.agent_id);
            }
            if self.is_cancelled(&entry) {
                self.settle_cancelled(p.agent_id, &entry);
            } else if entry.attempts >= self.bus.settings.retry.attempts {
                // Each of them ended with the process; one more would, too.
                let reason =
                    "the last attempt did not come back: the bus was stopped or killed during it"
                        .to_owned();
                let agent = p.agent_id;
                ctx.notify(AttemptsExhausted {
                    agent,
                    entry,
                    reason,
                    on_commit: OnCommit::Nothing,
                });
            } else {
                self.requeue(&p.agent_id, entry);
            }
        }
        // After what waits: a client never gets the name of an agent whose messages are there.
        let clients = self.bus.settings.clients.clone();
        self.claim_names(&clients);
        for d in recovered.dead_letters {
            let kept = PersistedMessage { trace: d.trace, time: d.time, message: &d.message };
            if let Some(entry) = restored.entry(d.seq, d.by, d.attempts, kept) {
                self.dead.insert((d.seq, d.agent_id), DeadLetter { entry, reason: d.reason });
            }
        }
    }

    fn restore_fact(&mut self, key: &str, value: &str, ctx: &mut Context<Self>) {
        let read = if let Some(Ok(id)) = key.strip_prefix(Task::KEY).map(str::parse) {
            Task::from_kept(id, value).map(|task| {
                if let Some(ledger) = &mut self.ledger {
                    ledger.restore(task);
                }
            })
        } else if key.starts_with(circuits::KEY) {
            serde_json::from_str::<Circuit>(value).map(|circuit| drop(self.breaker.open(circuit)))
        } else if let Some(Ok(agent)) = key.strip_prefix(agents::KEY).map(str::parse::<AgentId>) {
            serde_json::from_str(value).map(|profile| drop(self.enter(agent, profile, ctx)))
        } else {
            tracing::warn!(key, "the journal holds a fact this version does not know");
            return;
        };
        if let Err(error) = read {
            tracing::error!(%error, key, "a fact in the journal can no longer be read");
        }
    }

    /// Makes an agent known and gives it its first session; `true` when it was not.
    fn ensure_agent(
        &mut self,
        agent: AgentId,
        profile: Profile,
        listed: bool,
        ctx: &mut Context<Self>,
    ) -> bool {
        let Some(key) = self.roster.insert(agent.clone(), profile, listed) else { return false };
        if Roster::is_for_people(&agent) {
            self.roster.set_apart(&agent);
        }
        // One that was removed and returns has its sessions still.
        if key.index() == self.sessions.len() {
            self.open_sessions(agent, ctx);
        }
        true
    }

    /// Gives the agent that was just entered into the roster its first session.
    fn open_sessions(&mut self, agent: AgentId, ctx: &mut Context<Self>) {
        debug_assert_eq!(self.roster.key(&agent).map(AgentKey::index), Some(self.sessions.len()));
        let (first, _) = self.open_mailbox(agent, ctx);
        self.sessions.push(AgentSessions {
            first,
            others: Vec::new(),
            interceptor: None,
            sticky: HashMap::new(),
        });
    }

    fn open_mailbox(
        &mut self,
        agent: AgentId,
        ctx: &mut Context<Self>,
    ) -> (MailboxId, Rc<Mailbox>) {
        let slots = Slots::new(self.inbox_limits, self.bus.settings.prompt_slots);
        let (number, mailbox) = self.bus.mailboxes.open(agent, slots);
        let bus = Rc::clone(&self.bus);
        let session = Session::new(Rc::clone(&mailbox), ctx.address(), bus);
        Mailboxes::set_session(&mailbox, session.start());
        (number, mailbox)
    }

    /// An agent that appears while the bus runs is known from then on, restarts included.
    fn join(&mut self, agent: &AgentId, ctx: &mut Context<Self>) {
        if self.ensure_agent(agent.clone(), Profile::default(), false, ctx) {
            let line = Line::Event(EventLine {
                agent_id: Some(agent.clone()),
                ..self.bus.event(Event::Joined)
            });
            self.bus.append(Append { line, on_commit: OnCommit::Nothing });
        }
    }

    /// Delivers what was accepted earlier: after a restart, from an ended session, a dead letter.
    fn requeue(&mut self, agent: &AgentId, entry: QueueEntry<Arc<StoredMessage>>) {
        let Some(key) = self.roster.key(agent) else { return };
        let (by, message) = (&entry.by, &entry.item.message);
        let number = self.sessions[key.index()].choose(by, message, &self.bus.mailboxes);
        if let Some(mailbox) = self.bus.mailboxes.get(number) {
            mailbox.requeue(entry);
        }
    }

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
        // What the bus has to say is said, even while it stops.
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
        };
        let verdict = admit(&incoming, self, now);
        if let (Verdict::Accepted(_), Ok(message)) = (&verdict, &submission.message)
            && Roster::may_be_answered(&message.from.agent_id)
        {
            // On record before the message: whoever has a receipt can be answered after a crash.
            self.join(&message.from.agent_id, ctx);
        }
        match verdict {
            Verdict::Accepted(accepted) => {
                self.accept(caller, accepted, submission, reply, now, ctx)
            }
            Verdict::Duplicate { seq } => {
                let by = records::sender(caller, &submission);
                let size = records::refusal_size(&submission, 0, &[]);
                if !self.refusals.is_written(by.as_ref(), Outcome::Duplicate, size, now) {
                    let receipt = records::unnumbered_receipt(&submission, now);
                    let receipt = Receipt { outcome: Outcome::Duplicate, ..receipt };
                    self.count_refusals(ctx);
                    self.bus.stats.answered(submission.kind(), receipt.outcome);
                    effects::repeat_first_receipt(
                        Arc::clone(&self.bus.reader),
                        receipt,
                        seq,
                        reply,
                    );
                    return;
                }
                let receipt =
                    Receipt { outcome: Outcome::Duplicate, ..self.receipt(&submission, now) };
                let line = message_line(
                    &receipt,
                    caller,
                    &submission,
                    now,
                    Clock::since(submission.since),
                );
                let kind = submission.kind();
                let on_commit = OnCommit::FirstReceipt { receipt, kind, first: seq, reply };
                self.bus.append(Append { line: Line::Message(line), on_commit });
            }
            Verdict::Refused(refusal) => self.refuse(caller, refusal, &submission, reply, now, ctx),
        }
    }

    /// Why nothing can be taken at all.
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

    fn receipt(&self, submission: &Submission, now: Now) -> Receipt {
        let mut receipt = records::unnumbered_receipt(submission, now);
        receipt.seq = Some(self.bus.next_seq());
        receipt
    }

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
        let mut line =
            message_line(&receipt, caller, &submission, now, Clock::since(submission.since));
        let (Ok(message), Some(seq)) = (submission.message, receipt.seq) else { return };
        let mut undo = None;
        if let Some(change) = accepted.change {
            let (how, facts) = self.change_ledger(change, seq, ctx);
            (undo, line.facts) = (how, facts);
        } else if let Some(ledger) = &mut self.ledger {
            ledger.note_news(&message, now);
        }
        let fingerprint = submission.fingerprints.message;
        self.seen.insert(message.message_id, Seen { seq, fingerprint });
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
            // Sessions look at their desks later: whatever they write comes behind this line.
            self.bus.mailboxes.deliver(&to, &stored);
        }
        let stored = Some(stored);
        let on_commit =
            OnCommit::Receipt { receipt, kind, reply, to, stored, delivered_early, undo };
        self.bus.append(Append { line: Line::Message(line), on_commit });
    }

    fn refuse(
        &mut self,
        caller: &Caller,
        refusal: Refusal,
        submission: &Submission,
        reply: Option<Reply>,
        now: Now,
        ctx: &mut Context<Self>,
    ) {
        self.bus.mailboxes.release(&std::mem::take(&mut self.reserved), submission.bytes.len());
        let opens = refusal.opens;
        let by = records::sender(caller, submission);
        let size = records::refusal_size(submission, refusal.recipients.len(), &refusal.errors);
        let written = self.refusals.is_written(by.as_ref(), refusal.outcome, size, now);
        let mut receipt = if written {
            self.receipt(submission, now)
        } else {
            records::unnumbered_receipt(submission, now)
        };
        receipt.outcome = refusal.outcome;
        receipt.recipients = refusal.recipients.into();
        receipt.reason = Some(refusal.reason);
        receipt.retry_after_ms = refusal.retry_after_ms;
        receipt.circuit = refusal.circuit;
        receipt.errors = refusal.errors;
        if written {
            let line = Line::Message(message_line(
                &receipt,
                caller,
                submission,
                now,
                Clock::since(submission.since),
            ));
            let (kind, to) = (submission.kind(), Vec::new());
            let (stored, delivered_early, undo) = (None, false, None);
            let on_commit =
                OnCommit::Receipt { receipt, kind, reply, to, stored, delivered_early, undo };
            self.bus.append(Append { line, on_commit });
        } else {
            self.bus.stats.refused.add(1);
            self.bus.stats.answered(submission.kind(), receipt.outcome);
            self.count_refusals(ctx);
            if let Some(reply) = reply {
                reply.send(receipt);
            }
        }
        // After the record of the message that was one too many.
        if let Some(circuit) = opens {
            self.open_circuit(*circuit, now, ctx);
        }
    }

    /// The session that messages for somebody outside come from.
    fn first_mailbox(
        &mut self,
        agent: &AgentId,
        ctx: &mut Context<Self>,
    ) -> Result<(AgentKey, Rc<Mailbox>), InboxError> {
        if !Roster::may_be_answered(agent) {
            return Err(InboxError::NoSuchAgent);
        }
        if !Roster::is_for_people(agent) {
            self.roster.agent_may_be_called(agent).map_err(|_| InboxError::NameTaken)?;
            self.roster.confirm(agent);
        }
        if !self.roster.contains(agent) {
            if !self.roster.admits(agent) && !Roster::is_for_people(agent) {
                return Err(InboxError::NoSuchAgent);
            }
            if self.unavailable().is_some() {
                return Err(InboxError::Closed);
            }
            self.join(agent, ctx);
        }
        let key = self.roster.key(agent).ok_or(InboxError::NoSuchAgent)?;
        let first = self.sessions[key.index()].first;
        let mailbox = self.bus.mailboxes.get(first).ok_or(InboxError::NoSuchAgent)?;
        Ok((key, mailbox))
    }
}

impl Actor for Router {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1 << 20); // every caller waits for its receipt
        if let Some(recovered) = self.recovered.take() {
            self.restore(recovered, ctx);
            self.schedule_deadline(ctx);
        }
    }
}

/// A message at the door.
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

/// A message that was admitted could not be made durable.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Forget {
    pub(crate) id: MessageId,
    pub(crate) undo: Option<Undo>,
}

impl Handler<Forget> for Router {
    type Result = ();

    fn handle(&mut self, Forget { id, undo }: Forget, _: &mut Self::Context) {
        self.seen.remove(&id);
        if let (Some(undo), Some(ledger)) = (undo, &mut self.ledger) {
            ledger.undo(undo);
        }
    }
}
