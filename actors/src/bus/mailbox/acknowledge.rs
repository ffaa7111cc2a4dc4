//! How a delivery ends: acknowledged, failed and tried again, or given up. Each ending is a line
//! in the journal, and whoever waits is told when that line is durable.

use a2a_journal::{EventLine, Line};
use a2a_policy::AfterFailure;
use a2a_protocol::{Event, MessageId};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::Session;
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;
use crate::bus::router::{AttemptsExhausted, InboxError};

impl Session {
    pub(super) fn acknowledge(
        &mut self,
        seq: u64,
        note: Option<String>,
        on_commit: OnCommit,
    ) -> bool {
        let Some(entry) = self.mailbox.inbox.borrow_mut().acknowledge(seq) else { return false };
        self.cancelled.remove(&seq);
        self.mailbox.slots.free(entry.bytes);
        self.bus.stats.acknowledged.add(1);
        self.record(Event::Acknowledged, seq, entry.item.message.message_id, None, note, on_commit);
        true
    }

    pub(super) fn fail_attempt(&mut self, seq: u64, reason: String, on_commit: OnCommit) -> bool {
        if self.cancelled.remove(&seq) {
            // Nobody wants another attempt.
            let Some(entry) = self.mailbox.inbox.borrow_mut().acknowledge(seq) else {
                return false;
            };
            self.mailbox.slots.free(entry.bytes);
            let id = entry.item.message.message_id;
            self.record(Event::Cancelled, seq, id, None, Some(reason), on_commit);
            return true;
        }
        let now = self.bus.clock.now().uptime;
        let trace = self.mailbox.inbox.borrow().get_out(seq).map(|out| out.item.trace().id());
        let failed = self.mailbox.inbox.borrow_mut().fail(seq, now, &self.bus.settings.retry);
        match failed {
            None => return false,
            Some(AfterFailure::Retry { attempt, .. }) => {
                tracing::warn!(
                    agent = %self.mailbox.agent, seq, attempt,
                    trace = trace.map(tracing::field::display), reason, "an attempt failed"
                );
                self.bus.stats.failed_attempts.add(1);
                let id = None;
                self.record_optional(
                    Event::AttemptFailed,
                    seq,
                    id,
                    Some(attempt),
                    Some(reason),
                    on_commit,
                );
                self.offer_waiting();
            }
            Some(AfterFailure::GiveUp(entry)) => {
                self.mailbox.slots.free(entry.bytes);
                self.bus.stats.failed_attempts.add(1);
                let agent = self.mailbox.agent.clone();
                self.router.do_send(AttemptsExhausted { agent, entry, reason, on_commit });
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
        on_commit: OnCommit,
    ) {
        self.record_optional(event, of, Some(id), attempt, reason, on_commit);
    }

    fn record_optional(
        &self,
        event: Event,
        of: u64,
        message_id: Option<MessageId>,
        attempt: Option<u32>,
        reason: Option<String>,
        on_commit: OnCommit,
    ) {
        let line = Line::Event(EventLine {
            of: Some(of),
            message_id,
            agent_id: Some(self.mailbox.agent.clone()),
            attempt,
            reason,
            ..self.bus.event(event)
        });
        self.bus.append(Append { line, on_commit });
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
        let found = self.mailbox.inbox.borrow().find(|stored| stored.message.message_id == id);
        if let Some(seq) = found {
            self.stop_running(seq);
        }
        let (durable, answer) = oneshot::channel();
        let settled = found.is_some_and(|seq| match settlement {
            Settlement::Acknowledge => self.acknowledge(seq, None, OnCommit::Notify(durable)),
            Settlement::Fail(reason) => self.fail_attempt(seq, reason, OnCommit::Notify(durable)),
        });
        let _ = reply.send(if settled { Ok(answer) } else { Err(InboxError::NotTaken) });
        self.pump(ctx);
    }
}
