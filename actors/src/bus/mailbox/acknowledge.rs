//! How a delivery ends: acknowledged, failed and tried again, or given up. Each ending is a line
//! in the journal, and whoever waits is told when that line is durable.

use a2a_journal::{EventLine, Line};
use a2a_policy::AfterFailure;
use a2a_protocol::{Event, MessageId};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::Session;
use crate::bus::commit::effects::Then;
use crate::bus::commit::writer::Append;
use crate::bus::router::{GaveUp, InboxError};

impl Session {
    pub(super) fn acknowledged(&mut self, seq: u64, note: Option<String>, then: Then) -> bool {
        let Some(entry) = self.desk.inbox.borrow_mut().acknowledge(seq) else { return false };
        self.called_off.remove(&seq);
        self.desk.slots.free(entry.bytes);
        self.shared.stats.acknowledged.add(1);
        self.record(Event::Acknowledged, seq, entry.item.message.message_id, None, note, then);
        true
    }

    pub(super) fn failed(&mut self, seq: u64, reason: String, then: Then) -> bool {
        if self.called_off.remove(&seq) {
            // Nobody wants another attempt.
            let Some(entry) = self.desk.inbox.borrow_mut().acknowledge(seq) else {
                return false;
            };
            self.desk.slots.free(entry.bytes);
            let id = entry.item.message.message_id;
            self.record(Event::Cancelled, seq, id, None, Some(reason), then);
            return true;
        }
        let now = self.shared.clock.now().uptime;
        let trace = self.desk.inbox.borrow().get_out(seq).map(|out| out.item.trace().id());
        let failed = self.desk.inbox.borrow_mut().fail(seq, now, &self.shared.settings.retry);
        match failed {
            None => return false,
            Some(AfterFailure::Retry { attempt, .. }) => {
                tracing::warn!(
                    agent = %self.desk.agent, seq, attempt,
                    trace = trace.map(tracing::field::display), reason, "an attempt failed"
                );
                self.shared.stats.failed_attempts.add(1);
                let id = None;
                self.record_optional(
                    Event::AttemptFailed,
                    seq,
                    id,
                    Some(attempt),
                    Some(reason),
                    then,
                );
                self.offer_what_waits();
            }
            Some(AfterFailure::GiveUp(entry)) => {
                self.desk.slots.free(entry.bytes);
                self.shared.stats.failed_attempts.add(1);
                let agent = self.desk.agent.clone();
                self.router.do_send(GaveUp { agent, entry, reason, then });
            }
        }
        true
    }

    pub(super) fn record(
        &self,
        event: Event,
        of: u64,
        id: MessageId,
        attempt: Option<u32>,
        reason: Option<String>,
        then: Then,
    ) {
        self.record_optional(event, of, Some(id), attempt, reason, then);
    }

    fn record_optional(
        &self,
        event: Event,
        of: u64,
        message_id: Option<MessageId>,
        attempt: Option<u32>,
        reason: Option<String>,
        then: Then,
    ) {
        let line = Line::Event(EventLine {
            of: Some(of),
            message_id,
            agent_id: Some(self.desk.agent.clone()),
            attempt,
            reason,
            ..self.shared.event(event)
        });
        self.shared.append(Append { line, then });
    }
}

/// What somebody outside says of a message it took.
pub(crate) enum Settlement {
    Acknowledge,
    Fail(String),
}

/// Settles a message that was pulled; the reply comes when that is durable.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Settle {
    pub(crate) id: MessageId,
    pub(crate) settlement: Settlement,
    pub(crate) reply: oneshot::Sender<Result<oneshot::Receiver<()>, InboxError>>,
}

impl Handler<Settle> for Session {
    type Result = ();

    fn handle(&mut self, Settle { id, settlement, reply }: Settle, ctx: &mut Self::Context) {
        let found = self.desk.inbox.borrow().find(|content| content.message.message_id == id);
        if let Some(seq) = found {
            self.stop_running(seq);
        }
        let (durable, answer) = oneshot::channel();
        let settled = found.is_some_and(|seq| match settlement {
            Settlement::Acknowledge => self.acknowledged(seq, None, Then::Answer(durable)),
            Settlement::Fail(reason) => self.failed(seq, reason, Then::Answer(durable)),
        });
        let _ = reply.send(if settled { Ok(answer) } else { Err(InboxError::NotTaken) });
        self.pump(ctx);
    }
}
