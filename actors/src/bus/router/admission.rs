//! Admission: the state that the policy pipeline reads, and the records of refusals.
//!
//! A flood of refusals is written as its first records, a sample and a count.

use std::time::Duration;

use a2a_journal::{EventRecord, Record};
use a2a_policy::{
    AccessRules, AdmissionState, AgentKey, Audience, Breaker, Caller, DedupMatch, Directory,
    InboxFull, Incoming, Ledger, Limited, Now, Refusal, SendCause, assess,
};
use a2a_protocol::{AgentId, Body, Envelope, Event, Outcome, Priority, Receipt};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::records::message_record;
use super::{Reply, Router, records};
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;
use crate::bus::context::Clock;
use crate::bus::message::Submission;
use crate::bus::notice;

/// How long refusals are counted before the count is written.
const COUNT_FOR: Duration = Duration::from_secs(1);

impl AdmissionState for Router {
    fn directory(&self) -> &Directory {
        &self.directory
    }

    fn access(&self) -> &AccessRules {
        &self.access
    }

    fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    fn breaker(&mut self) -> &mut Breaker {
        &mut self.breaker
    }

    fn max_recipients(&self) -> usize {
        self.max_recipients
    }

    fn find_duplicate(&self, message: &Envelope, fingerprint: u64) -> Option<DedupMatch> {
        self.dedup.check(&message.message_id, fingerprint)
    }

    fn charge(&mut self, message: &Envelope, to: &[AgentKey], now: Now) -> Result<(), Limited> {
        let audience = match to {
            [only] => self.directory.id(*only).map_or(Audience::Many(1), Audience::One),
            many => Audience::Many(many.len()),
        };
        // The answer to a task of an A2A caller was charged to that caller.
        let answers = matches!(message.body, Body::TaskResponse(_));
        if answers && to.iter().any(|key| self.is_intercepted(*key, message)) {
            return Ok(());
        }
        self.rate_limits.charge(&message.from.agent_id, audience, message.priority, now)
    }

    fn charge_refusal(&mut self, sender: &AgentId, now: Now) -> Result<(), Limited> {
        self.rate_limits.charge_refusal(sender, now)
    }

    fn is_streamed(&self, message: &Envelope, to: &[AgentKey]) -> bool {
        to.iter().any(|key| self.is_intercepted(*key, message))
    }

    fn cause(&self, sender: &AgentId, now: Now) -> SendCause {
        let Some(key) = self.directory.key(sender) else { return SendCause::Unknown };
        let mailboxes = self.sessions[key.index()].all();
        let causes = mailboxes.filter_map(|number| self.bus.mailboxes.get(number));
        let causes = causes.map(|mailbox| mailbox.cause(now.uptime));
        causes.fold(SendCause::Unknown, |best, cause| match (best, cause) {
            (SendCause::Message(_), _) | (_, SendCause::Unknown) => best,
            _ => cause,
        })
    }

    fn is_refused_too_often(&self, sender: &AgentId, now: Now) -> bool {
        self.rate_limits.wait_after_refusals(sender, now).is_some()
    }

    fn check_capacity(&self, message: &Envelope, bytes: usize) -> Result<(), InboxFull> {
        // Notices may exceed the limit here as they may in each inbox.
        let times = if is_notice(message) { 2 } else { 1 };
        let limit = self.pending_bytes;
        if self.bus.held.get().saturating_add(bytes) > limit.saturating_mul(times) {
            return Err(InboxFull::AllBytes { limit });
        }
        Ok(())
    }

    fn reserve(
        &mut self,
        agent: AgentKey,
        message: &Envelope,
        bytes: usize,
    ) -> Result<Outcome, InboxFull> {
        let sessions = &mut self.sessions[agent.index()];
        let number = sessions.choose(&message.from.agent_id, message, &self.bus.mailboxes);
        // Notices are exempt from limits; there are never more of them than dead letters.
        let exempt = is_notice(message);
        let outcome = self.bus.mailboxes.take_slot(number, exempt, bytes)?;
        self.reserved.push(number);
        Ok(outcome)
    }
}

fn is_notice(message: &Envelope) -> bool {
    message.from.agent_id.as_str() == notice::SYSTEM
}

impl Router {
    /// Whether the task service intercepts this message.
    fn is_intercepted(&self, agent: AgentKey, message: &Envelope) -> bool {
        let sessions = &self.sessions[agent.index()];
        sessions.is_intercepted(&message.from.agent_id, message, &self.bus.mailboxes)
    }

    /// Records or counts a refusal, sends its receipt, and opens the circuit that it tripped.
    pub(super) fn refuse(
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
            let record = Record::Message(message_record(
                &receipt,
                caller,
                submission,
                now,
                Clock::since(submission.since),
            ));
            let kind = submission.kind();
            let on_commit = OnCommit::Receipt { receipt, kind, reply, delivery: None };
            self.bus.append(Append { record, on_commit });
        } else {
            self.bus.stats.refused.add(1);
            self.bus.stats.answered(submission.kind(), receipt.outcome);
            self.count_refusals(ctx);
            if let Some(reply) = reply {
                reply.send(receipt);
            }
        }
        // After the record of the message that tripped it.
        if let Some(circuit) = opens {
            self.open_circuit(*circuit, now, ctx);
        }
    }

    /// Schedules the record of the suppressed refusals.
    pub(super) fn count_refusals(&mut self, ctx: &mut Context<Self>) {
        if !std::mem::replace(&mut self.refusal_timer_set, true) {
            ctx.run_later(COUNT_FOR, |router, _| router.write_counted_refusals());
        }
    }

    /// Writes the counts of suppressed refusals; also during a stop, so that none is lost.
    pub(super) fn write_counted_refusals(&mut self) {
        self.refusal_timer_set = false;
        for suppressed in self.refusals.take_counted() {
            let record = Record::Event(EventRecord {
                agent_id: suppressed.sender,
                count: Some(suppressed.count),
                reason: Some(format!(
                    "more refusals `{}`, not written one by one",
                    suppressed.outcome
                )),
                ..self.bus.event(Event::Suppressed)
            });
            self.bus.append(Append { record, on_commit: OnCommit::Nothing });
        }
    }
}

/// Checks whether a message that is sent later would be accepted. It is charged now; a refusal is
/// recorded like any other. The submission is returned for sending.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Assess {
    pub(crate) caller: Caller,
    pub(crate) submission: Submission,
    pub(crate) reply: oneshot::Sender<Assessed>,
}

/// Result of [`Assess`].
pub(crate) enum Assessed {
    /// It would be accepted.
    Fits(Box<Submission>),
    /// It would be refused; the receipt follows once the refusal is recorded.
    Refused(oneshot::Receiver<Receipt>),
}

impl Handler<Assess> for Router {
    type Result = ();

    fn handle(&mut self, Assess { caller, submission, reply }: Assess, ctx: &mut Self::Context) {
        let now = self.bus.clock.now();
        let incoming = Incoming {
            caller: &caller,
            message: submission.message.as_deref(),
            bytes: submission.bytes.len(),
            fingerprints: submission.fingerprints,
            cause: submission.cause,
        };
        let assessed = match self.unavailable() {
            // `route` answers with the reason.
            Some(_) => {
                let (answer, receipt) = oneshot::channel();
                self.route(&caller, submission, Some(Reply::Caller(answer)), ctx);
                Assessed::Refused(receipt)
            }
            None => match assess(&incoming, self, now) {
                Ok(()) => Assessed::Fits(Box::new(submission)),
                Err(refusal) => {
                    let (answer, receipt) = oneshot::channel();
                    self.refuse(
                        &caller,
                        refusal,
                        &submission,
                        Some(Reply::Caller(answer)),
                        now,
                        ctx,
                    );
                    Assessed::Refused(receipt)
                }
            },
        };
        let _ = reply.send(assessed);
    }
}

/// Charges an A2A call that sends no message, or the bytes of one that does.
#[derive(Message)]
#[rtype(result = "Result<(), Limited>")]
pub(crate) struct Charge {
    /// The sender that is charged.
    pub(crate) from: AgentId,
    /// The agent that is called.
    pub(crate) to: AgentId,
    /// The call counts as a message; otherwise that is charged elsewhere.
    pub(crate) counts: bool,
    pub(crate) bytes: usize,
}

impl Handler<Charge> for Router {
    type Result = Result<(), Limited>;

    fn handle(&mut self, charge: Charge, _: &mut Self::Context) -> Self::Result {
        let Charge { from, to, counts, bytes } = charge;
        let now = self.bus.clock.now();
        if counts {
            // Checked first, so that a refusal of either costs nothing.
            self.rate_limits.may_send_bytes(&from, bytes, now)?;
            self.rate_limits.charge(&from, Audience::One(&to), Priority::Normal, now)?;
        }
        self.rate_limits.charge_bytes(&from, bytes, now)
    }
}

/// Records a request without a valid token. The reason must not contain the presented credential.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Deny(pub(crate) String);

impl Handler<Deny> for Router {
    type Result = ();

    fn handle(&mut self, Deny(reason): Deny, ctx: &mut Self::Context) {
        let now = self.bus.clock.now();
        if !self.refusals.is_written(None, Outcome::Unauthorized, reason.len(), now) {
            return self.count_refusals(ctx);
        }
        let event = self.bus.event(Event::Denied);
        let record = Record::Event(EventRecord { reason: Some(reason), ..event });
        self.bus.append(Append { record, on_commit: OnCommit::Nothing });
    }
}

/// Writes the counts of suppressed refusals; answered when they are in the commit buffer.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct WriteCounted;

impl Handler<WriteCounted> for Router {
    type Result = ();

    fn handle(&mut self, _: WriteCounted, _: &mut Self::Context) {
        self.write_counted_refusals();
    }
}
