//! Long polling: leases messages to a remote agent, which acknowledges or nacks each. Transport is
//! the caller's concern.
//!
//! A poll whose caller has gone costs nothing: it is skipped, and deliveries leased to it but not
//! accepted return to the inbox without counting as an attempt. A lease belongs to a caller only
//! once the deliveries have reached it ([`PulledDeliveries::accept`]); only then is the attempt
//! recorded.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use a2a_protocol::Event;
use actix::prelude::*;
use tokio::sync::oneshot;

use super::{Session, delivery};
use crate::Delivery;
use crate::bus::commit::effects::{JournalHealth, OnCommit};

/// When a call that waited for messages ended; unset while it waits.
#[derive(Debug, Default)]
pub(crate) struct Poll(OnceLock<Instant>);

impl Poll {
    /// Time since it ended; `None` while it waits.
    pub(super) fn ended(&self) -> Option<Duration> {
        self.0.get().map(Instant::elapsed)
    }
}

/// Guard that a waiting call holds. Its drop, with the answer or with the connection, ends the
/// [`Poll`].
#[derive(Debug, Default)]
pub(crate) struct Polling(Arc<Poll>);

impl Polling {
    pub(crate) fn poll(&self) -> Arc<Poll> {
        Arc::clone(&self.0)
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        let _ = self.0.0.set(Instant::now());
    }
}

/// A waiting poll.
pub(super) struct WaitingPull {
    limit: usize,
    reply: oneshot::Sender<PulledDeliveries>,
}

/// Deliveries on their way to the caller of a poll. Dropped before acceptance, they return to the
/// inbox.
pub(crate) struct PulledDeliveries {
    deliveries: Vec<Delivery>,
    session: Addr<Session>,
}

impl PulledDeliveries {
    /// The caller has them: the attempts count.
    pub(crate) fn accept(mut self) -> Vec<Delivery> {
        let deliveries = std::mem::take(&mut self.deliveries);
        if !deliveries.is_empty() {
            // Beyond the queue limit: an attempt must not go unrecorded.
            self.session.do_send(PullAccepted(leases(&deliveries)));
        }
        deliveries
    }
}

impl Drop for PulledDeliveries {
    fn drop(&mut self) {
        if !self.deliveries.is_empty() {
            // Beyond the queue limit: these would wait until the lease ends.
            self.session.do_send(PullAbandoned(leases(&self.deliveries)));
        }
    }
}

/// Sequence number of a message and number of the attempt.
type Lease = (u64, u32);

fn leases(deliveries: &[Delivery]) -> Vec<Lease> {
    deliveries.iter().map(|delivery| (delivery.seq, delivery.attempt)).collect()
}

impl Session {
    /// Serves waiting polls, the newest first: it is the least likely to have lost its connection
    /// unnoticed.
    pub(super) fn answer_pulls(&mut self, ctx: &Context<Self>) {
        while let Some(pull) = self.pulls.pop() {
            if pull.reply.is_closed() {
                continue;
            }
            let deliveries = self.take(pull.limit);
            if deliveries.is_empty() {
                self.pulls.push(pull);
                return;
            }
            self.mailbox.last_seen.set(Some(self.bus.clock.now().uptime));
            self.hand_over(deliveries, pull.reply, ctx);
        }
    }

    /// Hands the deliveries to the caller, or returns them to the inbox when it has gone.
    fn hand_over(
        &self,
        deliveries: Vec<Delivery>,
        reply: oneshot::Sender<PulledDeliveries>,
        ctx: &Context<Self>,
    ) {
        let handed = PulledDeliveries { deliveries, session: ctx.address() };
        if let Err(mut handed) = reply.send(handed) {
            let mut inbox = self.mailbox.inbox.borrow_mut();
            for delivery in std::mem::take(&mut handed.deliveries) {
                inbox.put_back(delivery.seq);
            }
        }
    }

    /// Leases up to `limit` messages.
    fn take(&self, limit: usize) -> Vec<Delivery> {
        if self.mailbox.takes_uncommitted() {
            // Messages here may not be durable yet, and the attached code takes them in a moment.
            return Vec::new();
        }
        let now = self.bus.clock.now().uptime;
        let until = now + self.bus.settings.lease;
        let mut deliveries = Vec::new();
        let mut inbox = self.mailbox.inbox.borrow_mut();
        while deliveries.len() < limit
            && let Some(entry) = inbox.lease(now, until)
        {
            let delivery = delivery(entry);
            self.mailbox.note_leased(&delivery);
            deliveries.push(delivery);
        }
        deliveries
    }

    /// Adds a waiting poll.
    fn wait(&mut self, pull: WaitingPull) {
        if self.pulls.len() == self.pulls.capacity() {
            // Before the list grows: an agent that polls in vain leaves a closed poll each time.
            self.pulls.retain(|pull| !pull.reply.is_closed());
        }
        self.pulls.push(pull);
    }

    /// Whether exactly this attempt is still leased.
    fn is_leased(&self, (seq, attempt): Lease) -> bool {
        let inbox = self.mailbox.inbox.borrow();
        inbox.get_in_flight(seq).is_some_and(|entry| entry.attempts == attempt)
    }
}

/// Polls for messages. If there are none, a patient poll waits until one arrives or the reply is
/// dropped; any other is answered at once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Pull {
    pub(crate) limit: usize,
    pub(crate) patient: bool,
    /// The waiting call, for presence.
    pub(crate) poll: Arc<Poll>,
    pub(crate) reply: oneshot::Sender<PulledDeliveries>,
}

impl Handler<Pull> for Session {
    type Result = ();

    fn handle(&mut self, request: Pull, ctx: &mut Self::Context) {
        let Pull { limit, patient, poll, reply } = request;
        if reply.is_closed() {
            return;
        }
        let now = self.bus.clock.now().uptime;
        self.mailbox.last_seen.set(Some(now));
        if patient {
            self.mailbox.polled_by(poll, now);
        }
        self.expire_leases();
        if patient {
            self.wait(WaitingPull { limit, reply });
            self.pump(ctx);
            return;
        }
        let closed = self.bus.stopping.get()
            || self.bus.journal_status.health.get() != JournalHealth::Writing;
        let deliveries = if closed { Vec::new() } else { self.take(limit) };
        self.hand_over(deliveries, reply, ctx);
        self.pump(ctx);
    }
}

/// The caller of a poll has accepted its deliveries.
#[derive(Message)]
#[rtype(result = "()")]
struct PullAccepted(Vec<Lease>);

impl Handler<PullAccepted> for Session {
    type Result = ();

    fn handle(&mut self, PullAccepted(leases): PullAccepted, _: &mut Self::Context) {
        if self.bus.commit_buffer.is_closed() {
            // The bus stopped meanwhile: the message is redelivered with the same attempt number.
            return;
        }
        for (seq, attempt) in leases {
            let inbox = self.mailbox.inbox.borrow();
            let Some(id) = inbox.get_in_flight(seq).map(|out| out.item.message.message_id) else {
                continue;
            };
            drop(inbox);
            self.record(Event::Delivered, seq, Some(id), Some(attempt), None, OnCommit::Nothing);
        }
    }
}

/// The caller of a poll went away before accepting its deliveries.
#[derive(Message)]
#[rtype(result = "()")]
struct PullAbandoned(Vec<Lease>);

impl Handler<PullAbandoned> for Session {
    type Result = ();

    fn handle(&mut self, PullAbandoned(leases): PullAbandoned, ctx: &mut Self::Context) {
        for lease in leases.into_iter().filter(|lease| self.is_leased(*lease)).collect::<Vec<_>>() {
            let (seq, _) = lease;
            if self.cancelled.contains(&seq) {
                self.fail_attempt(
                    seq,
                    "the poll it was handed to had gone".to_owned(),
                    OnCommit::Nothing,
                );
            } else {
                self.mailbox.inbox.borrow_mut().put_back(seq);
            }
        }
        self.offer_waiting();
        self.pump(ctx);
    }
}
