//! The router: every message passes it, once.
//!
//! Edges send [`Route`]. The router asks the pipeline of `policy`, applies the verdict and
//! hands the record to the audit; it waits for nothing. It owns the plain state of admission:
//! the roster, the ids seen, the rate limits, the places in the inboxes, the dead letters.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use a2a_policy::{
    Accepted, AgentKey, Audience, Caller, Delivery, Floor, InboxFull, Incoming, Limited, Now,
    Profile, RateLimits, Refusal, Roster, Seen, SeenBefore, SeenIds, Slots, Verdict, admit,
};
use a2a_protocol::{
    AgentId, CorrelationId, Envelope, Event, MessageId, Outcome, Receipt, Timestamp,
};
use a2a_store::{EventLine, Line, MessageLine, Received, Recovered};
use actix::prelude::*;
use serde::Serialize;
use tokio::sync::{Notify, oneshot};

use crate::audit::{Gauge, Health, Then};
use crate::clock::Clock;
use crate::desk::{Desk, DeskNo, Desks};
use crate::letter::{Content, Parcel};
use crate::notice;
use crate::session::{HandOver, Pull, Session, SetRuntime, Settle};
use crate::writer::{Append, Job};
use crate::{BusSettings, Runtime, Stats};

/// What router, sessions and audit share on their one thread.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) settings: BusSettings,
    /// Where agents' code runs.
    pub(crate) handlers: tokio::runtime::Handle,
    pub(crate) gauge: Rc<Gauge>,
    /// No new work: messages are refused and no attempt begins.
    pub(crate) stopping: Cell<bool>,
    /// Handlers at work, and who wants to know when they are done.
    pub(crate) running: Cell<usize>,
    pub(crate) idle: Notify,
    pub(crate) seq: Cell<u64>,
    pub(crate) desks: Rc<Desks>,
    /// The queue of the journal's thread; gone when the bus ends.
    pub(crate) jobs: RefCell<Option<Sender<Job>>>,
    pub(crate) stats: Arc<Stats>,
}

impl Shared {
    /// The number of the next line.
    pub(crate) fn next_seq(&self) -> u64 {
        let seq = self.seq.get();
        self.seq.set(seq + 1);
        seq
    }

    pub(crate) fn append(&self, append: Append) {
        let awaited = append.then.is_awaited();
        let jobs = self.jobs.borrow();
        let taken = jobs.as_ref().is_some_and(|jobs| jobs.send(Job::Append(append)).is_ok());
        if !taken {
            // Only while the system goes down: whoever waits hears that by the dropped answer.
            tracing::error!("a line came too late to be written");
        } else if awaited {
            self.gauge.waiting.set(self.gauge.waiting.get() + 1);
        }
    }
}

/// How many conversations with an agent of several sessions are remembered.
const STICKY: usize = 10_000;

/// The sessions of one agent; the first stays as long as the agent is known.
struct Sessions {
    first: DeskNo,
    others: Vec<DeskNo>,
    sticky: HashMap<CorrelationId, DeskNo>,
}

impl Sessions {
    /// Sticky by conversation, else the least loaded.
    fn choose(&mut self, conversation: CorrelationId, desks: &Desks) -> DeskNo {
        if self.others.is_empty() {
            return self.first;
        }
        let is_live = |number: &DeskNo| desks.get(*number).is_some_and(|desk| desk.slots.is_live());
        if let Some(stuck) = self.sticky.get(&conversation)
            && (is_live(stuck) || !self.all().any(|number| is_live(&number)))
        {
            return *stuck;
        }
        let load = |number: &DeskNo| {
            desks.get(*number).map(|desk| (!desk.slots.is_live(), desk.slots.taken()))
        };
        let free = self.all().min_by_key(load).unwrap_or(self.first);
        if self.sticky.len() >= STICKY {
            self.sticky.clear();
        }
        self.sticky.insert(conversation, free);
        free
    }

    fn all(&self) -> impl Iterator<Item = DeskNo> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

struct Dead {
    delivery: Delivery<Arc<Content>>,
    reason: String,
}

pub(crate) struct Router {
    shared: Rc<Shared>,
    roster: Roster,
    seen: SeenIds,
    limits: RateLimits,
    /// The sessions of each agent, beside the roster.
    sessions: Vec<Sessions>,
    dead: BTreeMap<(u64, AgentId), Dead>,
    /// How often an agent's code was attached.
    attachments: u64,
    /// Places reserved for the message that is being admitted.
    reserved: Vec<DeskNo>,
    recovered: Option<Recovered>,
}

impl Router {
    pub(crate) fn new(shared: Rc<Shared>, recovered: Recovered) -> Self {
        let limits = RateLimits::new(shared.settings.rates);
        let roster = Roster::new(shared.settings.open, shared.settings.max_agents);
        Self {
            shared,
            roster,
            seen: SeenIds::default(),
            limits,
            sessions: Vec::new(),
            dead: BTreeMap::new(),
            attachments: 0,
            reserved: Vec::new(),
            recovered: Some(recovered),
        }
    }

    /// Everything as it was before the restart.
    fn restore(&mut self, recovered: Recovered, ctx: &mut Context<Self>) {
        for (agent, profile) in self.shared.settings.agents.clone() {
            self.know(agent, profile, true, ctx);
        }
        for agent in recovered.agents {
            self.know(agent, Profile::default(), false, ctx);
        }
        for seen in recovered.seen {
            let remembered = Seen { seq: seen.seq, fingerprint: seen.fingerprint };
            self.seen.insert(seen.message_id, remembered);
        }
        for p in recovered.pending {
            let delivery = restored(p.seq, p.by, p.attempts, &p.message);
            let Some(delivery) = delivery else { continue };
            self.know(p.agent_id.clone(), Profile::default(), false, ctx);
            if !Roster::is_reserved(&delivery.by) {
                self.know(delivery.by.clone(), Profile::default(), false, ctx);
            }
            if delivery.attempts >= self.shared.settings.retry.attempts {
                // Each of them ended with the process; one more would, too.
                let reason =
                    "the last attempt did not come back: the bus was stopped or killed during it"
                        .to_owned();
                let agent = p.agent_id;
                ctx.notify(GaveUp { agent, delivery, reason, then: Then::Nothing });
            } else {
                self.deliver_again(&p.agent_id, delivery);
            }
        }
        for d in recovered.dead_letters {
            if let Some(delivery) = restored(d.seq, d.by, d.attempts, &d.message) {
                self.dead.insert((d.seq, d.agent_id), Dead { delivery, reason: d.reason });
            }
        }
    }

    /// Makes an agent known and gives it its first session; `true` when it was not.
    fn know(
        &mut self,
        agent: AgentId,
        profile: Profile,
        listed: bool,
        ctx: &mut Context<Self>,
    ) -> bool {
        let Some(key) = self.roster.insert(agent.clone(), profile, listed) else { return false };
        debug_assert_eq!(key.index(), self.sessions.len());
        let (first, _) = self.open_desk(agent, ctx);
        self.sessions.push(Sessions { first, others: Vec::new(), sticky: HashMap::new() });
        true
    }

    fn open_desk(&mut self, agent: AgentId, ctx: &mut Context<Self>) -> (DeskNo, Rc<Desk>) {
        let settings = &self.shared.settings;
        let slots = Slots::new(settings.inbox_limit, settings.prompt_slots);
        let (number, desk) = self.shared.desks.open(agent, slots);
        let shared = Rc::clone(&self.shared);
        let session = Session::new(Rc::clone(&desk), ctx.address(), shared);
        Desks::seat(&desk, session.start());
        (number, desk)
    }

    /// An agent that appears while the bus runs is known from then on, restarts included.
    fn join(&mut self, agent: &AgentId, ctx: &mut Context<Self>) {
        if self.know(agent.clone(), Profile::default(), false, ctx) {
            let line = Line::Event(EventLine {
                seq: self.shared.next_seq(),
                time: self.shared.clock.now().utc,
                event: Event::Joined,
                of: None,
                message_id: None,
                agent_id: Some(agent.clone()),
                attempt: None,
                reason: None,
            });
            self.shared.append(Append { line, then: Then::Nothing });
        }
    }

    /// Delivers what was accepted earlier: after a restart, from an ended session, a dead letter.
    fn deliver_again(&mut self, agent: &AgentId, delivery: Delivery<Arc<Content>>) {
        let conversation = delivery.item.message.correlation_id;
        let Some(key) = self.roster.key(agent) else { return };
        let number = self.sessions[key.index()].choose(conversation, &self.shared.desks);
        if let Some(desk) = self.shared.desks.get(number) {
            desk.arrive_again(delivery);
        }
    }

    fn route(
        &mut self,
        caller: &Caller,
        parcel: Parcel,
        reply: Option<oneshot::Sender<Receipt>>,
        ctx: &mut Context<Self>,
    ) {
        let now = self.shared.clock.now();
        // What the bus has to say is said, even while it stops.
        if let Some(reason) = self.closed().filter(|_| *caller != Caller::Bus) {
            let mut receipt = Receipt::new(Outcome::Unavailable, now.utc.into());
            receipt.reason = Some(reason.to_owned());
            receipt.retry_after_ms = Some(1_000);
            answer_unrecorded(receipt, &parcel, reply);
            return;
        }
        let incoming = Incoming {
            caller,
            message: parcel.message.as_deref(),
            fingerprint: parcel.fingerprint,
        };
        let verdict = admit(&incoming, self, now);
        if let (Verdict::Accepted(_), Ok(message)) = (&verdict, &parcel.message)
            && *caller != Caller::Bus
        {
            // On record before the message: whoever has a receipt can be answered after a crash.
            self.join(&message.from.agent_id, ctx);
        }
        let receipt = self.receipt(&parcel, now);
        match verdict {
            Verdict::Accepted(accepted) => self.accept(receipt, accepted, parcel, reply, now),
            Verdict::Duplicate { seq } => {
                let receipt = Receipt { outcome: Outcome::Duplicate, ..receipt };
                let line = message_line(&receipt, &parcel, now);
                let then = Then::FirstReceipt { receipt, first: seq, reply };
                self.shared.append(Append { line, then });
            }
            Verdict::Refused(refusal) => self.refuse(receipt, refusal, &parcel, reply, now),
        }
    }

    /// Why nothing can be taken at all.
    fn closed(&self) -> Option<&'static str> {
        if self.shared.stopping.get() {
            return Some("The bus is stopping. Send the message again when it is back.");
        }
        if self.shared.gauge.health.get() != Health::Writing {
            return Some(
                "The bus cannot write its journal right now. Nothing was accepted; send the message again later.",
            );
        }
        (self.shared.gauge.waiting.get() >= self.shared.settings.uncommitted_limit).then_some(
            "More messages wait for the disk than the bus holds. Send the message again later.",
        )
    }

    fn receipt(&self, parcel: &Parcel, now: Now) -> Receipt {
        let mut receipt = Receipt::new(Outcome::Delivered, Timestamp::from(now.utc));
        receipt.seq = Some(self.shared.next_seq());
        if let Ok(message) = &parcel.message {
            receipt.message_id = Some(message.message_id);
            receipt.correlation_id = Some(message.correlation_id);
        }
        receipt
    }

    fn accept(
        &mut self,
        mut receipt: Receipt,
        accepted: Accepted,
        parcel: Parcel,
        reply: Option<oneshot::Sender<Receipt>>,
        now: Now,
    ) {
        receipt.outcome = accepted.outcome;
        receipt.recipients = accepted.recipients.into();
        let line = message_line(&receipt, &parcel, now);
        let (Ok(message), Some(seq)) = (parcel.message, receipt.seq) else { return };
        let from = message.from.agent_id.clone();
        self.seen.insert(message.message_id, Seen { seq, fingerprint: parcel.fingerprint });
        let (by, bytes) = (from.clone(), parcel.bytes);
        let content = Some(Arc::new(Content { seq, by, message, bytes, recovered: false }));
        let to = std::mem::take(&mut self.reserved);
        let then = Then::Receipt { receipt, reply, to, content };
        self.shared.append(Append { line, then });
    }

    fn refuse(
        &mut self,
        mut receipt: Receipt,
        refusal: Refusal,
        parcel: &Parcel,
        reply: Option<oneshot::Sender<Receipt>>,
        now: Now,
    ) {
        self.shared.desks.release(&std::mem::take(&mut self.reserved));
        receipt.outcome = refusal.outcome;
        receipt.recipients = refusal.recipients.into();
        receipt.reason = Some(refusal.reason);
        receipt.retry_after_ms = refusal.retry_after_ms;
        receipt.errors = refusal.errors;
        let line = message_line(&receipt, parcel, now);
        let then = Then::Receipt { receipt, reply, to: Vec::new(), content: None };
        self.shared.append(Append { line, then });
    }

    /// The session that messages for somebody outside come from.
    fn first_desk(
        &mut self,
        agent: &AgentId,
        ctx: &mut Context<Self>,
    ) -> Result<(AgentKey, Rc<Desk>), InboxError> {
        if Roster::is_reserved(agent) {
            return Err(InboxError::NoSuchAgent);
        }
        if !self.roster.contains(agent) {
            if !self.roster.admits(agent) {
                return Err(InboxError::NoSuchAgent);
            }
            if self.closed().is_some() {
                return Err(InboxError::Closed);
            }
            self.join(agent, ctx);
        }
        let key = self.roster.key(agent).ok_or(InboxError::NoSuchAgent)?;
        let first = self.sessions[key.index()].first;
        let desk = self.shared.desks.get(first).ok_or(InboxError::NoSuchAgent)?;
        Ok((key, desk))
    }
}

fn answer_unrecorded(
    mut receipt: Receipt,
    parcel: &Parcel,
    reply: Option<oneshot::Sender<Receipt>>,
) {
    if let Ok(message) = &parcel.message {
        receipt.message_id = Some(message.message_id);
        receipt.correlation_id = Some(message.correlation_id);
    }
    if let Some(reply) = reply {
        let _ = reply.send(receipt);
    }
}

fn restored(
    seq: u64,
    by: AgentId,
    attempts: u32,
    bytes: &Arc<[u8]>,
) -> Option<Delivery<Arc<Content>>> {
    match Envelope::parse(bytes) {
        Ok(message) => {
            let (message, bytes) = (Arc::new(message), Arc::clone(bytes));
            let content = Arc::new(Content { seq, by, message, bytes, recovered: true });
            Some(content.delivery(attempts))
        }
        Err(report) => {
            tracing::error!(seq, %report, "an accepted message can no longer be read");
            None
        }
    }
}

fn message_line(receipt: &Receipt, parcel: &Parcel, now: Now) -> Line {
    let is_json = parcel.message.is_ok() || is_json_text(&parcel.bytes);
    let bytes = Arc::clone(&parcel.bytes);
    Line::Message(MessageLine {
        seq: receipt.seq.unwrap_or_default(),
        time: now.utc,
        outcome: receipt.outcome,
        message_id: receipt.message_id,
        by: parcel.message.as_ref().ok().map(|message| message.from.agent_id.clone()),
        received: if is_json { Received::Json(bytes) } else { Received::Raw(bytes) },
        fingerprint: parcel.message.is_ok().then_some(parcel.fingerprint),
        recipients: Arc::clone(&receipt.recipients),
        reason: receipt.reason.clone(),
        retry_after_ms: receipt.retry_after_ms,
        errors: receipt.errors.clone(),
        suppressed: 0,
    })
}

fn is_json_text(bytes: &[u8]) -> bool {
    // As a value, not ignored: whoever reads the log must be able to read every line, so bad
    // UTF-8, half surrogates, numbers no double holds and bottomless nesting count as raw.
    serde_json::from_slice::<serde_json::Value>(bytes).is_ok()
}

impl Floor for Router {
    fn roster(&self) -> &Roster {
        &self.roster
    }

    fn seen(&self, message: &Envelope, fingerprint: u64) -> Option<SeenBefore> {
        self.seen.check(&message.message_id, fingerprint)
    }

    fn charge(&mut self, message: &Envelope, to: &[AgentKey], now: Now) -> Result<(), Limited> {
        let audience = match to {
            [only] => self.roster.id(*only).map_or(Audience::Many(1), Audience::One),
            many => Audience::Many(many.len()),
        };
        self.limits.charge(&message.from.agent_id, audience, message.priority, now)
    }

    fn reserve(&mut self, agent: AgentKey, message: &Envelope) -> Result<Outcome, InboxFull> {
        let sessions = &mut self.sessions[agent.index()];
        let number = sessions.choose(message.correlation_id, &self.shared.desks);
        // Notices are exempt from limits; there are never more than messages given up.
        let exempt = message.from.agent_id.as_str() == notice::SYSTEM;
        let outcome = self.shared.desks.take_slot(number, exempt)?;
        self.reserved.push(number);
        Ok(outcome)
    }
}

impl Actor for Router {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1 << 20); // every caller waits for its receipt
        if let Some(recovered) = self.recovered.take() {
            self.restore(recovered, ctx);
        }
    }
}

/// A message at the door.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Route {
    pub(crate) caller: Caller,
    pub(crate) parcel: Parcel,
    pub(crate) reply: oneshot::Sender<Receipt>,
}

impl Handler<Route> for Router {
    type Result = ();

    fn handle(&mut self, Route { caller, parcel, reply }: Route, ctx: &mut Self::Context) {
        self.route(&caller, parcel, Some(reply), ctx);
    }
}

/// A message that was admitted could not be made durable.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Forget(pub(crate) MessageId);

impl Handler<Forget> for Router {
    type Result = ();

    fn handle(&mut self, Forget(id): Forget, _: &mut Self::Context) {
        self.seen.remove(&id);
    }
}

/// A session gave a message up: its sender is told, then it is a dead letter.
///
/// In this order, so that a crash in between repeats the last attempt and the notice
/// instead of losing the notice.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct GaveUp {
    pub(crate) agent: AgentId,
    pub(crate) delivery: Delivery<Arc<Content>>,
    pub(crate) reason: String,
    pub(crate) then: Then,
}

impl Handler<GaveUp> for Router {
    type Result = ();

    fn handle(&mut self, gave_up: GaveUp, ctx: &mut Self::Context) {
        let GaveUp { agent, delivery, reason, then } = gave_up;
        tracing::warn!(%agent, seq = delivery.seq, reason, "a message became a dead letter");
        let now = self.shared.clock.now();
        let notice = notice::late_failure(&delivery.item.message, &agent, &reason, now);
        if let Some(notice) = notice {
            self.route(&Caller::Bus, Parcel::from_message(notice), None, ctx);
        }
        let line = Line::Event(EventLine {
            seq: self.shared.next_seq(),
            time: now.utc,
            event: Event::DeadLetter,
            of: Some(delivery.seq),
            message_id: Some(delivery.item.message.message_id),
            agent_id: Some(agent.clone()),
            attempt: Some(delivery.attempts),
            reason: Some(reason.clone()),
        });
        self.shared.append(Append { line, then });
        self.dead.insert((delivery.seq, agent), Dead { delivery, reason });
        if self.dead.len() > self.shared.settings.max_dead_letters
            && let Some(((seq, agent), _)) = self.dead.first_key_value()
        {
            let (seq, agent) = (*seq, agent.clone());
            tracing::warn!(%agent, seq, "there are too many dead letters; the oldest is dropped");
            self.resolve_dead_letter(seq, &agent, false);
        }
    }
}

/// The code of an agent joins; its number is the reply.
#[derive(Message)]
#[rtype(result = "Result<u64, InboxError>")]
pub(crate) struct Attach {
    pub(crate) agent: AgentId,
    pub(crate) runtime: Arc<dyn Runtime>,
}

impl Handler<Attach> for Router {
    type Result = Result<u64, InboxError>;

    fn handle(
        &mut self,
        Attach { agent, runtime }: Attach,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        let (key, mut desk) = self.first_desk(&agent, ctx)?;
        if desk.slots.is_live() {
            let number;
            (number, desk) = self.open_desk(agent, ctx);
            self.sessions[key.index()].others.push(number);
        }
        // Marked at once, so that a second one attached in the same moment gets its own.
        desk.slots.set_live(true);
        self.attachments += 1;
        desk.attachment.set(self.attachments);
        if desk.tell(SetRuntime(Some(runtime))) {
            Ok(self.attachments)
        } else {
            Err(InboxError::Closed)
        }
    }
}

/// The code of an agent goes away; what its session holds waits for another.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Detach {
    pub(crate) agent: AgentId,
    pub(crate) attachment: u64,
}

impl Handler<Detach> for Router {
    type Result = ();

    fn handle(&mut self, Detach { agent, attachment }: Detach, ctx: &mut Self::Context) {
        let Some(key) = self.roster.key(&agent) else { return };
        let sessions = &mut self.sessions[key.index()];
        let desks = Rc::clone(&self.shared.desks);
        let mut moved = Vec::new();
        let is_it =
            |number: &DeskNo| desks.get(*number).is_some_and(|d| d.attachment.get() == attachment);
        let Some(number) = sessions.all().find(is_it) else { return };
        let Some(gone) = desks.get(number) else { return };
        gone.slots.set_live(false);
        sessions.sticky.retain(|_, stuck| *stuck != number);
        let is_live = |number: &DeskNo| desks.get(*number).is_some_and(|d| d.slots.is_live());
        let live = sessions.all().find(is_live);
        if number == sessions.first {
            gone.tell(SetRuntime(None));
            if live.is_some() {
                // Others of the agent are there: they take over what waits.
                for delivery in gone.inbox.borrow_mut().drain_idle() {
                    gone.slots.free();
                    moved.push(delivery);
                }
            }
            for delivery in moved {
                self.deliver_again(&agent, delivery);
            }
            return;
        }
        sessions.others.retain(|other| *other != number);
        desks.forward(number, live.unwrap_or(sessions.first));
        let Some(session) = gone.session() else { return };
        let held = session.send(HandOver).into_actor(self).map(move |held, router, _| {
            for delivery in held.unwrap_or_default() {
                router.deliver_again(&agent, delivery);
            }
        });
        held.wait(ctx);
    }
}

/// Why an inbox cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// No such agent, or a name no agent may have.
    #[error("there is no such agent, and the directory is not open for new ones")]
    NoSuchAgent,
    /// Not handed out, or settled already.
    #[error("the message is not in your hands: it was settled before, or never taken")]
    NotTaken,
    /// The bus is stopping.
    #[error("the bus is stopping")]
    Closed,
    /// The settlement could not be written.
    #[error("the bus cannot write its journal right now; the message may come again")]
    NotDurable,
}

/// Something for the first session of an agent.
#[derive(Message)]
#[rtype(result = "Result<(), InboxError>")]
pub(crate) enum ForInbox {
    Pull(AgentId, Pull),
    Settle(AgentId, Settle),
}

impl Handler<ForInbox> for Router {
    type Result = Result<(), InboxError>;

    fn handle(&mut self, request: ForInbox, ctx: &mut Self::Context) -> Self::Result {
        if self.shared.stopping.get() {
            return Err(InboxError::Closed);
        }
        let told = match request {
            ForInbox::Pull(agent, pull) => self.first_desk(&agent, ctx)?.1.tell(pull),
            ForInbox::Settle(agent, settle) => self.first_desk(&agent, ctx)?.1.tell(settle),
        };
        if told { Ok(()) } else { Err(InboxError::Closed) }
    }
}

/// An agent as others see it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// Its id.
    pub agent_id: AgentId,
    /// What is known of it.
    #[serde(flatten)]
    pub profile: Profile,
    /// Sessions with the agent's code in them.
    pub sessions: usize,
    /// Messages that wait or are being handled.
    pub pending: usize,
}

#[derive(Message)]
#[rtype(result = "Vec<AgentView>")]
pub(crate) struct ListAgents;

impl Handler<ListAgents> for Router {
    type Result = MessageResult<ListAgents>;

    fn handle(&mut self, _: ListAgents, _: &mut Self::Context) -> Self::Result {
        let view = |(key, agent, profile): (AgentKey, &AgentId, &Profile)| {
            let numbers = self.sessions[key.index()].all();
            let desks: Vec<_> =
                numbers.filter_map(|number| self.shared.desks.get(number)).collect();
            AgentView {
                agent_id: agent.clone(),
                profile: profile.clone(),
                sessions: desks.iter().filter(|desk| desk.slots.is_live()).count(),
                pending: desks.iter().map(|desk| desk.slots.taken()).sum(),
            }
        };
        let mut agents: Vec<_> = self.roster.iter().map(view).collect();
        agents.sort_by(|a, b| a.agent_id.cmp(&b.agent_id));
        MessageResult(agents)
    }
}

/// A dead letter as people see it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterView {
    /// The number of its record.
    pub seq: u64,
    /// The message.
    pub message_id: MessageId,
    /// Who sent it.
    pub sender: AgentId,
    /// Who could not handle it.
    pub agent_id: AgentId,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong the last time.
    pub reason: String,
}

#[derive(Message)]
#[rtype(result = "Vec<DeadLetterView>")]
pub(crate) struct ListDeadLetters;

impl Handler<ListDeadLetters> for Router {
    type Result = MessageResult<ListDeadLetters>;

    fn handle(&mut self, _: ListDeadLetters, _: &mut Self::Context) -> Self::Result {
        let view = |((seq, agent), dead): (&(u64, AgentId), &Dead)| DeadLetterView {
            seq: *seq,
            message_id: dead.delivery.item.message.message_id,
            sender: dead.delivery.by.clone(),
            agent_id: agent.clone(),
            attempts: dead.delivery.attempts,
            reason: dead.reason.clone(),
        };
        MessageResult(self.dead.iter().map(view).collect())
    }
}

/// Sends a dead letter again, or throws it away; `false` when there is none.
#[derive(Message)]
#[rtype(result = "bool")]
pub(crate) struct ResolveDeadLetter {
    pub(crate) seq: u64,
    pub(crate) agent: AgentId,
    pub(crate) again: bool,
}

impl Handler<ResolveDeadLetter> for Router {
    type Result = bool;

    fn handle(&mut self, request: ResolveDeadLetter, _: &mut Self::Context) -> bool {
        let ResolveDeadLetter { seq, agent, again } = request;
        self.resolve_dead_letter(seq, &agent, again)
    }
}

impl Router {
    fn resolve_dead_letter(&mut self, seq: u64, agent: &AgentId, again: bool) -> bool {
        let Some(dead) = self.dead.remove(&(seq, agent.clone())) else { return false };
        let line = Line::Event(EventLine {
            seq: self.shared.next_seq(),
            time: self.shared.clock.now().utc,
            event: if again { Event::Returned } else { Event::Dropped },
            of: Some(seq),
            message_id: Some(dead.delivery.item.message.message_id),
            agent_id: Some(agent.clone()),
            attempt: None,
            reason: None,
        });
        self.shared.append(Append { line, then: Then::Nothing });
        if again {
            self.deliver_again(agent, Delivery { attempts: 0, ..dead.delivery });
        }
        true
    }
}
