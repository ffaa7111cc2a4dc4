//! The router: every message passes it, once.
//!
//! Edges send [`Route`]. The router asks the pipeline of `policy`, applies the verdict and
//! hands the record to the audit; it waits for nothing. It owns the plain state of admission:
//! the roster, the ids seen, the rate limits, the places in the inboxes, the dead letters.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use a2a_policy::{
    Accepted, Caller, Delivery, Floor, InboxFull, Incoming, Limited, Now, Profile, RateLimits,
    Refusal, Roster, Seen, SeenBefore, SeenIds, Slots, Verdict, admit,
};
use a2a_protocol::{
    AgentId, CorrelationId, Envelope, Event, MessageId, Outcome, Receipt, Timestamp,
};
use a2a_store::{EventLine, Line, MessageLine, Received, Recovered};
use actix::prelude::*;
use serde::Serialize;
use tokio::sync::{Notify, oneshot};

use crate::audit::{Append, Audit, Gauge, Health, Outgoing, Then};
use crate::clock::Clock;
use crate::letter::{Content, Parcel};
use crate::notice;
use crate::session::{Deliver, HandOver, Pull, Session, SetRuntime, Settle};
use crate::{BusSettings, Runtime};

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
}

impl Shared {
    /// The number of the next line.
    pub(crate) fn next_seq(&self) -> u64 {
        let seq = self.seq.get();
        self.seq.set(seq + 1);
        seq
    }

    pub(crate) fn append(&self, audit: &Addr<Audit>, append: Append) {
        if let Err(error) = audit.try_send(append) {
            // Only while the system goes down: the sender of a message then gets no receipt.
            tracing::error!(%error, "a record came too late to be written");
        }
    }
}

/// One session of an agent, as the router sees it.
#[derive(Clone)]
struct Desk {
    number: u64,
    addr: Addr<Session>,
    slots: Arc<Slots>,
}

/// How many conversations with an agent of several sessions are remembered.
const STICKY: usize = 10_000;

/// The sessions of one agent; the first stays as long as the agent is known.
#[derive(Default)]
struct Desks {
    all: Vec<Desk>,
    sticky: HashMap<CorrelationId, u64>,
}

impl Desks {
    /// Sticky by conversation, else the least loaded.
    fn choose(&mut self, conversation: CorrelationId) -> Option<Desk> {
        if let [only] = self.all.as_slice() {
            return Some(only.clone());
        }
        let known = self.sticky.get(&conversation);
        let stuck = known.and_then(|number| self.all.iter().find(|desk| desk.number == *number));
        let free =
            || self.all.iter().min_by_key(|desk| (!desk.slots.is_live(), desk.slots.taken()));
        let desk = stuck.or_else(free)?.clone();
        if self.sticky.len() >= STICKY {
            self.sticky.clear();
        }
        self.sticky.insert(conversation, desk.number);
        Some(desk)
    }
}

struct Dead {
    delivery: Delivery<Content>,
    reason: String,
}

pub(crate) struct Router {
    shared: Rc<Shared>,
    audit: Addr<Audit>,
    roster: Roster,
    seen: SeenIds,
    limits: RateLimits,
    desks: HashMap<AgentId, Desks>,
    dead: BTreeMap<(u64, AgentId), Dead>,
    next_desk: u64,
    /// Places reserved for the message that is being admitted.
    reserved: RefCell<Vec<(Desk, AgentId)>>,
    recovered: Option<Recovered>,
}

impl Router {
    pub(crate) fn new(shared: Rc<Shared>, audit: Addr<Audit>, recovered: Recovered) -> Self {
        let limits = RateLimits::new(shared.settings.rates);
        let roster = Roster::new(shared.settings.open);
        Self {
            shared,
            audit,
            roster,
            seen: SeenIds::default(),
            limits,
            desks: HashMap::new(),
            dead: BTreeMap::new(),
            next_desk: 0,
            reserved: RefCell::default(),
            recovered: Some(recovered),
        }
    }

    /// Everything as it was before the restart.
    fn restore(&mut self, recovered: Recovered, ctx: &mut Context<Self>) {
        for (agent, profile) in self.shared.settings.agents.clone() {
            self.know(agent, profile, ctx);
        }
        for agent in recovered.agents {
            self.know(agent, Profile::default(), ctx);
        }
        for seen in recovered.seen {
            let remembered = Seen { seq: seen.seq, fingerprint: seen.fingerprint };
            self.seen.insert(seen.message_id, remembered);
        }
        for p in recovered.pending {
            let delivery = restored(p.seq, p.by, p.attempts, &p.message);
            if let Some(delivery) = delivery {
                self.know(p.agent_id.clone(), Profile::default(), ctx);
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
    fn know(&mut self, agent: AgentId, profile: Profile, ctx: &mut Context<Self>) -> bool {
        if self.roster.contains(&agent) {
            return false;
        }
        self.roster.insert(agent.clone(), profile);
        self.open_desk(&agent, ctx);
        true
    }

    fn open_desk(&mut self, agent: &AgentId, ctx: &mut Context<Self>) -> Desk {
        let settings = &self.shared.settings;
        let slots = Arc::new(Slots::new(settings.inbox_limit, settings.prompt_slots));
        let shared = Rc::clone(&self.shared);
        let session = Session::new(
            agent.clone(),
            Arc::clone(&slots),
            self.audit.clone(),
            ctx.address(),
            shared,
        );
        self.next_desk += 1;
        let desk = Desk { number: self.next_desk, addr: session.start(), slots };
        self.desks.entry(agent.clone()).or_default().all.push(desk.clone());
        desk
    }

    /// An agent that appears while the bus runs is known from then on, restarts included.
    fn join(&mut self, agent: &AgentId, ctx: &mut Context<Self>) {
        if self.know(agent.clone(), Profile::default(), ctx) {
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
            self.shared.append(&self.audit, Append { line, then: Then::Nothing });
        }
    }

    fn deliver_again(&mut self, agent: &AgentId, delivery: Delivery<Content>) {
        let conversation = delivery.item.message.correlation_id;
        let Some(desk) = self.desks.get_mut(agent).and_then(|desks| desks.choose(conversation))
        else {
            return;
        };
        desk.slots.take_back();
        if let Err(error) = desk.addr.try_send(Deliver(delivery)) {
            tracing::error!(%error, %agent, "a session did not take a message; a restart delivers it");
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
                self.shared.append(&self.audit, Append { line, then });
            }
            Verdict::Refused(refusal) => self.refuse(receipt, refusal, &parcel, reply, now),
        }
    }

    /// Why nothing can be taken at all.
    fn closed(&self) -> Option<&'static str> {
        if self.shared.stopping.get() {
            return Some("The bus is stopping. Send the message again when it is back.");
        }
        if self.shared.gauge.health.get() == Health::Refusing {
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
        receipt.recipients = accepted.recipients;
        let line = message_line(&receipt, &parcel, now);
        let (Ok(message), Some(seq)) = (parcel.message, receipt.seq) else { return };
        let from = message.from.agent_id.clone();
        self.seen.insert(message.message_id, Seen { seq, fingerprint: parcel.fingerprint });
        let content = Content { message, bytes: parcel.bytes, recovered: false };
        let outgoing = self.reserved.take().into_iter().map(|(desk, _)| Outgoing {
            session: desk.addr,
            slots: desk.slots,
            delivery: Delivery {
                seq,
                by: from.clone(),
                priority: content.message.priority,
                attempts: 0,
                item: content.clone(),
            },
        });
        let then = Then::Receipt { receipt, reply, outgoing: outgoing.collect() };
        self.shared.append(&self.audit, Append { line, then });
    }

    fn refuse(
        &mut self,
        mut receipt: Receipt,
        refusal: Refusal,
        parcel: &Parcel,
        reply: Option<oneshot::Sender<Receipt>>,
        now: Now,
    ) {
        self.reserved.take().iter().for_each(|(desk, _)| desk.slots.free());
        receipt.outcome = refusal.outcome;
        receipt.recipients = refusal.recipients;
        receipt.reason = Some(refusal.reason);
        receipt.retry_after_ms = refusal.retry_after_ms;
        receipt.errors = refusal.errors;
        let line = message_line(&receipt, parcel, now);
        let then = Then::Receipt { receipt, reply, outgoing: Vec::new() };
        self.shared.append(&self.audit, Append { line, then });
    }

    /// The session that messages for somebody outside come from.
    fn first_desk(&mut self, agent: &AgentId, ctx: &mut Context<Self>) -> Result<Desk, InboxError> {
        if Roster::is_reserved(agent) || !self.roster.admits(agent) {
            return Err(InboxError::NoSuchAgent);
        }
        self.join(agent, ctx);
        let desk = self.desks.get(agent).and_then(|desks| desks.all.first());
        desk.cloned().ok_or(InboxError::NoSuchAgent)
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

fn restored(seq: u64, by: AgentId, attempts: u32, bytes: &Arc<[u8]>) -> Option<Delivery<Content>> {
    match Envelope::parse(bytes) {
        Ok(message) => {
            let priority = message.priority;
            let item =
                Content { message: Arc::new(message), bytes: Arc::clone(bytes), recovered: true };
            Some(Delivery { seq, by, priority, attempts, item })
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
        recipients: receipt.recipients.clone(),
        reason: receipt.reason.clone(),
        retry_after_ms: receipt.retry_after_ms,
        errors: receipt.errors.clone(),
        suppressed: 0,
    })
}

fn is_json_text(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}

impl Floor for Router {
    fn roster(&self) -> &Roster {
        &self.roster
    }

    fn seen(&self, message: &Envelope, fingerprint: u64) -> Option<SeenBefore> {
        self.seen.check(&message.message_id, fingerprint)
    }

    fn charge(&mut self, message: &Envelope, to: &[AgentId], now: Now) -> Result<(), Limited> {
        self.limits.charge(&message.from.agent_id, to, message.priority, now)
    }

    fn reserve(&mut self, agent: &AgentId, message: &Envelope) -> Result<Outcome, InboxFull> {
        let desk = self.desks.get_mut(agent).and_then(|desks| desks.choose(message.correlation_id));
        let desk = desk.ok_or(InboxFull { limit: 0 })?;
        let outcome = if message.from.agent_id.as_str() == notice::SYSTEM {
            // Notices are exempt from limits; there are never more than messages given up.
            desk.slots.take_back();
            Outcome::Queued
        } else {
            desk.slots.take()?
        };
        self.reserved.get_mut().push((desk, agent.clone()));
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
    pub(crate) delivery: Delivery<Content>,
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
        self.shared.append(&self.audit, Append { line, then });
        self.dead.insert((delivery.seq, agent), Dead { delivery, reason });
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
        let first = self.first_desk(&agent, ctx)?;
        let desk = if first.slots.is_live() { self.open_desk(&agent, ctx) } else { first };
        // Marked at once, so that a second one attached in the same moment gets its own.
        desk.slots.set_live(true);
        desk.addr.try_send(SetRuntime(Some(runtime))).map_err(|_| InboxError::Closed)?;
        Ok(desk.number)
    }
}

/// The code of an agent goes away; what its session holds waits for another.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Detach {
    pub(crate) agent: AgentId,
    pub(crate) desk: u64,
}

impl Handler<Detach> for Router {
    type Result = ();

    fn handle(&mut self, Detach { agent, desk }: Detach, ctx: &mut Self::Context) {
        let Some(desks) = self.desks.get_mut(&agent) else { return };
        let Some(at) = desks.all.iter().position(|each| each.number == desk) else { return };
        if at == 0 {
            desks.all[0].slots.set_live(false);
            if let Err(error) = desks.all[0].addr.try_send(SetRuntime(None)) {
                tracing::error!(%error, %agent, "a session did not let its agent go");
            }
            return;
        }
        let gone = desks.all.remove(at);
        desks.sticky.retain(|_, number| *number != desk);
        gone.addr
            .send(HandOver)
            .into_actor(self)
            .map(move |held, router, _| {
                for delivery in held.unwrap_or_default() {
                    router.deliver_again(&agent, delivery);
                }
            })
            .wait(ctx);
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
    #[error("the bus cannot write its journal right now; try again")]
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
        match request {
            ForInbox::Pull(agent, pull) => {
                let desk = self.first_desk(&agent, ctx)?;
                desk.addr.try_send(pull).map_err(|_| InboxError::Closed)
            }
            ForInbox::Settle(agent, settle) => {
                let desk = self.first_desk(&agent, ctx)?;
                desk.addr.try_send(settle).map_err(|_| InboxError::Closed)
            }
        }
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
        let view = |(agent, profile): (&AgentId, &Profile)| {
            let desks = self.desks.get(agent).map(|desks| desks.all.as_slice()).unwrap_or_default();
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
        self.shared.append(&self.audit, Append { line, then: Then::Nothing });
        if again {
            self.deliver_again(&agent, Delivery { attempts: 0, ..dead.delivery });
        }
        true
    }
}
