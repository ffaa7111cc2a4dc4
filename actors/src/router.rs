//! The router: every message passes it, once.
//!
//! Edges send [`Route`]. The router asks the pipeline of `policy`, applies the verdict and
//! hands the record to the audit; it waits for nothing. It owns the plain state of admission:
//! the roster, the ids seen, the rate limits, the places in the inboxes, the dead letters.

mod agents;
mod attach;
mod dead_letters;
mod sessions;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use a2a_policy::{
    Accepted, AgentKey, Audience, Caller, Delivery, Floor, InboxFull, Incoming, Limited, Now,
    Profile, RateLimits, Refusal, Roster, Seen, SeenBefore, SeenIds, Slots, Verdict, admit,
};
use a2a_protocol::{AgentId, Envelope, Event, MessageId, Outcome, Receipt, Timestamp};
use a2a_store::{EventLine, Line, MessageLine, Received, Recovered};
use actix::prelude::*;
use tokio::sync::oneshot;

use crate::audit::{Health, Then};
use crate::desk::{Desk, DeskNo, Desks};
use crate::letter::{Content, Parcel};
use crate::notice;
use crate::session::Session;
use crate::shared::Shared;
use crate::writer::Append;

use sessions::Sessions;

pub use agents::AgentView;
pub(crate) use agents::ListAgents;
pub use attach::InboxError;
pub(crate) use attach::{Attach, Detach, ForInbox};
pub use dead_letters::DeadLetterView;
pub(crate) use dead_letters::{ListDeadLetters, ResolveDeadLetter};

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
                agent_id: Some(agent.clone()),
                ..self.shared.event(Event::Joined)
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
        via: None,
        facts: Vec::new(),
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
            of: Some(delivery.seq),
            message_id: Some(delivery.item.message.message_id),
            agent_id: Some(agent.clone()),
            attempt: Some(delivery.attempts),
            reason: Some(reason.clone()),
            ..self.shared.event(Event::DeadLetter)
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
