//! Messages for an agent elsewhere, which polls for them and settles each later. It must not know
//! how they travel.
//!
//! A poll whose caller is gone costs nothing: it is passed over, and deliveries that were leased to it
//! and not taken return to the inbox without counting as an attempt. So a lease belongs to a
//! caller only once it has the deliveries in hand ([`Handed::accept`]), and only then is the attempt
//! written down.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use a2a_protocol::Event;
use actix::prelude::*;
use tokio::sync::oneshot;

use crate::bus::commit::effects::{JournalHealth, OnCommit};
use crate::Delivery;

use super::{Session, delivery};

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

/// A poll that waits for messages.
pub(super) struct WaitingPull {
    limit: usize,
    reply: oneshot::Sender<PulledDeliveries>,
}

/// Letters on their way to the caller of a poll. Dropped before it took them, they return to the
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
            // However many there are: an attempt must not go unrecorded.
            self.session.do_send(PullAccepted(leases(&deliveries)));
        }
        deliveries
    }
}

impl Drop for PulledDeliveries {
    fn drop(&mut self) {
        if !self.deliveries.is_empty() {
            // However many there are: these would wait until the lease ends.
            self.session.do_send(PullAbandoned(leases(&self.deliveries)));
        }
    }
}

/// Which attempt on which message.
type Lease = (u64, u32);

fn leases(deliveries: &[Delivery]) -> Vec<Lease> {
    deliveries.iter().map(|delivery| (delivery.seq, delivery.attempt)).collect()
}

impl Session {
    /// Serves polls that wait, the newest first: of those whose connection has gone without a word
    /// it is the least likely to be one.
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

    /// Gives the deliveries to the caller, or takes them back when it has gone.
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

    /// Leases up to `limit` messages to an agent elsewhere.
    fn take(&self, limit: usize) -> Vec<Delivery> {
        if self.mailbox.takes_uncommitted() {
            // What lies here may not be durable, and the agent's code has it in a moment.
            return Vec::new();
        }
        let now = self.bus.clock.now().uptime;
        let until = now + self.bus.settings.lease;
        let mut deliveries = Vec::new();
        let mut inbox = self.mailbox.inbox.borrow_mut();
        while deliveries.len() < limit
            && let Some(entry) = inbox.lease(now, until)
        {
            deliveries.push(delivery(entry));
        }
        deliveries
    }

    /// Adds a poll to those that wait.
    fn wait(&mut self, pull: WaitingPull) {
        if self.pulls.len() == self.pulls.capacity() {
            // Before it grows: an agent that polls and never gets anything leaves one each time.
            self.pulls.retain(|pull| !pull.reply.is_closed());
        }
        self.pulls.push(pull);
    }

    /// Whether this very attempt is still out.
    fn is_leased(&self, (seq, attempt): Lease) -> bool {
        let inbox = self.mailbox.inbox.borrow();
        inbox.get_out(seq).is_some_and(|entry| entry.attempts == attempt)
    }
}

/// An agent elsewhere polls for messages. If there are none, a patient poll waits until there are
/// or the reply is dropped; any other is answered at once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Pull {
    pub(crate) limit: usize,
    pub(crate) patient: bool,
    /// The call that waits, for presence.
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
        self.expire_overdue();
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

/// The caller of a poll has its deliveries.
#[derive(Message)]
#[rtype(result = "()")]
struct PullAccepted(Vec<Lease>);

impl Handler<PullAccepted> for Session {
    type Result = ();

    fn handle(&mut self, PullAccepted(leases): PullAccepted, _: &mut Self::Context) {
        if self.bus.commit_buffer.is_closed() {
            // The bus stopped meanwhile: the message comes again as the same attempt.
            return;
        }
        for (seq, attempt) in leases {
            let inbox = self.mailbox.inbox.borrow();
            let Some(id) = inbox.get_out(seq).map(|out| out.item.message.message_id) else {
                continue;
            };
            drop(inbox);
            self.record(Event::Delivered, seq, Some(id), Some(attempt), None, OnCommit::Nothing);
        }
    }
}

/// The caller of a poll went before it took its deliveries.
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
