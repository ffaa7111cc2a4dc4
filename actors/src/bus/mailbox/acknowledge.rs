//! Acknowledgement path: how a delivery ends and when that is durable.
//!
//! ```text
//! agent code    attempts ── result ────────▶ Finished ─┐
//! task service  AckHandle::handled ────────▶ Finished ─┤
//! HTTP, stdio   BusSystem::acknowledge/reject ▶ Settle ┤
//! deadline      expire_leases ────────────────────────┤
//!                                                      ▼
//!                          Session::acknowledge / Session::fail_attempt
//!       acknowledged: leaves the inbox (policy), frees its capacity
//!       failed:       back into the inbox with a backoff, or AttemptsExhausted ▶ Router,
//!                     which dead-letters it
//!                                                      ▼
//!                   Session::record ▶ BusContext::append ▶ CommitBuffer ▶ journal thread (fsync)
//!                                                      ▼
//!                   CommitEffects: OnCommit::Notify resolves the caller's receiver
//! ```
//!
//! The delivery leaves the inbox at once; the caller is notified after the commit. A crash in
//! between redelivers the message.

use std::sync::Arc;

use a2a_journal::{EventRecord, Record};
use a2a_policy::AfterFailure;
use a2a_protocol::{Event, MessageId};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::Session;
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;
use crate::bus::router::{AttemptsExhausted, InboxError};
use crate::{Failed, Handled};

impl Session {
    /// Acknowledges a message; `false` when it is not in flight.
    pub(super) fn acknowledge(
        &mut self,
        seq: u64,
        note: Option<String>,
        on_commit: OnCommit,
    ) -> bool {
        let Some(entry) = self.mailbox.inbox.borrow_mut().acknowledge(seq) else { return false };
        self.cancelled.remove(&seq);
        self.mailbox.capacity.free(entry.bytes);
        self.mailbox.note_settled(&entry.item.message, self.bus.clock.now().uptime);
        self.bus.stats.acknowledged.add(1);
        self.record(
            Event::Acknowledged,
            seq,
            Some(entry.item.message.message_id),
            None,
            note,
            on_commit,
        );
        true
    }

    /// Fails an attempt: the message is redelivered after a backoff, or dead-lettered after the
    /// last attempt. `false` when it is not in flight.
    pub(super) fn fail_attempt(&mut self, seq: u64, reason: String, on_commit: OnCommit) -> bool {
        if self.cancelled.remove(&seq) {
            // No further attempt is wanted.
            let Some(entry) = self.mailbox.inbox.borrow_mut().acknowledge(seq) else {
                return false;
            };
            self.mailbox.capacity.free(entry.bytes);
            let id = entry.item.message.message_id;
            self.record(Event::Cancelled, seq, Some(id), None, Some(reason), on_commit);
            return true;
        }
        let now = self.bus.clock.now().uptime;
        let trace = self.mailbox.inbox.borrow().get_in_flight(seq).map(|out| out.item.trace().id());
        let failed = self.mailbox.inbox.borrow_mut().fail(seq, now, &self.bus.settings.retry);
        match failed {
            None => return false,
            Some(AfterFailure::Retry { attempt, .. }) => {
                tracing::warn!(
                    agent = %self.mailbox.agent, seq, attempt,
                    trace = trace.map(tracing::field::display), reason, "an attempt failed"
                );
                self.bus.stats.failed_attempts.add(1);
                self.record(
                    Event::AttemptFailed,
                    seq,
                    None,
                    Some(attempt),
                    Some(reason),
                    on_commit,
                );
                self.offer_waiting();
            }
            Some(AfterFailure::DeadLetter(entry)) => {
                self.mailbox.capacity.free(entry.bytes);
                self.bus.stats.failed_attempts.add(1);
                let agent = self.mailbox.agent.clone();
                self.router.do_send(AttemptsExhausted { agent, entry, reason, on_commit });
            }
        }
        true
    }

    /// Records an event of a delivery, with the actions after its commit.
    pub(super) fn record(
        &self,
        event: Event,
        of: u64,
        message_id: Option<MessageId>,
        attempt: Option<u32>,
        reason: Option<String>,
        on_commit: OnCommit,
    ) {
        let record = Record::Event(EventRecord {
            of: Some(of),
            message_id,
            agent_id: Some(self.mailbox.agent.clone()),
            attempt,
            reason,
            ..self.bus.event(event)
        });
        self.bus.append(Append { record, on_commit });
    }
}

/// Acknowledges a message of [`AgentRuntime::take_deferred`](crate::AgentRuntime::take_deferred) later.
pub struct AckHandle {
    pub(super) session: Arc<Addr<Session>>,
    pub(super) seq: u64,
    pub(super) attempt: u32,
}

impl AckHandle {
    /// Acknowledges the message.
    pub fn handled(self) {
        let Self { session, seq, attempt } = self;
        session.do_send(Finished { seq, attempt, result: Ok(Handled::default()) });
    }
}

impl std::fmt::Debug for AckHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AckHandle").field("seq", &self.seq).finish_non_exhaustive()
    }
}

/// Result of the agent's code.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Finished {
    pub(super) seq: u64,
    pub(super) attempt: u32,
    pub(super) result: Result<Handled, Failed>,
}

impl Handler<Finished> for Session {
    type Result = ();

    fn handle(&mut self, Finished { seq, attempt, result }: Finished, ctx: &mut Self::Context) {
        if self.running.get(&seq).is_none_or(|running| running.attempt != attempt) {
            return; // the attempt ended before its result
        }
        self.stop_running(seq);
        match result {
            Ok(Handled { note, durable }) => {
                self.acknowledge(seq, note, notify_on_commit(durable));
            }
            Err(Failed { reason, durable }) => {
                self.fail_attempt(seq, reason, notify_on_commit(durable));
            }
        }
        self.pump(ctx);
    }
}

fn notify_on_commit(durable: Option<tokio::sync::oneshot::Sender<()>>) -> OnCommit {
    durable.map_or(OnCommit::Nothing, OnCommit::Notify)
}

/// Result that an agent reports for a pulled message.
pub(crate) enum Settlement {
    Acknowledge,
    Fail(String),
}

/// Settles a pulled message; the reply carries the receiver for its commit.
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
